//! Assignors: pure functions from what members subscribe to and own to what each of them gets.

use super::subscription::Subscription;
use super::{range, sticky};
use crate::types::TopicPartition;
use bytes::{BufMut, Bytes, BytesMut};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A strategy of `partition.assignment.strategy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Assignor {
    /// Java's `RangeAssignor`: of each topic a range of partitions. Only for the eager protocol.
    Range,
    /// Java's `CooperativeStickyAssignor`: balanced, and everybody keeps what it can. For both protocols.
    CooperativeSticky,
}

/// A member as the leader sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Joined {
    pub(crate) member_id: String,
    pub(crate) group_instance_id: Option<String>,
    pub(crate) subscription: Subscription,
}

/// The partitions of each member, by member id.
pub(crate) type Assignment = BTreeMap<String, BTreeSet<TopicPartition>>;

impl Assignor {
    /// Its name among the protocols of a group.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Assignor::Range => "range",
            Assignor::CooperativeSticky => "cooperative-sticky",
        }
    }

    pub(crate) fn is_cooperative(self) -> bool {
        self == Assignor::CooperativeSticky
    }

    /// What it adds to a subscription: the sticky one repeats the generation, for leaders that know no version 2 of it.
    pub(crate) fn user_data(self, generation: i32) -> Option<Bytes> {
        let mut bytes = BytesMut::new();
        bytes.put_i32(generation);
        (self == Assignor::CooperativeSticky).then(|| bytes.freeze())
    }

    /// `partitions`: how many each topic has. Topics that are not there have none.
    pub(crate) fn assign(self, members: &[Joined], partitions: &BTreeMap<String, i32>) -> Assignment {
        match self {
            Assignor::Range => range::assign(members, partitions),
            Assignor::CooperativeSticky => sticky::assign(members, partitions),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A member that subscribes to `topics` and owns what it got in `generation`.
    pub(crate) fn member(id: &str, topics: &[&str], owned: &[(&str, i32)], generation: i32) -> Joined {
        Joined {
            member_id: id.to_string(),
            group_instance_id: None,
            subscription: Subscription {
                topics: topics.iter().map(ToString::to_string).collect(),
                owned: owned.iter().map(|(topic, n)| TopicPartition::new(*topic, *n)).collect(),
                generation,
            },
        }
    }

    /// An assignment in short: `a: t-0 t-1, b: t-2`.
    pub(crate) fn words(assignment: &Assignment) -> String {
        let each = assignment.iter().map(|(member, partitions)| {
            let partitions: Vec<String> = partitions.iter().map(ToString::to_string).collect();
            format!("{member}: {}", partitions.join(" "))
        });
        each.collect::<Vec<_>>().join(", ")
    }

    pub(crate) fn topics(all: &[(&str, i32)]) -> BTreeMap<String, i32> {
        all.iter().map(|(topic, count)| (topic.to_string(), *count)).collect()
    }

    #[test]
    fn names_and_user_data_are_javas() {
        assert_eq!(Assignor::Range.name(), "range");
        assert_eq!(Assignor::CooperativeSticky.name(), "cooperative-sticky");
        assert_eq!(Assignor::Range.user_data(5), None);
        assert_eq!(Assignor::CooperativeSticky.user_data(5), Some(Bytes::from_static(b"\0\0\0\x05")));
    }
}
