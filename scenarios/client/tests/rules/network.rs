//! 5.2, the connection layer: `NetworkClient`.

use crate::scripted::Reaction::{Delay, Mute};
use crate::scripted::{Scripted, play, record, t};
use client::{Consumer, ConsumerConfig, Producer, ProducerConfig, Variant};
use kafka_protocol::messages::ApiKey;
use std::time::Duration;

fn idempotent(cluster: &Scripted) -> ProducerConfig {
    ProducerConfig { bootstrap_servers: cluster.addresses(), ..ProducerConfig::jepsen() }
}

fn connections(cluster: &Scripted, api: ApiKey) -> Vec<u64> {
    cluster.asked(api).iter().map(|asked| asked.connection).collect()
}

/// 5.2: any expired request closes the whole connection, and every request in flight on it ends as timed out. 5.6: they
/// are sent again in the order of their sequences, one at a time.
#[test]
fn a_request_timeout_closes_the_socket_and_fails_all_in_flight() {
    play(|cluster| async move {
        let producer = Producer::new(idempotent(&cluster), Variant::Java38.model());
        producer.send(record("before")).await.unwrap().await.unwrap();
        cluster.on(ApiKey::Produce, Mute);
        let mut deliveries = Vec::new();
        for value in ["a", "b", "c"] {
            deliveries.push(producer.send(record(value)).await.unwrap());
            // Each in a request of its own.
            rt::time::sleep(Duration::from_millis(100)).await;
        }
        let mut offsets = Vec::new();
        for delivery in deliveries {
            offsets.push(delivery.await.unwrap().offset);
        }
        assert_eq!(offsets, [1, 2, 3]);
        let produced = cluster.asked(ApiKey::Produce);
        let first = produced[0].connection;
        let connections: Vec<bool> = produced.iter().map(|asked| asked.connection == first).collect();
        assert_eq!(connections, [true, true, true, true, false, false, false]);
        // The youngest of the three had 2.8 s; all go when the oldest has had 3 s.
        assert!(produced[4].at_ms < produced[3].at_ms + 3_000, "{produced:?}");
        for (sent, again) in produced[1..4].iter().zip(&produced[4..]) {
            assert_eq!(sent.body, again.body);
        }
        assert_eq!(cluster.ended_connections(), 1);
    });
}

/// 5.2: ApiVersions is the first request on each new connection.
#[test]
fn api_versions_is_the_first_request_on_each_connection() {
    play(|cluster| async move {
        let producer = Producer::new(idempotent(&cluster), Variant::Java38.model());
        cluster.on(ApiKey::Produce, Mute);
        producer.send(record("a")).await.unwrap().await.unwrap();
        let versions = connections(&cluster, ApiKey::ApiVersions);
        let mut distinct = versions.clone();
        distinct.dedup();
        assert!(versions.len() >= 2 && distinct == versions, "once on each: {versions:?}");
        for api in [ApiKey::Metadata, ApiKey::InitProducerId, ApiKey::Produce] {
            for asked in cluster.asked(api) {
                let first = cluster.asked(ApiKey::ApiVersions);
                let first = first.iter().find(|first| first.connection == asked.connection).unwrap();
                assert!(first.at_ms <= asked.at_ms);
            }
        }
    });
}

/// 5.2: a disconnect asks for new metadata.
#[test]
fn a_disconnect_asks_for_metadata() {
    play(|cluster| async move {
        let producer = Producer::new(idempotent(&cluster), Variant::Java38.model());
        producer.send(record("a")).await.unwrap().await.unwrap();
        let before = cluster.asked(ApiKey::Metadata).len();
        cluster.on(ApiKey::Produce, Mute);
        producer.send(record("b")).await.unwrap().await.unwrap();
        assert_eq!(cluster.asked(ApiKey::Metadata).len(), before + 1);
    });
}

/// 5.2: a request that is answered late, but within its time, closes nothing.
#[test]
fn a_late_answer_within_the_timeout_is_taken() {
    play(|cluster| async move {
        let producer = Producer::new(idempotent(&cluster), Variant::Java38.model());
        cluster.on(ApiKey::Produce, Delay(Duration::from_millis(2_900)));
        assert_eq!(producer.send(record("a")).await.unwrap().await.unwrap().offset, 0);
        assert_eq!((cluster.asked(ApiKey::Produce).len(), cluster.ended_connections()), (1, 0));
    });
}

/// 1.2: a Metadata answer that lists no brokers is ignored: the client goes on with those it knew.
#[test]
fn metadata_without_agents_is_ignored() {
    play(|cluster| async move {
        let mut consumer = Consumer::new(ConsumerConfig {
            bootstrap_servers: cluster.addresses(),
            metadata_max_age_ms: 1_000,
            ..ConsumerConfig::jepsen()
        });
        consumer.assign(&[t(0)]).unwrap();
        assert!(consumer.poll(1_000).await.unwrap().is_empty());
        cluster.state().nobody_known = true;
        let asked = cluster.asked(ApiKey::Metadata).len();
        assert!(consumer.poll(5_000).await.unwrap().is_empty());
        assert!(cluster.asked(ApiKey::Metadata).len() > asked, "it has asked, and been told of nobody");
        let producer = Producer::new(idempotent(&cluster), Variant::Java38.model());
        cluster.state().nobody_known = false;
        producer.send(record("a")).await.unwrap().await.unwrap();
        cluster.state().nobody_known = true;
        assert_eq!(consumer.poll(2_000).await.unwrap().len(), 1);
    });
}
