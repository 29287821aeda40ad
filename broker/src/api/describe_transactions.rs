//! DescribeTransactions (65), version 0. The start of a transaction is when its first partition joined; one that has none
//! (any more) has no start (-1), where Kafka remembers that of the last one.

use super::refuse;
use crate::agent::Context;
use crate::codec;
use crate::coordinator::{KeyValue, Range};
use crate::gate::Fault;
use crate::layout;
use crate::records::TxnPart;
use crate::transaction::TxnState;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::describe_transactions_response::{TopicData, TransactionState};
use kafka_protocol::messages::{
    DescribeTransactionsRequest, DescribeTransactionsResponse, ProducerId, TopicName,
};
use kafka_protocol::protocol::StrBytes;

pub(super) async fn handle(
    context: &Context,
    _version: i16,
    request: DescribeTransactionsRequest,
) -> DescribeTransactionsResponse {
    let mut states = Vec::with_capacity(request.transactional_ids.len());
    for id in request.transactional_ids {
        states.push(match describe(context, &id).await {
            Ok(Some(state)) => state.with_transactional_id(id),
            Ok(None) => refuse::described_transaction(id, ResponseError::TransactionalIdNotFound),
            Err(error) => refuse::described_transaction(id, error),
        });
    }
    DescribeTransactionsResponse::default().with_transaction_states(states)
}

async fn describe(context: &Context, id: &str) -> Result<Option<TransactionState>, ResponseError> {
    if id.is_empty() {
        return Err(ResponseError::InvalidRequest);
    }
    let mut patience = context.patience();
    loop {
        match look(context, id).await {
            Ok(state) => return Ok(state),
            Err(fault) if fault.passes() && patience.pause().await => {}
            Err(fault) => return Err(fault.coordinator_error()),
        }
    }
}

async fn look(context: &Context, id: &str) -> Result<Option<TransactionState>, Fault> {
    let parts = layout::txn_parts(id);
    let parts = Range::span(parts.clone(), layout::end_of(&parts), 0);
    let mut now = context.gate.read(vec![Range::key(layout::txn(id)), parts]).await?;
    let Some(state) = now.one::<TxnState>()?.into_value() else { return Ok(None) };
    let parts = now.next().kvs;
    let described = TransactionState::default()
        .with_transaction_state(StrBytes::from_static_str(state.phase.name()))
        .with_transaction_timeout_ms(state.timeout_ms)
        .with_transaction_start_time_ms(started_ms(&parts)?.unwrap_or(-1))
        .with_producer_id(ProducerId(state.producer_id))
        .with_producer_epoch(state.epoch)
        .with_topics(topics(&parts));
    Ok(Some(described))
}

/// When the first of `parts` joined, in ms.
pub(super) fn started_ms(parts: &[KeyValue]) -> Result<Option<i64>, Fault> {
    let mut first = None;
    for kv in parts {
        let TxnPart { added_ms } = codec::decode(&kv.value)?;
        first = Some(first.map_or(added_ms, |first: i64| first.min(added_ms)));
    }
    Ok(first)
}

/// Partitions by topic; the keys are in that order.
fn topics(parts: &[KeyValue]) -> Vec<TopicData> {
    let mut topics: Vec<TopicData> = Vec::new();
    for (topic, partition) in parts.iter().filter_map(|kv| layout::partition_of(&kv.key)) {
        match topics.last_mut() {
            Some(last) if last.topic.as_str() == topic => last.partitions.push(partition),
            _ => topics.push(
                TopicData::default()
                    .with_topic(TopicName(super::text(topic)))
                    .with_partitions(vec![partition]),
            ),
        }
    }
    topics
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(topic: &str, partition: i32, added_ms: i64) -> KeyValue {
        let (key, value) = (layout::txn_part("jt1", topic, partition), codec::encode(&TxnPart { added_ms }));
        KeyValue { key, value, create_revision: 1, mod_revision: 1, version: 1, lease: 0 }
    }

    #[test]
    fn partitions_are_listed_by_topic_and_the_first_to_join_is_the_start() {
        let parts = [part("a", 0, 30), part("a", 7, 20), part("b", 1, 40)];
        let listed: Vec<_> =
            topics(&parts).into_iter().map(|topic| (topic.topic.to_string(), topic.partitions)).collect();
        assert_eq!(listed, [("a".into(), vec![0, 7]), ("b".into(), vec![1])]);
        assert_eq!(started_ms(&parts), Ok(Some(20)));
        assert_eq!(started_ms(&[]), Ok(None));
    }
}
