//! 5.3 to 5.5: the sender loop, the transaction manager, and what errors mean.

use crate::scripted::Reaction::{Code, Delay, LoseAnswer};
use crate::scripted::{Scripted, decode_body, play, record, t};
use client::{
    Consumer, ConsumerConfig, Error, GroupMetadata, Header, Producer, ProducerConfig, ProducerRecord, Variant,
};
use kafka_protocol::messages::{ApiKey, EndTxnRequest, TxnOffsetCommitRequest};
use std::time::Duration;

fn config(cluster: &Scripted) -> ProducerConfig {
    ProducerConfig {
        bootstrap_servers: cluster.addresses(),
        transactional_id: Some("jt1".to_string()),
        ..ProducerConfig::jepsen()
    }
}

async fn producer(cluster: &Scripted, variant: Variant) -> Producer {
    let producer = Producer::new(config(cluster), variant.model());
    producer.init_transactions().await.unwrap();
    producer.begin_transaction().unwrap();
    producer
}

fn times(cluster: &Scripted, api: ApiKey) -> Vec<u64> {
    cluster.asked(api).iter().map(|asked| asked.at_ms).collect()
}

/// 5.3, step 4: while a transactional request is in flight no batch is sent; 5.4: a batch waits for its partition to be added.
#[test]
fn no_batch_goes_while_a_transactional_request_is_in_flight() {
    play(|cluster| async move {
        let producer = producer(&cluster, Variant::Java38).await;
        producer.send(record("a")).await.unwrap().await.unwrap();
        cluster.on(ApiKey::AddPartitionsToTxn, Delay(Duration::from_millis(500)));
        let other = producer.send(ProducerRecord::new(t(1), "b")).await.unwrap();
        rt::time::sleep(Duration::from_millis(100)).await;
        // Its partition is in the transaction already, and still it waits.
        let again = producer.send(record("c")).await.unwrap();
        other.await.unwrap();
        again.await.unwrap();
        let added = times(&cluster, ApiKey::AddPartitionsToTxn)[1];
        let produced = times(&cluster, ApiKey::Produce);
        assert!(produced[1..].iter().all(|at| *at >= added + 500), "{added} {produced:?}");
    });
}

/// 5.3: EndTxn waits until the accumulator has no incomplete batches.
#[test]
fn the_end_waits_for_the_batches() {
    play(|cluster| async move {
        let producer = producer(&cluster, Variant::Java38).await;
        cluster.on(ApiKey::Produce, Delay(Duration::from_millis(700)));
        let delivery = producer.send(record("a")).await.unwrap();
        producer.commit_transaction().await.unwrap();
        let (produced, ended) = (times(&cluster, ApiKey::Produce)[0], times(&cluster, ApiKey::EndTxn)[0]);
        assert!(ended >= produced + 700);
        assert_eq!(delivery.await.unwrap().offset, 0);
    });
}

/// 5.3: a retry sleeps 100 ms on the sender, 20 ms if it is the first AddPartitions and the last transaction is not over.
#[test]
fn a_retry_waits_less_for_the_end_of_the_transaction_before() {
    for (code, pause_ms) in [(51, 20), (14, 100)] {
        play(move |cluster| async move {
            let producer = producer(&cluster, Variant::Java38).await;
            producer.send(record("a")).await.unwrap().await.unwrap();
            producer.commit_transaction().await.unwrap();
            producer.begin_transaction().unwrap();
            cluster.on(ApiKey::AddPartitionsToTxn, Code(code));
            producer.send(record("b")).await.unwrap().await.unwrap();
            let added = times(&cluster, ApiKey::AddPartitionsToTxn);
            let waited_ms = added[2] - added[1];
            assert!((pause_ms..pause_ms + 15).contains(&waited_ms), "{code}: {waited_ms} ms");
        });
    }
}

/// 5.5: any code of EndTxn that is not listed is fatal, UNKNOWN_SERVER_ERROR too.
#[test]
fn an_unknown_error_of_the_end_is_fatal_to_java() {
    play(|cluster| async move {
        let producer = producer(&cluster, Variant::Java38).await;
        producer.send(record("a")).await.unwrap().await.unwrap();
        cluster.on(ApiKey::EndTxn, Code(-1));
        assert_eq!(producer.commit_transaction().await, Err(Error::Kafka(-1)));
        let fatal = Err(Error::Fatal(Box::new(Error::Kafka(-1))));
        assert_eq!(producer.abort_transaction().await, fatal);
        assert_eq!(producer.begin_transaction().map(drop), fatal);
    });
}

/// 3.4, 5.5: after a transaction timeout the end is refused with PRODUCER_FENCED, and the user reads of a newer producer
/// (KIP-588, finding 6).
#[test]
fn a_fence_is_told_as_a_newer_producer() {
    play(|cluster| async move {
        let producer = producer(&cluster, Variant::Java38).await;
        producer.send(record("a")).await.unwrap().await.unwrap();
        cluster.on(ApiKey::EndTxn, Code(90));
        let told = producer.commit_transaction().await.unwrap_err();
        assert!(told.to_string().starts_with("There is a newer producer"), "{told}");
    });
}

/// 5.6: DUPLICATE_SEQUENCE_NUMBER is success, at whatever base offset the answer holds (finding 3).
#[test]
fn a_duplicate_is_acknowledged() {
    play(|cluster| async move {
        let producer = producer(&cluster, Variant::Java38).await;
        cluster.on(ApiKey::Produce, Code(46));
        let written = producer.send(record("a")).await.unwrap().await.unwrap();
        assert_eq!(written.offset, -1, "the scripted agent has none");
        producer.commit_transaction().await.unwrap();
    });
}

/// 5.6: a retry keeps producer id, epoch and sequence; the leader knows the batch, and the record is there once.
#[test]
fn a_batch_whose_answer_was_lost_is_appended_once() {
    play(|cluster| async move {
        let producer = producer(&cluster, Variant::Java38).await;
        cluster.on(ApiKey::Produce, LoseAnswer);
        assert_eq!(producer.send(record("a")).await.unwrap().await.unwrap().offset, 0);
        let produced = cluster.asked(ApiKey::Produce);
        assert_eq!((produced.len(), cluster.state().logs[&t(0)].next_offset), (2, 1));
        assert_eq!(produced[0].body, produced[1].body);
    });
}

/// 5.4: close(0) sends no EndTxn; what was not acknowledged fails.
#[test]
fn a_forced_close_leaves_the_transaction_open() {
    play(|cluster| async move {
        let producer = producer(&cluster, Variant::Java38).await;
        cluster.on(ApiKey::Produce, Delay(Duration::from_millis(500)));
        let delivery = producer.send(record("a")).await.unwrap();
        rt::time::sleep(Duration::from_millis(100)).await;
        let began = rt::time::Instant::now();
        producer.close(Duration::ZERO).await;
        assert!(began.elapsed() < Duration::from_millis(50));
        assert_eq!(delivery.await, Err(Error::Closed));
        rt::time::sleep(Duration::from_secs(1)).await;
        assert!(cluster.asked(ApiKey::EndTxn).is_empty());
        assert_eq!(cluster.state().logs[&t(0)].next_offset, 1, "bytes already written are executed");
    });
}

/// 5.4: close(>0) waits for what is under way, and aborts.
#[test]
fn a_close_with_time_aborts_the_transaction() {
    play(|cluster| async move {
        let producer = producer(&cluster, Variant::Java38).await;
        cluster.on(ApiKey::Produce, Delay(Duration::from_millis(500)));
        let delivery = producer.send(record("a")).await.unwrap();
        producer.close(Duration::from_secs(5)).await;
        assert_eq!(delivery.await.unwrap().offset, 0);
        let ends = cluster.asked(ApiKey::EndTxn);
        assert_eq!((ends.len(), decode_body::<EndTxnRequest>(&ends[0]).committed), (1, false));
    });
}

fn group() -> GroupMetadata {
    GroupMetadata {
        group_id: "g".into(),
        generation_id: 4,
        member_id: "m-9".into(),
        group_instance_id: Some("i".into()),
    }
}

/// 5.4, KIP-447: the group joins the transaction, then the offsets go to its coordinator with generation and member; 3.7:
/// under TV2 without AddOffsetsToTxn, in version 5, and EndTxn brings the next epoch.
#[test]
fn offsets_carry_the_members_identity() {
    for (variant, added, version) in [(Variant::Java38, 1, 4), (Variant::Java4, 0, 5)] {
        play(move |cluster| async move {
            cluster.state().transaction_version = 2;
            let producer = producer(&cluster, variant).await;
            producer.send_offsets_to_transaction([(t(0), 5)].into(), &group()).await.unwrap();
            producer.commit_transaction().await.unwrap();
            assert_eq!(cluster.asked(ApiKey::AddOffsetsToTxn).len(), added);
            let commits = cluster.asked(ApiKey::TxnOffsetCommit);
            assert_eq!((commits.len(), commits[0].version), (1, version));
            let commit: TxnOffsetCommitRequest = decode_body(&commits[0]);
            assert_eq!((&*commit.member_id, commit.generation_id), ("m-9", 4));
            assert_eq!(commit.group_instance_id.as_deref(), Some("i"));
            assert_eq!(commit.topics[0].partitions[0].committed_offset, 5);
            let ends = cluster.asked(ApiKey::EndTxn);
            assert_eq!((ends.len(), ends[0].version), (1, version));
        });
    }
}

/// 5.4: the wait for the offsets is bounded by max.block.ms, and they go on in the background.
#[test]
fn offsets_that_time_out_go_on_in_the_background() {
    play(|cluster| async move {
        let config = ProducerConfig { max_block_ms: 1_000, ..config(&cluster) };
        let producer = Producer::new(config, Variant::Java38.model());
        producer.init_transactions().await.unwrap();
        producer.begin_transaction().unwrap();
        cluster.on(ApiKey::TxnOffsetCommit, Delay(Duration::from_millis(2_000)));
        let sent = producer.send_offsets_to_transaction([(t(0), 5)].into(), &group()).await;
        assert_eq!(sent, Err(Error::Timeout("send_offsets_to_transaction")));
        rt::time::sleep(Duration::from_millis(1_500)).await;
        producer.commit_transaction().await.unwrap();
        assert_eq!(cluster.asked(ApiKey::TxnOffsetCommit).len(), 1);
    });
}

#[test]
fn headers_key_and_timestamp_reach_the_reader() {
    play(|cluster| async move {
        let producer = producer(&cluster, Variant::Java38).await;
        let sent = ProducerRecord {
            key: Some("k".into()),
            headers: vec![Header::new("digest", "d"), Header { key: "null".into(), value: None }],
            timestamp_ms: Some(1_234),
            ..record("v")
        };
        producer.send(sent.clone()).await.unwrap().await.unwrap();
        let config = ConsumerConfig { bootstrap_servers: cluster.addresses(), ..ConsumerConfig::jepsen() };
        let mut consumer = Consumer::new(config);
        consumer.assign(&[t(0)]).unwrap();
        let read = consumer.poll(2_000).await.unwrap().remove(0);
        assert_eq!((read.key, read.value), (sent.key, Some(sent.value)));
        assert_eq!((read.headers, Some(read.timestamp_ms)), (sent.headers, sent.timestamp_ms));
    });
}
