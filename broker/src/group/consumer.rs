//! A group of the consumer protocol (KIP-848), after `ConsumerGroup` of Kafka 4: its values, and what can be asked of them.
//!
//! Three things follow each other: the group's *epoch* moves on when members or topics change; the *target assignment* is
//! made anew for it; and each member is *reconciled* with its target by itself, giving partitions up before others get
//! them. A partition belongs to one member at a time, until that member has said that it no longer does.

use super::assignor::{self, Assignor, Subscriber};
use crate::topics::TopicId;
use kafka_protocol::ResponseError;
use regex::Regex;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Epoch of a static member that is away for a while.
pub(crate) const AWAY: i32 = -2;
/// Longest pattern taken: a parsed one is about a hundred times as large.
const PATTERN_MAX_BYTES: usize = 1024;

/// Partitions by topic. No topic is without any.
pub(crate) type Partitions = BTreeMap<TopicId, BTreeSet<i32>>;

/// A topic as far as a group cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Topic {
    pub(crate) id: TopicId,
    pub(crate) partitions: i32,
}

/// A group of the consumer protocol. One that was never written is `ConsumerGroup::default()`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ConsumerGroup {
    /// Moved on when members, their subscriptions, or their topics change.
    pub(crate) epoch: i32,
    /// The epoch that the target assignment was made for.
    pub(crate) assignment_epoch: i32,
    pub(crate) members: BTreeMap<String, ConsumerMember>,
    /// The topics that members read, as they were when the epoch last moved on.
    pub(crate) topics: BTreeMap<String, Topic>,
}

/// A member of a group of the consumer protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ConsumerMember {
    /// `group.instance.id` of a static member.
    pub(crate) instance_id: Option<String>,
    pub(crate) rack_id: Option<String>,
    pub(crate) client_id: String,
    pub(crate) client_host: String,
    /// How long it may take to give partitions up, in ms.
    pub(crate) rebalance_timeout_ms: i32,
    /// The topics it reads, by name.
    pub(crate) names: BTreeSet<String>,
    /// A pattern that the names of further topics match as a whole; empty for none.
    pub(crate) pattern: String,
    pub(crate) assignor: Option<Assignor>,
    /// The epoch it knows; [`AWAY`] while it is.
    pub(crate) epoch: i32,
    /// The one before, which it comes with when an answer was lost.
    pub(crate) previous_epoch: i32,
    pub(crate) progress: Progress,
    /// What it may read, and commit for.
    pub(crate) assigned: Partitions,
    /// What it is to give up, and has not yet said that it did.
    pub(crate) revoking: Partitions,
    /// The epoch in which each partition of `assigned` and `revoking` came to it (KIP-1251).
    pub(crate) since: BTreeMap<TopicId, BTreeMap<i32, i32>>,
    /// What it is to have in the end.
    pub(crate) target: Partitions,
}

/// How far a member is on the way to its target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Progress {
    /// It has all that its target was when it got its epoch.
    #[default]
    Stable,
    /// It has to give partitions up.
    UnrevokedPartitions,
    /// Others have to.
    UnreleasedPartitions,
}

/// Topics as read, and what was asked for: all, or these names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Catalogue {
    pub(crate) asked: Option<BTreeSet<String>>,
    pub(crate) found: BTreeMap<String, Topic>,
}

impl ConsumerMember {
    /// Whether it has all of the target made for `epoch`.
    fn has_reached(&self, epoch: i32) -> bool {
        self.progress == Progress::Stable && self.epoch == epoch
    }

    /// Whether a partition was its own already in `epoch`, and has been ever since: nobody else can have read on there.
    pub(super) fn has_had(&self, topic: &TopicId, partition: i32, epoch: i32) -> bool {
        self.since
            .get(topic)
            .and_then(|partitions| partitions.get(&partition))
            .is_some_and(|since| *since <= epoch)
    }

    /// Gives it partitions in `epoch`.
    fn take(&mut self, partitions: Partitions, epoch: i32) {
        for (topic, partitions) in partitions {
            let since = self.since.entry(topic).or_default();
            since.extend(partitions.iter().map(|partition| (*partition, epoch)));
            self.assigned.entry(topic).or_default().extend(partitions);
        }
    }

    /// Forgets since when it has had what it no longer has.
    pub(super) fn forget(&mut self) {
        let (assigned, revoking) = (&self.assigned, &self.revoking);
        let holds = |held: &Partitions, topic: &TopicId, partition: &i32| {
            held.get(topic).is_some_and(|held| held.contains(partition))
        };
        self.since.retain(|topic, since| {
            since.retain(|partition, _| {
                holds(assigned, topic, partition) || holds(revoking, topic, partition)
            });
            !since.is_empty()
        });
    }

    /// The topics it reads, among those that there are.
    fn reads(&self, found: &BTreeMap<String, Topic>) -> BTreeSet<String> {
        let pattern = pattern(&self.pattern).ok().flatten();
        let matches = |name: &String| pattern.as_ref().is_some_and(|pattern| pattern.is_match(name));
        found.keys().filter(|name| self.names.contains(*name) || matches(name)).cloned().collect()
    }
}

/// What a topic's name must match as a whole; nothing for an empty pattern.
pub(super) fn pattern(pattern: &str) -> Result<Option<Regex>, ResponseError> {
    if pattern.is_empty() {
        return Ok(None);
    }
    if pattern.len() > PATTERN_MAX_BYTES {
        return Err(ResponseError::InvalidRegularExpression);
    }
    // By itself first: what is put around it must not make it whole.
    let whole = Regex::new(pattern).and_then(|_| Regex::new(&format!(r"\A(?:{pattern})\z")));
    whole.map(Some).map_err(|_| ResponseError::InvalidRegularExpression)
}

impl ConsumerGroup {
    /// The state by the name that Kafka gives it.
    pub(crate) fn state_name(&self) -> &'static str {
        match () {
            () if self.members.is_empty() => "Empty",
            () if self.epoch > self.assignment_epoch => "Assigning",
            () if self.members.values().all(|member| member.has_reached(self.assignment_epoch)) => "Stable",
            () => "Reconciling",
        }
    }

    /// Member id of the static member `instance_id`.
    pub(crate) fn static_member(&self, instance_id: &str) -> Option<&str> {
        let mut members = self.members.iter();
        let found = members.find(|(_, member)| member.instance_id.as_deref() == Some(instance_id));
        found.map(|(id, _)| id.as_str())
    }

    /// The assignor that most members prefer; the first by name where as many prefer others.
    pub(crate) fn assignor(&self) -> Assignor {
        let mut votes: BTreeMap<Assignor, usize> = BTreeMap::new();
        for assignor in self.members.values().filter_map(|member| member.assignor) {
            *votes.entry(assignor).or_default() += 1;
        }
        let most = votes.values().copied().max();
        votes
            .into_iter()
            .find(|(_, n)| Some(*n) == most)
            .map_or_else(Assignor::default, |(assignor, _)| assignor)
    }

    /// Names that have to be looked up to know what the group reads; `None` if all have.
    pub(crate) fn names(&self) -> Option<BTreeSet<String>> {
        let plain = self.members.values().all(|member| member.pattern.is_empty());
        plain.then(|| self.members.values().flat_map(|member| member.names.iter().cloned()).collect())
    }

    /// Whether the group reads the topic.
    pub(crate) fn is_subscribed(&self, topic: &str) -> bool {
        self.topics.contains_key(topic)
    }

    /// Moves the epoch on if what the group reads is not what it was, or `changed` says so, and makes the target of it.
    pub(super) fn advance(&mut self, changed: bool, catalogue: &Catalogue) {
        let reads: BTreeMap<String, BTreeSet<String>> =
            self.members.iter().map(|(id, member)| (id.clone(), member.reads(&catalogue.found))).collect();
        let read: BTreeSet<&String> = reads.values().flatten().collect();
        let topics = catalogue.found.iter().filter(|(name, _)| read.contains(name));
        let topics: BTreeMap<String, Topic> = topics.map(|(name, topic)| (name.clone(), *topic)).collect();
        if changed || topics != self.topics {
            self.epoch += 1;
            self.topics = topics;
        }
        if self.epoch > self.assignment_epoch {
            self.assign(&reads);
            self.assignment_epoch = self.epoch;
        }
    }

    fn assign(&mut self, reads: &BTreeMap<String, BTreeSet<String>>) {
        let subscriber = |(id, member): (&String, &ConsumerMember)| {
            let names = reads.get(id).into_iter().flatten();
            let topics = names.filter_map(|name| Some(self.topics.get(name)?.id)).collect();
            let instance_id = member.instance_id.clone();
            (id.clone(), Subscriber { instance_id, topics, current: member.target.clone() })
        };
        let subscribers: BTreeMap<String, Subscriber> = self.members.iter().map(subscriber).collect();
        let topics = self.topics.values().map(|topic| (topic.id, topic.partitions)).collect();
        let mut targets = assignor::assign(self.assignor(), &subscribers, &topics);
        for (id, member) in &mut self.members {
            member.target = targets.remove(id).unwrap_or_default();
        }
    }

    /// Takes somebody out; what it had is free at once. The target is made anew when the next member is heard.
    pub(super) fn fence(&mut self, member_id: &str) {
        if self.members.remove(member_id).is_some() {
            self.epoch += 1;
        }
    }

    /// Leads a member on towards its target, after `CurrentAssignmentBuilder` of Kafka 4. `owned` is what it says that it
    /// has, if it says so.
    pub(super) fn reconcile(&mut self, member_id: &str, owned: Option<&Partitions>) {
        let Some(member) = self.members.get(member_id) else { return };
        let settled = match member.progress {
            Progress::Stable => member.epoch == self.assignment_epoch,
            Progress::UnrevokedPartitions => owns_any(owned, &member.revoking),
            Progress::UnreleasedPartitions => false,
        };
        if settled {
            return;
        }
        let kept = common(&member.assigned, &member.target);
        let revoking = without(&member.assigned, &member.target);
        let wanted = without(&member.target, &member.assigned);
        let free = without(&wanted, &self.held_by_others(member_id));
        let unreleased = free != wanted;
        let epoch = self.assignment_epoch;
        let Some(member) = self.members.get_mut(member_id) else { return };
        member.assigned = kept;
        if !revoking.is_empty() && owns_any(owned, &revoking) {
            (member.progress, member.revoking) = (Progress::UnrevokedPartitions, revoking);
            member.previous_epoch = member.epoch;
            member.forget();
            return;
        }
        let progress = if unreleased { Progress::UnreleasedPartitions } else { Progress::Stable };
        (member.progress, member.revoking) = (progress, Partitions::new());
        (member.previous_epoch, member.epoch) = (member.epoch, epoch);
        member.forget();
        member.take(free, epoch);
    }

    /// Everything that the others have or have not given up yet.
    fn held_by_others(&self, member_id: &str) -> Partitions {
        let mut held = Partitions::new();
        for (_, member) in self.members.iter().filter(|(id, _)| *id != member_id) {
            for (topic, partitions) in member.assigned.iter().chain(&member.revoking) {
                held.entry(*topic).or_default().extend(partitions);
            }
        }
        held
    }
}

/// Whether a member has any of `partitions`; who does not say may have all.
fn owns_any(owned: Option<&Partitions>, partitions: &Partitions) -> bool {
    owned.is_none_or(|owned| !common(owned, partitions).is_empty())
}

/// What is in both.
fn common(a: &Partitions, b: &Partitions) -> Partitions {
    select(a, |topic, partition| b.get(topic).is_some_and(|there| there.contains(partition)))
}

/// What is in `a` and not in `b`.
fn without(a: &Partitions, b: &Partitions) -> Partitions {
    select(a, |topic, partition| !b.get(topic).is_some_and(|there| there.contains(partition)))
}

fn select(from: &Partitions, wanted: impl Fn(&TopicId, &i32) -> bool) -> Partitions {
    let of_topic = |(topic, partitions): (&TopicId, &BTreeSet<i32>)| {
        let chosen: BTreeSet<i32> = partitions.iter().filter(|n| wanted(topic, n)).copied().collect();
        (!chosen.is_empty()).then_some((*topic, chosen))
    };
    from.iter().filter_map(of_topic).collect()
}

/// Whether all of `a` is in `b`.
pub(super) fn is_within(a: &Partitions, b: &Partitions) -> bool {
    without(a, b).is_empty()
}

#[cfg(test)]
#[path = "consumer_tests.rs"]
mod tests;
