//! ListGroups (16), versions 0 to 5. Any agent lists them all. Filters take no heed of case (KIP-518, KIP-848).

use super::{refuse, text};
use crate::agent::Context;
use crate::group::{self, GroupState};
use kafka_protocol::messages::list_groups_response::ListedGroup;
use kafka_protocol::messages::{GroupId, ListGroupsRequest, ListGroupsResponse};
use kafka_protocol::protocol::StrBytes;

pub(super) async fn handle(
    context: &Context,
    _version: i16,
    request: ListGroupsRequest,
) -> ListGroupsResponse {
    let mut patience = context.patience();
    let stored = loop {
        match group::list(context).await {
            Ok(stored) => break stored,
            Err(fault) if fault.passes() && patience.pause().await => {}
            Err(fault) => return refuse::listed_groups(fault.coordinator_error()),
        }
    };
    let groups = stored.into_iter().filter_map(|(name, stored)| Some((name, stored.into_group()?)));
    let listed = groups.filter(|(_, group)| passes(&request, group)).map(|(name, group)| {
        ListedGroup::default()
            .with_group_id(GroupId(text(name)))
            .with_protocol_type(text(group.protocol_type()))
            .with_group_state(StrBytes::from_static_str(group.name()))
            .with_group_type(StrBytes::from_static_str(group.type_name()))
    });
    ListGroupsResponse::default().with_groups(listed.collect())
}

fn passes(request: &ListGroupsRequest, group: &GroupState) -> bool {
    let names = |filter: &[StrBytes], name: &str| {
        filter.is_empty() || filter.iter().any(|asked| asked.trim().eq_ignore_ascii_case(name))
    };
    names(&request.states_filter, group.name()) && names(&request.types_filter, group.type_name())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::ClassicGroup;

    #[test]
    fn a_group_passes_by_state_and_by_type() {
        let group = GroupState::Classic(ClassicGroup::default());
        let told = |states: &[&'static str], types: &[&'static str]| {
            let names =
                |names: &[&'static str]| names.iter().map(|name| StrBytes::from_static_str(name)).collect();
            let request = ListGroupsRequest::default()
                .with_states_filter(names(states))
                .with_types_filter(names(types));
            passes(&request, &group)
        };
        assert!(told(&[], &[]) && told(&["Stable", " eMPTY "], &["Classic"]));
        assert!(!told(&["Stable"], &[]) && !told(&["Empty"], &["consumer"]) && !told(&[], &["x"]));
    }
}
