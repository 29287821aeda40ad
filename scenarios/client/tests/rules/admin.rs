//! The admin client, with Java's defaults and with the `retries` 0 of Jepsen (jepsen.md A7).

use crate::scripted::Reaction::{Code, Mute};
use crate::scripted::{Scripted, play, record, t};
use client::{
    Admin, AdminConfig, Error, IsolationLevel, OffsetSpec, Producer, ProducerConfig, TopicPartition, Variant,
};
use kafka_protocol::messages::ApiKey;
use rt::time::Instant;
use std::time::Duration;

fn jepsen(cluster: &Scripted) -> Admin {
    Admin::new(AdminConfig { bootstrap_servers: cluster.addresses(), ..AdminConfig::jepsen() })
}

fn default(cluster: &Scripted) -> Admin {
    Admin::new(AdminConfig { bootstrap_servers: cluster.addresses(), ..AdminConfig::default() })
}

#[test]
fn topics_are_made_and_unmade_at_the_controller() {
    play(|cluster| async move {
        let mut admin = jepsen(&cluster);
        admin.create_topic("t", 2, 3).await.unwrap();
        admin.delete_topic("t").await.unwrap();
        for api in [ApiKey::CreateTopics, ApiKey::DeleteTopics] {
            let asked = cluster.asked(api);
            assert_eq!(asked.iter().map(|asked| asked.agent).collect::<Vec<_>>(), [1], "{api:?}");
        }
        cluster.on(ApiKey::CreateTopics, Code(36));
        assert_eq!(admin.create_topic("t", 2, 3).await, Err(Error::Kafka(36)));
        cluster.on(ApiKey::DeleteTopics, Code(3));
        assert_eq!(default(&cluster).delete_topic("t").await, Err(Error::Kafka(3)), "gone for good");
    });
}

#[test]
fn without_retries_the_first_error_is_told_and_with_them_it_is_not() {
    play(|cluster| async move {
        cluster.on(ApiKey::CreateTopics, Code(41));
        assert_eq!(jepsen(&cluster).create_topic("t", 2, 3).await, Err(Error::Kafka(41)));
        cluster.on(ApiKey::CreateTopics, Code(41));
        assert_eq!(default(&cluster).create_topic("t", 2, 3).await, Ok(()));
        cluster.on(ApiKey::CreateTopics, Mute);
        let (mut admin, began) = (jepsen(&cluster), Instant::now());
        let told = admin.create_topic("t", 2, 3).await;
        assert!(matches!(told, Err(Error::Timeout(_) | Error::Kafka(13))), "{told:?}");
        assert!(began.elapsed() <= Duration::from_millis(3_000));
    });
}

#[test]
fn offsets_are_listed_by_isolation() {
    play(|cluster| async move {
        let config = ProducerConfig { bootstrap_servers: cluster.addresses(), ..ProducerConfig::jepsen() };
        let producer = Producer::new(config, Variant::Java38.model());
        for value in ["a", "b", "c"] {
            producer.send(record(value)).await.unwrap().await.unwrap();
        }
        {
            let mut state = cluster.state();
            let log = state.logs.get_mut(&t(0)).unwrap();
            (log.start, log.stable) = (1, Some(2));
        }
        let mut admin = jepsen(&cluster);
        for (spec, isolation, expected) in [
            (OffsetSpec::Earliest, IsolationLevel::ReadUncommitted, [1, 0]),
            (OffsetSpec::Latest, IsolationLevel::ReadUncommitted, [3, 0]),
            (OffsetSpec::Latest, IsolationLevel::ReadCommitted, [2, 0]),
        ] {
            let listed = admin.list_offsets(&[t(0), t(1)], spec, isolation).await.unwrap();
            assert_eq!([listed[&t(0)].offset, listed[&t(1)].offset], expected, "{spec:?} {isolation:?}");
        }
        cluster.on(ApiKey::ListOffsets, Code(6));
        let (latest, committed) = (OffsetSpec::Latest, IsolationLevel::ReadCommitted);
        assert_eq!(admin.list_offsets(&[t(0)], latest, committed).await, Err(Error::Kafka(6)));
        // Nobody leads what is not there.
        let nowhere = [TopicPartition::new("t", 9)];
        assert_eq!(
            admin.list_offsets(&nowhere, latest, committed).await,
            Err(Error::Timeout("list_offsets"))
        );
    });
}
