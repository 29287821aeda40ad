//! The producer's requests: their bytes' content, their labels, and their answers.
//!
//! Labels are words by which a scenario catches a frame: `EndTxn commit id=jt1 txn=2 try=1`.

use super::core::Core;
use super::transaction::{Call, GroupOffsets, Reply, TxnRequest};
use crate::codes;
use crate::network::Answer;
use crate::node::Failure;
use crate::types::TopicPartition;
use bytes::Bytes;
use kafka_protocol::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use kafka_protocol::messages::{
    AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, EndTxnRequest, FindCoordinatorRequest, GroupId,
    InitProducerIdRequest, ProduceRequest, TopicName, TransactionalId, TxnOffsetCommitRequest,
};
use kafka_protocol::protocol::StrBytes;
use std::collections::{BTreeMap, BTreeSet};

/// The key types of a group and of a transactional id in `FindCoordinator`.
const KEY_TYPE_GROUP: i8 = 0;
/// See above.
const KEY_TYPE_TRANSACTION: i8 = 1;

pub(crate) fn topic_name(topic: &str) -> TopicName {
    TopicName(StrBytes::from_string(topic.to_string()))
}

fn transactional_id(core: &Core) -> Option<TransactionalId> {
    core.config.transactional_id.clone().map(|id| StrBytes::from_string(id).into())
}

/// The tagged field that numbers transactions: big-endian, for brokers that know it (this testbed's).
const NUMBER_TAG: i32 = 10_000;

/// What a client that numbers its transactions adds to a request of the current one.
fn numbered(core: &Core) -> BTreeMap<i32, Bytes> {
    let number = || Bytes::copy_from_slice(&core.transactions.number().to_be_bytes());
    core.transactions.is_numbered().then(|| (NUMBER_TAG, number())).into_iter().collect()
}

/// A `Produce` of one batch a partition.
pub(crate) fn produce(core: &Core, batches: &[(TopicPartition, Bytes)]) -> ProduceRequest {
    let mut topics: BTreeMap<&str, Vec<PartitionProduceData>> = BTreeMap::new();
    for (partition, records) in batches {
        let data = PartitionProduceData::default()
            .with_index(partition.partition)
            .with_records(Some(records.clone()));
        topics.entry(&partition.topic).or_default().push(data);
    }
    let topics = topics.into_iter().map(|(topic, data)| {
        TopicProduceData::default().with_name(topic_name(topic)).with_partition_data(data)
    });
    ProduceRequest::default()
        .with_transactional_id(transactional_id(core))
        .with_acks(core.config.acks)
        .with_timeout_ms(core.config.request_timeout_ms as i32)
        .with_topic_data(topics.collect())
        .with_unknown_tagged_fields(numbered(core))
}

pub(crate) fn produce_label(core: &Core, batches: &[(TopicPartition, Bytes)]) -> String {
    let partitions: Vec<String> = batches.iter().map(|(partition, _)| partition.to_string()).collect();
    let partitions = partitions.join(",");
    match core.transactions.is_transactional() {
        true => format!("Produce id={} txn={} {partitions}", core.id(), core.transactions.number()),
        false => format!("Produce client={} {partitions}", core.id()),
    }
}

pub(crate) fn label(core: &Core, request: &TxnRequest) -> String {
    let id = core.id();
    let (txn, attempt) = (request.txn, request.tries);
    match &request.call {
        Call::FindCoordinator => format!("FindCoordinator id={id}"),
        Call::FindGroupCoordinator(group) => format!("FindCoordinator id={id} group={group}"),
        Call::InitProducerId { .. } if attempt > 1 => format!("InitProducerId id={id} try={attempt}"),
        Call::InitProducerId { .. } => format!("InitProducerId id={id}"),
        Call::AddPartitionsToTxn { .. } if attempt > 1 => {
            format!("AddPartitionsToTxn id={id} txn={txn} try={attempt}")
        }
        Call::AddPartitionsToTxn { .. } => format!("AddPartitionsToTxn id={id} txn={txn}"),
        Call::AddOffsetsToTxn { .. } => format!("AddOffsetsToTxn id={id} txn={txn} try={attempt}"),
        Call::TxnOffsetCommit { .. } => format!("TxnOffsetCommit id={id} txn={txn} try={attempt}"),
        Call::EndTxn { committed, .. } => {
            let verb = if *committed { "commit" } else { "abort" };
            format!("EndTxn {verb} id={id} txn={txn} try={attempt}")
        }
    }
}

/// Versions up to 3 have one key, later ones (`batched`) a list. Without a group it asks for the coordinator of the
/// transactional id.
pub(crate) fn find_coordinator(core: &Core, group: Option<&str>, batched: bool) -> FindCoordinatorRequest {
    let id = || core.config.transactional_id.clone().unwrap_or_default();
    let key = StrBytes::from_string(group.map_or_else(id, str::to_string));
    let key_type = if group.is_some() { KEY_TYPE_GROUP } else { KEY_TYPE_TRANSACTION };
    let request = FindCoordinatorRequest::default().with_key_type(key_type);
    if batched { request.with_coordinator_keys(vec![key]) } else { request.with_key(key) }
}

pub(crate) fn init_producer_id(core: &Core, producer_id: i64, epoch: i16) -> InitProducerIdRequest {
    InitProducerIdRequest::default()
        .with_transactional_id(transactional_id(core))
        .with_transaction_timeout_ms(match core.config.transactional_id {
            Some(_) => core.config.transaction_timeout_ms,
            None => i32::MAX,
        })
        .with_producer_id(producer_id.into())
        .with_producer_epoch(epoch)
}

pub(crate) fn add_partitions(
    core: &Core,
    producer_id: i64,
    epoch: i16,
    partitions: &BTreeSet<TopicPartition>,
) -> AddPartitionsToTxnRequest {
    let mut topics: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
    for partition in partitions {
        topics.entry(&partition.topic).or_default().push(partition.partition);
    }
    let topics = topics.into_iter().map(|(topic, partitions)| {
        AddPartitionsToTxnTopic::default().with_name(topic_name(topic)).with_partitions(partitions)
    });
    AddPartitionsToTxnRequest::default()
        .with_v3_and_below_transactional_id(transactional_id(core).unwrap_or_default())
        .with_v3_and_below_producer_id(producer_id.into())
        .with_v3_and_below_producer_epoch(epoch)
        .with_v3_and_below_topics(topics.collect())
        .with_unknown_tagged_fields(numbered(core))
}

pub(crate) fn add_offsets(core: &Core, producer_id: i64, epoch: i16, group: &str) -> AddOffsetsToTxnRequest {
    AddOffsetsToTxnRequest::default()
        .with_transactional_id(transactional_id(core).unwrap_or_default())
        .with_producer_id(producer_id.into())
        .with_producer_epoch(epoch)
        .with_group_id(GroupId(StrBytes::from_string(group.to_string())))
        .with_unknown_tagged_fields(numbered(core))
}

pub(crate) fn txn_offset_commit(
    core: &Core,
    producer_id: i64,
    epoch: i16,
    offsets: &GroupOffsets,
) -> TxnOffsetCommitRequest {
    let text = |text: &str| StrBytes::from_string(text.to_string());
    let mut topics: BTreeMap<&str, Vec<TxnOffsetCommitRequestPartition>> = BTreeMap::new();
    for (partition, offset) in &offsets.offsets {
        let committed = TxnOffsetCommitRequestPartition::default()
            .with_partition_index(partition.partition)
            .with_committed_offset(*offset);
        topics.entry(&partition.topic).or_default().push(committed);
    }
    let topics = topics.into_iter().map(|(topic, partitions)| {
        TxnOffsetCommitRequestTopic::default().with_name(topic_name(topic)).with_partitions(partitions)
    });
    TxnOffsetCommitRequest::default()
        .with_transactional_id(transactional_id(core).unwrap_or_default())
        .with_group_id(GroupId(text(&offsets.group.group_id)))
        .with_producer_id(producer_id.into())
        .with_producer_epoch(epoch)
        .with_generation_id(offsets.group.generation_id)
        .with_member_id(text(&offsets.group.member_id))
        .with_group_instance_id(offsets.group.group_instance_id.as_deref().map(text))
        .with_topics(topics.collect())
        .with_unknown_tagged_fields(numbered(core))
}

pub(crate) fn end_txn(core: &Core, producer_id: i64, epoch: i16, committed: bool) -> EndTxnRequest {
    EndTxnRequest::default()
        .with_transactional_id(transactional_id(core).unwrap_or_default())
        .with_producer_id(producer_id.into())
        .with_producer_epoch(epoch)
        .with_committed(committed)
        .with_unknown_tagged_fields(numbered(core))
}

/// A reply, and the address of the coordinator it names.
pub(crate) fn reply(call: &Call, answer: Result<Answer, Failure>) -> (Reply, Option<String>) {
    let reply = answer.and_then(|answer| match call {
        Call::FindCoordinator | Call::FindGroupCoordinator(_) => {
            answer.decode::<FindCoordinatorRequest>().map(|response| {
                let (code, node, host, port) = match response.coordinators.into_iter().next() {
                    Some(found) => (found.error_code, found.node_id, found.host, found.port),
                    None => (response.error_code, response.node_id, response.host, response.port),
                };
                (Reply::Coordinator { code, node: node.0 }, Some(format!("{}:{port}", &*host)))
            })
        }
        Call::InitProducerId { .. } => answer.decode::<InitProducerIdRequest>().map(|response| {
            let (producer_id, epoch) = (response.producer_id.0, response.producer_epoch);
            (Reply::Producer { code: response.error_code, producer_id, epoch }, None)
        }),
        Call::AddPartitionsToTxn { .. } => answer.decode::<AddPartitionsToTxnRequest>().map(|response| {
            let topics = response.results_by_topic_v3_and_below;
            let codes = topics.iter().flat_map(|topic| &topic.results_by_partition);
            (Reply::Partitions(codes.map(|partition| partition.partition_error_code).collect()), None)
        }),
        Call::AddOffsetsToTxn { .. } => answer
            .decode::<AddOffsetsToTxnRequest>()
            .map(|response| (Reply::Offsets(response.error_code), None)),
        Call::TxnOffsetCommit { .. } => answer.decode::<TxnOffsetCommitRequest>().map(|response| {
            let codes = response.topics.iter().flat_map(|topic| &topic.partitions);
            (Reply::Partitions(codes.map(|partition| partition.error_code).collect()), None)
        }),
        Call::EndTxn { .. } => answer.decode::<EndTxnRequest>().map(|response| {
            let (producer_id, epoch) = (response.producer_id.0, response.producer_epoch);
            (Reply::End { code: response.error_code, producer_id, epoch }, None)
        }),
    });
    match reply {
        Ok(reply) => reply,
        Err(Failure::UnsupportedVersion) => (unsupported(call), None),
        Err(_) => (Reply::Lost, None),
    }
}

/// Java fails the request with `UnsupportedVersionException`, which is fatal.
fn unsupported(call: &Call) -> Reply {
    let code = codes::UNSUPPORTED_VERSION;
    match call {
        Call::FindCoordinator | Call::FindGroupCoordinator(_) => Reply::Coordinator { code, node: -1 },
        Call::InitProducerId { .. } => Reply::Producer { code, producer_id: -1, epoch: -1 },
        Call::AddPartitionsToTxn { .. } | Call::TxnOffsetCommit { .. } => Reply::Partitions(vec![code]),
        Call::AddOffsetsToTxn { .. } => Reply::Offsets(code),
        Call::EndTxn { .. } => Reply::End { code, producer_id: -1, epoch: -1 },
    }
}
