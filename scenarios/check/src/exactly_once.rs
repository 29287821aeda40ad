//! `unprocessed` and `uncommitted-result`: results and input offsets that are committed together, one without the other.
//!
//! It holds where members write what they made of a record in the transaction that commits the offset after it (KIP-447),
//! one result a record, and results are read committed. When all is over, a record that members see has a result if and
//! only if it lies below the committed offset. Two results of one record are
//! [`processed_twice`](crate::processed_twice)'s.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// One of the two without the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Apart {
    /// The offset is committed, and the record has no result.
    Unprocessed {
        /// The input partition.
        partition: i64,
        /// The record's offset.
        offset: i64,
        /// What is committed.
        committed: i64,
    },
    /// The record has a result, and the offset is not committed.
    UncommittedResult {
        /// The input partition.
        partition: i64,
        /// The record's offset.
        offset: i64,
        /// What is committed; 0 if nothing is.
        committed: i64,
    },
}

impl Apart {
    /// The anomaly's name.
    pub fn name(&self) -> &'static str {
        match self {
            Apart::Unprocessed { .. } => "unprocessed",
            Apart::UncommittedResult { .. } => "uncommitted-result",
        }
    }
}

impl fmt::Display for Apart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Apart::Unprocessed { partition, offset, committed } => {
                write!(
                    f,
                    "partition {partition}: {committed} is committed, and offset {offset} has no result"
                )
            }
            Apart::UncommittedResult { partition, offset, committed } => {
                write!(f, "partition {partition}: offset {offset} has a result, and {committed} is committed")
            }
        }
    }
}

/// Every record that has one of the two. `visible`: offsets that members see, by input partition. `committed`: the
/// group's offsets when all is over. `results`: input partition and offset of the record that each result is of.
pub fn find(
    visible: &BTreeMap<i64, Vec<i64>>,
    committed: &BTreeMap<i64, i64>,
    results: &[(i64, i64)],
) -> Vec<Apart> {
    let have: BTreeSet<(i64, i64)> = results.iter().copied().collect();
    let below = |partition| committed.get(&partition).copied().unwrap_or(0);
    let mut found = Vec::new();
    for (partition, offsets) in visible {
        let (partition, committed) = (*partition, below(*partition));
        let processed = offsets.iter().filter(|offset| **offset < committed);
        let without = processed.filter(|offset| !have.contains(&(partition, **offset)));
        found.extend(without.map(|offset| Apart::Unprocessed { partition, offset: *offset, committed }));
    }
    for (partition, offset) in have {
        let committed = below(partition);
        if offset >= committed {
            found.push(Apart::UncommittedResult { partition, offset, committed });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Members see 0, 1, 3 and 4 of partition 0; 4 is committed.
    fn judge(results: &[i64]) -> Vec<Apart> {
        let results: Vec<(i64, i64)> = results.iter().map(|offset| (0, *offset)).collect();
        find(&[(0, vec![0, 1, 3, 4])].into(), &[(0, 4)].into(), &results)
    }

    #[test]
    fn results_and_offsets_are_committed_together() {
        assert_eq!(judge(&[0, 1, 3]), []);
        assert_eq!(judge(&[0, 3]), [Apart::Unprocessed { partition: 0, offset: 1, committed: 4 }]);
        assert_eq!(
            judge(&[0, 1, 3, 4]),
            [Apart::UncommittedResult { partition: 0, offset: 4, committed: 4 }]
        );
    }

    #[test]
    fn nobody_makes_anything_of_what_nobody_sees() {
        // Offset 2 belongs to an aborted transaction, or is a marker.
        assert_eq!(find(&[(0, vec![0, 1, 3])].into(), &[(0, 4)].into(), &[(0, 0), (0, 1), (0, 3)]), []);
    }

    #[test]
    fn without_a_committed_offset_there_is_no_result() {
        assert_eq!(find(&[(0, vec![0])].into(), &BTreeMap::new(), &[]), []);
        let found = find(&[(0, vec![0])].into(), &BTreeMap::new(), &[(0, 0)]);
        assert_eq!(found, [Apart::UncommittedResult { partition: 0, offset: 0, committed: 0 }]);
        assert_eq!(found[0].name(), "uncommitted-result");
    }
}
