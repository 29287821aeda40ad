//! `unprocessed`: in the end an offset is committed above a record that was handed out, and that nobody has done the work on, in a
//! group that commits outside transactions. What was handed to nobody is [`crate::undelivered`]'s business; of a group that
//! commits with transactions [`crate::exactly_once`] says the same.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A record that the group is past, and that nobody has worked on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unprocessed {
    /// The partition.
    pub partition: i64,
    /// The record's offset.
    pub offset: i64,
    /// What is committed in the end.
    pub committed: i64,
}

impl fmt::Display for Unprocessed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Unprocessed { partition, offset, committed } = self;
        write!(
            f,
            "partition {partition}: {committed} is committed, and nobody has done the work on offset {offset}, which was \
             handed out"
        )
    }
}

/// Every such record. `committed`: what is committed in the end, by partition; records are partitions and offsets.
pub fn find(
    committed: &BTreeMap<i64, i64>,
    delivered: &BTreeSet<(i64, i64)>,
    processed: &BTreeSet<(i64, i64)>,
) -> Vec<Unprocessed> {
    let passed = |(partition, offset): &(i64, i64)| {
        let committed = *committed.get(partition).filter(|committed| offset < *committed)?;
        Some(Unprocessed { partition: *partition, offset: *offset, committed })
    };
    delivered.difference(processed).filter_map(passed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_below_the_committed_offset_was_worked_on() {
        let delivered = [(0, 0), (0, 1), (0, 3), (0, 4)].into();
        let unprocessed = |committed, processed: &[(i64, i64)]| -> Vec<i64> {
            let processed = processed.iter().copied().collect();
            let found = find(&BTreeMap::from([(0, committed)]), &delivered, &processed);
            found.into_iter().map(|found| found.offset).collect()
        };
        assert_eq!(unprocessed(4, &[(0, 0), (0, 1), (0, 3)]), [0; 0], "offset 4 is not committed");
        assert_eq!(unprocessed(5, &[(0, 0), (0, 3)]), [1, 4]);
        assert_eq!(unprocessed(2, &[(1, 0), (0, 1)]), [0], "another partition's");
        assert_eq!(unprocessed(0, &[]), [0; 0]);
        assert_eq!(find(&BTreeMap::new(), &delivered, &BTreeSet::new()), [], "nothing is committed");
    }
}
