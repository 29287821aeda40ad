//! DescribeProducers (61), version 0: what a partition knows of its producers. It shows a hanging transaction: a transaction
//! start offset that stays (kafka.md 1.8).

use super::refuse;
use crate::agent::Context;
use crate::codec;
use crate::coordinator::{KeyValue, Range};
use crate::gate::{Fault, Stored};
use crate::layout;
use crate::producer::ProducerEntry;
use crate::records::{Head, TopicEntry};
use crate::topics;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::describe_producers_response::{
    PartitionResponse, ProducerState, TopicResponse,
};
use kafka_protocol::messages::{DescribeProducersRequest, DescribeProducersResponse, ProducerId};

/// Producers read at once.
const PAGE: i64 = 500;

pub(super) async fn handle(
    context: &Context,
    _version: i16,
    request: DescribeProducersRequest,
) -> DescribeProducersResponse {
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in request.topics {
        let mut partitions = Vec::with_capacity(topic.partition_indexes.len());
        for partition in topic.partition_indexes {
            partitions.push(match producers(context, &topic.name, partition).await {
                Ok(Ok(producers)) => described(partition, producers),
                Ok(Err(error)) => refuse::described_producers(partition, error),
                // Clients refresh their metadata and ask again, perhaps another agent.
                Err(fault) if fault.passes() => {
                    refuse::described_producers(partition, ResponseError::NotLeaderOrFollower)
                }
                Err(_) => refuse::described_producers(partition, ResponseError::UnknownServerError),
            });
        }
        topics.push(TopicResponse::default().with_name(topic.name).with_partitions(partitions));
    }
    DescribeProducersResponse::default().with_topics(topics)
}

fn described(partition: i32, producers: Vec<ProducerState>) -> PartitionResponse {
    PartitionResponse::default().with_partition_index(partition).with_active_producers(producers)
}

/// All producers of a partition as of one revision, by producer id.
async fn producers(
    context: &Context,
    topic: &str,
    partition: i32,
) -> Result<Result<Vec<ProducerState>, ResponseError>, Fault> {
    let first = layout::producers(topic, partition);
    let end = layout::end_of(&first);
    let ranges = vec![
        Range::key(layout::topic(topic)),
        Range::key(layout::head(topic, partition)),
        Range::span(first, end.clone(), PAGE),
    ];
    let mut now = context.gate.read(ranges).await?;
    let entry: Stored<TopicEntry> = now.one()?;
    let head: Head = now.one::<Head>()?.into_value().unwrap_or_default();
    if !topics::holds(&entry, partition) {
        return Ok(Err(ResponseError::UnknownTopicOrPartition));
    }
    let mut producers = Vec::new();
    let mut page = now.next();
    loop {
        for kv in &page.kvs {
            producers.extend(producer(kv, &head)?);
        }
        let Some(last) = page.kvs.last().filter(|_| page.more) else { return Ok(Ok(producers)) };
        let from = [&last.key[..], &[0]].concat().into();
        let next = Range { revision: now.revision, ..Range::span(from, end.clone(), PAGE) };
        page = context.gate.range(next).await?;
    }
}

fn producer(kv: &KeyValue, head: &Head) -> Result<Option<ProducerState>, Fault> {
    let entry: ProducerEntry = codec::decode(&kv.value)?;
    let Some((_, _, producer_id)) = layout::producer_of(&kv.key) else { return Ok(None) };
    let state = ProducerState::default()
        .with_producer_id(ProducerId(producer_id))
        .with_producer_epoch(entry.epoch.into())
        .with_last_sequence(entry.last_sequence())
        .with_last_timestamp(entry.last_timestamp_ms)
        .with_coordinator_epoch(entry.coordinator_epoch)
        .with_current_txn_start_offset(head.open.get(&producer_id).copied().unwrap_or(-1));
    Ok(Some(state))
}
