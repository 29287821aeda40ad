//! 7.1, franz-go: its transport repeats any request, within limits; then the versions differ.

use crate::scripted::Reaction::{Code, LoseAnswer, Mute};
use crate::scripted::{Asked, Scripted, decode_body, play, record};
use client::{Error, Model, Persistence, Producer, ProducerConfig, UnconfirmedEnd, Variant};
use kafka_protocol::messages::{ApiKey, EndTxnRequest, InitProducerIdRequest};

fn config(cluster: &Scripted) -> ProducerConfig {
    ProducerConfig {
        bootstrap_servers: cluster.addresses(),
        transactional_id: Some("jt1".to_string()),
        ..ProducerConfig::franz_go()
    }
}

/// A producer with a transaction that has a record.
async fn open(cluster: &Scripted, model: Model) -> Producer {
    let producer = Producer::new(config(cluster), model);
    producer.init_transactions().await.unwrap();
    producer.begin_transaction().unwrap();
    producer.send(record("a")).await.unwrap().await.unwrap();
    producer
}

fn ends(cluster: &Scripted) -> Vec<(bool, i16)> {
    let ends = cluster.asked(ApiKey::EndTxn);
    let read = |asked: &Asked| {
        let end: EndTxnRequest = decode_body(asked);
        (end.committed, end.producer_epoch)
    };
    ends.iter().map(read).collect()
}

fn inits(cluster: &Scripted) -> Vec<(i64, i16)> {
    let inits = cluster.asked(ApiKey::InitProducerId);
    let read = |asked: &Asked| {
        let init: InitProducerIdRequest = decode_body(asked);
        (init.producer_id.0, init.producer_epoch)
    };
    inits.iter().map(read).collect()
}

/// 10 s of read deadline and 30 s of retries make three copies of the same bytes; none is answered.
fn given_up(variant: Variant) -> Scripted {
    play(move |cluster| async move {
        let producer = open(&cluster, variant.model()).await;
        cluster.always(ApiKey::EndTxn, Mute);
        let unknown = Err(Error::OutcomeUnknown(Box::new(Error::Kafka(13))));
        assert_eq!(producer.commit_transaction().await, unknown);
        let sent = cluster.asked(ApiKey::EndTxn);
        assert_eq!(sent.len(), 3);
        assert!(sent.iter().all(|asked| asked.body == sent[0].body));
        go_on(variant, &cluster, &producer).await;
        cluster
    })
}

/// What the application can do after that.
async fn go_on(variant: Variant, cluster: &Scripted, producer: &Producer) {
    if variant == Variant::FranzGo1214 {
        // A commit cannot be repeated, and nothing can begin before the abort.
        assert!(matches!(producer.commit_transaction().await, Err(Error::Abortable(_))));
        assert!(matches!(producer.begin_transaction(), Err(Error::Abortable(_))));
        assert!(matches!(producer.send(record("x")).await.map(drop), Err(Error::Abortable(_))));
    }
    assert_eq!(producer.abort_transaction().await, Ok(()));
    assert_eq!(ends(cluster).len(), 3, "no EndTxn for the abort");
    assert_eq!(producer.begin_transaction(), Ok(2));
    producer.send(record("b")).await.unwrap().await.unwrap();
}

#[test]
fn version_1_18_goes_on_under_the_same_epoch_as_if_nothing_had_happened() {
    let cluster = given_up(Variant::FranzGo118);
    assert_eq!(inits(&cluster), [(-1, -1)], "the epoch of the unconfirmed end is used again");
}

#[test]
fn later_versions_take_a_new_epoch_which_aborts() {
    let cluster = given_up(Variant::FranzGo1214);
    assert_eq!(inits(&cluster), [(-1, -1), (7, 0)]);
}

/// Both are as vulnerable as Java when the repeat succeeds (TV1): the same bytes twice, the same epoch next.
#[test]
fn a_repeat_that_succeeds_is_not_noticed() {
    for variant in [Variant::FranzGo118, Variant::FranzGo1214] {
        play(move |cluster| async move {
            let producer = open(&cluster, variant.model()).await;
            cluster.on(ApiKey::EndTxn, LoseAnswer);
            assert_eq!(producer.commit_transaction().await, Ok(()));
            producer.begin_transaction().unwrap();
            producer.send(record("b")).await.unwrap().await.unwrap();
            producer.abort_transaction().await.unwrap();
            assert_eq!(ends(&cluster), [(true, 0), (true, 0), (false, 0)]);
            assert_eq!(inits(&cluster).len(), 1);
        });
    }
}

/// UNKNOWN_SERVER_ERROR leaves the outcome unknown; 1.18 then reports a second commit as done (42b3d833).
#[test]
fn an_unknown_error_of_the_end_is_unconfirmed() {
    for (variant, second_commit_succeeds) in [(Variant::FranzGo118, true), (Variant::FranzGo1214, false)] {
        play(move |cluster| async move {
            let producer = open(&cluster, variant.model()).await;
            cluster.on(ApiKey::EndTxn, Code(-1));
            let unknown = Err(Error::OutcomeUnknown(Box::new(Error::Kafka(-1))));
            assert_eq!(producer.commit_transaction().await, unknown);
            assert_eq!(producer.commit_transaction().await.is_ok(), second_commit_succeeds);
            assert_eq!(producer.abort_transaction().await, Ok(()));
            assert_eq!(ends(&cluster), [(true, 0)]);
        });
    }
}

/// `maybeRecoverProducerID` under TV1: 49, 59 and 47 are recovered from by a new epoch, the rest is fatal.
#[test]
fn a_definite_refusal_is_recovered_from_or_fatal() {
    for (code, recovers) in [(47, true), (49, true), (59, true), (48, false), (90, false)] {
        play(move |cluster| async move {
            let producer = open(&cluster, Variant::FranzGo1214.model()).await;
            cluster.on(ApiKey::EndTxn, Code(code));
            assert!(producer.commit_transaction().await.is_err());
            assert_eq!(producer.abort_transaction().await.is_ok(), recovers, "{code}");
            assert_eq!(producer.begin_transaction().is_ok(), recovers, "{code}");
            let expected: &[(i64, i16)] = if recovers { &[(-1, -1), (7, 0)] } else { &[(-1, -1)] };
            assert_eq!(inits(&cluster), expected, "{code}");
        });
    }
}

/// The same under TV2, where 120 and 59 are, and 47 and 49 are not.
#[test]
fn under_tv2_other_refusals_are_recovered_from() {
    for (code, recovers) in [(120, true), (59, true), (47, false), (49, false)] {
        play(move |cluster| async move {
            cluster.state().transaction_version = 2;
            let producer = open(&cluster, Variant::FranzGo1214.model()).await;
            cluster.on(ApiKey::EndTxn, Code(code));
            assert!(producer.commit_transaction().await.is_err());
            assert_eq!(producer.abort_transaction().await.is_ok(), recovers, "{code}");
        });
    }
}

/// 1.18 leaves CONCURRENT_TRANSACTIONS of InitProducerId to its user; later ones repeat it.
#[test]
fn version_1_18_gives_up_an_init_that_meets_an_open_transaction() {
    for (variant, told) in [(Variant::FranzGo118, Err(Error::Kafka(51))), (Variant::FranzGo1214, Ok(()))] {
        play(move |cluster| async move {
            let producer = Producer::new(config(&cluster), variant.model());
            cluster.on(ApiKey::InitProducerId, Code(51));
            assert_eq!(producer.init_transactions().await, told);
            if told.is_err() {
                assert_eq!(producer.init_transactions().await, Ok(()), "and can be asked again");
            }
        });
    }
}

/// The application's context ends before the retries do: the operation is given up there and then.
#[test]
fn the_end_of_the_applications_wait_gives_the_operation_up() {
    for (variant, epochs) in [(Variant::FranzGo118, 1), (Variant::FranzGo1214, 2)] {
        play(move |cluster| async move {
            let config = ProducerConfig { max_block_ms: 5_000, ..config(&cluster) };
            let producer = Producer::new(config, variant.model());
            producer.init_transactions().await.unwrap();
            producer.begin_transaction().unwrap();
            producer.send(record("a")).await.unwrap().await.unwrap();
            cluster.on(ApiKey::EndTxn, Mute);
            assert_eq!(producer.commit_transaction().await, Err(Error::Timeout("commit_transaction")));
            // The new epoch waits behind the request that has a read deadline of 10 s.
            while producer.abort_transaction().await.is_err() {}
            assert_eq!(producer.begin_transaction(), Ok(2));
            producer.send(record("b")).await.unwrap().await.unwrap();
            assert_eq!((ends(&cluster).len(), inits(&cluster).len()), (1, epochs));
        });
    }
}

/// The matrix of findings.md has a client without retries too: it takes a new epoch after a single EndTxn.
#[test]
fn a_client_without_retries_sends_one_end() {
    play(|cluster| async move {
        let unconfirmed_end = UnconfirmedEnd::Reload;
        let persistence = Persistence::Limited { retries: 0, timeout_ms: 30_000, unconfirmed_end };
        let producer = open(&cluster, Model { persistence, ..Variant::FranzGo1214.model() }).await;
        cluster.on(ApiKey::EndTxn, LoseAnswer);
        assert!(matches!(producer.commit_transaction().await, Err(Error::OutcomeUnknown(_))));
        producer.abort_transaction().await.unwrap();
        assert_eq!((ends(&cluster).len(), inits(&cluster)), (1, vec![(-1, -1), (7, 0)]));
    });
}
