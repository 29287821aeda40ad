//! `redelivered`: a member of the current generation was handed a record again: one that it had been handed since it got
//! the partition, or one below an offset that had been committed before it got it.
//!
//! What a member that was cut off hands out is no redelivery: it may have prefetched it. Nor is what lies above a commit
//! that an owner may have moved back (see [`commit_moved_back`](crate::commit_moved_back)).

use crate::group::{Attempt, Facts, Spell};
use std::fmt;

/// A record that was handed out again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redelivered {
    /// Who was handed it.
    pub member: String,
    /// The partition.
    pub partition: i64,
    /// The record's offset.
    pub offset: i64,
    /// What had been committed before the member got the partition; `None` if it is the member itself that had been
    /// handed the record, or one after it.
    pub committed: Option<i64>,
}

impl fmt::Display for Redelivered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Redelivered { member, partition, offset, committed } = self;
        write!(f, "partition {partition}: {member} was handed offset {offset}, ")?;
        match committed {
            Some(committed) => write!(f, "though {committed} had been committed before it got the partition"),
            None => write!(f, "at or below what it had been handed already"),
        }
    }
}

/// The first wrong record of each spell.
pub fn find(facts: &Facts) -> Vec<Redelivered> {
    facts.spells.iter().filter_map(|spell| first(facts, spell)).collect()
}

fn first(facts: &Facts, spell: &Spell) -> Option<Redelivered> {
    let Spell { member, partition, began, .. } = spell;
    let wrong = |offset, committed| {
        let (member, partition) = (member.clone(), *partition);
        Some(Redelivered { member, partition, offset, committed })
    };
    let before: Vec<&Attempt> =
        facts.attempts.iter().filter(|attempt| attempt.partition == *partition).collect();
    let mut last = -1;
    for (at, offset) in &spell.deliveries {
        if *offset <= last {
            return wrong(*offset, None);
        }
        last = *offset;
        let committed = before.iter().find(|commit| {
            commit.offset > *offset
                && commit.done().is_some_and(|done| done < *began)
                && !before.iter().any(|late| late.offset <= *offset && late.may_act(commit.sent, *at))
        });
        if let Some(commit) = committed
            && facts.is_current(member, *at)
        {
            return wrong(*offset, Some(commit.offset));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::tests::{
        assigned, commits, committed, delivered, dropped, ended, facts, first_owner, synced,
    };
    use crate::group::{Event, Outcome};

    fn second_owner(offsets: std::ops::Range<i64>) -> Vec<Event> {
        [vec![dropped("a", 0)], synced("b", 2, &[0]), vec![assigned("b", 0)], delivered("b", offsets)]
            .concat()
    }

    fn redelivered(parts: Vec<Vec<Event>>) -> Vec<(String, i64, Option<i64>)> {
        let found = find(&facts(parts));
        found.into_iter().map(|found| (found.member, found.offset, found.committed)).collect()
    }

    #[test]
    fn the_next_owner_goes_on_at_the_committed_offset() {
        assert_eq!(redelivered(vec![first_owner(), second_owner(5..9)]), []);
        assert_eq!(redelivered(vec![first_owner(), second_owner(4..9)]), [("b".to_string(), 4, Some(5))]);
    }

    #[test]
    fn what_was_handed_out_and_not_committed_is_handed_out_again() {
        assert_eq!(redelivered(vec![first_owner(), delivered("a", 5..7), second_owner(5..9)]), []);
    }

    #[test]
    fn nobody_is_handed_a_record_twice_while_it_has_the_partition() {
        let twice = vec![first_owner(), delivered("a", 4..6)];
        assert_eq!(redelivered(twice), [("a".to_string(), 4, None)]);
        let back = vec![Event::Sought { member: "a".into(), partition: 0 }];
        assert_eq!(
            redelivered(vec![first_owner(), delivered("a", 5..7), back.clone(), delivered("a", 5..7)]),
            []
        );
        let too_far = vec![first_owner(), delivered("a", 5..7), back, delivered("a", 4..7)];
        assert_eq!(redelivered(too_far), [("a".to_string(), 4, Some(5))]);
        let anew = [vec![dropped("a", 0)], synced("a", 2, &[0]), vec![assigned("a", 0)]].concat();
        assert_eq!(redelivered(vec![first_owner(), delivered("a", 5..7), anew, delivered("a", 5..9)]), []);
    }

    #[test]
    fn who_is_cut_off_may_hand_out_what_it_had() {
        // c gets the partition in generation 2, reads on from 5 and commits 9; a third generation cuts it off, and what
        // was committed by then is no business of its prefetched records.
        let c = [synced("c", 2, &[0]), vec![assigned("c", 0)], delivered("c", 5..6)].concat();
        let cut_off = vec![first_owner(), c, synced("d", 3, &[0]), delivered("c", 6..8)];
        assert_eq!(redelivered(cut_off), []);
        let late = [synced("c", 2, &[0]), synced("d", 3, &[0]), vec![assigned("c", 0)], delivered("c", 3..8)];
        assert_eq!(redelivered(vec![first_owner(), late.concat()]), []);
    }

    #[test]
    fn a_late_commit_of_the_owner_explains_it() {
        let first = [synced("a", 1, &[0]), vec![assigned("a", 0)], delivered("a", 0..5)].concat();
        let lost = vec![commits("a", 1, 1, 3), ended("a", 1, Outcome::Unknown)];
        let story = vec![first, lost, committed("a", 2, 1, 5), second_owner(3..9)];
        assert_eq!(redelivered(story.clone()), []);
        let story = [&story[..3], &[second_owner(2..9)]].concat();
        assert_eq!(redelivered(story), [("b".to_string(), 2, Some(5))], "3 was committed late, not 2");
    }
}
