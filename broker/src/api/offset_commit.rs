//! OffsetCommit (8), versions 2 to 9: kafka.md 1.7.

use super::refuse;
use crate::agent::Context;
use crate::group::{self, Claim};
use crate::layout;
use crate::offsets::{self, Asked, Row};
use kafka_protocol::ResponseError;
use kafka_protocol::messages::offset_commit_response::{
    OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use kafka_protocol::messages::{OffsetCommitRequest, OffsetCommitResponse};

pub(super) async fn handle(
    context: &Context,
    version: i16,
    request: OffsetCommitRequest,
) -> OffsetCommitResponse {
    let outcomes = match commit(context, version, &request).await {
        Ok(outcomes) => outcomes,
        Err(error) => vec![Err(error); asked(&request).len()],
    };
    let mut outcomes = outcomes.into_iter();
    let topics = request.topics.into_iter().map(|topic| {
        let partitions = topic.partitions.iter().zip(&mut outcomes).map(|(partition, outcome)| {
            let index = partition.partition_index;
            match outcome {
                Ok(()) => OffsetCommitResponsePartition::default().with_partition_index(index),
                Err(error) => refuse::committed_offset(index, error),
            }
        });
        OffsetCommitResponseTopic::default().with_partitions(partitions.collect()).with_name(topic.name)
    });
    OffsetCommitResponse::default().with_topics(topics.collect())
}

fn asked(request: &OffsetCommitRequest) -> Vec<Asked<'_>> {
    let retention_ms = request.retention_time_ms;
    let asked = request.topics.iter().flat_map(|topic| {
        topic.partitions.iter().map(move |partition| Asked {
            topic: &topic.name,
            partition: partition.partition_index,
            offset: partition.committed_offset,
            leader_epoch: partition.committed_leader_epoch,
            metadata: partition.committed_metadata.as_deref().unwrap_or_default(),
            retention_ms,
        })
    });
    asked.collect()
}

/// One outcome per partition, or an error of the whole request. The empty group id is legal here, for Kafka's oldest
/// clients.
async fn commit(
    context: &Context,
    version: i16,
    request: &OffsetCommitRequest,
) -> Result<Vec<Result<(), ResponseError>>, ResponseError> {
    if !request.group_id.is_empty() && !layout::is_id(&request.group_id) {
        return Err(ResponseError::InvalidGroupId);
    }
    let beside = offsets::ranges(&request.group_id);
    let checked = offsets::check(context, &asked(request), beside).await;
    let (checked, found) = checked.map_err(|fault| fault.coordinator_error())?;
    let rows: Vec<&Row<'_>> = checked.iter().flatten().collect();
    let claim = Claim {
        generation: request.generation_id_or_member_epoch,
        member_id: &request.member_id,
        instance_id: request.group_instance_id.as_deref(),
        transactional: false,
        version,
    };
    let group = offsets::commit(context, &request.group_id, &claim, &rows, found).await;
    if group.is_ok() {
        // In the group's owner a commit is a sign of life.
        context.keeper.heard(&request.group_id, &request.member_id);
    }
    Ok(offsets::outcomes(&checked, group.map_err(|error| group::commit_error(error, version))))
}
