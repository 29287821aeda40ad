//! DescribeProducers, DescribeTransactions, ListTransactions.

use super::*;
use crate::harness::World;
use kafka_protocol::messages::describe_producers_request::TopicRequest;
use kafka_protocol::messages::describe_producers_response::PartitionResponse;
use kafka_protocol::messages::{
    DescribeProducersRequest, DescribeTransactionsRequest, ListTransactionsRequest,
};

async fn producers(agent: &mut Connection, partition: i32) -> PartitionResponse {
    let topic = TopicRequest::default().with_name(text(TOPIC).into()).with_partition_indexes(vec![partition]);
    let answer = agent.call(0, &DescribeProducersRequest::default().with_topics(vec![topic])).await;
    answer.topics[0].partitions[0].clone()
}

#[test]
fn a_partition_tells_what_it_knows_of_its_producers() {
    World::default().run(|cluster| async move {
        let mut agent = cluster.connect("agent-1").await;
        agent.create_topic(TOPIC, 1, &[]).await;
        assert_eq!(producers(&mut agent, 1).await.error_code, 3);
        assert_eq!(producers(&mut agent, 0).await.active_producers, []);
        let [a, b] = [init(&mut agent, "a").await, init(&mut agent, "b").await];
        send(&mut agent, V1, a, 0, 0, &["a1", "a2"]).await;
        send(&mut agent, V1, b, 0, 0, &["b1"]).await;
        end(&mut agent, V1, a, COMMIT).await;
        markers().await;
        let described: Vec<_> = producers(&mut agent, 0)
            .await
            .active_producers
            .into_iter()
            .map(|p| {
                let ids = (p.producer_id.0, p.producer_epoch, p.last_sequence);
                (ids, p.coordinator_epoch, p.current_txn_start_offset, p.last_timestamp == 1_000)
            })
            .collect();
        let expected = [((a.producer_id, 0, 1), 0, -1, false), ((b.producer_id, 0, 0), -1, 2, true)];
        assert_eq!(described, expected, "the marker's timestamp is a's last");
    });
}

#[test]
fn a_transaction_is_described_through_its_states() {
    World::default().run(|cluster| async move {
        let mut agent = cluster.connect("agent-1").await;
        agent.create_topic(TOPIC, 2, &[]).await;
        let holder = init(&mut agent, "jt1").await;
        let before_ms = rt::time::wall_ms();
        let describe = async |agent: &mut Connection| {
            let ids = ["jt1", "nobody", ""].map(|id| text(id).into()).to_vec();
            let request = DescribeTransactionsRequest::default().with_transactional_ids(ids);
            let states = agent.call(0, &request).await.transaction_states;
            let codes: Vec<_> = states.iter().map(|state| state.error_code).collect();
            assert_eq!(codes, [0, 105, 42]);
            let state = states[0].clone();
            assert_eq!((state.producer_id.0, state.producer_epoch), (holder.producer_id, holder.epoch));
            assert_eq!(state.transaction_timeout_ms, 60_000);
            let topics: Vec<_> =
                state.topics.into_iter().map(|t| (t.topic.to_string(), t.partitions)).collect();
            (state.transaction_state.to_string(), state.transaction_start_time_ms, topics)
        };
        assert_eq!(describe(&mut agent).await, ("Empty".into(), -1, vec![]));
        add(&mut agent, holder, &[0, 1]).await;
        let (state, started_ms, topics) = describe(&mut agent).await;
        assert_eq!((state.as_str(), topics), ("Ongoing", vec![(TOPIC.to_string(), vec![0, 1])]));
        assert!((before_ms..=rt::time::wall_ms()).contains(&started_ms), "{started_ms}");
        end(&mut agent, V1, holder, COMMIT).await;
        markers().await;
        assert_eq!(describe(&mut agent).await, ("CompleteCommit".into(), -1, vec![]));
        add(&mut agent, holder, &[1]).await;
        end(&mut agent, V1, holder, ABORT).await;
        markers().await;
        assert_eq!(describe(&mut agent).await.0, "CompleteAbort");
    });
}

#[test]
fn transactions_are_listed_by_state_producer_id_and_duration() {
    World::default().run(|cluster| async move {
        let mut agent = cluster.connect("agent-1").await;
        agent.create_topic(TOPIC, 1, &[]).await;
        let [idle, long, short] =
            [init(&mut agent, "idle").await, init(&mut agent, "long").await, init(&mut agent, "short").await];
        add(&mut agent, long, &[0]).await;
        sleep(Duration::from_secs(20)).await;
        add(&mut agent, short, &[0]).await;
        let list = async |agent: &mut Connection, request: ListTransactionsRequest| {
            let answer = agent.call(1, &request).await;
            assert_eq!(answer.error_code, 0);
            let unknown: Vec<_> = answer.unknown_state_filters.iter().map(|name| name.to_string()).collect();
            let states = answer.transaction_states.iter();
            let ids: Vec<_> = states.map(|state| state.transactional_id.to_string()).collect();
            (ids, unknown)
        };
        let all = ListTransactionsRequest::default().with_duration_filter(-1);
        let ids = |ids: &[&str]| ids.iter().map(|id| id.to_string()).collect::<Vec<_>>();
        assert_eq!(list(&mut agent, all.clone()).await, (ids(&["idle", "long", "short"]), vec![]));
        let by_state = all.clone().with_state_filters(vec![text("Ongoing"), text("Sleeping")]);
        assert_eq!(list(&mut agent, by_state).await, (ids(&["long", "short"]), ids(&["Sleeping"])));
        let unknown_only = all.clone().with_state_filters(vec![text("Sleeping")]);
        assert_eq!(list(&mut agent, unknown_only).await, (vec![], ids(&["Sleeping"])));
        let by_id = all.clone().with_producer_id_filters(vec![idle.producer_id.into(), 999.into()]);
        assert_eq!(list(&mut agent, by_id).await.0, ids(&["idle"]));
        let longer = all.clone().with_duration_filter(10_000);
        assert_eq!(list(&mut agent, longer).await.0, ids(&["long"]));
        let by_pattern = all.clone().with_transactional_id_pattern(Some(text("(id|sho).*")));
        let answer = agent.call(2, &by_pattern).await;
        let listed: Vec<_> =
            answer.transaction_states.iter().map(|state| state.transactional_id.as_str()).collect();
        assert_eq!((answer.error_code, listed), (0, vec!["idle", "short"]));
        let invalid = all.clone().with_transactional_id_pattern(Some(text("(")));
        assert_eq!(agent.call(2, &invalid).await.error_code, 128);
        let running = all.with_duration_filter(0);
        assert_eq!(list(&mut agent, running).await.0, ids(&["long", "short"]), "what is idle does not run");
    });
}
