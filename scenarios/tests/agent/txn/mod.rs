//! Transactions: a raw producer that says exactly what a test wants said, and a reader that filters as clients do.

mod describe;
mod expiry;
mod finishers;
mod idempotence;
mod planted;
mod ranges;
mod stale;
mod timeouts;
mod version_2;

use crate::harness::{Cluster, Connection, Writer, batch, text};
use bytes::Bytes;
use fake_etcd::api::{PutRequest, RangeRequest};
use kafka_protocol::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::fetch_response::PartitionData;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{
    AddPartitionsToTxnRequest, BrokerId, EndTxnRequest, EndTxnResponse, FetchRequest, InitProducerIdRequest,
    ProduceRequest,
};
use kafka_protocol::records::{Record, RecordBatchDecoder};
use rt::time::sleep;
use std::collections::BTreeSet;
use std::time::Duration;

/// The topic of these tests.
const TOPIC: &str = "t";
/// Error codes, by their names in Kafka.
const OUT_OF_ORDER_SEQUENCE_NUMBER: i16 = 45;
const INVALID_PRODUCER_EPOCH: i16 = 47;
const INVALID_TXN_STATE: i16 = 48;
const INVALID_PRODUCER_ID_MAPPING: i16 = 49;
const CONCURRENT_TRANSACTIONS: i16 = 51;
const PRODUCER_FENCED: i16 = 90;
const TRANSACTION_ABORTABLE: i16 = 120;

const COMMIT: bool = true;
const ABORT: bool = false;

/// Versions of Produce and EndTxn that belong to one transaction version.
#[derive(Clone, Copy)]
struct Versions {
    produce: i16,
    end: i16,
}

const V1: Versions = Versions { produce: 11, end: 4 };
const V2: Versions = Versions { produce: 12, end: 5 };

/// A transactional id with the producer id and epoch that its holder goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Holder {
    id: &'static str,
    producer_id: i64,
    epoch: i16,
}

/// A first InitProducerId of `id`, with the longest time-out of these tests.
async fn init(agent: &mut Connection, id: &'static str) -> Holder {
    init_with(agent, id, 60_000).await
}

async fn init_with(agent: &mut Connection, id: &'static str, timeout_ms: i32) -> Holder {
    loop {
        let (code, producer_id, epoch) = init_again(agent, id, timeout_ms, (-1, -1)).await;
        if code != CONCURRENT_TRANSACTIONS {
            assert_eq!(code, 0);
            return Holder { id, producer_id, epoch };
        }
        pause().await;
    }
}

/// InitProducerId by one who holds `expected`: code, producer id and epoch.
async fn init_again(
    agent: &mut Connection,
    id: &str,
    timeout_ms: i32,
    expected: (i64, i16),
) -> (i16, i64, i16) {
    let request = InitProducerIdRequest::default()
        .with_transactional_id(Some(text(id).into()))
        .with_transaction_timeout_ms(timeout_ms)
        .with_producer_id(expected.0.into())
        .with_producer_epoch(expected.1);
    let answer = agent.call(4, &request).await;
    (answer.error_code, answer.producer_id.0, answer.producer_epoch)
}

/// AddPartitionsToTxn, once: the code of the first partition.
async fn add_once(agent: &mut Connection, holder: Holder, partitions: &[i32]) -> i16 {
    let topic =
        AddPartitionsToTxnTopic::default().with_name(text(TOPIC).into()).with_partitions(partitions.to_vec());
    let request = AddPartitionsToTxnRequest::default()
        .with_v3_and_below_transactional_id(text(holder.id).into())
        .with_v3_and_below_producer_id(holder.producer_id.into())
        .with_v3_and_below_producer_epoch(holder.epoch)
        .with_v3_and_below_topics(vec![topic]);
    let answer = agent.call(3, &request).await;
    answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
}

/// AddPartitionsToTxn, as long as markers are out.
async fn add(agent: &mut Connection, holder: Holder, partitions: &[i32]) {
    loop {
        match add_once(agent, holder, partitions).await {
            CONCURRENT_TRANSACTIONS => pause().await,
            code => return assert_eq!(code, 0, "AddPartitionsToTxn"),
        }
    }
}

/// Produce of one transactional batch: code and base offset.
async fn send(
    agent: &mut Connection,
    versions: Versions,
    holder: Holder,
    partition: i32,
    base_sequence: i32,
    values: &[&str],
) -> (i16, i64) {
    let Holder { producer_id, epoch, .. } = holder;
    let records = batch(Writer { producer_id, epoch, base_sequence, transactional: true }, 1_000, values);
    send_bytes(agent, versions, Some(holder.id), partition, records).await
}

async fn send_bytes(
    agent: &mut Connection,
    versions: Versions,
    transactional_id: Option<&str>,
    partition: i32,
    records: Bytes,
) -> (i16, i64) {
    let data = PartitionProduceData::default().with_index(partition).with_records(Some(records));
    let topic = TopicProduceData::default().with_name(text(TOPIC).into()).with_partition_data(vec![data]);
    let request = ProduceRequest::default()
        .with_transactional_id(transactional_id.map(|id| text(id).into()))
        .with_acks(-1)
        .with_timeout_ms(5_000)
        .with_topic_data(vec![topic]);
    let answer = agent.call(versions.produce, &request).await;
    let answer = &answer.responses[0].partition_responses[0];
    (answer.error_code, answer.base_offset)
}

/// EndTxn, once: code, and the producer id and epoch that the answer hands out.
async fn end_once(
    agent: &mut Connection,
    versions: Versions,
    holder: Holder,
    committed: bool,
) -> (i16, i64, i16) {
    let EndTxnResponse { error_code, producer_id, producer_epoch, .. } =
        agent.call(versions.end, &end_request(holder, committed)).await;
    (error_code, producer_id.0, producer_epoch)
}

fn end_request(holder: Holder, committed: bool) -> EndTxnRequest {
    EndTxnRequest::default()
        .with_transactional_id(text(holder.id).into())
        .with_producer_id(holder.producer_id.into())
        .with_producer_epoch(holder.epoch)
        .with_committed(committed)
}

/// EndTxn, as long as markers are out.
async fn end(agent: &mut Connection, versions: Versions, holder: Holder, committed: bool) -> (i16, i64, i16) {
    loop {
        match end_once(agent, versions, holder, committed).await {
            (CONCURRENT_TRANSACTIONS, ..) => pause().await,
            answer => return answer,
        }
    }
}

/// What EndTxn below version 5 answers on success.
const DONE: (i16, i64, i16) = (0, -1, -1);

fn refused(code: i16) -> (i16, i64, i16) {
    (code, -1, -1)
}

async fn pause() {
    sleep(Duration::from_millis(20)).await;
}

/// Long enough for the markers of a transaction that ended.
async fn markers() {
    sleep(Duration::from_millis(500)).await;
}

/// Fetch of one partition from `offset`, without waiting.
async fn fetch(
    agent: &mut Connection,
    partition: i32,
    offset: i64,
    committed: bool,
    max_bytes: i32,
) -> PartitionData {
    let partition = FetchPartition::default()
        .with_partition(partition)
        .with_fetch_offset(offset)
        .with_partition_max_bytes(max_bytes);
    let topic = FetchTopic::default().with_topic(text(TOPIC).into()).with_partitions(vec![partition]);
    let request = FetchRequest::default()
        .with_replica_id(BrokerId(-1))
        .with_max_bytes(1 << 20)
        .with_isolation_level(i8::from(committed))
        .with_topics(vec![topic]);
    let answer = agent.call(11, &request).await;
    assert_eq!(answer.error_code, 0);
    answer.responses[0].partitions[0].clone()
}

/// The records of an answer, control records too.
fn records(data: &PartitionData) -> Vec<Record> {
    let mut bytes = data.records.clone().unwrap_or_default();
    let sets = RecordBatchDecoder::decode_all(&mut bytes).expect("whole batches");
    sets.into_iter().flat_map(|set| set.records).collect()
}

/// Producer id and first offset of each aborted transaction that the answer names.
fn aborted(data: &PartitionData) -> Vec<(i64, i64)> {
    let listed = data.aborted_transactions.iter().flatten();
    listed.map(|aborted| (aborted.producer_id.0, aborted.first_offset)).collect()
}

/// What a read_committed reader is given of a partition, with Kafka's filter (kafka.md 6), and the LSO.
async fn committed(agent: &mut Connection, partition: i32) -> (Vec<String>, i64) {
    let data = fetch(agent, partition, 0, true, 1 << 20).await;
    assert_eq!(data.error_code, 0);
    let mut waiting = aborted(&data);
    let mut active = BTreeSet::new();
    let mut values = Vec::new();
    for record in records(&data) {
        waiting.retain(|(producer_id, first_offset)| {
            let begins = *first_offset <= record.offset;
            if begins {
                active.insert(*producer_id);
            }
            !begins
        });
        if record.control {
            if record.key.as_deref() == Some(&[0, 0, 0, 0]) {
                active.remove(&record.producer_id);
            }
        } else if !record.transactional || !active.contains(&record.producer_id) {
            values.push(String::from_utf8_lossy(&record.value.unwrap_or_default()).into_owned());
        }
    }
    (values, data.last_stable_offset)
}

/// Gives a transactional id another epoch, past the agents: the second field of its state (see `broker::transaction`).
async fn set_epoch(cluster: Cluster, id: &str, epoch: i16) {
    let etcd = cluster.etcd();
    let key = Bytes::from(format!("txns/{id}"));
    let range = RangeRequest { key: key.clone(), ..RangeRequest::default() };
    let value = etcd.range(range).await.expect("an answer").kvs[0].value.clone();
    let varint_end = |from: usize| from + value[from..].iter().position(|b| b & 0x80 == 0).expect("ends") + 1;
    let at = varint_end(1);
    let mut zigzag = (epoch as u32) << 1;
    let mut encoded = Vec::new();
    while zigzag >= 0x80 {
        encoded.push(zigzag as u8 | 0x80);
        zigzag >>= 7;
    }
    encoded.push(zigzag as u8);
    let value = [&value[..at], &encoded, &value[varint_end(at)..]].concat();
    etcd.put(PutRequest { key, value: value.into(), ..PutRequest::default() }).await.expect("written");
}
