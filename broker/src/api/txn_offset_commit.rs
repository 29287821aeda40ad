//! TxnOffsetCommit (28), versions 0 to 5: kafka.md 1.8. The offsets stay pending until the transaction ends; `pending` does
//! the work. Version 5 is that of transaction version 2.

use super::refuse;
use crate::age;
use crate::agent::Context;
use crate::config::TransactionVersion;
use crate::gate::Snapshot;
use crate::group::{self, Claim};
use crate::layout;
use crate::offsets::{self, Asked, Attempt, Row, STEP};
use crate::pending::{self, Committer};
use kafka_protocol::ResponseError;
use kafka_protocol::messages::txn_offset_commit_request::TxnOffsetCommitRequestTopic;
use kafka_protocol::messages::txn_offset_commit_response::{
    TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic,
};
use kafka_protocol::messages::{TxnOffsetCommitRequest, TxnOffsetCommitResponse};
use rt::time::{Instant, sleep};
use std::time::Duration;

/// First version whose clients understand TRANSACTION_ABORTABLE (KIP-890).
const ABORTABLE_SINCE: i16 = 4;
/// First version of transaction version 2, which lists the group in the transaction by itself.
const V2_SINCE: i16 = 5;

pub(super) async fn handle(
    context: &Context,
    version: i16,
    request: TxnOffsetCommitRequest,
) -> TxnOffsetCommitResponse {
    let outcomes = match commit(context, version, &request).await {
        Ok(outcomes) => outcomes,
        Err(error) => vec![Err(error); asked(&request.topics).len()],
    };
    let mut outcomes = outcomes.into_iter();
    let topics = request.topics.into_iter().map(|topic| {
        let partitions = topic.partitions.iter().zip(&mut outcomes).map(|(partition, outcome)| {
            let index = partition.partition_index;
            match outcome {
                Ok(()) => TxnOffsetCommitResponsePartition::default().with_partition_index(index),
                Err(error) => refuse::pending_offset(index, told(error, version)),
            }
        });
        TxnOffsetCommitResponseTopic::default().with_partitions(partitions.collect()).with_name(topic.name)
    });
    TxnOffsetCommitResponse::default().with_topics(topics.collect())
}

/// What a client of this version can be told.
fn told(error: ResponseError, version: i16) -> ResponseError {
    match error {
        ResponseError::TransactionAbortable if version < ABORTABLE_SINCE => ResponseError::InvalidTxnState,
        other => other,
    }
}

fn asked(topics: &[TxnOffsetCommitRequestTopic]) -> Vec<Asked<'_>> {
    let asked = topics.iter().flat_map(|topic| {
        topic.partitions.iter().map(|partition| Asked {
            topic: &topic.name,
            partition: partition.partition_index,
            offset: partition.committed_offset,
            leader_epoch: partition.committed_leader_epoch,
            metadata: partition.committed_metadata.as_deref().unwrap_or_default(),
            retention_ms: -1,
        })
    });
    asked.collect()
}

/// One outcome per partition, or an error of the whole request.
async fn commit(
    context: &Context,
    version: i16,
    request: &TxnOffsetCommitRequest,
) -> Result<Vec<Result<(), ResponseError>>, ResponseError> {
    if !layout::is_id(&request.group_id) {
        return Err(ResponseError::InvalidGroupId);
    }
    if !layout::is_id(&request.transactional_id) {
        return Err(ResponseError::InvalidRequest);
    }
    let committer = Committer {
        transactional_id: &request.transactional_id,
        producer_id: request.producer_id.0,
        epoch: request.producer_epoch,
        group: &request.group_id,
        number: age::number(&request.unknown_tagged_fields),
    };
    let checked = offsets::check(context, &asked(&request.topics), committer.ranges()).await;
    let (checked, found) = checked.map_err(|fault| fault.coordinator_error())?;
    let rows: Vec<&Row<'_>> = checked.iter().flatten().collect();
    let group = hold(context, version, request, &committer, &rows, found).await;
    Ok(offsets::outcomes(&checked, group.map_err(|error| group::commit_error(error, 0))))
}

async fn hold(
    context: &Context,
    version: i16,
    request: &TxnOffsetCommitRequest,
    committer: &Committer<'_>,
    rows: &[&Row<'_>],
    mut found: Option<Snapshot>,
) -> Result<(), ResponseError> {
    let rules = context.config.transactions.version.of_request(version, V2_SINCE);
    let joins = rules == TransactionVersion::V2;
    let config = &context.config.transactions;
    // A client of version 2 goes on while the end of its last transaction is being written (kafka.md 3.7).
    let rejoin_until = Instant::now() + Duration::from_millis(if joins { config.join_limit_ms } else { 0 });
    let backoff = Duration::from_millis(config.join_backoff_ms);
    let claim = Claim {
        generation: request.generation_id,
        member_id: &request.member_id,
        instance_id: request.group_instance_id.as_deref(),
        transactional: true,
        version,
    };
    let mut patience = context.patience();
    for rows in rows.chunks(STEP) {
        let mut tried = None;
        loop {
            match pending::hold(context, committer, &claim, joins, rows, found.take(), &mut tried).await {
                Ok(Attempt::Done) => break,
                Ok(Attempt::Refused(ResponseError::ConcurrentTransactions))
                    if Instant::now() + backoff <= rejoin_until =>
                {
                    sleep(backoff).await;
                }
                Ok(Attempt::Refused(error)) => return Err(error),
                Ok(Attempt::Changed) if patience.is_over() => {
                    return Err(ResponseError::CoordinatorLoadInProgress);
                }
                Ok(Attempt::Changed) => {}
                Err(fault) if fault.passes() && patience.pause().await => {}
                Err(fault) => return Err(fault.coordinator_error()),
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_clients_are_told_what_they_know() {
        let told = |error, version| told(error, version).code();
        assert_eq!(told(ResponseError::TransactionAbortable, 3), 48);
        assert_eq!(told(ResponseError::TransactionAbortable, 4), 120);
        assert_eq!(told(ResponseError::ConcurrentTransactions, 0), 51);
    }
}
