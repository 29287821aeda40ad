//! DeleteGroups (42), versions 0 to 2: groups without members, with all that they committed. Any agent does it.

use super::refuse;
use crate::agent::Context;
use crate::group;
use kafka_protocol::messages::delete_groups_response::DeletableGroupResult;
use kafka_protocol::messages::{DeleteGroupsRequest, DeleteGroupsResponse};
use std::collections::BTreeSet;

pub(super) async fn handle(
    context: &Context,
    _version: i16,
    request: DeleteGroupsRequest,
) -> DeleteGroupsResponse {
    // Each once, however often it is named.
    let mut named = BTreeSet::new();
    let mut results = Vec::new();
    for group in request.groups_names.into_iter().filter(|group| named.insert(group.clone())) {
        results.push(match group::delete(context, &group).await {
            Ok(()) => DeletableGroupResult::default().with_group_id(group),
            Err(error) => refuse::deleted_group(group, error),
        });
    }
    DeleteGroupsResponse::default().with_results(results)
}
