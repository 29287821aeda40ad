//! Transaction version 2 on the wire, and beside it clients of version 1 on the same broker: a request meets the rules of its
//! own version.

use super::*;
use crate::harness::{PLAIN, World};
use broker::{AgentConfig, TransactionConfig, TransactionVersion};
use kafka_protocol::messages::ApiVersionsRequest;
use sim::fault::{Fault, Scheduled, When};

pub(super) fn world() -> World {
    let transactions = TransactionConfig { version: TransactionVersion::V2, ..TransactionConfig::default() };
    World { agent: AgentConfig { transactions, ..AgentConfig::default() }, ..World::default() }
}

/// A connection to an agent that has the topic.
async fn start(cluster: Cluster) -> Connection {
    let mut agent = cluster.connect("agent-1").await;
    agent.create_topic(TOPIC, 2, &[]).await;
    agent
}

#[test]
fn the_feature_and_end_txn_5_are_offered_together() {
    for (world, level, end_txn_max) in [(World::default(), None, 4), (world(), Some(2), 5)] {
        world.run(move |cluster| async move {
            let mut agent = cluster.connect("agent-1").await;
            let answer = agent.call(3, &ApiVersionsRequest::default()).await;
            let mut finalized = answer.finalized_features.iter();
            let found = finalized.find(|feature| feature.name.as_str() == "transaction.version");
            assert_eq!(found.map(|feature| feature.max_version_level), level);
            let end_txn = answer.api_keys.iter().find(|api| api.api_key == 26).expect("EndTxn");
            assert_eq!(end_txn.max_version, end_txn_max);
            let holder = Holder { id: "jt1", producer_id: 7, epoch: 0 };
            if level.is_none() {
                agent.send(5, &end_request(holder, COMMIT)).await;
                assert_eq!(agent.read().await, None, "a version that was not offered closes the connection");
            }
        });
    }
}

#[test]
fn every_end_moves_the_epoch_and_a_retry_is_recognised() {
    world().run(|cluster| async move {
        let mut agent = start(cluster).await;
        let first = init(&mut agent, "jt1").await;
        assert_eq!(send(&mut agent, V2, first, 0, 0, &["a"]).await, (0, 0), "it joins by itself");
        assert_eq!(send(&mut agent, V2, first, 0, 1, &["b"]).await, (0, 1));
        let next = (first.producer_id, first.epoch + 1);
        assert_eq!(end_once(&mut agent, V2, first, COMMIT).await, (0, next.0, next.1));
        assert_eq!(end(&mut agent, V2, first, COMMIT).await, (0, next.0, next.1), "a retry");
        assert_eq!(end(&mut agent, V2, first, ABORT).await, refused(INVALID_TXN_STATE));
        let second = Holder { epoch: next.1, ..first };
        assert_eq!(end(&mut agent, V2, second, COMMIT).await, refused(INVALID_TXN_STATE), "nothing begun");
        assert_eq!(send(&mut agent, V2, second, 0, 0, &["c"]).await, (0, 3), "sequences begin anew");
        assert_eq!(end(&mut agent, V2, second, ABORT).await, (0, next.0, next.1 + 1));
        markers().await;
        assert_eq!(committed(&mut agent, 0).await, (vec!["a".into(), "b".into()], 5));
        let data = fetch(&mut agent, 0, 0, true, 1 << 20).await;
        let markers = records(&data).into_iter().filter(|record| record.control);
        let epochs: Vec<_> = markers.map(|record| (record.offset, record.producer_epoch)).collect();
        assert_eq!(epochs, [(2, next.1), (4, next.1 + 1)], "markers carry the new epoch");
    });
}

#[test]
fn an_empty_abort_is_legal_and_an_empty_commit_is_not() {
    world().run(|cluster| async move {
        let mut agent = start(cluster).await;
        let holder = init(&mut agent, "jt1").await;
        assert_eq!(end(&mut agent, V2, holder, COMMIT).await, refused(INVALID_TXN_STATE));
        assert_eq!(end(&mut agent, V2, holder, ABORT).await, (0, holder.producer_id, holder.epoch + 1));
        assert_eq!(end(&mut agent, V2, holder, ABORT).await, (0, holder.producer_id, holder.epoch + 1));
        let next = Holder { epoch: holder.epoch + 1, ..holder };
        assert_eq!(end(&mut agent, V2, next, ABORT).await, (0, holder.producer_id, holder.epoch + 2));
        assert_eq!(end(&mut agent, V2, holder, ABORT).await, refused(PRODUCER_FENCED));
    });
}

/// The next transaction's batch comes to another agent, while the one that prepared the end has not written its markers.
#[test]
fn a_batch_that_meets_markers_is_tried_again_for_a_moment() {
    for (join_limit_ms, expected) in [(2_000, 0), (0, CONCURRENT_TRANSACTIONS)] {
        let mut world = world();
        world.config.agents = 2;
        world.agent.transactions.join_limit_ms = join_limit_ms;
        let when =
            When::Point { node: Some("agent-1".into()), point: "finish.before-markers".into(), nth: 1 };
        let fault = Fault::Pause { node: "agent-1".into(), for_ms: 5_000 };
        world.faults = vec![Scheduled { id: 1, when, fault }];
        world.run(move |cluster| async move {
            let mut agent = start(cluster).await;
            let holder = init(&mut agent, "jt1").await;
            send(&mut agent, V2, holder, 0, 0, &["a"]).await;
            let mut other = cluster.connect("agent-2").await;
            let (code, _, epoch) = end_once(&mut agent, V2, holder, COMMIT).await;
            assert_eq!(code, 0);
            let next = Holder { epoch, ..holder };
            let (code, _) = send(&mut other, V2, next, 0, 0, &["b"]).await;
            assert_eq!(code, expected, "limit {join_limit_ms} ms");
        });
    }
}

#[test]
fn an_unknown_producer_begins_at_sequence_0() {
    world().run(|cluster| async move {
        let mut agent = start(cluster).await;
        let holder = init(&mut agent, "jt1").await;
        let refused = (OUT_OF_ORDER_SEQUENCE_NUMBER, -1);
        assert_eq!(send(&mut agent, V2, holder, 0, 5, &["a"]).await, refused, "KAFKA-18202");
        let old = init(&mut agent, "jt2").await;
        add(&mut agent, old, &[0]).await;
        assert_eq!(send(&mut agent, V1, old, 0, 5, &["b"]).await, (0, 0), "KIP-360");
        let plain = send_bytes(&mut agent, V2, None, 0, batch(PLAIN, 1_000, &["c"])).await;
        assert_eq!(plain, (0, 1));
    });
}

/// Two clients on one broker of version 2: each is served by its own rules.
#[test]
fn a_client_of_version_1_keeps_its_epoch_beside_one_of_version_2() {
    world().run(|cluster| async move {
        let mut agent = start(cluster).await;
        let old = init(&mut agent, "old").await;
        let mut new = init(&mut agent, "new").await;
        for transaction in 0..3 {
            add(&mut agent, old, &[0]).await;
            let (code, _) = send(&mut agent, V1, old, 0, transaction, &["old"]).await;
            assert_eq!(code, 0, "one epoch: sequences go on");
            assert_eq!(send(&mut agent, V2, new, 0, 0, &["new"]).await.0, 0, "they begin anew");
            assert_eq!(end(&mut agent, V1, old, COMMIT).await, DONE);
            assert_eq!(end(&mut agent, V1, old, COMMIT).await, DONE, "taken for a retry");
            let (code, producer_id, epoch) = end(&mut agent, V2, new, COMMIT).await;
            assert_eq!((code, producer_id, epoch), (0, new.producer_id, new.epoch + 1));
            new.epoch = epoch;
            markers().await;
        }
        let values = ["old", "new"].repeat(3);
        assert_eq!(committed(&mut agent, 0).await.0, values);
        assert_eq!((old.epoch, new.epoch), (0, 3));

        // The hazard stays with the old client: a late copy still ends its next transaction (kafka.md, fact 2).
        add(&mut agent, old, &[0]).await;
        send(&mut agent, V1, old, 0, 3, &["torn"]).await;
        assert_eq!(end_once(&mut agent, V1, old, COMMIT).await, DONE);
        markers().await;
        assert_eq!(end(&mut agent, V1, old, ABORT).await, refused(INVALID_TXN_STATE));
    });
}

#[test]
fn an_application_that_is_upgraded_keeps_its_transactional_id() {
    world().run(|cluster| async move {
        let mut agent = start(cluster).await;
        let old = init(&mut agent, "jt1").await;
        add(&mut agent, old, &[0]).await;
        send(&mut agent, V1, old, 0, 0, &["a"]).await;
        assert_eq!(end(&mut agent, V1, old, COMMIT).await, DONE);
        markers().await;
        let new = init(&mut agent, "jt1").await;
        assert_eq!((new.producer_id, new.epoch), (old.producer_id, old.epoch + 1));
        assert_eq!(send(&mut agent, V2, new, 0, 0, &["b"]).await.0, 0);
        assert_eq!(end_once(&mut agent, V1, old, ABORT).await, refused(PRODUCER_FENCED));
        assert_eq!(end(&mut agent, V2, new, COMMIT).await.0, 0);
        markers().await;
        assert_eq!(committed(&mut agent, 0).await.0, ["a", "b"]);
    });
}

#[test]
fn the_last_epochs_end_hands_out_the_next_producer_id() {
    for committed_end in [COMMIT, ABORT] {
        world().run(move |cluster| async move {
            let mut agent = start(cluster).await;
            let first = init(&mut agent, "jt1").await;
            set_epoch(cluster, "jt1", 32_766).await;
            let last = Holder { epoch: 32_766, ..first };
            assert_eq!(send(&mut agent, V2, last, 0, 0, &["a"]).await.0, 0);
            let (code, producer_id, epoch) = end_once(&mut agent, V2, last, committed_end).await;
            assert_eq!((code, epoch), (0, 0));
            assert!(producer_id > last.producer_id);
            let next = Holder { producer_id, epoch, ..last };
            assert_eq!(send(&mut agent, V2, next, 0, 0, &["b"]).await.0, 0, "at once");
            let late = end(&mut agent, V2, last, committed_end).await;
            assert_eq!(late, refused(PRODUCER_FENCED), "the next has begun");
            assert_eq!(end(&mut agent, V2, next, COMMIT).await, (0, producer_id, 1));
            markers().await;
            let expected = if committed_end { &["a", "b"][..] } else { &["b"] };
            assert_eq!(committed(&mut agent, 0).await.0, expected);
        });
    }
}

#[test]
fn a_retry_of_the_last_epochs_end_is_recognised_after_the_rotation() {
    world().run(|cluster| async move {
        let mut agent = start(cluster).await;
        let first = init(&mut agent, "jt1").await;
        set_epoch(cluster, "jt1", 32_766).await;
        let last = Holder { epoch: 32_766, ..first };
        send(&mut agent, V2, last, 0, 0, &["a"]).await;
        let answer = end_once(&mut agent, V2, last, COMMIT).await;
        assert_eq!(end(&mut agent, V2, last, COMMIT).await, answer);
        assert_eq!(end(&mut agent, V2, last, ABORT).await, refused(INVALID_TXN_STATE));
        let (code, producer_id, epoch) =
            init_again(&mut agent, "jt1", 60_000, (last.producer_id, 32_766)).await;
        assert_eq!((code, producer_id, epoch), answer, "so is InitProducerId");
        let before = Holder { epoch: 32_765, ..last };
        assert_eq!(end(&mut agent, V2, before, COMMIT).await, refused(INVALID_PRODUCER_ID_MAPPING));
    });
}
