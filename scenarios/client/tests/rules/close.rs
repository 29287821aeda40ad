//! 6, close: every step is bounded by the timeout, but for KAFKA-17734 (finding 7). And members, as far as a wire is needed.

use crate::scripted::Reaction::{Code, Mute};
use crate::scripted::{Scripted, decode_body, play, t};
use client::{
    Consumer, ConsumerConfig, Flaws, LoggedRebalance, Member, Producer, ProducerConfig, ProducerRecord,
    Rebalanced, Variant,
};
use kafka_protocol::messages::{ApiKey, OffsetCommitRequest};
use rt::time::{Instant, timeout};
use std::time::Duration;

fn config(cluster: &Scripted) -> ConsumerConfig {
    ConsumerConfig {
        bootstrap_servers: cluster.addresses(),
        group_id: Some("g".into()),
        ..ConsumerConfig::jepsen()
    }
}

fn hanging() -> Flaws {
    Flaws { close_hangs: true, ..Flaws::default() }
}

async fn write(cluster: &Scripted, count: usize) {
    let config = ProducerConfig { bootstrap_servers: cluster.addresses(), ..ProducerConfig::jepsen() };
    let producer = Producer::new(config, Variant::Java38.model());
    for n in 0..count {
        producer.send(ProducerRecord::new(t(0), n.to_string())).await.unwrap().await.unwrap();
    }
}

/// A member that has both partitions and has read a record.
async fn member(cluster: &Scripted, config: ConsumerConfig, flaws: Flaws) -> Member {
    write(cluster, 1).await;
    let mut member = Member::new(config, flaws, &["t"]).unwrap();
    while member.poll(100).await.unwrap().is_empty() {}
    member
}

const LIMIT: Duration = Duration::from_secs(2);

/// How long a close may take in a test before it counts as hanging.
const VERY_LONG: Duration = Duration::from_secs(600);

#[test]
fn a_member_leaves_and_is_closed() {
    play(|cluster| async move {
        let member = member(&cluster, config(&cluster), Flaws::default()).await;
        member.close(LIMIT).await;
        assert_eq!(cluster.asked(ApiKey::LeaveGroup).len(), 1);
    });
}

#[test]
fn a_member_closes_in_time_though_nobody_answers() {
    for auto_commit in [false, true] {
        play(move |cluster| async move {
            let config = ConsumerConfig { enable_auto_commit: auto_commit, ..config(&cluster) };
            let member = member(&cluster, config, Flaws::default()).await;
            cluster.always(ApiKey::LeaveGroup, Mute);
            cluster.always(ApiKey::OffsetCommit, Mute);
            let began = Instant::now();
            member.close(LIMIT).await;
            assert!(began.elapsed() <= LIMIT + Duration::from_millis(1), "{:?}", began.elapsed());
        });
    }
}

/// KAFKA-17734: the request has no time limit, and the timeout of `close` is not looked at.
#[test]
fn a_flawed_close_of_a_member_does_not_come_back_over_a_dead_connection() {
    for auto_commit in [false, true] {
        play(move |cluster| async move {
            let config = ConsumerConfig { enable_auto_commit: auto_commit, ..config(&cluster) };
            let member = member(&cluster, config, hanging()).await;
            cluster.always(ApiKey::LeaveGroup, Mute);
            assert!(timeout(VERY_LONG, member.close(LIMIT)).await.is_err());
            assert_eq!(cluster.asked(ApiKey::LeaveGroup).len(), 1);
        });
    }
}

#[test]
fn a_flawed_close_over_a_good_connection_comes_back() {
    play(|cluster| async move {
        let member = member(&cluster, config(&cluster), hanging()).await;
        let began = Instant::now();
        member.close(LIMIT).await;
        assert!(began.elapsed() < LIMIT);
        let mut consumer = Consumer::with_flaws(config(&cluster), hanging());
        consumer.assign(&[t(0)]).unwrap();
        assert_eq!(consumer.poll(1_000).await.unwrap().len(), 1);
        let began = Instant::now();
        consumer.close(LIMIT).await;
        assert!(began.elapsed() < LIMIT);
    });
}

/// The same for a consumer with partitions assigned by hand: a fetch is under way, or its last commit.
#[test]
fn a_consumer_closes_in_time_and_a_flawed_one_does_not() {
    for (api, auto_commit) in [(ApiKey::Fetch, false), (ApiKey::OffsetCommit, true)] {
        for flaws in [Flaws::default(), hanging()] {
            play(move |cluster| async move {
                write(&cluster, 1).await;
                let config = ConsumerConfig { enable_auto_commit: auto_commit, ..config(&cluster) };
                let mut consumer = Consumer::with_flaws(config, flaws);
                consumer.assign(&[t(0)]).unwrap();
                assert_eq!(consumer.poll(5_000).await.unwrap().len(), 1);
                cluster.always(api, Mute);
                assert!(consumer.poll(700).await.unwrap().is_empty());
                let began = Instant::now();
                let closed = timeout(VERY_LONG, consumer.close(LIMIT)).await;
                assert_eq!(closed.is_err(), flaws.close_hangs, "{api:?}");
                assert!(flaws.close_hangs || began.elapsed() <= LIMIT + Duration::from_millis(1));
            });
        }
    }
}

/// jepsen.md A2: a rebalance is told with the poll into which it fell.
#[test]
fn the_rebalance_log_names_the_poll() {
    play(|cluster| async move {
        let mut member = member(&cluster, config(&cluster), Flaws::default()).await;
        let both = || [t(0), t(1)].into();
        let log = member.take_rebalance_log();
        let [LoggedRebalance { poll, what: Rebalanced::Assigned(assigned) }] = &log[..] else {
            panic!("{log:?}")
        };
        assert_eq!(*assigned, both());
        assert!((1..=member.polls()).contains(poll));
        cluster.on(ApiKey::Heartbeat, Code(27));
        let before = member.polls();
        while member.take_rebalance_log().is_empty() {
            member.poll(50).await.unwrap();
        }
        // Eager: revoked in this poll, assigned in this one or a later one.
        let revoked = member.polls();
        assert!(revoked > before);
        rt::time::sleep(Duration::from_millis(100)).await;
        member.poll(50).await.unwrap();
        let log = member.take_rebalance_log();
        assert!(log.iter().all(|entry| entry.poll > before && entry.what == Rebalanced::Assigned(both())));
    });
}

/// A member commits named offsets, and says where it stands.
#[test]
fn a_member_commits_what_it_is_told() {
    play(|cluster| async move {
        let mut member = member(&cluster, config(&cluster), Flaws::default()).await;
        assert_eq!(member.position(&t(0)), Some(1));
        member.commit_offsets([(t(0), 0)].into()).await.unwrap();
        let commit: OffsetCommitRequest = decode_body(&cluster.asked(ApiKey::OffsetCommit)[0]);
        assert_eq!((commit.generation_id_or_member_epoch, &*commit.member_id), (1, "m-1"));
        assert_eq!(cluster.state().committed.get(&t(0)), Some(&0));
    });
}
