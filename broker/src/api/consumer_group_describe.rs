//! ConsumerGroupDescribe (69), versions 0 and 1 (KIP-848): groups of the consumer protocol. Any agent tells it. What a member is
//! still giving up is told as its own.

use super::describe_groups::{self, ALL_OPERATIONS, NOT_ASKED};
use super::{refuse, text};
use crate::agent::Context;
use crate::group::{ConsumerGroup, ConsumerMember, GroupState, Partitions};
use crate::topics::TopicId;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::consumer_group_describe_response::{
    Assignment, DescribedGroup, Member, TopicPartitions,
};
use kafka_protocol::messages::{ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, GroupId};
use kafka_protocol::protocol::StrBytes;
use std::collections::BTreeMap;

/// Type of members of the consumer protocol.
const CONSUMER: i8 = 1;

pub(super) async fn handle(
    context: &Context,
    _version: i16,
    request: ConsumerGroupDescribeRequest,
) -> ConsumerGroupDescribeResponse {
    let names: Vec<String> = request.group_ids.iter().map(|name| name.to_string()).collect();
    let stored = match describe_groups::stored(context, &names).await {
        Ok(stored) => stored,
        Err(error) => {
            let refused = |name| refuse::described_consumer_group(name, error);
            let groups = request.group_ids.into_iter().map(refused).collect();
            return ConsumerGroupDescribeResponse::default().with_groups(groups);
        }
    };
    let operations = if request.include_authorized_operations { ALL_OPERATIONS } else { NOT_ASKED };
    let groups = request.group_ids.into_iter().zip(stored).map(|(name, stored)| match stored.into_group() {
        _ if name.is_empty() => refuse::described_consumer_group(name, ResponseError::InvalidGroupId),
        Some(GroupState::Consumer(group)) => described(name, &group).with_authorized_operations(operations),
        _ => refuse::described_consumer_group(name, ResponseError::GroupIdNotFound),
    });
    ConsumerGroupDescribeResponse::default().with_groups(groups.collect())
}

fn described(name: GroupId, group: &ConsumerGroup) -> DescribedGroup {
    let names: BTreeMap<TopicId, &str> =
        group.topics.iter().map(|(name, topic)| (topic.id, name.as_str())).collect();
    let member = |(id, member): (&String, &ConsumerMember)| {
        Member::default()
            .with_member_id(text(id.as_str()))
            .with_instance_id(member.instance_id.as_deref().map(text))
            .with_rack_id(member.rack_id.as_deref().map(text))
            .with_member_epoch(member.epoch)
            .with_client_id(text(member.client_id.as_str()))
            .with_client_host(text(member.client_host.as_str()))
            .with_subscribed_topic_names(member.names.iter().map(|name| text(name.as_str()).into()).collect())
            .with_subscribed_topic_regex(
                Some(text(member.pattern.as_str())).filter(|regex| !regex.is_empty()),
            )
            .with_assignment(assignment(&[&member.assigned, &member.revoking], &names))
            .with_target_assignment(assignment(&[&member.target], &names))
            .with_member_type(CONSUMER)
    };
    DescribedGroup::default()
        .with_group_id(name)
        .with_group_state(StrBytes::from_static_str(group.state_name()))
        .with_group_epoch(group.epoch)
        .with_assignment_epoch(group.assignment_epoch)
        .with_assignor_name(StrBytes::from_static_str(group.assignor().name()))
        .with_members(group.members.iter().map(member).collect())
}

/// Partitions of the topics that the group still knows.
fn assignment(of: &[&Partitions], names: &BTreeMap<TopicId, &str>) -> Assignment {
    let mut all = Partitions::new();
    for (topic, partitions) in of.iter().copied().flatten() {
        all.entry(*topic).or_default().extend(partitions);
    }
    let topics = all.into_iter().filter_map(|(id, partitions)| {
        let topic = TopicPartitions::default()
            .with_topic_id(id.to_vec().try_into().unwrap_or_default())
            .with_topic_name(text(*names.get(&id)?).into())
            .with_partitions(partitions.into_iter().collect());
        Some(topic)
    });
    Assignment::default().with_topic_partitions(topics.collect())
}
