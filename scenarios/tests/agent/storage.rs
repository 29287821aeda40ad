//! Batches in, batches out: chunks shared by requests, the beginning of a log, and what happens to chunks nobody needs.

use crate::harness::{Cluster, Connection, PLAIN, World, Writer, batch, text};
use broker::AgentConfig;
use bytes::Bytes;
use kafka_protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::fetch_response::PartitionData;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::produce_response::PartitionProduceResponse;
use kafka_protocol::messages::{
    BrokerId, DeleteRecordsRequest, EndTxnRequest, FetchRequest, InitProducerIdRequest, ListOffsetsRequest,
    ProduceRequest,
};
use kafka_protocol::records::RecordBatchDecoder;
use rt::time::{sleep, wall_ms};
use scenarios::Config;
use sim::fault::{Fault, FramePattern, Scheduled, When};
use std::time::Duration;

/// Long enough for whatever a test does to an agent meanwhile.
const PATIENT_MS: i32 = 100_000;

/// A Produce request of one batch for one partition.
pub(crate) fn produce(topic: &str, partition: i32, batch: Bytes) -> ProduceRequest {
    let data = PartitionProduceData::default().with_index(partition).with_records(Some(batch));
    let topic = TopicProduceData::default().with_name(text(topic).into()).with_partition_data(vec![data]);
    ProduceRequest::default().with_acks(-1).with_timeout_ms(PATIENT_MS).with_topic_data(vec![topic])
}

/// Produces one batch; the answer for it.
async fn send(agent: &mut Connection, topic: &str, partition: i32, batch: Bytes) -> PartitionProduceResponse {
    let answer = agent.call(9, &produce(topic, partition, batch)).await;
    answer.responses[0].partition_responses[0].clone()
}

/// Fetches partition 0 from `offset`, read_committed, without waiting.
async fn fetch(agent: &mut Connection, topic: &str, offset: i64) -> PartitionData {
    let request = fetch_request(topic, 0, offset);
    agent.call(11, &request).await.responses[0].partitions[0].clone()
}

/// A Fetch of one partition, read_committed, without waiting.
pub(crate) fn fetch_request(topic: &str, partition: i32, offset: i64) -> FetchRequest {
    let partition = FetchPartition::default()
        .with_partition(partition)
        .with_fetch_offset(offset)
        .with_partition_max_bytes(1 << 20);
    let topic = FetchTopic::default().with_topic(text(topic).into()).with_partitions(vec![partition]);
    FetchRequest::default()
        .with_replica_id(BrokerId(-1))
        .with_max_bytes(1 << 20)
        .with_isolation_level(1)
        .with_topics(vec![topic])
}

/// Offsets and values of the records fetched.
pub(crate) fn records(data: &PartitionData) -> Vec<(i64, String)> {
    assert_eq!(data.error_code, 0);
    let mut bytes = data.records.clone().unwrap_or_default();
    let sets = RecordBatchDecoder::decode_all(&mut bytes).expect("whole batches");
    let records = sets.into_iter().flat_map(|set| set.records);
    let value = |value: Option<Bytes>| String::from_utf8_lossy(&value.unwrap_or_default()).into_owned();
    records.map(|record| (record.offset, value(record.value))).collect()
}

/// These values, at the offsets from `first` on.
fn at(first: i64, values: &[&str]) -> Vec<(i64, String)> {
    (first..).zip(values.iter().map(ToString::to_string)).collect()
}

/// The offset that ListOffsets answers for partition 0.
async fn offset_for(agent: &mut Connection, topic: &str, timestamp_ms: i64) -> i64 {
    let partition = ListOffsetsPartition::default().with_partition_index(0).with_timestamp(timestamp_ms);
    let topic = ListOffsetsTopic::default().with_name(text(topic).into()).with_partitions(vec![partition]);
    let request = ListOffsetsRequest::default().with_replica_id(BrokerId(-1)).with_topics(vec![topic]);
    agent.call(5, &request).await.topics[0].partitions[0].offset
}

/// Deletes the records of partition 0 before `offset`: error code and low watermark.
pub(crate) async fn delete_records(
    agent: &mut Connection,
    topic: &str,
    partition: i32,
    offset: i64,
) -> (i16, i64) {
    let asked = DeleteRecordsPartition::default().with_partition_index(partition).with_offset(offset);
    let topic = DeleteRecordsTopic::default().with_name(text(topic).into()).with_partitions(vec![asked]);
    let request = DeleteRecordsRequest::default().with_timeout_ms(5_000).with_topics(vec![topic]);
    let answer = agent.call(2, &request).await.topics[0].partitions[0].clone();
    (answer.error_code, answer.low_watermark)
}

/// A world of `agents`, each with these settings.
fn world(agents: u32, agent: AgentConfig) -> World {
    World { config: Config { agents, ..Config::default() }, agent, ..World::default() }
}

/// `agent-2` sleeps from then on.
fn sleeps(when: When, for_ms: u64) -> Vec<Scheduled> {
    vec![Scheduled { id: 1, when, fault: Fault::Pause { node: "agent-2".into(), for_ms } }]
}

/// Waits until the store holds this many chunks.
async fn chunks_become(cluster: Cluster, count: usize) {
    for _ in 0..200 {
        if cluster.chunks().await.len() == count {
            return;
        }
        sleep(Duration::from_millis(100)).await;
    }
    panic!("the store holds {:?}, not {count} chunks", cluster.chunks().await);
}

#[test]
fn what_is_produced_is_fetched_at_its_offsets() {
    World::default().run(|cluster| async move {
        let mut agent = cluster.connect("agent-1").await;
        agent.create_topic("t", 1, &[]).await;
        let first = send(&mut agent, "t", 0, batch(PLAIN, 1_000, &["a", "b"])).await;
        assert_eq!((first.error_code, first.base_offset), (0, 0));
        let idempotent = Writer { producer_id: 7, epoch: 0, base_sequence: 0, transactional: false };
        let second = batch(idempotent, 1_000, &["c"]);
        assert_eq!(send(&mut agent, "t", 0, second.clone()).await.base_offset, 2);
        assert_eq!(
            send(&mut agent, "t", 0, second).await.base_offset,
            2,
            "a repeat is answered, not appended"
        );
        let data = fetch(&mut agent, "t", 0).await;
        assert_eq!((data.high_watermark, data.last_stable_offset), (3, 3));
        assert_eq!(records(&data), at(0, &["a", "b", "c"]));
        assert_eq!(cluster.keys("index/t/").await.len(), 2, "one index entry per batch");
    });
}

#[test]
fn requests_share_a_chunk_and_a_refused_neighbour_harms_nobody() {
    let agent = AgentConfig { chunk_linger_ms: 50, ..AgentConfig::default() };
    world(1, agent).run(|cluster| async move {
        let mut agent = cluster.connect("agent-1").await;
        agent.create_topic("t", 9, &[]).await;
        let producer =
            |epoch, base_sequence| Writer { producer_id: 7, epoch, base_sequence, transactional: false };
        let known = send(&mut agent, "t", 8, batch(producer(3, 0), 1_000, &["x"])).await;
        assert_eq!((known.error_code, cluster.chunks().await.len()), (0, 1));
        let mut connections = Vec::new();
        for partition in 0..9 {
            let mut connection = cluster.connect("agent-1").await;
            // The last one is a producer of an epoch that is over.
            let writer = if partition == 8 { producer(2, 0) } else { PLAIN };
            let batch = batch(writer, 1_000, &[&format!("value of {partition}")]);
            connection.send(9, &produce("t", partition, batch)).await;
            connections.push(connection);
        }
        let mut codes = Vec::new();
        for connection in &mut connections {
            let answer = connection.receive::<ProduceRequest>(9).await;
            codes.push(answer.responses[0].partition_responses[0].error_code);
        }
        assert_eq!(codes, [0, 0, 0, 0, 0, 0, 0, 0, 47]);
        let chunks = cluster.chunks().await;
        assert!((2..=4).contains(&chunks.len()), "eight requests within 50 ms: {chunks:?}");
        assert_eq!(records(&fetch(&mut agent, "t", 0).await), at(0, &["value of 0"]));
    });
}

#[test]
fn many_requests_for_one_partition_line_up() {
    let run = World::default().run(|cluster| async move {
        let mut agent = cluster.connect("agent-1").await;
        agent.create_topic("t", 1, &[]).await;
        let mut connections = Vec::new();
        for _ in 0..30 {
            connections.push(cluster.connect("agent-1").await);
        }
        for connection in &mut connections {
            connection.send(9, &produce("t", 0, batch(PLAIN, 1_000, &["v"]))).await;
        }
        let mut offsets = Vec::new();
        for connection in &mut connections {
            let answer = connection.receive::<ProduceRequest>(9).await;
            offsets.push(answer.responses[0].partition_responses[0].base_offset);
        }
        offsets.sort_unstable();
        assert_eq!(offsets, (0..30).collect::<Vec<_>>());
    });
    // Who comes first commits what it decided before its chunk was written; those of an earlier chunk may have been quicker.
    let met = run.marks.held("an append met another one");
    assert!(met <= 3, "{met} failed guards; by trying at once they are 30 * 29 / 2");
}

#[test]
fn delete_records_moves_the_log_start_and_nothing_else() {
    World::default().run(|cluster| async move {
        let mut agent = cluster.connect("agent-1").await;
        agent.create_topic("t", 1, &[]).await;
        for values in [["a", "b"], ["c", "d"], ["e", "f"]] {
            send(&mut agent, "t", 0, batch(PLAIN, 1_000, &values)).await;
        }
        assert_eq!(delete_records(&mut agent, "t", 0, 7).await, (1, -1), "above the high watermark");
        assert_eq!(delete_records(&mut agent, "t", 0, -2).await, (1, -1), "no such offset");
        assert_eq!(delete_records(&mut agent, "t", 1, 0).await, (3, -1), "no such partition");
        assert_eq!(delete_records(&mut agent, "t", 0, 3).await, (0, 3));
        assert_eq!(delete_records(&mut agent, "t", 0, 2).await, (0, 3), "it only moves forward");
        assert_eq!(fetch(&mut agent, "t", 2).await.error_code, 1);
        let data = fetch(&mut agent, "t", 3).await;
        assert_eq!(data.log_start_offset, 3);
        assert_eq!(records(&data), at(2, &["c", "d", "e", "f"]), "the batch with offset 3 is whole");
        let (earliest, first_ever) = (-2, 0);
        assert_eq!(offset_for(&mut agent, "t", earliest).await, 3);
        assert_eq!(offset_for(&mut agent, "t", first_ever).await, 3, "by time, from the log start on");
        assert_eq!(cluster.keys("index/t/").await.len(), 2);
        assert_eq!(delete_records(&mut agent, "t", 0, -1).await, (0, 6), "-1 is the high watermark");
        assert_eq!(cluster.keys("index/t/").await.len(), 0);
        let next = send(&mut agent, "t", 0, batch(PLAIN, 1_000, &["g"])).await;
        assert_eq!((next.base_offset, next.log_start_offset), (6, 6));
        assert_eq!(records(&fetch(&mut agent, "t", 6).await), at(6, &["g"]));
    });
}

#[test]
fn retention_deletes_what_is_too_old_or_too_much_and_the_chunks_go_after_it() {
    let agent =
        AgentConfig { retention_interval_ms: 500, collection_interval_ms: 500, ..AgentConfig::default() };
    world(2, agent).run(|cluster| async move {
        let mut agent = cluster.connect("agent-2").await;
        agent.create_topic("old", 1, &[("retention.ms", "60000"), ("segment.bytes", "kept")]).await;
        agent.create_topic("large", 1, &[("retention.bytes", "200"), ("cleanup.policy", "delete")]).await;
        let now_ms = wall_ms();
        for (age_ms, value) in [(600_000, "a"), (120_000, "b"), (0, "c"), (120_000, "d")] {
            send(&mut agent, "old", 0, batch(PLAIN, now_ms - age_ms, &[value])).await;
        }
        // 69 bytes each: header 61, record 8.
        for value in ["a", "b", "c", "d", "e"] {
            send(&mut agent, "large", 0, batch(PLAIN, now_ms, &[value])).await;
        }
        sleep(Duration::from_secs(3)).await;
        assert_eq!(offset_for(&mut agent, "old", -2).await, 2, "c is young, and d comes after it");
        assert_eq!(records(&fetch(&mut agent, "old", 2).await), at(2, &["c", "d"]));
        assert_eq!(offset_for(&mut agent, "large", -2).await, 2, "three batches are no less than 200 bytes");
        assert_eq!(records(&fetch(&mut agent, "large", 2).await), at(2, &["c", "d", "e"]));
        chunks_become(cluster, 5).await;
        assert_eq!(cluster.keys("index/").await.len(), 5);
    });
}

#[test]
fn a_batch_above_the_topics_limit_is_refused() {
    World::default().run(|cluster| async move {
        let mut agent = cluster.connect("agent-1").await;
        agent.create_topic("small", 1, &[("max.message.bytes", "100")]).await;
        let large = "v".repeat(100);
        assert_eq!(send(&mut agent, "small", 0, batch(PLAIN, 1_000, &[&large])).await.error_code, 10);
        assert_eq!(send(&mut agent, "small", 0, batch(PLAIN, 1_000, &["v"])).await.error_code, 0);
    });
}

/// The agent sleeps between upload and commit while another one collects its chunk; whatever it commits later must be
/// there to be read.
#[test]
fn a_chunk_whose_commit_is_still_to_come_is_not_lost_however_long_the_agent_sleeps() {
    let agent = AgentConfig {
        collection_interval_ms: 1_000,
        request_limit_ms: PATIENT_MS as u64,
        ..AgentConfig::default()
    };
    let second_commit =
        When::Point { node: Some("agent-2".into()), point: "produce.before-commit".into(), nth: 2 };
    let faults = sleeps(second_commit, 60_000);
    let run = World { faults, ..world(2, agent) }.run(|cluster| async move {
        let mut agent = cluster.connect("agent-2").await;
        agent.create_topic("t", 1, &[]).await;
        send(&mut agent, "t", 0, batch(PLAIN, 1_000, &["a"])).await;
        let idempotent = Writer { producer_id: 7, epoch: 0, base_sequence: 0, transactional: false };
        agent.send(9, &produce("t", 0, batch(idempotent, 1_000, &["b"]))).await;
        sleep(Duration::from_millis(500)).await;
        assert_eq!(cluster.chunks().await.len(), 2, "uploaded, not committed");
        chunks_become(cluster, 1).await;
        let answer = agent.receive::<ProduceRequest>(9).await;
        let answer = &answer.responses[0].partition_responses[0];
        assert_eq!((answer.error_code, answer.base_offset), (0, 1));
        let mut other = cluster.connect("agent-1").await;
        assert_eq!(records(&fetch(&mut other, "t", 0).await), at(0, &["a", "b"]));
        sleep(Duration::from_secs(10)).await;
        assert_eq!(records(&fetch(&mut other, "t", 0).await), at(0, &["a", "b"]), "and it stays");
        assert_eq!(cluster.keys("writers/").await, [""; 0], "an agent that writes nothing keeps no floor");
        assert_eq!(send(&mut agent, "t", 0, batch(PLAIN, 1_000, &["c"])).await.base_offset, 2);
    });
    let settled = run.marks.held("a chunk was settled before it was committed");
    assert_eq!(settled, 2, "after the sleep, and after the floor was taken away");
}

/// A reader sleeps between index and store while its chunks are merged and deleted.
#[test]
fn small_chunks_are_merged_and_every_offset_keeps_its_bytes() {
    let agent = AgentConfig {
        compaction_interval_ms: 1_000,
        compaction_min_chunks: 4,
        collection_interval_ms: 1_000,
        cache_max_bytes: 0,
        coordinator_timeout_ms: PATIENT_MS as u64,
        ..AgentConfig::default()
    };
    // Only a Fetch reads aborted ranges; this is the answer to the second one's read.
    let answer = FramePattern::words("etcd.txn.reply aborted/t/0000000000/00000000000000000000");
    let second_read = When::Frame(FramePattern { to: Some("agent-2".into()), nth: 2, ..answer });
    let faults = sleeps(second_read, 30_000);
    let run = World { faults, ..world(2, agent) }.run(|cluster| async move {
        let mut agent = cluster.connect("agent-2").await;
        agent.create_topic("t", 1, &[]).await;
        for value in ["a", "b", "c", "d", "e", "f"] {
            send(&mut agent, "t", 0, batch(PLAIN, 1_000, &[value])).await;
        }
        let before = fetch(&mut agent, "t", 0).await;
        assert_eq!(records(&before), at(0, &["a", "b", "c", "d", "e", "f"]));
        let mut sleeper = cluster.connect("agent-2").await;
        let second = fetch(&mut sleeper, "t", 0);
        let (during, ()) = tokio::join!(second, chunks_become(cluster, 1));
        assert_eq!(during.records, before.records, "read through an index that is out of date");
        let after = fetch(&mut cluster.connect("agent-1").await, "t", 0).await;
        assert_eq!(after.records, before.records);
        assert_eq!(send(&mut agent, "t", 0, batch(PLAIN, 1_000, &["g"])).await.base_offset, 6);
    });
    assert!(run.marks.held("a reader followed a batch to another chunk") > 0);
}

/// DeleteRecords may cut into a transaction that is open; retention waits for its end.
#[test]
fn a_log_may_begin_inside_an_open_transaction_but_retention_does_not_put_it_there() {
    let agent = AgentConfig { retention_interval_ms: 300, ..AgentConfig::default() };
    world(1, agent).run(|cluster| async move {
        let mut agent = cluster.connect("agent-1").await;
        agent.create_topic("t", 1, &[("retention.bytes", "0")]).await;
        let id = text("jt1").into();
        let init = InitProducerIdRequest::default()
            .with_transactional_id(Some(id))
            .with_transaction_timeout_ms(60_000);
        let producer_id = agent.call(2, &init).await.producer_id;
        let writer = Writer { producer_id: producer_id.0, epoch: 0, base_sequence: 0, transactional: true };
        let records_of = |base_sequence| batch(Writer { base_sequence, ..writer }, 1_000, &["a", "b"]);
        for base_sequence in [0, 2] {
            let request =
                produce("t", 0, records_of(base_sequence)).with_transactional_id(Some(text("jt1").into()));
            let answer = agent.call(9, &request).await;
            assert_eq!(answer.responses[0].partition_responses[0].error_code, 0);
        }
        sleep(Duration::from_secs(1)).await;
        let open = fetch(&mut agent, "t", 0).await;
        assert_eq!((open.log_start_offset, open.last_stable_offset, open.high_watermark), (0, 0, 4));
        assert_eq!(delete_records(&mut agent, "t", 0, 3).await, (0, 3));
        let cut = fetch(&mut agent, "t", 3).await;
        assert_eq!((cut.log_start_offset, cut.last_stable_offset, cut.high_watermark), (3, 3, 4));
        assert!(records(&cut).is_empty(), "the batch that holds offset 3 is undecided");
        let end =
            EndTxnRequest::default().with_transactional_id(text("jt1").into()).with_producer_id(producer_id);
        assert_eq!(agent.call(1, &end).await.error_code, 0);
        // The marker is at 4; then everything is stable, and none of it need be kept.
        sleep(Duration::from_secs(1)).await;
        assert_eq!(offset_for(&mut agent, "t", -2).await, 5);
        assert_eq!(cluster.keys("aborted/t/").await.len() + cluster.keys("index/t/").await.len(), 0);
        assert_eq!(send(&mut agent, "t", 0, batch(PLAIN, 1_000, &["c"])).await.base_offset, 5);
    });
}
