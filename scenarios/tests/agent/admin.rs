//! Topics made, grown and deleted; settings, cluster, leader epochs and coordinators asked for.

use crate::calls::{Txn, again, fetch, offset_commit, stable_offsets};
use crate::harness::{Connection, World, text};
use kafka_protocol::messages::create_partitions_request::{
    CreatePartitionsAssignment, CreatePartitionsTopic,
};
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::describe_configs_response::DescribeConfigsResult;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use kafka_protocol::messages::{
    BrokerId, CreatePartitionsRequest, DeleteTopicsRequest, DescribeClusterRequest, DescribeConfigsRequest,
    FindCoordinatorRequest, MetadataRequest, OffsetForLeaderEpochRequest,
};
use sim::fault::{Fault, Scheduled, When};

/// Deletes topics by name; the codes.
async fn delete(agent: &mut Connection, version: i16, names: &[&str]) -> Vec<i16> {
    let name = |name: &&str| text(name).into();
    let state = |name: &&str| DeleteTopicState::default().with_name(Some(text(name).into()));
    let request = match version {
        6.. => DeleteTopicsRequest::default().with_topics(names.iter().map(state).collect()),
        _ => DeleteTopicsRequest::default().with_topic_names(names.iter().map(name).collect()),
    };
    let answer = agent.call(version, &request).await;
    answer.responses.iter().map(|topic| topic.error_code).collect()
}

/// Error code, partitions and id of a topic, as Metadata tells them.
async fn metadata(agent: &mut Connection, name: &str) -> (i16, usize, [u8; 16]) {
    let topic = MetadataRequestTopic::default().with_name(Some(text(name).into()));
    let answer = agent.call(12, &MetadataRequest::default().with_topics(Some(vec![topic]))).await;
    let topic = &answer.topics[0];
    (topic.error_code, topic.partitions.len(), topic.topic_id.into_bytes())
}

#[test]
fn a_topic_created_again_is_another_one() {
    World::default().run(|cluster| async move {
        let mut agent = cluster.connect("agent-1").await;
        agent.create_topic("t", 2, &[]).await;
        agent.create_topic("t.x", 1, &[]).await;
        let (_, _, old_id) = metadata(&mut agent, "t").await;
        let txn = Txn::init(&mut agent, "jt1").await;
        for (topic, partition) in [("t", 0), ("t", 1), ("t.x", 0)] {
            assert_eq!(txn.produce(&mut agent, topic, partition, 0).await, (0, 0));
        }
        assert_eq!(txn.end(&mut agent, false).await, 0);
        let answer = agent.call(8, &offset_commit("g", -1, &[(0, 1)])).await;
        assert_eq!(answer.topics[0].partitions[0].error_code, 0);
        // The next transaction is under way when the topic goes.
        while txn.produce(&mut agent, "t", 0, 1).await.0 != 0 {
            again().await;
        }
        assert_eq!(delete(&mut agent, 5, &["t"]).await, [0]);
        assert_eq!(metadata(&mut agent, "t").await.0, 3);
        assert_eq!(fetch(&mut agent, "t", 0, 0).await.error_code, 3);
        assert_eq!(txn.produce(&mut agent, "t", 0, 2).await, (3, -1));
        for prefix in ["heads/t/", "index/t/", "aborted/t/", "producers/t/", "deleting/"] {
            assert_eq!(cluster.keys(prefix).await, [""; 0], "{prefix}");
        }
        assert_eq!(cluster.keys("index/t.x/").await.len(), 2, "a record and its marker");

        agent.create_topic("t", 1, &[]).await;
        let (code, partitions, new_id) = metadata(&mut agent, "t").await;
        assert_eq!((code, partitions), (0, 1));
        assert_ne!(new_id, old_id);
        let data = fetch(&mut agent, "t", 0, 0).await;
        assert_eq!((data.error_code, data.high_watermark, data.last_stable_offset), (0, 0, 0));
        assert_eq!(stable_offsets(&mut agent, "g", &[0]).await, [(-1, 0)], "committed for the old one");

        // The transaction ends all the same, with a marker where the name leads now.
        assert_eq!(txn.end(&mut agent, true).await, 0);
        assert_eq!(txn.add_partition(&mut agent, "t", 0).await, 0);
        let data = fetch(&mut agent, "t", 0, 0).await;
        assert_eq!((data.error_code, data.high_watermark, data.last_stable_offset), (0, 1, 1));
    });
}

#[test]
fn a_transaction_ends_without_a_topic_that_is_gone() {
    for committed in [true, false] {
        World::default().run(move |cluster| async move {
            let mut agent = cluster.connect("agent-1").await;
            agent.create_topic("t", 1, &[]).await;
            agent.create_topic("u", 1, &[]).await;
            let txn = Txn::init(&mut agent, "jt1").await;
            assert_eq!(txn.produce(&mut agent, "t", 0, 0).await, (0, 0));
            assert_eq!(txn.produce(&mut agent, "u", 0, 0).await, (0, 0));
            assert_eq!(delete(&mut agent, 1, &["t"]).await, [0]);
            assert_eq!(txn.end(&mut agent, committed).await, 0);
            assert_eq!(txn.add_partition(&mut agent, "u", 0).await, 0);
            assert_eq!(cluster.keys("index/").await.len(), 2, "u's record and marker");
            assert_eq!(cluster.keys("heads/").await, ["heads/u/0000000000"]);
            let data = fetch(&mut agent, "u", 0, 0).await;
            assert_eq!((data.high_watermark, data.last_stable_offset), (2, 2));
        });
    }
}

#[test]
fn topics_are_deleted_by_name_or_id_with_kafkas_errors() {
    World::default().run(|cluster| async move {
        let mut agent = cluster.connect("agent-1").await;
        for name in ["a", "b", "c"] {
            agent.create_topic(name, 1, &[]).await;
        }
        assert_eq!(delete(&mut agent, 3, &["a", "x", "b", "b"]).await, [0, 3, 42, 42]);
        assert_eq!(delete(&mut agent, 6, &["a", "b"]).await, [3, 0]);
        let (_, _, id) = metadata(&mut agent, "c").await;
        let by_id = |id: [u8; 16]| DeleteTopicState::default().with_topic_id(id.to_vec().try_into().unwrap());
        let mut foreign = id;
        foreign[0] ^= 1;
        let request = DeleteTopicsRequest::default().with_topics(vec![by_id(foreign), by_id(id)]);
        let answer = agent.call(6, &request).await;
        let [unknown, gone] = &answer.responses[..] else { panic!("two answers") };
        assert_eq!((unknown.error_code, &unknown.name), (100, &None));
        assert_eq!(unknown.topic_id.into_bytes(), foreign);
        assert_eq!((gone.error_code, gone.name.as_ref().map(|name| name.as_str())), (0, Some("c")));
        assert_eq!(gone.topic_id.into_bytes(), id);
        assert_eq!(cluster.keys("topics/").await, [""; 0]);
    });
}

/// The agent dies, or misses the coordinator's answer, at each step of a deletion. Another agent's scan, or the creation of the
/// next topic of that name, takes what was left behind.
#[test]
fn a_deletion_left_behind_is_finished() {
    let crash = || Fault::Crash { node: "agent-1".into(), restart_after_ms: None };
    let deaf = || Fault::Cut {
        from: vec!["etcd".into()],
        to: vec!["agent-1".into()],
        both_ways: false,
        for_ms: 1_500,
    };
    let mut seed = 0;
    for created_at_once in [true, false] {
        for (point, fault) in [
            ("delete-topics.before-step", crash()),
            ("delete-topics.before-end", crash()),
            ("delete-topics.before-commit", deaf()),
            ("delete-topics.before-step", deaf()),
            ("delete-topics.before-end", deaf()),
        ] {
            seed += 1;
            let when = When::Point { node: Some("agent-1".into()), point: point.into(), nth: 1 };
            let mut world = World {
                seed,
                faults: vec![Scheduled { id: 1, when, fault: fault.clone() }],
                ..World::default()
            };
            world.config.agents = 2;
            world.agent.transactions.scan_interval_ms = 1_000;
            let dies = matches!(fault, Fault::Crash { .. });
            world.run(move |cluster| async move {
                let mut agent = cluster.connect("agent-1").await;
                agent.create_topic("t", 1, &[]).await;
                let txn = Txn::init(&mut agent, "jt1").await;
                assert_eq!(txn.produce(&mut agent, "t", 0, 0).await, (0, 0));
                if dies {
                    let name = DeleteTopicsRequest::default().with_topic_names(vec![text("t").into()]);
                    agent.send(3, &name).await;
                    assert!(agent.read().await.is_none(), "the agent dies");
                } else {
                    assert_eq!(delete(&mut agent, 3, &["t"]).await, [0]);
                }
                let mut other = cluster.connect("agent-2").await;
                if created_at_once {
                    other.create_topic("t", 1, &[]).await;
                } else {
                    while !cluster.keys("deleting/").await.is_empty() {
                        again().await;
                    }
                }
                for prefix in ["heads/t/", "index/t/", "aborted/t/", "producers/t/", "deleting/"] {
                    assert_eq!(cluster.keys(prefix).await, [""; 0], "{point} {prefix}");
                }
                assert_eq!(cluster.keys("topics/").await.len(), usize::from(created_at_once));
            });
        }
    }
}

fn grow(name: &str, count: i32) -> CreatePartitionsTopic {
    CreatePartitionsTopic::default().with_name(text(name).into()).with_count(count).with_assignments(None)
}

#[test]
fn partitions_are_added_and_used() {
    World::default().run(|cluster| async move {
        let mut agent = cluster.connect("agent-1").await;
        agent.create_topic("t", 1, &[]).await;
        agent.create_topic("u", 2, &[]).await;
        let (_, _, id) = metadata(&mut agent, "t").await;
        let topics = vec![grow("t", 3), grow("u", 2), grow("x", 9), grow("y", 1), grow("y", 2)];
        let request = CreatePartitionsRequest::default().with_topics(topics).with_timeout_ms(5_000);
        for validate_only in [true, false] {
            let answer = agent.call(3, &request.clone().with_validate_only(validate_only)).await;
            let codes: Vec<i16> = answer.results.iter().map(|topic| topic.error_code).collect();
            assert_eq!(codes, [0, 37, 3, 42, 42]);
            assert_eq!(answer.results[0].error_message, None);
            let partitions = if validate_only { 1 } else { 3 };
            assert_eq!(metadata(&mut agent, "t").await, (0, partitions, id));
        }
        let txn = Txn::init(&mut agent, "jt1").await;
        assert_eq!(txn.produce(&mut agent, "t", 2, 0).await, (0, 0));
        assert_eq!(txn.produce(&mut agent, "t", 3, 0).await, (3, -1));

        let assigned = |broker_id| {
            let broker_ids = vec![BrokerId(broker_id)];
            grow("t", 4).with_assignments(Some(vec![
                CreatePartitionsAssignment::default().with_broker_ids(broker_ids),
            ]))
        };
        for (broker_id, code) in [(7, 39), (1, 0)] {
            let request = CreatePartitionsRequest::default().with_topics(vec![assigned(broker_id)]);
            assert_eq!(agent.call(0, &request).await.results[0].error_code, code);
        }
        assert_eq!(metadata(&mut agent, "t").await, (0, 4, id));
    });
}

async fn describe(
    agent: &mut Connection,
    version: i16,
    kind: i8,
    name: &str,
    keys: Option<&[&str]>,
) -> DescribeConfigsResult {
    let resource = DescribeConfigsResource::default()
        .with_resource_type(kind)
        .with_resource_name(text(name))
        .with_configuration_keys(keys.map(|keys| keys.iter().map(|key| text(key)).collect()));
    let request = DescribeConfigsRequest::default()
        .with_resources(vec![resource])
        .with_include_synonyms(true)
        .with_include_documentation(version >= 3);
    agent.call(version, &request).await.results.remove(0)
}

#[test]
fn settings_are_described_with_their_sources() {
    World::default().run(|cluster| async move {
        let mut agent = cluster.connect("agent-1").await;
        agent.create_topic("t", 1, &[("retention.ms", "60000")]).await;
        for version in 1..=4 {
            let told = describe(&mut agent, version, 2, "t", None).await;
            assert_eq!((told.error_code, told.resource_type, told.resource_name.as_str()), (0, 2, "t"));
            let config =
                |name: &str| told.configs.iter().find(|config| config.name.as_str() == name).unwrap();
            let own = config("retention.ms");
            assert_eq!((own.value.as_deref(), own.config_source), (Some("60000"), 1));
            assert!(!own.read_only && !own.is_sensitive);
            let synonyms: Vec<_> = own.synonyms.iter().map(|s| (s.name.as_str(), s.source)).collect();
            assert_eq!(synonyms, [("retention.ms", 1), ("log.retention.ms", 5)]);
            let default = config("max.message.bytes");
            assert_eq!((default.value.as_deref(), default.config_source), (Some("1048588"), 5));
            if version >= 3 {
                assert_eq!(default.config_type, 3, "an int");
                assert!(default.documentation.is_some());
            }
        }
        let one = describe(&mut agent, 4, 2, "t", Some(&["cleanup.policy", "no.such"])).await;
        let names: Vec<&str> = one.configs.iter().map(|config| config.name.as_str()).collect();
        assert_eq!(names, ["cleanup.policy"]);
        let broker = describe(&mut agent, 4, 4, "1", Some(&["node.id"])).await;
        assert_eq!((broker.error_code, broker.configs[0].value.as_deref()), (0, Some("1")));
        assert!(broker.configs[0].read_only);
        assert_eq!(describe(&mut agent, 4, 4, "", None).await.configs, []);
        let rows = [(2, "x", 3), (2, "a/b", 17), (4, "2", 42), (4, "one", 42), (8, "1", 42), (99, "t", 42)];
        for (kind, name, code) in rows {
            let told = describe(&mut agent, 4, kind, name, None).await;
            assert_eq!(
                (told.error_code, told.resource_type, told.configs.len()),
                (code, kind, 0),
                "{kind} {name}"
            );
            assert!(told.error_message.is_some());
        }
    });
}

#[test]
fn the_cluster_is_its_live_agents() {
    let mut world = World::default();
    world.config.agents = 2;
    world.run(|cluster| async move {
        let mut agent = cluster.connect("agent-1").await;
        while cluster.keys("agents/").await.len() < 2 {
            again().await;
        }
        for version in 0..=2 {
            let answer = agent.call(version, &DescribeClusterRequest::default()).await;
            let brokers: Vec<_> =
                answer.brokers.iter().map(|b| (b.broker_id.0, b.host.as_str(), b.port)).collect();
            assert_eq!(brokers, [(1, "agent-1", 9092), (2, "agent-2", 9092)]);
            assert_eq!((answer.cluster_id.as_str(), answer.controller_id.0), ("wavetank", 1));
            assert_eq!((answer.error_code, answer.cluster_authorized_operations), (0, i32::MIN));
        }
        let may = DescribeClusterRequest::default().with_include_cluster_authorized_operations(true);
        assert_eq!(agent.call(1, &may).await.cluster_authorized_operations, 8_096);
        for (endpoint_type, code) in [(2, 114), (3, 115)] {
            let request = DescribeClusterRequest::default().with_endpoint_type(endpoint_type);
            let answer = agent.call(1, &request).await;
            assert_eq!((answer.error_code, answer.controller_id.0, answer.brokers.len()), (code, -1, 0));
        }
    });
}

#[test]
fn the_only_leader_epoch_ends_at_the_high_watermark() {
    World::default().run(|cluster| async move {
        let mut agent = cluster.connect("agent-1").await;
        agent.create_topic("t", 1, &[]).await;
        let txn = Txn::init(&mut agent, "jt1").await;
        assert_eq!(txn.produce(&mut agent, "t", 0, 0).await, (0, 0));
        for version in 2..=4 {
            let asked = |partition, current, epoch| {
                OffsetForLeaderPartition::default()
                    .with_partition(partition)
                    .with_current_leader_epoch(current)
                    .with_leader_epoch(epoch)
            };
            let partitions = vec![asked(0, 0, 0), asked(0, -1, 5), asked(0, 1, 0), asked(1, -1, 0)];
            let topic =
                OffsetForLeaderTopic::default().with_topic(text("t").into()).with_partitions(partitions);
            let request = OffsetForLeaderEpochRequest::default().with_topics(vec![topic]);
            let answer = agent.call(version, &request).await;
            let partitions = answer.topics[0].partitions.iter();
            let told: Vec<_> =
                partitions.map(|p| (p.partition, p.error_code, p.leader_epoch, p.end_offset)).collect();
            assert_eq!(told, [(0, 0, 0, 1), (0, 0, -1, -1), (0, 75, -1, -1), (1, 3, -1, -1)]);
        }
    });
}

#[test]
fn coordinators_are_found_one_by_one_and_in_batches() {
    World::default().run(|cluster| async move {
        let mut agent = cluster.connect("agent-1").await;
        // A group is owned by who is registered.
        while cluster.keys("agents/").await.is_empty() {
            again().await;
        }
        for version in 0..=6 {
            for key_type in (0..=2).filter(|key_type| version > 0 || *key_type == 0) {
                let request = FindCoordinatorRequest::default().with_key_type(key_type);
                let request = match version {
                    0..=3 => request.with_key(text("k")),
                    _ => request.with_coordinator_keys(vec![text("k"), text("l")]),
                };
                let answer = agent.call(version, &request).await;
                let single = (answer.error_code, answer.node_id.0, answer.host.to_string(), answer.port);
                let batch = answer.coordinators.into_iter();
                let batch = batch.map(|c| (c.error_code, c.node_id.0, c.host.to_string(), c.port));
                let told = if version < 4 { vec![single] } else { batch.collect() };
                let expected = match key_type {
                    2 => (42, -1, String::new(), -1),
                    _ => (0, 1, "agent-1".to_string(), 9092),
                };
                assert_eq!(told, vec![expected; if version < 4 { 1 } else { 2 }], "{version} {key_type}");
            }
        }
    });
}
