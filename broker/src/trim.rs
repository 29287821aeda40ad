//! The beginning of a log, which only moves forward: by DeleteRecords at once, by retention as records grow old.
//!
//! Log start offset, index and aborted ranges change under the head's guard. [`advance`] moves the offset alone, however
//! far, in one coordinator transaction; [`step`] deletes what lies below it, and on request what retention no longer keeps,
//! up to [`PAGE`] batches in one transaction. A step that is repeated finds nothing left to do, so any agent may take it at any
//! time, and a lost answer needs no care.
//!
//! Rules, after `UnifiedLog` (`maybeIncrementLogStartOffset`, `deleteOldSegments`). DeleteRecords goes up to the high
//! watermark, into open transactions too; the last stable offset is then the log start. Retention takes from the oldest
//! batch on while it is too old, or while what is left is no less than `retention.bytes`; a batch without a timestamp goes
//! with the next that has one. Unlike Kafka, whose unit is a segment that open transactions mostly do not reach into,
//! retention stops at the last stable offset: a record that nobody could read committed yet is not deleted unread.

use crate::agent::Context;
use crate::codec;
use crate::coordinator::{Compare, KeyValue, Op, Range};
use crate::gate::{Fault, Patience, Stored};
use crate::layout;
use crate::read;
use crate::records::{Head, IndexEntry, TopicEntry};
use crate::topic_config::{self, Retention};
use crate::topics;
use kafka_protocol::ResponseError;
use rt::time::wall_ms;

/// Batches deleted in one coordinator transaction.
pub(crate) const PAGE: i64 = 200;

/// Moves the log start to `offset`, or to the high watermark if there is none; returns where it is then.
pub(crate) async fn advance(
    context: &Context,
    topic: &str,
    partition: i32,
    mut offset: Option<i64>,
    patience: &mut Patience,
) -> Result<Result<i64, ResponseError>, Fault> {
    let key = layout::head(topic, partition);
    loop {
        let ranges = vec![Range::key(layout::topic(topic)), Range::key(key.clone())];
        let mut now = context.gate.read(ranges).await?;
        let (entry, stored): (Stored<TopicEntry>, Stored<Head>) = (now.one()?, now.one()?);
        if !topics::holds(&entry, partition) {
            return Ok(Err(ResponseError::UnknownTopicOrPartition));
        }
        let guard = vec![
            Compare::unchanged(key.clone(), stored.revision()),
            Compare::unchanged(layout::topic(topic), entry.revision()),
        ];
        let head = stored.into_value().unwrap_or_default();
        // Decided once: a repeat must not take what was written meanwhile.
        let target = *offset.get_or_insert(head.high_watermark());
        if !(0..=head.high_watermark()).contains(&target) {
            return Ok(Err(ResponseError::OffsetOutOfRange));
        }
        if target <= head.log_start_offset {
            return Ok(Ok(head.log_start_offset));
        }
        let moved = codec::encode(&Head { log_start_offset: target, ..head });
        rt::preempt("trim.before-advance").await;
        match context.gate.commit(guard, vec![Op::put(key.clone(), moved)]).await {
            Ok(Some(_)) => {
                told(topic, partition, target, "delete-records");
                return Ok(Ok(target));
            }
            Ok(None) if !patience.is_over() => {}
            Ok(None) => return Ok(Err(ResponseError::RequestTimedOut)),
            Err(error) if !patience.pause().await => return Err(error.into()),
            Err(_) => {}
        }
    }
}

/// What a step deletes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// What lies below the log start.
    Gone,
    /// That, and what retention no longer keeps.
    Old,
}

/// Takes one step; false when nothing is left to do.
pub(crate) async fn step(
    context: &Context,
    topic: &str,
    partition: i32,
    reach: Reach,
) -> Result<bool, Fault> {
    let head_key = layout::head(topic, partition);
    let (first, end) = (layout::index(topic, partition, 0), layout::index(topic, partition, i64::MAX));
    let ranges = vec![
        Range::key(layout::topic(topic)),
        Range::key(head_key.clone()),
        Range::span(first.clone(), end, PAGE),
    ];
    let mut now = context.gate.read(ranges).await?;
    let (entry, stored): (Stored<TopicEntry>, Stored<Head>) = (now.one()?, now.one()?);
    let (Some(entry), Some(head)) = (entry.value(), stored.value()) else { return Ok(false) };
    let page: Result<Vec<_>, _> = now.next().kvs.iter().map(batch).collect();
    let page = page?;
    let keep = match reach {
        Reach::Gone => Retention::ALL,
        Reach::Old => topic_config::retention(entry, &context.config),
    };
    let cut = cut(head, &page, keep, wall_ms());
    let Some((last_offset, _)) = cut.batches.checked_sub(1).map(|last| &page[last]) else { return Ok(false) };
    let retained = cut.log_start_offset > head.log_start_offset;
    let head = Head {
        log_start_offset: cut.log_start_offset,
        size_bytes: head.size_bytes.saturating_sub(cut.size_bytes),
        ..head.clone()
    };
    let ops = vec![
        Op::put(head_key.clone(), codec::encode(&head)),
        Op::Delete { key: first, range_end: layout::index(topic, partition, last_offset + 1) },
        Op::Delete {
            key: layout::aborted(topic, partition, 0),
            range_end: layout::aborted(topic, partition, last_offset + 1),
        },
    ];
    rt::preempt("trim.before-commit").await;
    let guard = vec![Compare::unchanged(head_key, stored.revision())];
    if context.gate.commit(guard, ops).await?.is_some() && retained {
        told(topic, partition, cut.log_start_offset, "retention");
    }
    Ok(true)
}

fn told(topic: &str, partition: i32, log_start_offset: i64, by: &'static str) {
    rt::event!(
        "log.trimmed",
        partition = &layout::partition_name(topic, partition),
        log_start_offset = log_start_offset,
        by = by,
    );
}

/// A batch and its last offset.
fn batch(kv: &KeyValue) -> Result<(i64, IndexEntry), codec::Unreadable> {
    Ok((read::offset_of(kv), codec::decode(&kv.value)?))
}

/// What is cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cut {
    /// That many of the oldest batches.
    batches: usize,
    /// Their size.
    size_bytes: u64,
    /// The log start then.
    log_start_offset: i64,
}

/// Decides over the oldest batches of a log.
fn cut(head: &Head, oldest: &[(i64, IndexEntry)], keep: Retention, now_ms: i64) -> Cut {
    let mut cut = Cut { batches: 0, size_bytes: 0, log_start_offset: head.log_start_offset };
    let mut size_bytes = 0;
    for (n, (last_offset, entry)) in oldest.iter().enumerate() {
        size_bytes += entry.size_bytes() as u64;
        let left = head.size_bytes as i64 - size_bytes as i64;
        let below = *last_offset < head.log_start_offset;
        let stable = *last_offset < head.last_stable_offset();
        let surplus = keep.retention_bytes >= 0 && left >= keep.retention_bytes;
        let timeless = entry.max_timestamp_ms < 0;
        let old = !timeless
            && keep.retention_ms >= 0
            && now_ms.saturating_sub(entry.max_timestamp_ms) > keep.retention_ms;
        if below || (stable && (surplus || old)) {
            let log_start_offset = cut.log_start_offset.max(last_offset + 1);
            cut = Cut {
                batches: n + 1,
                size_bytes,
                log_start_offset: if below { cut.log_start_offset } else { log_start_offset },
            };
        } else if !(stable && timeless) {
            break;
        }
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::{Body, ChunkId};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const NOW_MS: i64 = 10_000;

    /// A log of batches of two records and 100 bytes each, with these timestamps.
    fn log(log_start_offset: i64, timestamps_ms: &[i64]) -> (Head, Vec<(i64, IndexEntry)>) {
        let batch = |(n, max_timestamp_ms): (i64, &i64)| {
            let chunk = ChunkId { incarnation: 1, number: n as u64 };
            let body = Body::Chunk { chunk, position: 0, length: 100 };
            (2 * n + 1, IndexEntry { base_offset: 2 * n, max_timestamp_ms: *max_timestamp_ms, body })
        };
        let batches: Vec<_> = (0..).zip(timestamps_ms).map(batch).collect();
        let head = Head {
            log_start_offset,
            next_offset: 2 * batches.len() as i64,
            size_bytes: 100 * batches.len() as u64,
            open: BTreeMap::new(),
        };
        (head, batches)
    }

    /// Batches deleted, and the log start then.
    fn deleted(head: &Head, batches: &[(i64, IndexEntry)], ms: i64, bytes: i64) -> (usize, i64) {
        let keep = Retention { retention_ms: ms, retention_bytes: bytes };
        let cut = cut(head, batches, keep, NOW_MS);
        assert_eq!(cut.size_bytes, 100 * cut.batches as u64);
        (cut.batches, cut.log_start_offset)
    }

    #[test]
    fn rule_by_rule() {
        let (head, batches) = log(0, &[1_000, 2_000, 9_000, 3_000]);
        let rows = [
            ("nothing is deleted", -1, -1, (0, 0)),
            ("too old, up to the first that is not", 5_000, -1, (2, 4)),
            ("exactly that old is kept", 9_000, -1, (0, 0)),
            ("all of it", 0, -1, (4, 8)),
            ("no less than 250 bytes are left", -1, 250, (1, 2)),
            ("exactly 200 bytes are left", -1, 200, (2, 4)),
            ("none are left", -1, 0, (4, 8)),
            ("either rule", 8_500, 200, (2, 4)),
        ];
        for (row, ms, bytes, expected) in rows {
            assert_eq!(deleted(&head, &batches, ms, bytes), expected, "{row}");
        }
    }

    #[test]
    fn what_lies_below_the_log_start_goes_whatever_the_settings() {
        let (head, batches) = log(5, &[9_999; 4]);
        assert_eq!(deleted(&head, &batches, -1, -1), (2, 5), "the batch that holds the log start stays");
        assert_eq!(deleted(&head, &batches, -1, 100), (3, 6), "and retention goes on from there");
    }

    #[test]
    fn retention_stops_at_the_last_stable_offset() {
        let (mut head, batches) = log(0, &[1_000; 4]);
        head.open = BTreeMap::from([(7, 4)]);
        assert_eq!(deleted(&head, &batches, 0, 0), (2, 4));
        head.open = BTreeMap::from([(7, 3)]);
        assert_eq!(deleted(&head, &batches, 0, 0), (1, 2), "the batch with offset 3 stays whole");
        head.log_start_offset = 8;
        assert_eq!(deleted(&head, &batches, -1, -1), (4, 8), "DeleteRecords went past it");
    }

    proptest! {
        #[test]
        fn a_second_step_finds_nothing_and_open_transactions_keep_their_records(
            timestamps_ms in proptest::collection::vec(-1i64..12_000, 0..12),
            log_start_offset in 0i64..6,
            first_open in 0i64..24,
            ms in -1i64..12_000,
            bytes in -1i64..1_300,
        ) {
            let (mut head, batches) = log(log_start_offset, &timestamps_ms);
            head.log_start_offset = log_start_offset.min(head.next_offset);
            head.open = BTreeMap::from([(7, first_open.min(head.next_offset))]);
            let keep = Retention { retention_ms: ms, retention_bytes: bytes };
            let first = cut(&head, &batches, keep, NOW_MS);
            prop_assert!(first.log_start_offset >= head.log_start_offset);
            prop_assert!(first.log_start_offset <= head.last_stable_offset());
            prop_assert!(batches[..first.batches].iter().all(|(last, _)| *last < first.log_start_offset));
            let left = Head {
                log_start_offset: first.log_start_offset,
                size_bytes: head.size_bytes - first.size_bytes,
                ..head
            };
            let second = cut(&left, &batches[first.batches..], keep, NOW_MS);
            prop_assert_eq!((second.batches, second.log_start_offset), (0, left.log_start_offset));
        }
    }

    #[test]
    fn a_batch_without_a_timestamp_goes_with_the_next_that_has_one() {
        let (head, batches) = log(0, &[1_000, -1, 2_000, -1]);
        assert_eq!(deleted(&head, &batches, 5_000, -1), (3, 6));
        let (head, batches) = log(0, &[-1, 9_999]);
        assert_eq!(deleted(&head, &batches, 5_000, -1), (0, 0));
    }
}
