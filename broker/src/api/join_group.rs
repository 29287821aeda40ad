//! JoinGroup (11), versions 0 to 9: kafka.md 1.7. Decided by the group's owner; answered when the join phase is complete.

use super::{Client, refuse, text};
use crate::agent::Context;
use crate::group::{self, ClassicGroup, GroupState, Joined, Joiner};
use crate::layout;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::join_group_response::JoinGroupResponseMember;
use kafka_protocol::messages::{JoinGroupRequest, JoinGroupResponse};
use kafka_protocol::protocol::StrBytes;

/// First version whose clients come back with the member id they are given (KIP-394).
const REQUIRES_ID_SINCE: i16 = 4;
/// First version in which a leader can be told to make no assignment (KIP-814).
const SKIPS_SINCE: i16 = 9;
/// First version that names the protocol type, and in which no protocol is null.
const PROTOCOL_TYPE_SINCE: i16 = 7;

pub(super) async fn handle(
    context: &Context,
    version: i16,
    client: &Client<'_>,
    request: JoinGroupRequest,
) -> JoinGroupResponse {
    let group = request.group_id.to_string();
    let refused = |id: &str, error| refuse::joined_group(version, text(id), error);
    let limits = &context.config.groups;
    let sessions = limits.min_session_timeout_ms..=limits.max_session_timeout_ms;
    if !layout::is_id(&group) {
        return refused(&request.member_id, ResponseError::InvalidGroupId);
    }
    if !sessions.contains(&request.session_timeout_ms) {
        return refused(&request.member_id, ResponseError::InvalidSessionTimeout);
    }
    let joiner = joiner(context, version, client, request);
    let changed = group::change(context, &group, |state| join(state, &joiner, limits.max_size)).await;
    let changed = match changed {
        Ok(changed) => changed,
        Err(error) => return refused(&joiner.member_id, error),
    };
    let instance_id = joiner.instance_id.as_deref();
    match changed.outcome.clone() {
        Joined::Refused { member_id, error } => refused(&member_id, error),
        Joined::Kept { member_id, leader_before } => {
            match changed.state.as_ref().and_then(GroupState::classic) {
                Some(group) => kept(version, group, &member_id, leader_before),
                None => refused("", ResponseError::UnknownMemberId),
            }
        }
        Joined::Member(member_id) => {
            let waited =
                group::wait(context, &group, changed, |group| group.joined(&member_id, instance_id)).await;
            match waited {
                Ok(group) => joined(version, &group, &member_id),
                // It was taken out: it is to come as somebody new.
                Err(ResponseError::UnknownMemberId) => refused("", ResponseError::UnknownMemberId),
                Err(error) => refused(&member_id, error),
            }
        }
    }
}

fn joiner(context: &Context, version: i16, client: &Client<'_>, request: JoinGroupRequest) -> Joiner {
    let instance_id = request.group_instance_id.as_deref().map(str::to_string);
    let name = instance_id.as_deref().unwrap_or(client.id);
    // Version 0 has one time-out for both.
    let rebalance_timeout_ms =
        if version == 0 { request.session_timeout_ms } else { request.rebalance_timeout_ms };
    let protocols = request.protocols.into_iter();
    Joiner {
        member_id: request.member_id.to_string(),
        new_member_id: context.keeper.draw_member_id(name),
        client_id: client.id.to_string(),
        client_host: client.host(),
        session_timeout_ms: request.session_timeout_ms,
        rebalance_timeout_ms,
        protocol_type: request.protocol_type.to_string(),
        protocols: protocols.map(|protocol| (protocol.name.to_string(), protocol.metadata)).collect(),
        requires_id: version >= REQUIRES_ID_SINCE,
        instance_id,
    }
}

/// Only who has no member id makes a group; one that is refused leaves none behind. A group of the other protocol is made
/// anew once it has no members.
fn join(state: &mut Option<GroupState>, joiner: &Joiner, size_max: usize) -> Joined {
    let refused = |error| Joined::Refused { member_id: joiner.member_id.clone(), error };
    match state {
        Some(GroupState::Consumer(group)) if !group.members.is_empty() => {
            return refused(ResponseError::InconsistentGroupProtocol);
        }
        None | Some(GroupState::Consumer(_)) if !joiner.member_id.is_empty() => {
            return refused(ResponseError::UnknownMemberId);
        }
        _ => {}
    }
    let before = state.clone();
    let mut group = match state.take() {
        Some(GroupState::Classic(group)) => group,
        None | Some(GroupState::Consumer(_)) => ClassicGroup::default(),
    };
    let joined = group.join(joiner, size_max);
    *state = if group == ClassicGroup::default() { before } else { Some(GroupState::Classic(group)) };
    joined
}

/// The generation as a member is told of it; its leader also hears of all members.
fn joined(version: i16, group: &ClassicGroup, member_id: &str) -> JoinGroupResponse {
    let members = if group.is_leader(member_id) { members(group) } else { Vec::new() };
    let leader = group.leader.clone().unwrap_or_default();
    JoinGroupResponse::default()
        .with_generation_id(group.generation)
        .with_protocol_type(group.protocol_type.as_deref().map(text))
        .with_protocol_name(protocol_name(version, group.protocol.as_deref()))
        .with_leader(text(leader))
        .with_member_id(text(member_id))
        .with_members(members)
}

/// The same, for a static member that came back to a generation that goes on.
fn kept(version: i16, group: &ClassicGroup, member_id: &str, leader_before: String) -> JoinGroupResponse {
    let answer = joined(version, group, member_id);
    match version >= SKIPS_SINCE {
        true => answer.with_skip_assignment(group.is_leader(member_id)),
        false => answer.with_leader(text(leader_before)).with_members(Vec::new()),
    }
}

fn members(group: &ClassicGroup) -> Vec<JoinGroupResponseMember> {
    let protocol = group.protocol.as_deref().unwrap_or_default();
    let member = |(id, member): (&String, &group::Member)| {
        JoinGroupResponseMember::default()
            .with_member_id(text(id.as_str()))
            .with_group_instance_id(member.instance_id.as_deref().map(text))
            .with_metadata(member.metadata(protocol))
    };
    group.members.iter().map(member).collect()
}

/// No protocol is null from version 7 on, and empty before.
pub(super) fn protocol_name(version: i16, name: Option<&str>) -> Option<StrBytes> {
    match name.filter(|name| !name.is_empty()) {
        Some(name) => Some(text(name)),
        None if version >= PROTOCOL_TYPE_SINCE => None,
        None => Some(StrBytes::default()),
    }
}
