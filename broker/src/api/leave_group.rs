//! LeaveGroup (13), versions 0 to 5: kafka.md 1.7. Decided by the group's owner; from version 3 on of many members at once,
//! each with an outcome of its own.

use super::refuse;
use crate::agent::Context;
use crate::group::{self, GroupState, Leaver};
use crate::layout;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::leave_group_response::MemberResponse;
use kafka_protocol::messages::{LeaveGroupRequest, LeaveGroupResponse};

/// First version that names many members.
const BATCHED: i16 = 3;

pub(super) async fn handle(
    context: &Context,
    version: i16,
    request: LeaveGroupRequest,
) -> LeaveGroupResponse {
    let members = match version >= BATCHED {
        true => request.members,
        false => vec![MemberIdentity::default().with_member_id(request.member_id)],
    };
    let left = match leave(context, &request.group_id, &members).await {
        Ok(left) => left,
        Err(error) => return refuse::left_group(error),
    };
    if version < BATCHED {
        return match left[..] {
            [Err(error)] => refuse::left_group(error),
            _ => LeaveGroupResponse::default(),
        };
    }
    let member = |(member, left): (MemberIdentity, Result<(), ResponseError>)| match left {
        Ok(()) => MemberResponse::default()
            .with_member_id(member.member_id)
            .with_group_instance_id(member.group_instance_id),
        Err(error) => refuse::left_member(member, error),
    };
    LeaveGroupResponse::default().with_members(members.into_iter().zip(left).map(member).collect())
}

async fn leave(
    context: &Context,
    group: &str,
    members: &[MemberIdentity],
) -> Result<Vec<Result<(), ResponseError>>, ResponseError> {
    if !layout::is_id(group) {
        return Err(ResponseError::InvalidGroupId);
    }
    let leaver = |member: &MemberIdentity| Leaver {
        member_id: member.member_id.to_string(),
        instance_id: member.group_instance_id.as_deref().map(str::to_string),
    };
    let leavers: Vec<Leaver> = members.iter().map(leaver).collect();
    // Who was taken out by a try whose answer was lost is unknown to the next one.
    let mut gone = vec![false; leavers.len()];
    let changed = group::change(context, group, |state| {
        let left = match state.as_mut().and_then(GroupState::classic_mut) {
            Some(group) => group.leave(&leavers),
            None => vec![Err(ResponseError::UnknownMemberId); leavers.len()],
        };
        let outcome = |(left, gone): (Result<(), ResponseError>, &mut bool)| {
            *gone |= left.is_ok();
            if *gone { Ok(()) } else { left }
        };
        left.into_iter().zip(&mut gone).map(outcome).collect()
    });
    Ok(changed.await?.outcome)
}
