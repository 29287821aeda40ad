//! 6: a consumer with partitions assigned by hand: positions, resets, commits, auto-commit.

use crate::scripted::Reaction::{Code, Delay, Mute};
use crate::scripted::{Scripted, decode_body, play, t};
use client::{
    Consumer, ConsumerConfig, Error, IsolationLevel, OffsetReset, Producer, ProducerConfig, ProducerRecord,
    TopicPartition, Variant,
};
use kafka_protocol::messages::{
    ApiKey, FetchRequest, ListOffsetsRequest, OffsetCommitRequest, OffsetFetchRequest,
};
use std::collections::BTreeMap;
use std::time::Duration;

fn config(cluster: &Scripted) -> ConsumerConfig {
    ConsumerConfig { bootstrap_servers: cluster.addresses(), ..ConsumerConfig::jepsen() }
}

fn grouped(cluster: &Scripted) -> ConsumerConfig {
    ConsumerConfig { group_id: Some("g".into()), ..config(cluster) }
}

/// Writes `count` records to the first partition.
async fn write(cluster: &Scripted, count: usize) {
    let config = ProducerConfig { bootstrap_servers: cluster.addresses(), ..ProducerConfig::jepsen() };
    let producer = Producer::new(config, Variant::Java38.model());
    for n in 0..count {
        producer.send(ProducerRecord::new(t(0), n.to_string())).await.unwrap().await.unwrap();
    }
}

fn assigned(config: ConsumerConfig) -> Consumer {
    let mut consumer = Consumer::new(config);
    consumer.assign(&[t(0)]).unwrap();
    consumer
}

async fn offsets(consumer: &mut Consumer, timeout_ms: u64) -> Vec<i64> {
    let records = consumer.poll(timeout_ms).await.unwrap();
    records.iter().map(|record| record.offset).collect()
}

fn fetched(cluster: &Scripted) -> Vec<i64> {
    let fetches = cluster.asked(ApiKey::Fetch);
    let offset = |asked| decode_body::<FetchRequest>(asked).topics[0].partitions[0].fetch_offset;
    fetches.iter().map(offset).collect()
}

/// Without a committed offset: `auto.offset.reset`, by ListOffsets with the consumer's isolation. The latest of a
/// read_committed consumer is the last stable offset, of another the high watermark (finding 14: what is below is skipped).
#[test]
fn a_position_starts_as_the_policy_says_and_the_latest_is_the_last_stable_offset() {
    use IsolationLevel::{ReadCommitted, ReadUncommitted};
    use OffsetReset::{Earliest, Latest};
    for (auto_offset_reset, isolation_level, timestamp, position) in
        [(Earliest, ReadCommitted, -2, 1), (Latest, ReadCommitted, -1, 3), (Latest, ReadUncommitted, -1, 5)]
    {
        play(move |cluster| async move {
            write(&cluster, 5).await;
            {
                let mut state = cluster.state();
                let log = state.logs.get_mut(&t(0)).unwrap();
                (log.start, log.stable) = (1, Some(3));
            }
            let mut consumer =
                assigned(ConsumerConfig { auto_offset_reset, isolation_level, ..config(&cluster) });
            assert_eq!(consumer.position(&t(0)), None);
            assert_eq!(consumer.find_position(&t(0), 5_000).await, Ok(position));
            let asked: ListOffsetsRequest = decode_body(&cluster.asked(ApiKey::ListOffsets)[0]);
            assert_eq!(asked.topics[0].partitions[0].timestamp, timestamp);
            assert!(cluster.asked(ApiKey::Fetch).is_empty(), "a position is asked for, not records");
            assert_eq!(cluster.asked(ApiKey::OffsetFetch).len(), 0, "and nobody but a group has offsets");
        });
    }
}

#[test]
fn without_a_policy_there_is_no_start() {
    play(|cluster| async move {
        let none = ConsumerConfig { auto_offset_reset: OffsetReset::None, ..config(&cluster) };
        assert_eq!(Consumer::new(none.clone()).assign(&[t(0)]), Err(Error::NoOffset));
        let mut consumer = assigned(ConsumerConfig { group_id: Some("g".into()), ..none });
        assert_eq!(consumer.poll(5_000).await, Err(Error::NoOffset), "the group has none either");
    });
}

/// OFFSET_OUT_OF_RANGE: the policy again, or an error under `none`.
#[test]
fn an_offset_out_of_range_resets() {
    for (auto_offset_reset, expected) in [
        (OffsetReset::Earliest, Ok(vec![2, 3])),
        (OffsetReset::Latest, Ok(vec![])),
        (OffsetReset::None, Err(Error::NoOffset)),
    ] {
        play(move |cluster| async move {
            write(&cluster, 4).await;
            cluster.state().committed.insert(t(0), 0);
            let mut consumer = assigned(ConsumerConfig { auto_offset_reset, ..grouped(&cluster) });
            assert_eq!(consumer.find_position(&t(0), 5_000).await, Ok(0));
            // The log has lost its first records meanwhile.
            cluster.state().logs.get_mut(&t(0)).unwrap().start = 2;
            let polled = consumer.poll(1_000).await;
            let offsets = polled.map(|records| records.iter().map(|record| record.offset).collect());
            assert_eq!(offsets, expected);
            assert_eq!(fetched(&cluster)[0], 0);
        });
    }
}

/// An assigned consumer with a group starts at what the group has committed; the policy is for what it has not.
#[test]
fn a_grouped_consumer_starts_at_the_committed_offset() {
    play(|cluster| async move {
        write(&cluster, 5).await;
        cluster.state().committed.insert(t(0), 3);
        let mut consumer = Consumer::new(grouped(&cluster));
        consumer.assign(&[t(0), t(1)]).unwrap();
        assert_eq!(offsets(&mut consumer, 5_000).await, [3, 4]);
        assert_eq!(consumer.find_position(&t(1), 5_000).await, Ok(0));
        let asked: OffsetFetchRequest = decode_body(&cluster.asked(ApiKey::OffsetFetch)[0]);
        assert!(asked.require_stable);
        assert_eq!((&*asked.groups[0].group_id.0, asked.groups[0].topics.as_ref().unwrap().len()), ("g", 1));
        let listed: ListOffsetsRequest = decode_body(&cluster.asked(ApiKey::ListOffsets)[0]);
        assert_eq!(listed.topics[0].partitions.len(), 1, "only the second has no committed offset");
    });
}

/// UNSTABLE_OFFSET_COMMIT: a transaction has offsets of the partition; asked again until it has ended. A coordinator that
/// moved is looked up.
#[test]
fn a_committed_offset_is_waited_for() {
    for (code, lookups) in [(88, 1), (14, 1), (16, 2), (15, 2)] {
        play(move |cluster| async move {
            cluster.state().committed.insert(t(0), 3);
            cluster.on(ApiKey::OffsetFetch, Code(code));
            let mut consumer = assigned(grouped(&cluster));
            assert_eq!(consumer.find_position(&t(0), 5_000).await, Ok(3));
            assert_eq!(cluster.asked(ApiKey::OffsetFetch).len(), 2);
            assert_eq!(cluster.asked(ApiKey::FindCoordinator).len(), lookups, "{code}");
        });
    }
}

/// commitSync: as nobody, of the positions; repeated while that is worth it.
#[test]
fn a_consumer_without_a_membership_commits_as_nobody() {
    for (code, lookups) in [(14, 1), (16, 2), (7, 2)] {
        play(move |cluster| async move {
            write(&cluster, 2).await;
            let mut consumer = assigned(grouped(&cluster));
            assert_eq!(offsets(&mut consumer, 5_000).await, [0, 1]);
            cluster.on(ApiKey::OffsetCommit, Code(code));
            consumer.commit().await.unwrap();
            let commits = cluster.asked(ApiKey::OffsetCommit);
            assert_eq!((commits.len(), commits[0].body.clone()), (2, commits[1].body.clone()));
            let commit: OffsetCommitRequest = decode_body(&commits[0]);
            assert_eq!((commit.generation_id_or_member_epoch, &*commit.member_id), (-1, ""));
            assert_eq!(cluster.asked(ApiKey::FindCoordinator).len(), lookups, "{code}");
            let found = consumer.committed(&[t(0), t(1)]).await;
            assert_eq!(found, Ok([(t(0), Some(2)), (t(1), None)].into()));
        });
    }
}

#[test]
fn a_commit_among_members_fails_and_a_silent_coordinator_times_out() {
    play(|cluster| async move {
        let mut consumer = assigned(grouped(&cluster));
        let offsets: BTreeMap<TopicPartition, i64> = [(t(0), 1)].into();
        for code in [22, 25, 27] {
            cluster.on(ApiKey::OffsetCommit, Code(code));
            assert_eq!(consumer.commit_offsets(offsets.clone()).await, Err(Error::CommitFailed));
        }
        cluster.on(ApiKey::OffsetCommit, Code(12));
        assert_eq!(consumer.commit_offsets(offsets.clone()).await, Err(Error::Kafka(12)));
        cluster.always(ApiKey::OffsetCommit, Mute);
        let began = rt::time::Instant::now();
        assert_eq!(consumer.commit_offsets(offsets.clone()).await, Err(Error::Timeout("commit")));
        assert_eq!(began.elapsed(), Duration::from_secs(10), "default.api.timeout.ms");
        let alone = assigned(config(&cluster)).commit_offsets(offsets).await;
        assert!(matches!(alone, Err(Error::IllegalState(_))));
    });
}

/// Auto-commit: at the start of a poll, if the interval is over, the positions that the poll before has left. What the
/// application has not finished by then is committed all the same (finding 13).
#[test]
fn auto_commit_commits_what_the_poll_before_handed_out() {
    play(|cluster| async move {
        write(&cluster, 6).await;
        let config = ConsumerConfig {
            enable_auto_commit: true,
            auto_commit_interval_ms: 1_000,
            max_poll_records: 2,
            ..grouped(&cluster)
        };
        let mut consumer = assigned(config);
        assert_eq!(offsets(&mut consumer, 5_000).await, [0, 1]);
        assert_eq!(offsets(&mut consumer, 5_000).await, [2, 3]);
        assert!(cluster.asked(ApiKey::OffsetCommit).is_empty(), "the interval is not over");
        rt::time::sleep(Duration::from_millis(1_000)).await;
        assert_eq!(offsets(&mut consumer, 5_000).await, [4, 5]);
        assert!(offsets(&mut consumer, 100).await.is_empty());
        assert_eq!(cluster.state().committed.get(&t(0)), Some(&4));
        consumer.close(Duration::from_secs(5)).await;
        assert_eq!(cluster.state().committed.get(&t(0)), Some(&6), "and in close, what is the position then");
    });
}

#[test]
fn who_does_not_commit_by_itself_does_not_do_so_in_close_either() {
    play(|cluster| async move {
        write(&cluster, 1).await;
        let mut consumer = assigned(grouped(&cluster));
        assert_eq!(offsets(&mut consumer, 5_000).await, [0]);
        consumer.close(Duration::from_secs(5)).await;
        assert!(cluster.asked(ApiKey::OffsetCommit).is_empty());
    });
}

/// A fetch answer is dropped if the position is another by then.
#[test]
fn an_answer_for_an_offset_that_was_left_is_dropped() {
    play(|cluster| async move {
        write(&cluster, 3).await;
        let mut consumer = assigned(config(&cluster));
        cluster.on(ApiKey::Fetch, Delay(Duration::from_millis(500)));
        assert!(offsets(&mut consumer, 300).await.is_empty());
        consumer.seek(&t(0), 2).unwrap();
        assert_eq!(offsets(&mut consumer, 5_000).await, [2]);
        assert_eq!(fetched(&cluster)[..2], [0, 2]);
    });
}

/// 1.5: -1 is only logged, a code that names no retry is thrown.
#[test]
fn codes_of_fetch_are_retried_or_thrown() {
    for (code, thrown) in [(-1, false), (6, false), (3, false), (78, false), (2, true), (29, true)] {
        play(move |cluster| async move {
            write(&cluster, 1).await;
            let mut consumer = assigned(config(&cluster));
            cluster.on(ApiKey::Fetch, Code(code));
            match consumer.poll(5_000).await {
                Ok(records) => assert_eq!((records.len(), thrown), (1, false), "{code}"),
                Err(error) => assert_eq!((error, thrown), (Error::Kafka(code), true)),
            }
        });
    }
}

/// After an abort the consumer is told nothing and stands where it stood (KAFKA-17582, finding 8): only a seek moves it.
#[test]
fn the_position_is_the_applications_to_move() {
    play(|cluster| async move {
        write(&cluster, 4).await;
        let mut consumer = assigned(config(&cluster));
        let first = offsets(&mut consumer, 5_000).await;
        assert_eq!((first, consumer.position(&t(0))), (vec![0, 1, 2, 3], Some(4)));
        consumer.seek(&t(0), 1).unwrap();
        assert_eq!(offsets(&mut consumer, 5_000).await, [1, 2, 3]);
        assert!(matches!(consumer.seek(&t(1), 0), Err(Error::IllegalState(_))));
    });
}
