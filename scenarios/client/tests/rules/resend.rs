//! What happens when an agent falls silent (5.2, 5.3, 5.4).

use crate::scripted::Reaction::Silence;
use crate::scripted::{Scripted, decode_body, play, record, t};
use client::{Consumer, ConsumerConfig, Error, Producer, ProducerConfig, Variant};
use kafka_protocol::messages::{ApiKey, EndTxnRequest, InitProducerIdRequest};
use std::time::Duration;

fn config(cluster: &Scripted) -> ProducerConfig {
    ProducerConfig {
        bootstrap_servers: vec![cluster.addresses()[0].clone()],
        transactional_id: Some("jt1".to_string()),
        // Until it is over the other agent is the only one that can be asked.
        reconnect_backoff_ms: 10_000,
        reconnect_backoff_max_ms: 10_000,
        ..ProducerConfig::jepsen()
    }
}

/// Commits one transaction whose EndTxn agent 0 never answers, then another.
fn commit_through_silence(variant: Variant) -> Scripted {
    play(move |cluster| async move {
        let producer = Producer::new(config(&cluster), variant.model());
        producer.init_transactions().await.unwrap();
        for (txn, value) in [(1, "a"), (2, "b")] {
            assert_eq!(producer.begin_transaction(), Ok(txn));
            let delivery = producer.send(record(value)).await.unwrap();
            assert_eq!(delivery.await.unwrap().offset, txn as i64 - 1);
            if txn == 1 {
                cluster.on_agent(0, ApiKey::EndTxn, Silence);
            }
            producer.commit_transaction().await.unwrap();
        }
        producer.close(Duration::from_secs(1)).await;
        cluster
    })
}

#[test]
fn an_unanswered_end_closes_the_socket_and_goes_unchanged_to_another_agent() {
    let cluster = commit_through_silence(Variant::Java38);
    let ends = cluster.asked(ApiKey::EndTxn);
    assert_eq!(ends.iter().map(|asked| asked.agent).collect::<Vec<_>>(), [0, 1, 1]);
    assert_eq!(ends[0].version, 4, "never the fifth, which belongs to the second protocol");
    assert_eq!(ends[0].body, ends[1].body);
    assert_eq!(ends[2].body, ends[0].body, "the second transaction ends under the same epoch: KAFKA-17754");
    let waited_ms = ends[1].at_ms - ends[0].at_ms;
    assert!(
        (3_000..3_500).contains(&waited_ms),
        "request.timeout.ms, a lookup and a backoff: {waited_ms} ms"
    );
    assert!(cluster.ended_connections() >= 1);
    assert_eq!(cluster.asked(ApiKey::InitProducerId).len(), 1);
    // The next batch does not go to the silent agent.
    let produced = cluster.asked(ApiKey::Produce);
    assert_eq!(produced.iter().map(|asked| asked.agent).collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn the_strict_client_takes_a_new_epoch_before_the_next_transaction() {
    let cluster = commit_through_silence(Variant::Strict);
    let inits = cluster.asked(ApiKey::InitProducerId);
    let bump: InitProducerIdRequest = decode_body(&inits[1]);
    assert_eq!((inits.len(), bump.producer_id.0, bump.producer_epoch), (2, 7, 0));
    let epochs = cluster.asked(ApiKey::EndTxn);
    let epochs = epochs.iter().map(|asked| decode_body::<EndTxnRequest>(asked).producer_epoch);
    assert_eq!(epochs.collect::<Vec<_>>(), [0, 0, 1]);
}

/// 5.4: the result stays pending; EndTxn is repeated by the sender, not by the application.
#[test]
fn a_commit_that_timed_out_can_only_be_committed_again() {
    play(|cluster| async move {
        let config = ProducerConfig { max_block_ms: 1_000, ..config(&cluster) };
        let producer = Producer::new(config, Variant::Java38.model());
        producer.init_transactions().await.unwrap();
        producer.begin_transaction().unwrap();
        producer.send(record("a")).await.unwrap().await.unwrap();
        cluster.on_agent(0, ApiKey::EndTxn, Silence);
        assert!(matches!(producer.commit_transaction().await, Err(Error::Timeout(_))));
        assert!(matches!(producer.abort_transaction().await, Err(Error::IllegalState(_))));
        assert!(matches!(producer.begin_transaction(), Err(Error::IllegalState(_))));
        let mut result = producer.commit_transaction().await;
        while let Err(Error::Timeout(_)) = result {
            result = producer.commit_transaction().await;
        }
        assert_eq!(result, Ok(()));
        let bodies: Vec<_> = cluster.asked(ApiKey::EndTxn).into_iter().map(|asked| asked.body).collect();
        assert_eq!(bodies.len(), 2);
        assert_eq!(bodies[0], bodies[1]);
    });
}

#[test]
fn a_consumer_goes_on_with_another_agent() {
    play(|cluster| async move {
        let producer = Producer::new(config(&cluster), Variant::Java38.model());
        producer.init_transactions().await.unwrap();
        producer.begin_transaction().unwrap();
        producer.send(record("a")).await.unwrap().await.unwrap();
        let mut consumer = Consumer::new(ConsumerConfig {
            bootstrap_servers: vec![cluster.addresses()[0].clone()],
            reconnect_backoff_ms: 30_000,
            reconnect_backoff_max_ms: 30_000,
            ..ConsumerConfig::jepsen()
        });
        consumer.assign(&[t(0)]).unwrap();
        let first = consumer.poll(2_000).await.unwrap();
        assert_eq!((first.len(), first[0].offset, consumer.position(&t(0))), (1, 0, Some(1)));
        cluster.on_agent(0, ApiKey::Fetch, Silence);
        while cluster.asked(ApiKey::Fetch).len() < 2 {
            assert!(consumer.poll(100).await.unwrap().is_empty());
        }
        producer.send(record("b")).await.unwrap().await.unwrap();
        let second = consumer.poll(30_000).await.unwrap();
        assert_eq!(second[0].value.as_deref(), Some(&b"b"[..]));
        consumer.seek_to_beginning(&[t(0)]).unwrap();
        assert_eq!(consumer.position(&t(0)), None);
        let again = consumer.poll(2_000).await.unwrap();
        assert_eq!(again.iter().map(|record| record.offset).collect::<Vec<_>>(), [0, 1]);
    });
}
