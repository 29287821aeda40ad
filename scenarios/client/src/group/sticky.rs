//! Java's `CooperativeStickyAssignor`, without racks: everybody keeps what it owns as far as the balance allows, what is
//! left goes round, and a partition that moves is given to nobody yet: its owner must give it up first, and joins again
//! when it has (KIP-429).
//!
//! Where Java walks over a hash map of members, this goes in the order of member ids.
//!
//! Limit: of topics with different sets of subscribers each set is dealt with by itself. Java balances over all
//! (`GeneralAssignmentBuilder`).

use super::assignor::{Assignment, Joined};
use crate::types::TopicPartition;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

pub(super) fn assign(members: &[Joined], partitions: &BTreeMap<String, i32>) -> Assignment {
    let mut assignment: Assignment =
        members.iter().map(|member| (member.member_id.clone(), BTreeSet::new())).collect();
    let mut sets: BTreeMap<BTreeSet<&str>, Vec<TopicPartition>> = BTreeMap::new();
    for (topic, count) in partitions {
        let subscribed = members.iter().filter(|member| member.subscription.topics.contains(topic));
        let subscribed = subscribed.map(|member| member.member_id.as_str()).collect();
        let each = (0..*count).map(|partition| TopicPartition::new(topic.clone(), partition));
        sets.entry(subscribed).or_default().extend(each);
    }
    for (subscribed, partitions) in sets.into_iter().filter(|(subscribed, _)| !subscribed.is_empty()) {
        let members = members.iter().filter(|member| subscribed.contains(member.member_id.as_str()));
        for (member, given) in Builder::new(members, &partitions).build(&partitions) {
            assignment.entry(member).or_default().extend(given);
        }
    }
    assignment
}

/// Java's `ConstrainedAssignmentBuilder`: all members subscribe to the same topics.
struct Builder {
    /// What each member owns and nobody else claims with as good a right.
    owned: BTreeMap<String, Vec<TopicPartition>>,
    /// Claimed by two members of one generation: nobody's, and not to be given out before both have given it up.
    disputed: BTreeSet<TopicPartition>,
    min_quota: usize,
    max_quota: usize,
    /// How many members get more than `min_quota`, and how many do so far.
    over_min_expected: usize,
    over_min: usize,
    under_min: VecDeque<String>,
    at_min: VecDeque<String>,
    given: BTreeMap<String, Vec<TopicPartition>>,
    /// Who must give up what, if another member gets it.
    revoked: BTreeMap<TopicPartition, String>,
    moving: BTreeSet<TopicPartition>,
}

impl Builder {
    fn new<'a>(members: impl Iterator<Item = &'a Joined>, partitions: &[TopicPartition]) -> Self {
        let exists: BTreeSet<&TopicPartition> = partitions.iter().collect();
        let mut owned: BTreeMap<String, Vec<TopicPartition>> = BTreeMap::new();
        let mut owner: BTreeMap<TopicPartition, (String, i32)> = BTreeMap::new();
        let mut disputed = BTreeSet::new();
        let mut members: Vec<&Joined> = members.collect();
        members.sort_by_key(|member| &member.member_id);
        for Joined { member_id, subscription, .. } in members {
            owned.entry(member_id.clone()).or_default();
            for partition in subscription.owned.iter().filter(|partition| exists.contains(partition)) {
                let claim = (member_id.clone(), subscription.generation);
                let Some(other) = owner.get_mut(partition) else {
                    owner.insert(partition.clone(), claim);
                    continue;
                };
                // The newer generation is right; of two in the same generation nobody is.
                if other.1 == claim.1 {
                    disputed.insert(partition.clone());
                }
                if other.1 <= claim.1 {
                    *other = claim;
                }
            }
        }
        for (partition, (member, _)) in owner {
            if !disputed.contains(&partition) {
                owned.entry(member).or_default().push(partition);
            }
        }
        for owned in owned.values_mut() {
            owned.sort_by(|a, b| (a.partition, &a.topic).cmp(&(b.partition, &b.topic)));
        }
        let count = owned.len();
        Builder {
            given: owned.keys().map(|member| (member.clone(), Vec::new())).collect(),
            owned,
            disputed,
            min_quota: partitions.len() / count,
            max_quota: partitions.len().div_ceil(count),
            over_min_expected: partitions.len() % count,
            over_min: 0,
            under_min: VecDeque::new(),
            at_min: VecDeque::new(),
            revoked: BTreeMap::new(),
            moving: BTreeSet::new(),
        }
    }

    /// What each member gets now: without what moves.
    fn build(mut self, partitions: &[TopicPartition]) -> BTreeMap<String, Vec<TopicPartition>> {
        self.keep_owned();
        let kept: BTreeSet<TopicPartition> = self.given.values().flatten().cloned().collect();
        let mut rest: Vec<&TopicPartition> =
            partitions.iter().filter(|partition| !kept.contains(partition)).collect();
        rest.sort();
        self.deal_out(&rest);
        let moving = self.moving;
        self.given.values_mut().for_each(|given| given.retain(|partition| !moving.contains(partition)));
        self.given
    }

    /// Java's `assignOwnedPartitions`.
    fn keep_owned(&mut self) {
        for (member, owned) in &self.owned {
            let keeps = if owned.len() < self.min_quota {
                self.under_min.push_back(member.clone());
                owned.len()
            } else if owned.len() >= self.max_quota && self.over_min < self.over_min_expected {
                self.over_min += 1;
                if self.over_min == self.over_min_expected {
                    self.at_min.clear();
                }
                self.max_quota
            } else {
                if self.over_min < self.over_min_expected {
                    self.at_min.push_back(member.clone());
                }
                self.min_quota
            };
            let (kept, revoked) = owned.split_at(keeps);
            self.given.entry(member.clone()).or_default().extend(kept.iter().cloned());
            self.revoked.extend(revoked.iter().map(|partition| (partition.clone(), member.clone())));
        }
        self.at_min.make_contiguous().sort();
    }

    /// Java's `assignRoundRobin`: round the members below the smaller quota until none is left, then one more each.
    fn deal_out(&mut self, rest: &[&TopicPartition]) {
        let mut turn = 0;
        for partition in rest {
            let (member, under_min) = if self.under_min.is_empty() {
                (self.at_min.pop_front(), false)
            } else {
                turn = if turn < self.under_min.len() { turn } else { 0 };
                (self.under_min.get(turn).cloned(), true)
            };
            let Some(member) = member else { return };
            if self.disputed.contains(*partition)
                || self.revoked.get(*partition).is_some_and(|owner| *owner != member)
            {
                self.moving.insert((*partition).clone());
            }
            let given = self.given.entry(member.clone()).or_default();
            given.push((*partition).clone());
            if under_min && given.len() == self.min_quota {
                self.under_min.remove(turn);
                self.at_min.push_back(member);
            } else {
                turn += 1;
            }
        }
    }
}

#[cfg(test)]
#[path = "sticky_tests.rs"]
mod tests;
