//! Looks at a partition: what raw Fetch answers showed of it, for the checks that judge the log itself.
//!
//! A look is one answer for one partition, with the moments between which the broker read what it answered. Times are of
//! one clock for all looks. The log is what all looks together showed; where two disagree the first counts, since
//! [`crate::rewritten`] reports that they do.

use std::collections::BTreeMap;

/// One answer for one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    /// When it was asked for, in nanoseconds.
    pub invoked_ns: u64,
    /// When it was answered.
    pub answered_ns: u64,
    /// The partition.
    pub partition: i64,
    /// The offset asked for.
    pub from_offset: i64,
    /// The end of what may be read.
    pub high_watermark: i64,
    /// The end of what is decided.
    pub last_stable_offset: i64,
    /// The first offset that is kept.
    pub log_start_offset: i64,
    /// The batches returned, in order.
    pub batches: Vec<Batch>,
}

/// A batch by its header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Offset of its first record.
    pub base_offset: i64,
    /// Offset of its last record.
    pub last_offset: i64,
    /// Who wrote it; -1 without idempotence.
    pub producer_id: i64,
    /// Under which epoch.
    pub epoch: i16,
    /// The sequence of its first record; -1 in markers and without idempotence.
    pub base_sequence: i32,
    /// What it is.
    pub kind: Kind,
    /// A digest of all its bytes.
    pub digest: u64,
}

/// What a batch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Records outside transactions.
    Plain,
    /// Records of a transaction.
    Transactional,
    /// A marker: the transaction is committed.
    Commit,
    /// A marker: the transaction is aborted.
    Abort,
}

impl Batch {
    /// Whether it is a marker.
    pub fn is_marker(&self) -> bool {
        matches!(self.kind, Kind::Commit | Kind::Abort)
    }
}

/// The log: batches by partition and base offset.
pub type Log = BTreeMap<i64, BTreeMap<i64, Batch>>;

/// The log that all looks together showed.
pub fn log(looks: &[Look]) -> Log {
    let mut log = Log::new();
    for look in looks {
        let partition = log.entry(look.partition).or_default();
        for batch in &look.batches {
            partition.entry(batch.base_offset).or_insert_with(|| batch.clone());
        }
    }
    log
}

/// Offsets of the records that a reader of one partition must see: all, or under `committed` those of committed
/// transactions and those outside transactions.
pub fn visible(partition: &BTreeMap<i64, Batch>, committed: bool) -> Vec<i64> {
    let mut decided: BTreeMap<i64, Kind> = BTreeMap::new();
    let mut kept: Vec<&Batch> = Vec::new();
    for batch in partition.values().rev() {
        if batch.is_marker() {
            decided.insert(batch.producer_id, batch.kind);
            continue;
        }
        let is_committed =
            batch.kind == Kind::Plain || decided.get(&batch.producer_id) == Some(&Kind::Commit);
        if !committed || is_committed {
            kept.push(batch);
        }
    }
    kept.iter().rev().flat_map(|batch| batch.base_offset..=batch.last_offset).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A batch of one producer, id 7, with sequences that equal offsets.
    pub(crate) fn batch(base_offset: i64, last_offset: i64, kind: Kind) -> Batch {
        let base_sequence = if matches!(kind, Kind::Commit | Kind::Abort) { -1 } else { base_offset as i32 };
        Batch { base_offset, last_offset, producer_id: 7, epoch: 0, base_sequence, kind, digest: 1 }
    }

    /// A look at partition 0 from offset 0 that took from `at_ns` to 10 ns later; everything is decided.
    pub(crate) fn look(at_ns: u64, high_watermark: i64, batches: Vec<Batch>) -> Look {
        Look {
            invoked_ns: at_ns,
            answered_ns: at_ns + 10,
            partition: 0,
            from_offset: 0,
            high_watermark,
            last_stable_offset: high_watermark,
            log_start_offset: 0,
            batches,
        }
    }

    #[test]
    fn what_is_visible_is_what_the_next_marker_of_its_producer_decides() {
        let other = Batch { producer_id: 8, ..batch(3, 3, Kind::Transactional) };
        let batches = vec![
            batch(0, 1, Kind::Transactional),
            batch(2, 2, Kind::Commit),
            other,
            batch(4, 4, Kind::Transactional),
            batch(5, 5, Kind::Abort),
            batch(6, 6, Kind::Plain),
            batch(7, 7, Kind::Transactional),
        ];
        let log = log(&[look(0, 8, batches)]);
        assert_eq!(visible(&log[&0], true), [0, 1, 6]);
        assert_eq!(visible(&log[&0], false), [0, 1, 3, 4, 6, 7]);
    }
}
