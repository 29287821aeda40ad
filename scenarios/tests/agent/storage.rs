//! Batches in, batches out.

use crate::harness::{Connection, PLAIN, World, Writer, batch, text};
use bytes::Bytes;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::fetch_response::PartitionData;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::produce_response::PartitionProduceResponse;
use kafka_protocol::messages::{BrokerId, FetchRequest, ProduceRequest};
use kafka_protocol::records::RecordBatchDecoder;

/// A Produce request of one batch for each of the partitions from 0 on.
fn produce(topic: &str, batches: Vec<Bytes>) -> ProduceRequest {
    let data = (0..).zip(batches).map(|(index, records)| {
        PartitionProduceData::default().with_index(index).with_records(Some(records))
    });
    let topic = TopicProduceData::default().with_name(text(topic).into()).with_partition_data(data.collect());
    ProduceRequest::default().with_acks(-1).with_timeout_ms(5_000).with_topic_data(vec![topic])
}

/// Produces one batch to partition 0; the answer for it.
async fn send(agent: &mut Connection, topic: &str, batch: Bytes) -> PartitionProduceResponse {
    let answer = agent.call(9, &produce(topic, vec![batch])).await;
    answer.responses[0].partition_responses[0].clone()
}

/// Fetches partition 0 from `offset`, read_committed, without waiting.
async fn fetch(agent: &mut Connection, topic: &str, offset: i64) -> PartitionData {
    let partition = FetchPartition::default()
        .with_partition(0)
        .with_fetch_offset(offset)
        .with_partition_max_bytes(1 << 20);
    let topic = FetchTopic::default().with_topic(text(topic).into()).with_partitions(vec![partition]);
    let request = FetchRequest::default()
        .with_replica_id(BrokerId(-1))
        .with_max_bytes(1 << 20)
        .with_isolation_level(1)
        .with_topics(vec![topic]);
    let answer = agent.call(11, &request).await;
    answer.responses[0].partitions[0].clone()
}

/// Offsets and values of the records fetched.
fn records(data: &PartitionData) -> Vec<(i64, String)> {
    let mut bytes = data.records.clone().unwrap_or_default();
    let sets = RecordBatchDecoder::decode_all(&mut bytes).expect("whole batches");
    let records = sets.into_iter().flat_map(|set| set.records);
    let value = |value: Option<Bytes>| String::from_utf8_lossy(&value.unwrap_or_default()).into_owned();
    records.map(|record| (record.offset, value(record.value))).collect()
}

#[test]
fn what_is_produced_is_fetched_at_its_offsets() {
    World::default().run(|cluster| async move {
        let mut agent = cluster.connect("agent-1").await;
        agent.create_topic("t", 1, &[]).await;
        let first = send(&mut agent, "t", batch(PLAIN, 1_000, &["a", "b"])).await;
        assert_eq!((first.error_code, first.base_offset), (0, 0));
        let idempotent = Writer { producer_id: 7, epoch: 0, base_sequence: 0, transactional: false };
        let second = batch(idempotent, 1_000, &["c"]);
        assert_eq!(send(&mut agent, "t", second.clone()).await.base_offset, 2);
        assert_eq!(send(&mut agent, "t", second).await.base_offset, 2, "a repeat is answered, not appended");
        let data = fetch(&mut agent, "t", 0).await;
        assert_eq!((data.error_code, data.high_watermark, data.last_stable_offset), (0, 3, 3));
        let expected = [(0, "a"), (1, "b"), (2, "c")].map(|(offset, value)| (offset, value.to_string()));
        assert_eq!(records(&data), expected);
        assert_eq!(cluster.keys("index/t/").await.len(), 2, "one index entry per batch");
    });
}
