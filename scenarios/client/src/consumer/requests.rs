//! The consumer's requests and the shape of their answers.

use super::filter::Aborted;
use crate::config::ConsumerConfig;
use crate::metadata::Metadata;
use crate::network::Answer;
use crate::node::Failure;
use crate::types::TopicPartition;
use bytes::Bytes;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::{FetchRequest, ListOffsetsRequest, TopicName};
use kafka_protocol::protocol::StrBytes;
use std::collections::BTreeMap;

/// The last version of `Fetch` that names topics; later ones have topic ids.
const FETCH_BY_NAME: i16 = 12;

/// The offsets to fetch at, by partition.
pub(crate) type Offsets = BTreeMap<TopicPartition, i64>;

/// One partition's part of a `Fetch` answer.
pub(crate) struct PartitionFetched {
    pub(crate) code: i16,
    pub(crate) aborted: Vec<Aborted>,
    pub(crate) records: Bytes,
}

/// A sessionless `Fetch`, and the highest version it can be sent in: without topic ids the one before them.
pub(crate) fn fetch(config: &ConsumerConfig, metadata: &Metadata, offsets: &Offsets) -> (FetchRequest, i16) {
    let mut cap = i16::MAX;
    let mut topics: BTreeMap<&str, Vec<FetchPartition>> = BTreeMap::new();
    for (partition, offset) in offsets {
        let epoch = metadata.leader(partition).map_or(-1, |leader| leader.epoch);
        let wanted = FetchPartition::default()
            .with_partition(partition.partition)
            .with_current_leader_epoch(epoch)
            .with_fetch_offset(*offset)
            .with_partition_max_bytes(config.max_partition_fetch_bytes);
        topics.entry(&partition.topic).or_default().push(wanted);
    }
    let topics = topics.into_iter().map(|(name, partitions)| {
        let mut topic = FetchTopic::default().with_topic(topic_name(name)).with_partitions(partitions);
        match metadata.topic(name).filter(|found| !found.topic_id.is_nil()) {
            Some(found) => topic.topic_id = found.topic_id,
            None => cap = FETCH_BY_NAME,
        }
        topic
    });
    let request = FetchRequest::default()
        .with_max_wait_ms(config.fetch_max_wait_ms)
        .with_min_bytes(config.fetch_min_bytes)
        .with_max_bytes(config.fetch_max_bytes)
        .with_isolation_level(config.isolation_level.wire())
        .with_session_epoch(-1)
        .with_topics(topics.collect());
    (request, cap)
}

/// Takes a `Fetch` answer apart. The first code is the whole answer's.
pub(crate) fn fetched(
    answer: Answer,
    metadata: &Metadata,
) -> Result<(i16, BTreeMap<TopicPartition, PartitionFetched>), Failure> {
    let response = answer.decode::<FetchRequest>()?;
    let mut out = BTreeMap::new();
    for topic in response.responses {
        let by_id =
            || metadata.topics().find(|(_, known)| known.topic_id == topic.topic_id).map(|(name, _)| name);
        let name = match topic.topic.is_empty() {
            false => topic.topic.to_string(),
            true => by_id().cloned().ok_or(Failure::Malformed)?,
        };
        for partition in topic.partitions {
            let aborted = partition.aborted_transactions.unwrap_or_default();
            let aborted = aborted
                .into_iter()
                .map(|entry| Aborted { producer_id: entry.producer_id.0, first_offset: entry.first_offset });
            let fetched = PartitionFetched {
                code: partition.error_code,
                aborted: aborted.collect(),
                records: partition.records.unwrap_or_default(),
            };
            out.insert(TopicPartition::new(name.clone(), partition.partition_index), fetched);
        }
    }
    Ok((response.error_code, out))
}

/// A `ListOffsets` with one timestamp for each partition.
pub(crate) fn list_offsets(
    config: &ConsumerConfig,
    metadata: &Metadata,
    timestamps: &Offsets,
) -> ListOffsetsRequest {
    let mut topics: BTreeMap<&str, Vec<ListOffsetsPartition>> = BTreeMap::new();
    for (partition, timestamp) in timestamps {
        let epoch = metadata.leader(partition).map_or(-1, |leader| leader.epoch);
        let wanted = ListOffsetsPartition::default()
            .with_partition_index(partition.partition)
            .with_current_leader_epoch(epoch)
            .with_timestamp(*timestamp);
        topics.entry(&partition.topic).or_default().push(wanted);
    }
    let topics = topics.into_iter().map(|(name, partitions)| {
        ListOffsetsTopic::default().with_name(topic_name(name)).with_partitions(partitions)
    });
    ListOffsetsRequest::default()
        .with_replica_id((-1).into())
        .with_isolation_level(config.isolation_level.wire())
        .with_topics(topics.collect())
}

/// Takes a `ListOffsets` answer apart: error code and offset of each partition.
pub(crate) fn listed(answer: Answer) -> Result<BTreeMap<TopicPartition, (i16, i64)>, Failure> {
    let response = answer.decode::<ListOffsetsRequest>()?;
    let each = response.topics.into_iter().flat_map(|topic| {
        let name = topic.name.to_string();
        topic.partitions.into_iter().map(move |partition| {
            let at = TopicPartition::new(name.clone(), partition.partition_index);
            (at, (partition.error_code, partition.offset))
        })
    });
    Ok(each.collect())
}

fn topic_name(name: &str) -> TopicName {
    TopicName(StrBytes::from_string(name.to_string()))
}
