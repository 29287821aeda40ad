//! SyncGroup (14), versions 0 to 5: kafka.md 1.7. Decided by the group's owner; answered when the leader's assignment is
//! there.

use super::{refuse, text};
use crate::agent::Context;
use crate::group::{self, GroupState, Syncer};
use crate::layout;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::{SyncGroupRequest, SyncGroupResponse};

/// First version that must name protocol type and protocol (KIP-559).
const NAMED_SINCE: i16 = 5;

pub(super) async fn handle(context: &Context, version: i16, request: SyncGroupRequest) -> SyncGroupResponse {
    sync(context, version, request).await.unwrap_or_else(refuse::synced_group)
}

async fn sync(
    context: &Context,
    version: i16,
    request: SyncGroupRequest,
) -> Result<SyncGroupResponse, ResponseError> {
    let name = request.group_id.to_string();
    if version >= NAMED_SINCE && (request.protocol_type.is_none() || request.protocol_name.is_none()) {
        return Err(ResponseError::InconsistentGroupProtocol);
    }
    if !layout::is_id(&name) {
        return Err(ResponseError::InvalidGroupId);
    }
    let assignments = request.assignments.into_iter();
    let syncer = Syncer {
        member_id: request.member_id.to_string(),
        instance_id: request.group_instance_id.as_deref().map(str::to_string),
        generation: request.generation_id,
        protocol_type: request.protocol_type.as_deref().map(str::to_string),
        protocol: request.protocol_name.as_deref().map(str::to_string),
        assignments: assignments.map(|one| (one.member_id.to_string(), one.assignment)).collect(),
    };
    let changed =
        group::change(context, &name, |state| match state.as_mut().and_then(GroupState::classic_mut) {
            Some(group) => group.sync(&syncer),
            None => Err(ResponseError::UnknownMemberId),
        });
    let changed = changed.await?;
    changed.outcome?;
    let Syncer { member_id, instance_id, generation, .. } = &syncer;
    let turn = |group: &group::ClassicGroup| group.synced(member_id, instance_id.as_deref(), *generation);
    let group = group::wait(context, &name, changed, turn).await?;
    let assignment = group.members.get(member_id).map(|member| member.assignment.clone());
    Ok(SyncGroupResponse::default()
        .with_protocol_type(group.protocol_type.as_deref().map(text))
        .with_protocol_name(group.protocol.as_deref().map(text))
        .with_assignment(assignment.unwrap_or_default()))
}
