//! OffsetDelete (47), version 0 (KIP-496): offsets of topics that a group no longer reads. Any agent does it. Those that a
//! transaction is about to commit go too, as in Kafka.

use super::refuse;
use crate::agent::Context;
use crate::coordinator::{Compare, KeyValue, Op, Range};
use crate::gate::{Fault, Stored};
use crate::group::{CONSUMER, GroupHead, GroupState};
use crate::layout;
use crate::offsets;
use crate::topics;
use bytes::Bytes;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::offset_delete_response::{
    OffsetDeleteResponsePartition, OffsetDeleteResponseTopic,
};
use kafka_protocol::messages::{OffsetDeleteRequest, OffsetDeleteResponse};
use std::collections::BTreeSet;

/// Keys deleted by one coordinator transaction, beside the head: within etcd's 128 operations.
const STEP: usize = 100;

type Partition = (String, i32);

pub(super) async fn handle(
    context: &Context,
    _version: i16,
    request: OffsetDeleteRequest,
) -> OffsetDeleteResponse {
    let outcome = |topic: &str, partition: i32, done: &Done| {
        let name = (topic.to_string(), partition);
        match () {
            () if !done.known.contains(&name) => {
                refuse::deleted_offset(partition, ResponseError::UnknownTopicOrPartition)
            }
            () if done.subscribed.contains(topic) => {
                refuse::deleted_offset(partition, ResponseError::GroupSubscribedToTopic)
            }
            () => OffsetDeleteResponsePartition::default().with_partition_index(partition),
        }
    };
    match delete(context, &request).await {
        Ok(done) => {
            let topics = request.topics.iter().map(|topic| {
                let partitions = topic.partitions.iter();
                let partitions = partitions.map(|p| outcome(&topic.name, p.partition_index, &done)).collect();
                OffsetDeleteResponseTopic::default().with_name(topic.name.clone()).with_partitions(partitions)
            });
            OffsetDeleteResponse::default().with_topics(topics.collect())
        }
        Err(error) => refuse::deleted_offsets(error),
    }
}

/// What was found out while the offsets were deleted.
struct Done {
    /// The partitions that there are, among those asked for.
    known: BTreeSet<Partition>,
    /// The topics that the group reads, among those asked for.
    subscribed: BTreeSet<String>,
}

async fn delete(context: &Context, request: &OffsetDeleteRequest) -> Result<Done, ResponseError> {
    if !layout::is_id(&request.group_id) {
        return Err(ResponseError::InvalidGroupId);
    }
    let mut patience = context.patience();
    loop {
        match attempt(context, request).await {
            Ok(Ok(Some(done))) => return Ok(done),
            Ok(Ok(None)) if patience.is_over() => return Err(ResponseError::CoordinatorLoadInProgress),
            Ok(Ok(None)) => {}
            Ok(Err(error)) => return Err(error),
            Err(fault) if fault.passes() && patience.pause().await => {}
            Err(fault) => return Err(fault.coordinator_error()),
        }
    }
}

/// One try; `None` if the group changed under it. Repeating it does no harm.
async fn attempt(
    context: &Context,
    request: &OffsetDeleteRequest,
) -> Result<Result<Option<Done>, ResponseError>, Fault> {
    let group = request.group_id.as_str();
    let (head_key, state_key) = (layout::group(group), layout::group_state(group));
    let keys = vec![Range::key(head_key.clone()), Range::key(state_key.clone())];
    let mut now = context.gate.read(keys).await?;
    let revision = now.revision;
    let (head, state): (Stored<GroupHead>, Stored<GroupState>) = (now.one()?, now.one()?);
    if let Err(error) = may_delete(head.value(), state.value()) {
        return Ok(Err(error));
    }
    let done = known(context, request, state.value()).await?;
    let doomed = doomed(context, group, revision, &done).await?;
    let mut guard = head.revision();
    for keys in doomed.chunks(STEP) {
        let compares = vec![
            Compare::unchanged(head_key.clone(), guard),
            Compare::unchanged(state_key.clone(), state.revision()),
        ];
        let mut ops: Vec<Op> = keys.iter().cloned().map(Op::delete).collect();
        ops.push(Op::put(head_key.clone(), head.bytes()));
        rt::preempt("offset-delete.before-commit").await;
        let Some(answer) = context.gate.commit(compares, ops).await? else { return Ok(Ok(None)) };
        guard = answer.revision;
    }
    Ok(Ok(Some(done)))
}

/// Whether the group is one whose offsets can be deleted: without members, or of consumers, who say what they read.
fn may_delete(head: Option<&GroupHead>, state: Option<&GroupState>) -> Result<(), ResponseError> {
    match state {
        None if head.is_none_or(|head| head.deleted) => Err(ResponseError::GroupIdNotFound),
        Some(state) if !state.is_empty() && state.protocol_type() != CONSUMER => {
            Err(ResponseError::NonEmptyGroup)
        }
        _ => Ok(()),
    }
}

async fn known(
    context: &Context,
    request: &OffsetDeleteRequest,
    state: Option<&GroupState>,
) -> Result<Done, Fault> {
    let (mut known, mut subscribed) = (BTreeSet::new(), BTreeSet::new());
    let listed = topics::list(&context.gate).await?;
    for topic in &request.topics {
        let partitions =
            listed.iter().find(|listed| *listed.name == **topic.name).map_or(0, |t| t.entry.partitions);
        let partitions =
            topic.partitions.iter().map(|p| p.partition_index).filter(|n| (0..partitions).contains(n));
        known.extend(partitions.map(|partition| (topic.name.to_string(), partition)));
        if state.is_some_and(|state| state.is_subscribed(&topic.name)) {
            subscribed.insert(topic.name.to_string());
        }
    }
    Ok(Done { known, subscribed })
}

/// The keys of the offsets to delete, committed and pending, as of `revision`.
async fn doomed(context: &Context, group: &str, revision: i64, done: &Done) -> Result<Vec<Bytes>, Fault> {
    let wanted = |kv: &&KeyValue| {
        layout::partition_of(&kv.key).is_some_and(|(topic, partition)| {
            !done.subscribed.contains(topic) && done.known.contains(&(topic.to_string(), partition))
        })
    };
    let mut doomed = Vec::new();
    for prefix in [layout::group_offsets(group), layout::group_pending(group)] {
        let (stored, _) = offsets::scan(context, prefix, revision).await?;
        doomed.extend(stored.iter().filter(wanted).map(|kv| kv.key.clone()));
    }
    Ok(doomed)
}
