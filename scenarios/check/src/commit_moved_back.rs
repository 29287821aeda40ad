//! `commit-moved-back`: a committed offset that is less than it was, and nobody who may have done it. `zombie-commit`: a
//! commit that was acknowledged although its member had been cut off before it sent it.
//!
//! Only the partition's owner may move it back: by a commit of its own, also by one whose answer it never got, until a
//! newer generation begins. Of two sights that overlap in time nothing is said.

use crate::group::{Attempt, Facts, Seen};
use std::fmt;

/// A committed offset that moved back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitMovedBack {
    /// The partition.
    pub partition: i64,
    /// What was seen first.
    pub before: i64,
    /// What was seen later; -1 for nothing.
    pub after: i64,
    /// The moment of the later sight.
    pub at: usize,
}

impl fmt::Display for CommitMovedBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CommitMovedBack { partition, before, after, at } = self;
        write!(f, "partition {partition}: {before} was committed, then {after} (event {at} of the group)")
    }
}

/// A commit by somebody who was out of the generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZombieCommit(pub Attempt);

impl fmt::Display for ZombieCommit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Attempt { member, generation, partition, offset, .. } = &self.0;
        write!(
            f,
            "partition {partition}: {member} committed {offset} as of generation {generation}, of which it was no more"
        )
    }
}

/// Every sight of less than was seen before, unless an owner's commit explains it.
pub fn find(facts: &Facts) -> Vec<CommitMovedBack> {
    let mut found = Vec::new();
    for later in &facts.seen {
        let earlier = facts.seen.iter().filter(|earlier| {
            earlier.partition == later.partition
                && earlier.until < later.from
                && earlier.offset > later.offset
        });
        let unexplained = earlier.filter(|earlier| !is_explained(facts, earlier, later));
        if let Some(earlier) = unexplained.max_by_key(|earlier| earlier.offset) {
            found.push(CommitMovedBack {
                partition: later.partition,
                before: earlier.offset,
                after: later.offset,
                at: later.until,
            });
        }
    }
    found
}

fn is_explained(facts: &Facts, earlier: &Seen, later: &Seen) -> bool {
    let by = |attempt: &&Attempt| attempt.partition == later.partition && attempt.offset == later.offset;
    facts.attempts.iter().filter(by).any(|attempt| attempt.may_act(earlier.from, later.until))
}

/// Every commit that must have been refused.
pub fn zombies(facts: &Facts) -> Vec<ZombieCommit> {
    let zombies =
        facts.attempts.iter().filter(|attempt| attempt.done().is_some() && attempt.cut_off < attempt.sent);
    zombies.cloned().map(ZombieCommit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::Outcome;
    use crate::group::tests::{assigned, commits, committed, ended, facts, first_owner, found, synced};

    fn moves(facts: &Facts) -> Vec<(i64, i64)> {
        find(facts).iter().map(|moved| (moved.before, moved.after)).collect()
    }

    #[test]
    fn what_is_committed_grows() {
        assert_eq!(moves(&facts(vec![first_owner(), found(1, 5), committed("a", 2, 1, 9), found(2, 9)])), []);
        assert_eq!(moves(&facts(vec![first_owner(), found(1, 3)])), [(5, 3)]);
        assert_eq!(moves(&facts(vec![first_owner(), found(1, -1)])), [(5, -1)], "it is gone");
    }

    #[test]
    fn an_owner_may_move_it_back() {
        assert_eq!(moves(&facts(vec![first_owner(), committed("a", 2, 1, 3), found(1, 3)])), []);
    }

    #[test]
    fn an_owners_late_commit_may_move_it_back_while_it_owns_the_partition() {
        let late = |between: Vec<_>| {
            // 3 is sent and not answered, 5 is committed, and then somebody sees 3.
            let first = [synced("a", 1, &[0]), vec![assigned("a", 0)]].concat();
            let lost = vec![commits("a", 1, 1, 3), ended("a", 1, Outcome::Unknown)];
            facts(vec![first, lost, committed("a", 2, 1, 5), between, found(1, 3)])
        };
        assert_eq!(moves(&late(vec![])), []);
        // It may have been late before the new generation.
        assert_eq!(moves(&late(synced("b", 2, &[0]))), []);
        // But not once 5 was seen in the new generation.
        assert_eq!(moves(&late([synced("b", 2, &[0]), found(9, 5)].concat())), [(5, 3)]);
    }

    #[test]
    fn a_commit_that_was_answered_is_not_late() {
        let first = [synced("a", 1, &[0]), vec![assigned("a", 0)], committed("a", 1, 1, 3)].concat();
        assert_eq!(moves(&facts(vec![first, committed("a", 2, 1, 5), found(1, 3)])), [(5, 3)]);
    }

    #[test]
    fn of_sights_that_overlap_nothing_is_said() {
        let asked = found(1, 3);
        assert_eq!(moves(&facts(vec![vec![asked[0].clone()], first_owner(), vec![asked[1].clone()]])), []);
    }

    #[test]
    fn who_was_cut_off_commits_nothing() {
        let zombie = vec![first_owner(), synced("b", 2, &[0]), committed("a", 2, 1, 9)];
        assert_eq!(zombies(&facts(zombie)).len(), 1);
        let zombie = vec![first_owner(), synced("a.2", 1, &[0]), committed("a", 2, 1, 9)];
        assert_eq!(zombies(&facts(zombie)).len(), 1, "another incarnation took its place");
        let in_time = [vec![commits("a", 2, 1, 9)], synced("b", 2, &[0]), vec![ended("a", 2, Outcome::Done)]];
        assert_eq!(zombies(&facts(vec![first_owner(), in_time.concat()])), []);
        let refused = vec![commits("a", 2, 1, 9), ended("a", 2, Outcome::Refused)];
        assert_eq!(zombies(&facts(vec![first_owner(), synced("b", 2, &[0]), refused])), []);
    }

    #[test]
    fn a_zombies_commit_explains_nothing() {
        let owner = [synced("b", 2, &[0]), vec![assigned("b", 0)], committed("b", 1, 2, 9)].concat();
        let zombie = vec![first_owner(), owner, committed("a", 2, 1, 7)];
        assert_eq!(moves(&facts(zombie)), [(9, 7)]);
    }
}
