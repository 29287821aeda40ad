//! The assignors that a group of the consumer protocol may choose between. Pure.
//!
//! * `range`: the partitions of each topic in a row, member after member, those with an instance id first; so topics with as many
//!   partitions each are read together (`RangeAssignor`).
//! * `uniform`: as many partitions for each as can be, moving as few as can be (`UniformAssignor`). Where members read
//!   different topics Kafka's is an elaborate one; this one gives each partition to who has least of those who read its
//!   topic, then moves single partitions from who has more to who has two less, until nobody has.

use super::consumer::Partitions;
use crate::topics::TopicId;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Which assignor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Assignor {
    Range,
    #[default]
    Uniform,
}

impl Assignor {
    /// By the name that clients know it by.
    pub(crate) fn named(name: &str) -> Option<Self> {
        [Assignor::Range, Assignor::Uniform].into_iter().find(|assignor| assignor.name() == name)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Assignor::Range => "range",
            Assignor::Uniform => "uniform",
        }
    }
}

/// A member as an assignor sees it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Subscriber {
    pub(crate) instance_id: Option<String>,
    pub(crate) topics: BTreeSet<TopicId>,
    /// What it was to have so far.
    pub(crate) current: Partitions,
}

/// What each member is to have of `topics`, which are given with the number of their partitions.
pub(crate) fn assign(
    assignor: Assignor,
    subscribers: &BTreeMap<String, Subscriber>,
    topics: &BTreeMap<TopicId, i32>,
) -> BTreeMap<String, Partitions> {
    match assignor {
        Assignor::Range => range(subscribers, topics),
        Assignor::Uniform => uniform(subscribers, topics),
    }
}

fn range(
    subscribers: &BTreeMap<String, Subscriber>,
    topics: &BTreeMap<TopicId, i32>,
) -> BTreeMap<String, Partitions> {
    let mut members: Vec<(&String, &Subscriber)> = subscribers.iter().collect();
    members.sort_by_key(|(id, member)| match &member.instance_id {
        Some(instance_id) => (false, instance_id),
        None => (true, *id),
    });
    let mut targets: BTreeMap<String, Partitions> = BTreeMap::new();
    for (topic, partitions) in topics {
        let readers: Vec<&String> =
            members.iter().filter(|(_, member)| member.topics.contains(topic)).map(|(id, _)| *id).collect();
        let count = i32::try_from(readers.len()).unwrap_or(i32::MAX).max(1);
        let (quota, extra) = (partitions / count, partitions % count);
        let mut next = 0;
        for (reader, nth) in readers.into_iter().zip(0..) {
            let end = next + quota + i32::from(nth < extra);
            if end > next {
                targets.entry(reader.clone()).or_default().insert(*topic, (next..end).collect());
            }
            next = end;
        }
    }
    targets
}

fn uniform(
    subscribers: &BTreeMap<String, Subscriber>,
    topics: &BTreeMap<TopicId, i32>,
) -> BTreeMap<String, Partitions> {
    let mut load = Load { subscribers, held: subscribers.keys().map(|id| (id, BTreeSet::new())).collect() };
    let mut free: BTreeSet<(TopicId, i32)> =
        topics.iter().flat_map(|(topic, partitions)| (0..*partitions).map(|n| (*topic, n))).collect();
    for (id, member) in subscribers {
        for (topic, partitions) in member.current.iter().filter(|(topic, _)| member.topics.contains(*topic)) {
            for partition in partitions {
                if free.remove(&(*topic, *partition)) {
                    load.give(id, (*topic, *partition));
                }
            }
        }
    }
    for partition in free {
        if let Some(least) = load.least(&partition.0) {
            load.give(least, partition);
        }
    }
    load.level();
    load.targets()
}

/// Who has what, while it is made level.
struct Load<'a> {
    subscribers: &'a BTreeMap<String, Subscriber>,
    held: BTreeMap<&'a String, BTreeSet<(TopicId, i32)>>,
}

impl<'a> Load<'a> {
    fn give(&mut self, id: &'a String, partition: (TopicId, i32)) {
        self.held.entry(id).or_default().insert(partition);
    }

    fn of(&self, id: &String) -> usize {
        self.held.get(id).map_or(0, BTreeSet::len)
    }

    /// Who has least of those who read the topic.
    fn least(&self, topic: &TopicId) -> Option<&'a String> {
        let readers = self.subscribers.iter().filter(|(_, member)| member.topics.contains(topic));
        readers.map(|(id, _)| id).min_by_key(|id| self.of(id))
    }

    /// Moves partitions until nobody has two more than another who could have one of them. Each move makes the sum of squares
    /// smaller, so it ends.
    fn level(&mut self) {
        while let Some((from, to, partition)) = self.next_move() {
            self.held.entry(from).or_default().remove(&partition);
            self.give(to, partition);
        }
    }

    fn next_move(&self) -> Option<(&'a String, &'a String, (TopicId, i32))> {
        let mut ids: Vec<&'a String> = self.held.keys().copied().collect();
        ids.sort_by_key(|id| std::cmp::Reverse(self.of(id)));
        for from in ids {
            // The last ones of each topic first, one topic after the other.
            let mut topics = BTreeSet::new();
            for partition in self.held[from].iter().rev().filter(|(topic, _)| topics.insert(*topic)) {
                let to = self.least(&partition.0)?;
                if self.of(from) > self.of(to) + 1 {
                    return Some((from, to, *partition));
                }
            }
        }
        None
    }

    fn targets(self) -> BTreeMap<String, Partitions> {
        let mut targets: BTreeMap<String, Partitions> = BTreeMap::new();
        for (id, partitions) in self.held {
            for (topic, partition) in partitions {
                targets.entry(id.clone()).or_default().entry(topic).or_default().insert(partition);
            }
        }
        targets
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const T: TopicId = [1; 16];
    const U: TopicId = [2; 16];

    fn reads(topics: &[TopicId]) -> Subscriber {
        Subscriber { topics: topics.iter().copied().collect(), ..Subscriber::default() }
    }

    fn members(members: &[(&str, Subscriber)]) -> BTreeMap<String, Subscriber> {
        members.iter().map(|(id, member)| (id.to_string(), member.clone())).collect()
    }

    fn told(targets: &BTreeMap<String, Partitions>, id: &str) -> Vec<(u8, Vec<i32>)> {
        let of_topic = |(topic, partitions): (&TopicId, &BTreeSet<i32>)| {
            (topic[0], partitions.iter().copied().collect())
        };
        targets.get(id).into_iter().flatten().map(of_topic).collect()
    }

    #[test]
    fn range_gives_rows_and_the_first_members_have_one_more() {
        let both = members(&[("a", reads(&[T, U])), ("b", reads(&[T, U])), ("c", reads(&[U]))]);
        let targets = assign(Assignor::Range, &both, &BTreeMap::from([(T, 3), (U, 4)]));
        assert_eq!(told(&targets, "a"), [(1, vec![0, 1]), (2, vec![0, 1])]);
        assert_eq!(told(&targets, "b"), [(1, vec![2]), (2, vec![2])]);
        assert_eq!(told(&targets, "c"), [(2, vec![3])]);
    }

    #[test]
    fn range_takes_static_members_first_by_instance_id() {
        let fixed = |instance_id: &str| Subscriber { instance_id: Some(instance_id.into()), ..reads(&[T]) };
        let three = members(&[("a", reads(&[T])), ("b", fixed("j")), ("c", fixed("i"))]);
        let targets = assign(Assignor::Range, &three, &BTreeMap::from([(T, 2)]));
        assert_eq!((told(&targets, "c"), told(&targets, "b")), (vec![(1, vec![0])], vec![(1, vec![1])]));
        assert!(told(&targets, "a").is_empty());
    }

    #[test]
    fn uniform_moves_as_little_as_it_can() {
        let topics = BTreeMap::from([(T, 4)]);
        let mut one = members(&[("a", reads(&[T]))]);
        let targets = assign(Assignor::Uniform, &one, &topics);
        assert_eq!(told(&targets, "a"), [(1, vec![0, 1, 2, 3])]);
        one.get_mut("a").unwrap().current = targets["a"].clone();
        one.insert("b".into(), reads(&[T]));
        let targets = assign(Assignor::Uniform, &one, &topics);
        assert_eq!(
            (told(&targets, "a"), told(&targets, "b")),
            (vec![(1, vec![0, 1])], vec![(1, vec![2, 3])])
        );
        let mut two = one.clone();
        two.get_mut("a").unwrap().current = targets["a"].clone();
        two.get_mut("b").unwrap().current = targets["b"].clone();
        assert_eq!(assign(Assignor::Uniform, &two, &topics), targets, "nothing moves when nothing changed");
        let more = assign(Assignor::Uniform, &two, &BTreeMap::from([(T, 5)]));
        assert_eq!((told(&more, "a"), told(&more, "b")), (vec![(1, vec![0, 1, 4])], vec![(1, vec![2, 3])]));
    }

    #[test]
    fn uniform_is_fair_to_who_reads_less() {
        let some = members(&[("a", reads(&[T, U])), ("b", reads(&[T]))]);
        let targets = assign(Assignor::Uniform, &some, &BTreeMap::from([(T, 2), (U, 2)]));
        assert_eq!(
            (told(&targets, "a"), told(&targets, "b")),
            (vec![(2, vec![0, 1])], vec![(1, vec![0, 1])])
        );
    }

    proptest! {
        #[test]
        fn every_partition_goes_to_one_who_reads_it_and_loads_are_level(
            members in prop::collection::vec((any::<bool>(), any::<bool>(), 0i32..6), 1..6),
            partitions in (0i32..8, 0i32..8),
            uniform: bool,
        ) {
            let topics = BTreeMap::from([(T, partitions.0), (U, partitions.1)]);
            let mut subscribers = BTreeMap::new();
            for (n, (t, u, had)) in members.into_iter().enumerate() {
                let read: Vec<TopicId> = [(t, T), (u, U)].iter().filter(|(reads, _)| *reads).map(|(_, id)| *id).collect();
                let current = Partitions::from([(T, (0..=had).collect())]);
                subscribers.insert(format!("m{n}"), Subscriber { current, ..reads(&read) });
            }
            let assignor = if uniform { Assignor::Uniform } else { Assignor::Range };
            let targets = assign(assignor, &subscribers, &topics);
            let mut given: BTreeMap<(TopicId, i32), &String> = BTreeMap::new();
            for (id, target) in &targets {
                for (topic, partitions) in target {
                    prop_assert!(subscribers[id].topics.contains(topic) && !partitions.is_empty());
                    for n in partitions {
                        prop_assert!(*n < topics[topic]);
                        prop_assert!(given.insert((*topic, *n), id).is_none(), "given twice");
                    }
                }
            }
            for (topic, partitions) in &topics {
                let read = subscribers.values().any(|member| member.topics.contains(topic));
                let count = given.keys().filter(|(given, _)| given == topic).count();
                prop_assert_eq!(count, if read { *partitions as usize } else { 0 });
            }
            let load = |id: &String| targets.get(id).map_or(0, |target| target.values().map(BTreeSet::len).sum::<usize>());
            for ((topic, _), from) in given.iter().filter(|_| uniform) {
                for (to, _) in subscribers.iter().filter(|(_, member)| member.topics.contains(topic)) {
                    prop_assert!(load(from) <= load(to) + 1, "{from} has {}, {to} {}", load(from), load(to));
                }
            }
        }
    }
}
