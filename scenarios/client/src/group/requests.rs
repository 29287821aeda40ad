//! A member's requests and the shape of their answers.

use super::assignor::Joined;
use super::core::Core;
use super::membership::{Generation, JoinAnswer};
use super::subscription::{Subscription, decode_assignment};
use crate::codes;
use crate::config::ConsumerConfig;
use crate::network::Answer;
use crate::node::Failure;
use crate::types::TopicPartition;
use bytes::Bytes;
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::{
    FindCoordinatorRequest, GroupId, HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest,
    OffsetCommitRequest, OffsetFetchRequest, SyncGroupRequest, TopicName,
};
use kafka_protocol::protocol::StrBytes;
use std::collections::{BTreeMap, BTreeSet};

/// The key type of a group in `FindCoordinator`.
const KEY_TYPE_GROUP: i8 = 0;
/// The protocol type of consumers.
const CONSUMER: StrBytes = StrBytes::from_static_str("consumer");

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_string())
}

fn group(config: &ConsumerConfig) -> GroupId {
    GroupId(text(config.group_id.as_deref().unwrap_or_default()))
}

fn instance(config: &ConsumerConfig) -> Option<StrBytes> {
    config.group_instance_id.as_deref().map(text)
}

/// Versions up to 3 have one key, later ones (`batched`) a list.
pub(crate) fn find_coordinator(config: &ConsumerConfig, batched: bool) -> FindCoordinatorRequest {
    let (request, key) = (FindCoordinatorRequest::default().with_key_type(KEY_TYPE_GROUP), group(config).0);
    if batched { request.with_coordinator_keys(vec![key]) } else { request.with_key(key) }
}

/// Node id and address of the coordinator, or why there is none.
pub(crate) fn found_coordinator(answer: Answer) -> Result<Result<(i32, String), i16>, Failure> {
    let response = answer.decode::<FindCoordinatorRequest>()?;
    let (code, node, host, port) = match response.coordinators.into_iter().next() {
        Some(found) => (found.error_code, found.node_id, found.host, found.port),
        None => (response.error_code, response.node_id, response.host, response.port),
    };
    Ok(if code == codes::NONE { Ok((node.0, format!("{}:{port}", &*host))) } else { Err(code) })
}

pub(crate) fn join(core: &Core, as_whom: &Generation) -> JoinGroupRequest {
    let protocols = core.protocols().into_iter().map(|(assignor, metadata)| {
        JoinGroupRequestProtocol::default().with_name(text(assignor.name())).with_metadata(metadata)
    });
    JoinGroupRequest::default()
        .with_group_id(group(&core.config))
        .with_session_timeout_ms(core.config.session_timeout_ms as i32)
        .with_rebalance_timeout_ms(core.config.max_poll_interval_ms as i32)
        .with_member_id(text(&as_whom.member_id))
        .with_group_instance_id(instance(&core.config))
        .with_protocol_type(CONSUMER)
        .with_protocols(protocols.collect())
}

/// A `JoinGroup` answer.
pub(crate) enum Joining {
    /// With everybody who joined, if this member leads.
    In(JoinAnswer, Vec<Joined>),
    /// `MEMBER_ID_REQUIRED`.
    MemberId(String),
    Refused(i16),
}

pub(crate) fn joined(answer: Answer) -> Result<Joining, Failure> {
    let response = answer.decode::<JoinGroupRequest>()?;
    let member_id = response.member_id.to_string();
    match response.error_code {
        codes::NONE => {}
        codes::MEMBER_ID_REQUIRED => return Ok(Joining::MemberId(member_id)),
        code => return Ok(Joining::Refused(code)),
    }
    let members = response.members.into_iter().map(|member| {
        Some(Joined {
            member_id: member.member_id.to_string(),
            group_instance_id: member.group_instance_id.map(|id| id.to_string()),
            subscription: Subscription::decode(member.metadata)?,
        })
    });
    let Some(members) = members.collect::<Option<Vec<Joined>>>() else { return Err(Failure::Malformed) };
    let answer = JoinAnswer {
        leads: *response.leader == *member_id,
        generation: Generation {
            id: response.generation_id,
            member_id,
            protocol: response.protocol_name.map(|name| name.to_string()),
        },
        skip_assignment: response.skip_assignment,
    };
    Ok(Joining::In(answer, members))
}

pub(crate) fn sync(core: &Core, as_whom: &Generation, assignments: &[(String, Bytes)]) -> SyncGroupRequest {
    let assignments = assignments.iter().map(|(member, assignment)| {
        SyncGroupRequestAssignment::default().with_member_id(text(member)).with_assignment(assignment.clone())
    });
    SyncGroupRequest::default()
        .with_group_id(group(&core.config))
        .with_generation_id(as_whom.id)
        .with_member_id(text(&as_whom.member_id))
        .with_group_instance_id(instance(&core.config))
        .with_protocol_type(Some(CONSUMER))
        .with_protocol_name(as_whom.protocol.as_deref().map(text))
        .with_assignments(assignments.collect())
}

/// The partitions assigned, and the protocol by which they were.
pub(crate) type Synced = (BTreeSet<TopicPartition>, Option<String>);

pub(crate) fn synced(answer: Answer) -> Result<Result<Synced, i16>, Failure> {
    let response = answer.decode::<SyncGroupRequest>()?;
    if response.error_code != codes::NONE {
        return Ok(Err(response.error_code));
    }
    let partitions = decode_assignment(response.assignment).ok_or(Failure::Malformed)?;
    Ok(Ok((partitions, response.protocol_name.map(|name| name.to_string()))))
}

pub(crate) fn heartbeat(core: &Core, as_whom: &Generation) -> HeartbeatRequest {
    HeartbeatRequest::default()
        .with_group_id(group(&core.config))
        .with_generation_id(as_whom.id)
        .with_member_id(text(&as_whom.member_id))
        .with_group_instance_id(instance(&core.config))
}

pub(crate) fn leave(core: &Core, as_whom: &Generation) -> LeaveGroupRequest {
    let member = MemberIdentity::default().with_member_id(text(&as_whom.member_id));
    LeaveGroupRequest::default().with_group_id(group(&core.config)).with_members(vec![member])
}

pub(crate) fn commit(
    config: &ConsumerConfig,
    as_whom: &Generation,
    offsets: &BTreeMap<TopicPartition, i64>,
) -> OffsetCommitRequest {
    let mut topics: BTreeMap<&str, Vec<OffsetCommitRequestPartition>> = BTreeMap::new();
    for (partition, offset) in offsets {
        let committed = OffsetCommitRequestPartition::default()
            .with_partition_index(partition.partition)
            .with_committed_offset(*offset);
        topics.entry(&partition.topic).or_default().push(committed);
    }
    let topics = topics.into_iter().map(|(topic, partitions)| {
        OffsetCommitRequestTopic::default().with_name(TopicName(text(topic))).with_partitions(partitions)
    });
    OffsetCommitRequest::default()
        .with_group_id(group(config))
        .with_generation_id_or_member_epoch(as_whom.id)
        .with_member_id(text(&as_whom.member_id))
        .with_group_instance_id(instance(config))
        .with_topics(topics.collect())
}

/// The codes of all partitions.
pub(crate) fn committed(answer: Answer) -> Result<Vec<i16>, Failure> {
    let response = answer.decode::<OffsetCommitRequest>()?;
    let partitions = response.topics.iter().flat_map(|topic| &topic.partitions);
    Ok(partitions.map(|partition| partition.error_code).collect())
}

/// What became of a commit, in a word: `codes` is `None` without an answer.
pub(crate) fn commit_outcome(codes: Option<&[i16]>) -> &'static str {
    match codes {
        Some(codes) if codes.iter().all(|code| *code == codes::NONE) => "done",
        Some(codes) if codes.iter().all(|code| is_refusal(*code)) => "refused",
        _ => "unknown",
    }
}

/// Whether a commit with this code will have no effect after the answer.
fn is_refusal(code: i16) -> bool {
    matches!(
        code,
        codes::ILLEGAL_GENERATION
            | codes::UNKNOWN_MEMBER_ID
            | codes::REBALANCE_IN_PROGRESS
            | codes::FENCED_INSTANCE_ID
            | codes::UNKNOWN_TOPIC_OR_PARTITION
    )
}

/// Java asks for decided offsets only, whatever its isolation level (KIP-447).
pub(crate) fn offset_fetch(
    config: &ConsumerConfig,
    partitions: &BTreeSet<TopicPartition>,
) -> OffsetFetchRequest {
    let mut topics: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
    for partition in partitions {
        topics.entry(&partition.topic).or_default().push(partition.partition);
    }
    let topics = topics.into_iter().map(|(topic, partitions)| {
        OffsetFetchRequestTopics::default()
            .with_name(TopicName(text(topic)))
            .with_partition_indexes(partitions)
    });
    let asked =
        OffsetFetchRequestGroup::default().with_group_id(group(config)).with_topics(Some(topics.collect()));
    OffsetFetchRequest::default().with_groups(vec![asked]).with_require_stable(true)
}

/// Of each partition what was committed, if anything, or its error code.
pub(crate) type Offsets = BTreeMap<TopicPartition, Result<Option<i64>, i16>>;

pub(crate) fn offsets(answer: Answer) -> Result<Result<Offsets, i16>, Failure> {
    let response = answer.decode::<OffsetFetchRequest>()?;
    let group = response.groups.into_iter().next().ok_or(Failure::Malformed)?;
    if group.error_code != codes::NONE {
        return Ok(Err(group.error_code));
    }
    let partitions = group.topics.into_iter().flat_map(|topic| {
        let name = topic.name.to_string();
        topic.partitions.into_iter().map(move |partition| {
            let offset = Some(partition.committed_offset).filter(|offset| *offset >= 0);
            let found =
                if partition.error_code == codes::NONE { Ok(offset) } else { Err(partition.error_code) };
            (TopicPartition::new(name.clone(), partition.partition_index), found)
        })
    });
    Ok(Ok(partitions.collect()))
}
