//! DescribeGroups (15), versions 0 to 6: what is stored about groups. Any agent tells it. A group that is not there is Dead;
//! version 6 is told so by an error too (KIP-1043).

use super::{refuse, text};
use crate::agent::Context;
use crate::group::{self, ClassicGroup, GroupPhase, GroupState, Member, StoredGroup};
use kafka_protocol::ResponseError;
use kafka_protocol::messages::describe_groups_response::{DescribedGroup, DescribedGroupMember};
use kafka_protocol::messages::{DescribeGroupsRequest, DescribeGroupsResponse, GroupId};
use kafka_protocol::protocol::StrBytes;

/// First version that tells a missing group by an error.
const NOT_FOUND_SINCE: i16 = 6;
/// What anybody may do to a group when nothing is protected: a bit for each operation that a group has (read, delete,
/// describe, describe and alter configs).
pub(super) const ALL_OPERATIONS: i32 = 0b1101_0100_1000;
/// The client did not ask what it may do.
pub(super) const NOT_ASKED: i32 = i32::MIN;

pub(super) async fn handle(
    context: &Context,
    version: i16,
    request: DescribeGroupsRequest,
) -> DescribeGroupsResponse {
    let names: Vec<String> = request.groups.iter().map(|name| name.to_string()).collect();
    let stored = match stored(context, &names).await {
        Ok(stored) => stored,
        Err(error) => {
            let refused = |name| refuse::described_group(name, error);
            let groups = request.groups.into_iter().map(refused).collect();
            return DescribeGroupsResponse::default().with_groups(groups);
        }
    };
    let operations = if request.include_authorized_operations { ALL_OPERATIONS } else { NOT_ASKED };
    let groups = request.groups.into_iter().zip(stored).map(|(name, stored)| match stored.into_group() {
        Some(GroupState::Classic(group)) => described(name, &group).with_authorized_operations(operations),
        // One of the consumer protocol is not known here.
        _ if version >= NOT_FOUND_SINCE => refuse::described_no_group(name),
        _ => DescribedGroup::default()
            .with_group_id(name)
            .with_group_state(StrBytes::from_static_str("Dead"))
            .with_authorized_operations(operations),
    });
    DescribeGroupsResponse::default().with_groups(groups.collect())
}

/// What is stored about groups, tried for as long as a request may take.
pub(super) async fn stored(context: &Context, names: &[String]) -> Result<Vec<StoredGroup>, ResponseError> {
    let mut patience = context.patience();
    loop {
        match group::read(context, names).await {
            Ok(stored) => return Ok(stored),
            Err(fault) if fault.passes() && patience.pause().await => {}
            Err(fault) => return Err(fault.coordinator_error()),
        }
    }
}

fn described(name: GroupId, group: &ClassicGroup) -> DescribedGroup {
    // Which protocol, and what each member said to it, is told of a stable group only.
    let stable = group.protocol.as_deref().filter(|_| group.phase == GroupPhase::Stable);
    let member = |(id, member): (&String, &Member)| {
        DescribedGroupMember::default()
            .with_member_id(text(id.as_str()))
            .with_group_instance_id(member.instance_id.as_deref().map(text))
            .with_client_id(text(member.client_id.as_str()))
            .with_client_host(text(member.client_host.as_str()))
            .with_member_metadata(stable.map(|protocol| member.metadata(protocol)).unwrap_or_default())
            .with_member_assignment(member.assignment.clone())
    };
    DescribedGroup::default()
        .with_group_id(name)
        .with_group_state(StrBytes::from_static_str(group.phase.name()))
        .with_protocol_type(text(group.protocol_type.clone().unwrap_or_default()))
        .with_protocol_data(text(stable.unwrap_or_default()))
        .with_members(group.members.iter().map(member).collect())
}
