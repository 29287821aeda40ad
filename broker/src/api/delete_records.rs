//! DeleteRecords (21), versions 0 to 2, after `ReplicaManager.deleteRecordsOnLocalLog`: -1 means the high watermark. The
//! log start moves at once; index and chunks below it go later, a first part of them before the answer.

use super::refuse;
use crate::agent::Context;
use crate::trim::{self, Reach};
use kafka_protocol::ResponseError;
use kafka_protocol::messages::delete_records_response::{
    DeleteRecordsPartitionResult, DeleteRecordsTopicResult,
};
use kafka_protocol::messages::{DeleteRecordsRequest, DeleteRecordsResponse};

pub(super) async fn handle(
    context: &Context,
    _version: i16,
    request: DeleteRecordsRequest,
) -> DeleteRecordsResponse {
    let limit_ms = context.config.request_limit_ms.min(request.timeout_ms.max(0) as u64);
    let mut patience = context.patience_for(limit_ms);
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in request.topics {
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for asked in &topic.partitions {
            let offset = (asked.offset != -1).then_some(asked.offset);
            let index = asked.partition_index;
            let moved = trim::advance(context, &topic.name, index, offset, &mut patience).await;
            partitions.push(match moved {
                Ok(Ok(low_watermark)) => {
                    // The log start has moved; what is left below it is found by the next retention check.
                    let _ = trim::step(context, &topic.name, index, Reach::Gone).await;
                    answer(index, low_watermark)
                }
                Ok(Err(error)) => refuse::deleted_records(index, error),
                Err(fault) if fault.passes() => {
                    refuse::deleted_records(index, ResponseError::RequestTimedOut)
                }
                Err(_) => refuse::deleted_records(index, ResponseError::UnknownServerError),
            });
        }
        topics.push(DeleteRecordsTopicResult::default().with_name(topic.name).with_partitions(partitions));
    }
    DeleteRecordsResponse::default().with_topics(topics)
}

fn answer(index: i32, low_watermark: i64) -> DeleteRecordsPartitionResult {
    DeleteRecordsPartitionResult::default().with_partition_index(index).with_low_watermark(low_watermark)
}
