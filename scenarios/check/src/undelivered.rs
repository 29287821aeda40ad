//! `undelivered`: an offset was committed, and a record below it had been handed to nobody.
//!
//! It holds at every commit that is acknowledged, and of whatever is seen committed; so it also holds at the end.

use crate::group::Facts;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A record that nobody was handed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undelivered {
    /// The partition.
    pub partition: i64,
    /// The record's offset.
    pub offset: i64,
    /// What was committed.
    pub committed: i64,
    /// When.
    pub at: usize,
}

impl fmt::Display for Undelivered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Undelivered { partition, offset, committed, at } = self;
        write!(
            f,
            "partition {partition}: {committed} was committed (event {at} of the group), and nobody had been handed \
             offset {offset}"
        )
    }
}

/// The first such record of each partition. `visible`: offsets that consumers of the group's isolation level see, by
/// partition, in order.
pub fn find(facts: &Facts, visible: &BTreeMap<i64, Vec<i64>>) -> Vec<Undelivered> {
    let mut found = BTreeMap::new();
    for (partition, offsets) in visible {
        let mut deliveries: Vec<(usize, i64)> = Vec::new();
        let spells = facts.spells.iter().filter(|spell| spell.partition == *partition);
        spells.for_each(|spell| deliveries.extend(&spell.deliveries));
        deliveries.sort_unstable();
        let mut deliveries = deliveries.into_iter().peekable();
        let mut delivered = BTreeSet::new();
        let mut sights: Vec<_> = facts.seen.iter().filter(|seen| seen.partition == *partition).collect();
        sights.sort_by_key(|seen| seen.until);
        for seen in sights {
            while let Some((_, offset)) = deliveries.next_if(|(at, _)| *at < seen.until) {
                delivered.insert(offset);
            }
            let below = offsets.iter().take_while(|offset| **offset < seen.offset);
            if let Some(offset) = below.copied().find(|offset| !delivered.contains(offset)) {
                let (partition, committed, at) = (*partition, seen.offset, seen.until);
                found.entry(partition).or_insert(Undelivered { partition, offset, committed, at });
            }
        }
    }
    found.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::tests::{assigned, committed, facts, first_owner, found, synced};

    fn undelivered(facts: &Facts, visible: &[i64]) -> Vec<(i64, i64)> {
        let found = find(facts, &[(0, visible.to_vec())].into());
        found.into_iter().map(|found| (found.offset, found.committed)).collect()
    }

    #[test]
    fn everything_below_a_commit_was_handed_to_somebody() {
        assert_eq!(undelivered(&facts(vec![first_owner()]), &[0, 1, 2, 3, 4, 5]), []);
        let over = vec![first_owner(), committed("a", 2, 1, 6)];
        assert_eq!(undelivered(&facts(over), &[0, 1, 2, 3, 4, 5]), [(5, 6)]);
        let over_a_marker = vec![first_owner(), committed("a", 2, 1, 6)];
        assert_eq!(undelivered(&facts(over_a_marker), &[0, 1, 2, 3, 4, 6]), [], "nobody sees offset 5");
    }

    #[test]
    fn it_does_not_matter_to_whom_but_when() {
        let b = [synced("b", 2, &[0]), vec![assigned("b", 0)], committed("b", 1, 2, 5)].concat();
        assert_eq!(undelivered(&facts(vec![first_owner(), b.clone()]), &[0, 1, 2, 3, 4]), []);
        let late = vec![b, first_owner()];
        assert_eq!(undelivered(&facts(late), &[0, 1, 2, 3, 4]), [(0, 5)]);
    }

    #[test]
    fn what_is_seen_committed_counts_too() {
        assert_eq!(undelivered(&facts(vec![first_owner(), found(1, 7)]), &[0, 1, 2, 3, 4, 5]), [(5, 7)]);
    }
}
