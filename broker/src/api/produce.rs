//! Produce (0), versions 3 to 12: kafka.md 1.4. The wire side; `append` does the work.

use super::refuse;
use crate::age::{self, Stamp};
use crate::agent::Context;
use crate::append::{self, Claim, GROUP, Placed, Submission};
use crate::batch;
use crate::config::TransactionVersion;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::produce_response::{PartitionProduceResponse, TopicProduceResponse};
use kafka_protocol::messages::{ProduceRequest, ProduceResponse};
use rt::time::{Instant, sleep};
use std::time::Duration;

/// First version whose clients understand TRANSACTION_ABORTABLE (KIP-890).
const ABORTABLE_SINCE: i16 = 11;
/// First version whose clients understand the coordinator's own errors, and first of transaction version 2.
const V2_SINCE: i16 = 12;

/// What the client gets.
pub(super) enum Outcome {
    Answer(ProduceResponse),
    /// acks=0: nothing.
    Silence,
    /// acks=0 and an error: the only way to say so.
    Close,
}

type Result = std::result::Result<Placed, ResponseError>;

pub(super) async fn handle(context: &Context, version: i16, request: ProduceRequest) -> Outcome {
    let acks = request.acks;
    let results = match acks {
        -1..=1 => execute(context, version, &request).await,
        _ => {
            let partitions = request.topic_data.iter().map(|topic| topic.partition_data.len()).sum();
            vec![Err(ResponseError::InvalidRequiredAcks); partitions]
        }
    };
    match acks {
        0 if results.iter().any(std::result::Result::is_err) => Outcome::Close,
        0 => Outcome::Silence,
        _ => Outcome::Answer(answer(context, version, request, results)),
    }
}

/// One result per partition, in the order of the request.
async fn execute(context: &Context, version: i16, request: &ProduceRequest) -> Vec<Result> {
    let mut results = Vec::new();
    let mut waiting = Vec::new();
    let mut transactional = Vec::new();
    for topic in &request.topic_data {
        for partition in &topic.partition_data {
            let records = partition.records.clone().unwrap_or_default();
            match batch::check(&records) {
                Ok(header) if header.transactional && request.transactional_id.is_none() => {
                    // Kafka sees no transactional id that the client could be authorized for.
                    results.push(Err(ResponseError::TransactionalIdAuthorizationFailed));
                }
                Ok(header) => {
                    if header.transactional {
                        transactional.push((header.producer_id, header.epoch));
                    }
                    // Every result is replaced by that of its group.
                    let submission = Submission {
                        topic: topic.name.0.clone(),
                        partition: partition.index,
                        header,
                        bytes: records,
                    };
                    waiting.push((results.len(), submission));
                    results.push(Err(ResponseError::UnknownServerError));
                }
                Err(error) => results.push(Err(error)),
            }
        }
    }
    if transactional.windows(2).any(|pair| pair[0] != pair[1]) {
        results.fill(Err(ResponseError::InvalidProducerIdMapping));
        return results;
    }
    let id = request.transactional_id.as_ref().filter(|_| !transactional.is_empty());
    let rules = context.config.transactions.version.of_request(version, V2_SINCE);
    let limit_ms = context.config.request_limit_ms.min(request.timeout_ms.max(0) as u64);
    let mut patience = context.patience_for(limit_ms);
    let claim = match id.map(|id| id.as_str()) {
        None => None,
        Some(transactional_id) => match Stamp::take(context, transactional_id, &mut patience).await {
            Ok(stamp) => {
                let number = age::number(&request.unknown_tagged_fields);
                Some(Claim { transactional_id, rules, stamp, number })
            }
            Err(_) => {
                results.fill(Err(ResponseError::NotEnoughReplicas));
                return results;
            }
        },
    };
    let rejoin = Rejoin::new(context, rules);
    let mut again = Vec::new();
    while !waiting.is_empty() {
        let (at, group): (Vec<usize>, Vec<Submission>) = take_group(&mut waiting).into_iter().unzip();
        let appended = append::append(context, claim, &group, &mut patience).await;
        for ((at, submission), result) in at.into_iter().zip(group).zip(appended) {
            if rejoin.wants(&result) {
                again.push((at, submission));
            }
            results[at] = result;
        }
        if waiting.is_empty() && !again.is_empty() {
            sleep(rejoin.backoff).await;
            waiting = std::mem::take(&mut again);
        }
    }
    results
}

/// How long batches that meet CONCURRENT_TRANSACTIONS are tried again: a client of version 2 sends the next transaction's
/// batches while the markers of the last are being written (kafka.md 3.7).
struct Rejoin {
    backoff: Duration,
    deadline: Instant,
}

impl Rejoin {
    fn new(context: &Context, rules: TransactionVersion) -> Self {
        let config = &context.config.transactions;
        let limit_ms = if rules == TransactionVersion::V2 { config.join_limit_ms } else { 0 };
        let deadline = Instant::now() + Duration::from_millis(limit_ms);
        Rejoin { backoff: Duration::from_millis(config.join_backoff_ms), deadline }
    }

    fn wants(&self, result: &Result) -> bool {
        *result == Err(ResponseError::ConcurrentTransactions)
            && Instant::now() + self.backoff <= self.deadline
    }
}

/// Takes batches of different partitions, as many as one commit may carry.
fn take_group(waiting: &mut Vec<(usize, Submission)>) -> Vec<(usize, Submission)> {
    let mut group: Vec<(usize, Submission)> = Vec::new();
    for (at, next) in std::mem::take(waiting) {
        let again = |other: &Submission| other.topic == next.topic && other.partition == next.partition;
        if group.len() == GROUP || group.iter().any(|(_, other)| again(other)) {
            waiting.push((at, next));
        } else {
            group.push((at, next));
        }
    }
    group
}

fn answer(context: &Context, version: i16, request: ProduceRequest, results: Vec<Result>) -> ProduceResponse {
    let mut results = results.into_iter();
    let keeps_default = context.config.defects.zero_base_offset;
    let topics = request.topic_data.into_iter().map(|topic| {
        let partitions =
            topic.partition_data.iter().zip(&mut results).map(|(partition, result)| match result {
                Ok(placed) if keeps_default && placed.is_repeat => {
                    refuse::produced(partition.index, ResponseError::DuplicateSequenceNumber)
                        .with_base_offset(0)
                }
                Ok(placed) => placed_at(partition.index, placed),
                Err(error) => {
                    let refused = refuse::produced(partition.index, disguise(error, version));
                    if keeps_default { refused.with_base_offset(0) } else { refused }
                }
            });
        let partition_responses = partitions.collect();
        TopicProduceResponse::default().with_name(topic.name).with_partition_responses(partition_responses)
    });
    ProduceResponse::default().with_responses(topics.collect())
}

fn placed_at(index: i32, placed: Placed) -> PartitionProduceResponse {
    PartitionProduceResponse::default()
        .with_index(index)
        .with_base_offset(placed.base_offset)
        .with_log_append_time_ms(-1)
        .with_log_start_offset(placed.log_start_offset)
}

/// What a client of this version can be told (kafka.md 1.4, after `ReplicaManager` of Kafka 4).
fn disguise(error: ResponseError, version: i16) -> ResponseError {
    match error {
        ResponseError::TransactionAbortable if version < ABORTABLE_SINCE => ResponseError::InvalidTxnState,
        ResponseError::ConcurrentTransactions if version < V2_SINCE => ResponseError::NotEnoughReplicas,
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Header;
    use kafka_protocol::protocol::StrBytes;

    #[test]
    fn old_clients_are_told_what_they_know() {
        let told = |error, version| disguise(error, version).code();
        assert_eq!(told(ResponseError::ConcurrentTransactions, 11), 19);
        assert_eq!(told(ResponseError::ConcurrentTransactions, 12), 51);
        assert_eq!(told(ResponseError::TransactionAbortable, 10), 48);
        assert_eq!(told(ResponseError::TransactionAbortable, 11), 120);
        assert_eq!(told(ResponseError::InvalidProducerEpoch, 3), 47);
    }

    #[test]
    fn a_group_holds_each_partition_once_and_is_bounded() {
        let header = Header {
            count: 1,
            max_timestamp_ms: 0,
            producer_id: -1,
            epoch: -1,
            base_sequence: -1,
            transactional: false,
        };
        let submission = |partition| Submission {
            topic: StrBytes::from_static_str("t"),
            partition,
            header,
            bytes: bytes::Bytes::new(),
        };
        let partitions = [0, 1, 0].into_iter().chain(2..40);
        let mut waiting: Vec<_> = partitions.map(submission).enumerate().collect();
        let taken = |waiting: &mut Vec<_>| take_group(waiting).iter().map(|(at, _)| *at).collect::<Vec<_>>();
        let first = taken(&mut waiting);
        assert_eq!((first.len(), &first[..3]), (GROUP, &[0, 1, 3][..]));
        let second = taken(&mut waiting);
        assert_eq!((second.len(), second[0]), (41 - GROUP, 2));
        assert!(waiting.is_empty());
    }
}
