//! Java's `RangeAssignor`, without racks: of each topic, the members subscribed to it get consecutive partitions, the
//! first ones one more where it does not come out even. Members are in the order of their instance ids, if they have
//! any, and of their member ids behind those (`AbstractPartitionAssignor.MemberInfo`).

use super::assignor::{Assignment, Joined};
use crate::types::TopicPartition;
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn assign(members: &[Joined], partitions: &BTreeMap<String, i32>) -> Assignment {
    let mut assignment: Assignment =
        members.iter().map(|member| (member.member_id.clone(), BTreeSet::new())).collect();
    let mut ordered: Vec<&Joined> = members.iter().collect();
    ordered.sort_by_key(|member| match &member.group_instance_id {
        Some(instance) => (0, instance, &member.member_id),
        None => (1, &member.member_id, &member.member_id),
    });
    for (topic, count) in partitions {
        let subscribed: Vec<&&Joined> =
            ordered.iter().filter(|member| member.subscription.topics.contains(topic)).collect();
        let among = subscribed.len() as i32;
        let mut next = 0;
        for (member, nth) in subscribed.into_iter().zip(0..) {
            let length = count / among + i32::from(nth < count % among);
            let range = (next..next + length).map(|partition| TopicPartition::new(topic.clone(), partition));
            assignment.entry(member.member_id.clone()).or_default().extend(range);
            next += length;
        }
    }
    assignment
}

#[cfg(test)]
mod tests {
    use super::super::assignor::tests::{member, topics, words};
    use super::*;

    #[test]
    fn each_topic_is_divided_by_itself() {
        // The example in RangeAssignor's documentation: two members, two topics of three partitions.
        let members = [member("C0", &["t0", "t1"], &[], -1), member("C1", &["t0", "t1"], &[], -1)];
        let assigned = assign(&members, &topics(&[("t0", 3), ("t1", 3)]));
        assert_eq!(words(&assigned), "C0: t0-0 t0-1 t1-0 t1-1, C1: t0-2 t1-2");
    }

    #[test]
    fn only_subscribers_get_a_topic_and_some_get_nothing() {
        let members =
            [member("b", &["t"], &[], -1), member("a", &["t"], &[], -1), member("c", &["u"], &[], -1)];
        assert_eq!(words(&assign(&members, &topics(&[("t", 1), ("u", 2)]))), "a: t-0, b: , c: u-0 u-1");
        assert_eq!(words(&assign(&members, &topics(&[]))), "a: , b: , c: ");
    }

    #[test]
    fn static_members_come_first_in_the_order_of_their_instance_ids() {
        // RangeAssignorTest's static members: member ids change with every restart, instance ids stay.
        let with = |id: &str, instance: &str| Joined {
            group_instance_id: Some(instance.to_string()),
            ..member(id, &["t"], &[], -1)
        };
        let members = [member("a", &["t"], &[], -1), with("y", "i2"), with("z", "i1")];
        assert_eq!(words(&assign(&members, &topics(&[("t", 4)]))), "a: t-3, y: t-2, z: t-0 t-1");
    }
}
