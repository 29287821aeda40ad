//! `two-owners`: a partition that two members were given in one generation.
//!
//! Two incarnations of one static member are one owner: the second goes on as the first, which is cut off.

use crate::group::Event;
use std::collections::BTreeMap;
use std::fmt;

/// A partition with two owners.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TwoOwners {
    /// The partition.
    pub partition: i64,
    /// The generation.
    pub generation: i32,
    /// Who was told first.
    pub first: String,
    /// Who was told next.
    pub second: String,
}

impl fmt::Display for TwoOwners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TwoOwners { partition, generation, first, second } = self;
        write!(f, "partition {partition}: {first} and {second} own it in generation {generation}")
    }
}

/// Every partition that was given to a second owner.
pub fn find(events: &[Event]) -> Vec<TwoOwners> {
    let mut identities: BTreeMap<&str, &str> = BTreeMap::new();
    let mut owners: BTreeMap<(i32, i64), &str> = BTreeMap::new();
    let mut found = Vec::new();
    for event in events {
        match event {
            Event::Joined { member, identity, .. } => drop(identities.insert(member, identity)),
            Event::Synced { member, generation, partitions } => {
                let owner = identities.get(member.as_str()).copied().unwrap_or(member);
                for partition in partitions {
                    let first = *owners.entry((*generation, *partition)).or_insert(owner);
                    if first != owner {
                        let (first, second) = (first.to_string(), owner.to_string());
                        found.push(TwoOwners {
                            partition: *partition,
                            generation: *generation,
                            first,
                            second,
                        });
                    }
                }
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::tests::synced;

    #[test]
    fn a_partition_has_one_owner_in_a_generation() {
        let fine =
            [synced("a", 1, &[0, 1]), synced("b", 1, &[2]), synced("b", 2, &[0]), synced("a", 2, &[1])];
        assert_eq!(find(&fine.concat()), []);
        let found = find(&[synced("a", 1, &[0, 1]), synced("b", 1, &[1, 2])].concat());
        let expected =
            TwoOwners { partition: 1, generation: 1, first: "a".to_string(), second: "b".to_string() };
        assert_eq!(found, [expected]);
    }

    #[test]
    fn who_is_told_twice_and_who_comes_back_is_no_second_owner() {
        assert_eq!(find(&[synced("a", 1, &[0]), synced("a", 1, &[0]), synced("a.2", 1, &[0])].concat()), []);
    }
}
