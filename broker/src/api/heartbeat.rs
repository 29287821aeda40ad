//! Heartbeat (12), versions 0 to 4: kafka.md 1.7. Heard by the group's owner, and written nowhere.

use super::refuse;
use crate::agent::Context;
use crate::group::{self, GroupState};
use crate::layout;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::{HeartbeatRequest, HeartbeatResponse};

pub(super) async fn handle(context: &Context, _version: i16, request: HeartbeatRequest) -> HeartbeatResponse {
    match beat(context, &request).await {
        Ok(()) => HeartbeatResponse::default(),
        Err(error) => refuse::heartbeat(error),
    }
}

async fn beat(context: &Context, request: &HeartbeatRequest) -> Result<(), ResponseError> {
    let HeartbeatRequest { group_id, member_id, generation_id, .. } = request;
    if !layout::is_id(group_id) {
        return Err(ResponseError::InvalidGroupId);
    }
    // It lives, whether the coordinator can be asked about it or not.
    context.keeper.heard(group_id, member_id);
    let mut patience = context.patience();
    let seen = loop {
        match group::look(context, group_id).await {
            Ok(seen) => break seen,
            Err(fault) if fault.passes() && patience.pause().await => {}
            Err(fault) => return Err(fault.coordinator_error()),
        }
    };
    seen.tenure?;
    match seen.state.value().and_then(GroupState::classic) {
        Some(group) => group.heartbeat(member_id, request.group_instance_id.as_deref(), *generation_id),
        None => Err(ResponseError::UnknownMemberId),
    }
}
