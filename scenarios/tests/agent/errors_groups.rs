//! Error answers of the group APIs; see `errors`.

use crate::harness::{Connection, text};
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::{
    ApiKey, ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest, DeleteGroupsRequest,
    DescribeGroupsRequest, HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, OffsetDeleteRequest,
    SyncGroupRequest,
};

/// JoinGroup, SyncGroup, Heartbeat, LeaveGroup.
pub(crate) async fn membership(agent: &mut Connection, api: ApiKey, version: i16, at: &str) {
    let (group, nobody) = (text("g").into(), text("nobody"));
    match api {
        ApiKey::JoinGroup => {
            let request = JoinGroupRequest::default().with_group_id(group).with_member_id(nobody.clone());
            let told = agent.call(version, &request).await;
            assert_eq!((told.error_code, told.generation_id, &told.member_id), (26, -1, &nobody), "{at}");
            let protocol = told.protocol_name.as_deref();
            assert_eq!(protocol, if version >= 7 { None } else { Some("") }, "{at}");
            assert_eq!((told.leader.as_str(), told.members.len(), told.protocol_type), ("", 0, None), "{at}");
        }
        ApiKey::SyncGroup => {
            let request = SyncGroupRequest::default()
                .with_group_id(group)
                .with_member_id(nobody)
                .with_protocol_type(Some(text("consumer")))
                .with_protocol_name(Some(text("range")));
            let told = agent.call(version, &request).await;
            assert_eq!((told.error_code, told.assignment.len()), (25, 0), "{at}");
            assert_eq!((told.protocol_type, told.protocol_name), (None, None), "{at}");
        }
        ApiKey::Heartbeat => {
            let request = HeartbeatRequest::default().with_group_id(group).with_member_id(nobody);
            assert_eq!(agent.call(version, &request).await.error_code, 25, "{at}");
        }
        _ if version < 3 => {
            let request = LeaveGroupRequest::default().with_group_id(group).with_member_id(nobody);
            assert_eq!(agent.call(version, &request).await.error_code, 25, "{at}");
        }
        _ => {
            let member = MemberIdentity::default()
                .with_member_id(nobody.clone())
                .with_group_instance_id(Some(text("i")));
            let request = LeaveGroupRequest::default().with_group_id(group).with_members(vec![member]);
            let told = agent.call(version, &request).await;
            assert_eq!((told.error_code, told.members[0].error_code), (0, 25), "{at}");
            assert_eq!(told.members[0].member_id, nobody, "{at}");
            assert_eq!(told.members[0].group_instance_id.as_deref(), Some("i"), "{at}");
        }
    }
}

/// Groups as admin tools and members of the consumer protocol know them.
pub(crate) async fn groups(agent: &mut Connection, api: ApiKey, version: i16, at: &str) {
    match api {
        ApiKey::DeleteGroups => {
            let request = DeleteGroupsRequest::default().with_groups_names(vec![text("nobody").into()]);
            let told = agent.call(version, &request).await.results.remove(0);
            assert_eq!((told.error_code, told.group_id.as_str()), (69, "nobody"), "{at}");
        }
        ApiKey::OffsetDelete => {
            let request = OffsetDeleteRequest::default().with_group_id(text("nobody").into());
            let told = agent.call(version, &request).await;
            assert_eq!((told.error_code, told.topics.len()), (69, 0), "{at}");
        }
        ApiKey::ConsumerGroupHeartbeat => {
            let request = ConsumerGroupHeartbeatRequest::default()
                .with_group_id(text("nobody").into())
                .with_member_id(text("nobody"))
                .with_member_epoch(7);
            let told = agent.call(version, &request).await;
            assert_eq!((told.error_code, told.member_id, told.member_epoch), (69, None, 0), "{at}");
            assert_eq!((told.heartbeat_interval_ms, told.assignment), (0, None), "{at}");
        }
        ApiKey::ConsumerGroupDescribe => {
            let request = ConsumerGroupDescribeRequest::default().with_group_ids(vec![text("nobody").into()]);
            let told = agent.call(version, &request).await.groups.remove(0);
            assert_eq!((told.error_code, told.group_id.as_str()), (69, "nobody"), "{at}");
            assert_eq!((told.members.len(), told.authorized_operations), (0, i32::MIN), "{at}");
        }
        ApiKey::DescribeGroups if version >= 6 => {
            let request = DescribeGroupsRequest::default().with_groups(vec![text("nobody").into()]);
            let told = agent.call(version, &request).await.groups.remove(0);
            assert_eq!((told.error_code, told.group_state.as_str()), (69, "Dead"), "{at}");
            assert_eq!((told.members.len(), told.authorized_operations), (0, i32::MIN), "{at}");
        }
        // ListGroups, and DescribeGroups before version 6, refuse nothing that can be asked.
        _ => {}
    }
}
