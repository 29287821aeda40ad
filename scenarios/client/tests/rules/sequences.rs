//! 5.6: sequences and epochs when nobody knows what became of a batch.

use crate::scripted::Reaction::{Delay, LoseAnswer, Mute};
use crate::scripted::{Scripted, decode_body, play, record, t};
use client::{Error, Flaws, Model, Producer, ProducerConfig, ProducerRecord, Variant};
use kafka_protocol::messages::{ApiKey, EndTxnRequest, ProduceRequest};
use std::time::Duration;

/// Time is tight: a request and a batch have 3 s each, so that the answer to a batch's only attempt is given up when its
/// time is over.
fn config(cluster: &Scripted) -> ProducerConfig {
    ProducerConfig {
        bootstrap_servers: cluster.addresses(),
        transactional_id: Some("jt1".to_string()),
        delivery_timeout_ms: 3_000,
        ..ProducerConfig::jepsen()
    }
}

/// One agent leads, the other coordinates: what happens to a connection happens to one of them.
fn part(cluster: &Scripted) {
    let mut state = cluster.state();
    (state.leader, state.coordinator) = (Some(0), Some(1));
}

/// Epoch and base sequence of every batch for the first partition, in the order in which they were sent.
fn stamps(cluster: &Scripted) -> Vec<(i16, i32)> {
    let requests = cluster.asked(ApiKey::Produce);
    let batches = requests.iter().flat_map(|asked| {
        let request: ProduceRequest = decode_body(asked);
        request.topic_data.into_iter().flat_map(|topic| topic.partition_data)
    });
    let batches = batches.filter(|data| data.index == 0).filter_map(|data| data.records);
    let stamp = |batch: bytes::Bytes| {
        let epoch = i16::from_be_bytes(batch[51..53].try_into().unwrap());
        (epoch, i32::from_be_bytes(batch[53..57].try_into().unwrap()))
    };
    batches.map(stamp).collect()
}

/// Finding 11: batch B of transaction 1 is appended and its answer lost. While the producer is committing, a transactional
/// request of another partition is stuck, so that B does not expire, but fails by the end of its request. The transaction is
/// aborted; transaction 2 sends one record to the same partition.
async fn reuse(cluster: &Scripted, variant: Variant) -> Result<i64, Error> {
    part(cluster);
    let producer = Producer::new(config(cluster), variant.model());
    producer.init_transactions().await.unwrap();
    producer.begin_transaction().unwrap();
    // The leader appends it.
    cluster.on(ApiKey::Produce, LoseAnswer);
    let lost = producer.send(record("lost")).await.unwrap();
    while cluster.asked(ApiKey::Produce).is_empty() {
        rt::time::sleep(Duration::from_millis(1)).await;
    }
    cluster.on_agent(1, ApiKey::AddPartitionsToTxn, Delay(Duration::from_millis(4_000)));
    let other = producer.send(ProducerRecord::new(t(1), "other")).await.unwrap();
    assert!(producer.commit_transaction().await.is_err());
    assert_eq!(lost.await, Err(Error::Kafka(7)), "REQUEST_TIMED_OUT");
    assert!(other.await.is_err());
    producer.abort_transaction().await.unwrap();
    producer.begin_transaction().unwrap();
    let written = producer.send(record("swallowed")).await.unwrap().await;
    producer.commit_transaction().await.unwrap();
    written.map(|written| written.offset)
}

/// kafka.md 5.6, (1) to (5); jepsen.md E10: acknowledged with the offset of the aborted record, committed, and not written.
#[test]
fn java_reuses_a_sequence_and_an_acknowledged_record_is_never_written() {
    for variant in [Variant::Java38, Variant::Java4] {
        play(move |cluster| async move {
            assert_eq!(reuse(&cluster, variant).await, Ok(0));
            assert_eq!(stamps(&cluster), [(0, 0), (0, 0)], "the same epoch and sequence for another record");
            assert_eq!(cluster.state().logs[&t(0)].next_offset, 1, "only the first was appended");
            assert_eq!(cluster.asked(ApiKey::InitProducerId).len(), 1, "no new epoch: it was completing");
            let ends = cluster.asked(ApiKey::EndTxn);
            let ends: Vec<bool> =
                ends.iter().map(|asked| decode_body::<EndTxnRequest>(asked).committed).collect();
            assert_eq!(ends, [false, true]);
        });
    }
}

#[test]
fn the_strict_client_takes_a_new_epoch_after_an_unknown_batch() {
    play(|cluster| async move {
        assert_eq!(reuse(&cluster, Variant::Strict).await, Ok(1));
        assert_eq!(stamps(&cluster), [(0, 0), (1, 0)]);
        assert_eq!(cluster.state().logs[&t(0)].next_offset, 2);
    });
}

/// A batch that is neither answered nor appended, and whose transaction is aborted; then one record more.
async fn after_an_unknown_batch(cluster: &Scripted, model: Model) -> Producer {
    part(cluster);
    let producer = Producer::new(config(cluster), model);
    producer.init_transactions().await.unwrap();
    producer.begin_transaction().unwrap();
    cluster.on(ApiKey::Produce, Mute);
    let lost = producer.send(record("lost")).await.unwrap();
    assert!(lost.await.is_err());
    producer.abort_transaction().await.unwrap();
    producer.begin_transaction().unwrap();
    producer
}

/// Java asks for a new epoch when a batch fails while the transaction is open.
#[test]
fn java_takes_a_new_epoch_when_a_batch_fails_in_an_open_transaction() {
    play(|cluster| async move {
        let producer = after_an_unknown_batch(&cluster, Variant::Java38.model()).await;
        producer.send(record("b")).await.unwrap().await.unwrap();
        let stamps = stamps(&cluster);
        assert_eq!(stamps[0], (0, 0));
        // The connection that the first one has silenced swallows another.
        assert!(stamps.len() > 1 && stamps[1..].iter().all(|stamp| *stamp == (1, 0)), "{stamps:?}");
    });
}

/// Finding 10: with the flaw the epoch stays and the sequence is not given back. Under a leader that still expects it, the
/// next batch waits for the lost one, and goes in behind it when it arrives.
#[test]
fn a_careless_client_leaves_the_place_of_an_unknown_batch_open() {
    let careless = Flaws { keep_epoch_after_unknown_produce: true, ..Flaws::default() };
    for variant in [Variant::Java38, Variant::Strict] {
        play(move |cluster| async move {
            let producer = after_an_unknown_batch(&cluster, variant.model().with(careless)).await;
            let held: ProduceRequest = decode_body(&cluster.asked(ApiKey::Produce)[0]);
            let held = held.topic_data[0].partition_data[0].records.clone().unwrap();
            // The leader has seen sequence -1, so to speak: it refuses what leaves a gap.
            cluster.state().logs.entry(t(0)).or_default().expect_from(0, 0);
            let next = producer.send(record("b")).await.unwrap();
            rt::time::sleep(Duration::from_millis(500)).await;
            assert_eq!(cluster.state().logs.get_mut(&t(0)).unwrap().append(&held), (0, 0));
            assert_eq!(next.await.unwrap().offset, 1);
            let stamps = stamps(&cluster);
            assert_eq!(stamps[0], (0, 0));
            assert!(stamps.len() > 2 && stamps[1..].iter().all(|stamp| *stamp == (0, 1)), "{stamps:?}");
            assert_eq!(cluster.asked(ApiKey::InitProducerId).len(), 1);
        });
    }
}

/// A retried batch expires while the transaction is being aborted: Java goes to INITIALIZING, and nothing leads out of it
/// (kafka.md 5.6; the real 3.8.0 and 4.4.0: docs/open-questions.md). Who does ask for the epoch can go on.
#[test]
fn a_producer_can_be_stuck_after_an_abort() {
    for (variant, stuck) in [(Variant::Java38, true), (Variant::Java4, true), (Variant::Strict, false)] {
        play(move |cluster| async move {
            part(&cluster);
            let config = ProducerConfig { delivery_timeout_ms: 5_000, ..config(&cluster) };
            let producer = Producer::new(config, variant.model());
            producer.init_transactions().await.unwrap();
            producer.begin_transaction().unwrap();
            cluster.always(ApiKey::Produce, Mute);
            let lost = producer.send(record("lost")).await.unwrap();
            while cluster.asked(ApiKey::Produce).len() < 2 {
                rt::time::sleep(Duration::from_millis(1)).await;
            }
            assert_eq!(producer.abort_transaction().await, Ok(()));
            assert_eq!(lost.await, Err(Error::Timeout("delivery")));
            let begun = producer.begin_transaction().map(drop);
            assert_eq!(matches!(begun, Err(Error::IllegalState(_))), stuck, "{variant:?}: {begun:?}");
            assert_eq!(cluster.asked(ApiKey::InitProducerId).len(), if stuck { 1 } else { 2 });
        });
    }
}
