//! `sequence`: a producer's batches on one partition that repeat, skip or go back.
//!
//! By offset, a producer's epochs never go down, and within an epoch each batch begins with the sequence after the last
//! one's (0 follows 2^31 - 1). The first batch of an epoch may begin anywhere: a broker accepts that from a producer it
//! does not know (KIP-360). Batches of transactions that were aborted count like the others.

use crate::look::{Batch, Log};
use std::collections::BTreeMap;
use std::fmt;

/// Two batches of one producer, the later of which does not follow the earlier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutOfSequence {
    /// The partition.
    pub partition: i64,
    /// The earlier batch.
    pub before: Batch,
    /// The next batch of that producer.
    pub after: Batch,
}

impl fmt::Display for OutOfSequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "partition {}: {:?} is followed by {:?}", self.partition, self.before, self.after)
    }
}

/// Every batch that does not follow its producer's previous one.
pub fn find(log: &Log) -> Vec<OutOfSequence> {
    let mut found = Vec::new();
    for (partition, batches) in log {
        let mut newest: BTreeMap<i64, &Batch> = BTreeMap::new();
        let mut newest_records: BTreeMap<i64, &Batch> = BTreeMap::new();
        for batch in batches.values().filter(|batch| batch.producer_id >= 0) {
            let earlier =
                newest.insert(batch.producer_id, batch).filter(|earlier| earlier.epoch > batch.epoch);
            let previous = match batch.is_marker() {
                true => None,
                false => newest_records.insert(batch.producer_id, batch),
            };
            let torn = previous.filter(|previous| {
                previous.epoch == batch.epoch && batch.base_sequence != next_sequence(previous)
            });
            if let Some(before) = earlier.or(torn) {
                let (before, after) = (before.clone(), batch.clone());
                found.push(OutOfSequence { partition: *partition, before, after });
            }
        }
    }
    found
}

fn next_sequence(batch: &Batch) -> i32 {
    let count = (batch.last_offset - batch.base_offset + 1) as i32;
    batch.base_sequence.wrapping_add(count) & i32::MAX
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::look::Kind::{Commit, Plain, Transactional};
    use crate::look::tests::{batch, look};
    use crate::look::{Kind, log};

    fn judge(batches: Vec<Batch>) -> Vec<i64> {
        find(&log(&[look(0, 99, batches)])).into_iter().map(|found| found.after.base_offset).collect()
    }

    fn numbered(base_offset: i64, last_offset: i64, base_sequence: i32, kind: Kind) -> Batch {
        Batch { base_sequence, ..batch(base_offset, last_offset, kind) }
    }

    #[test]
    fn sequences_follow_one_another_past_markers_and_past_the_largest() {
        let good = vec![
            numbered(0, 1, i32::MAX - 1, Transactional),
            batch(2, 2, Commit),
            numbered(3, 4, 0, Transactional),
            numbered(5, 5, 2, Transactional),
        ];
        assert_eq!(judge(good), [0; 0]);
    }

    #[test]
    fn a_batch_that_is_there_twice_or_missing_is_found() {
        let first = numbered(0, 1, 0, Plain);
        assert_eq!(judge(vec![first.clone(), numbered(2, 3, 0, Plain)]), [2], "twice");
        assert_eq!(judge(vec![first.clone(), numbered(2, 2, 3, Plain)]), [2], "one is missing");
        assert_eq!(judge(vec![first, numbered(2, 2, 1, Plain)]), [2], "half of it twice");
    }

    #[test]
    fn epochs_do_not_go_down_and_begin_anew() {
        let newer = Batch { epoch: 1, ..numbered(1, 1, 0, Transactional) };
        let late = numbered(2, 2, 1, Transactional);
        let first = numbered(0, 0, 0, Transactional);
        assert_eq!(judge(vec![first.clone(), newer.clone()]), [0; 0]);
        assert_eq!(judge(vec![first, newer, late.clone()]), [2]);
        let fence = Batch { epoch: 1, ..batch(1, 1, Kind::Abort) };
        assert_eq!(judge(vec![fence, late]), [2], "a marker counts too");
    }

    #[test]
    fn others_are_others() {
        let other = Batch { producer_id: 8, ..numbered(1, 1, 0, Plain) };
        let nobody = Batch { producer_id: -1, ..numbered(2, 2, -1, Plain) };
        let again = Batch { base_offset: 3, last_offset: 3, ..nobody.clone() };
        assert_eq!(judge(vec![numbered(0, 0, 0, Plain), other, nobody, again]), [0; 0]);
    }
}
