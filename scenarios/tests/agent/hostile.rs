//! Requests mutated from real ones: no panic, no hang, memory bounded, and the agent is what it was before.
//!
//! Method: worlds of one agent and ten thousand requests each. A request is a real one of a random API, with one or two
//! changes: bits, bytes and numbers overwritten, bytes put in or taken out, another API or version. One in sixteen
//! lies about its length, too. The memory that all of the world takes on between sending and answer is bounded; in
//! the end the agent drains, which it can only when no request is stuck.
//!
//! Limits. Mutation knows no coverage: that is for the fuzz target, `broker/fuzz`.
//!
//! A million of them, about ten minutes: `cargo test --release -p scenarios --test agent -- --ignored --nocapture million`.

use crate::allocations::Peak;
use crate::harness::{Connection, PLAIN, World, Writer, batch, frame, text};
use broker::AgentConfig;
use bytes::Bytes;
use kafka_protocol::messages::*;
use rt::time::{sleep, timeout};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Requests of one world.
const REQUESTS: u64 = 10_000;
/// How long an answer is waited for. Some never come: to acks=0, and to what is only half a frame.
const ANSWER_LIMIT: Duration = Duration::from_secs(1);
/// Most bytes that one request may make the whole world take on, fakes and network included.
const MEMORY_MAX_BYTES: isize = 2 << 20;

/// What became of the requests.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    answered: u64,
    closed: u64,
    silent: u64,
    memory_max_bytes: isize,
}

#[test]
fn fifty_thousand_mutated_requests_do_no_harm() {
    let tally = worlds(0..5);
    // Both must be frequent, or the mutations are too mild or too wild to test anything.
    assert!(tally.answered > 5_000 && tally.closed > 10_000, "{tally:?}");
}

#[test]
#[ignore = "ten minutes"]
fn a_million_mutated_requests_do_no_harm() {
    println!("{:?}", worlds(100..200));
}

fn worlds(seeds: std::ops::Range<u64>) -> Tally {
    let mut total = Tally::default();
    for seed in seeds {
        let tally = world(seed);
        total.answered += tally.answered;
        total.closed += tally.closed;
        total.silent += tally.silent;
        total.memory_max_bytes = total.memory_max_bytes.max(tally.memory_max_bytes);
    }
    total
}

fn world(seed: u64) -> Tally {
    let agent = AgentConfig { connections_max_idle_ms: 10_000, ..AgentConfig::default() };
    let world = World { seed, agent, ..World::default() };
    let healths = world.health.clone();
    let told = Arc::new(Mutex::new(Tally::default()));
    let tally = told.clone();
    world.run(move |cluster| async move {
        let mut connection = cluster.connect("agent-1").await;
        connection.create_topic("t", 2, &[]).await;
        let corpus = corpus();
        for n in 0..REQUESTS {
            let mut draw = Draw(seed << 32 | n);
            let mut frame = corpus[draw.below(corpus.len())].to_vec();
            mutate(&mut frame, &mut draw);
            let peak = Peak::begin();
            let answer = send(&mut connection, &frame).await;
            let memory = peak.bytes();
            assert!(memory <= MEMORY_MAX_BYTES, "{memory} bytes for {frame:02x?}");
            {
                let mut tally = tally.lock().expect("nobody panics under it");
                tally.memory_max_bytes = tally.memory_max_bytes.max(memory);
                match answer {
                    Answer::Frame => tally.answered += 1,
                    Answer::Closed => tally.closed += 1,
                    Answer::None => tally.silent += 1,
                }
            }
            if !matches!(answer, Answer::Frame) {
                connection = cluster.connect("agent-1").await;
            }
        }
        assert_eq!(corpus_is_understood(&mut connection).await, 0);
        let health = healths.lock().expect("nobody panics under it")["agent-1"].clone();
        health.drain();
        drop(connection);
        sleep(Duration::from_secs(12)).await;
        assert!(cluster.keys("agents/").await.is_empty(), "a request is stuck: the agent does not end");
    });
    *told.lock().expect("nobody panics under it")
}

enum Answer {
    Frame,
    Closed,
    None,
}

async fn send(connection: &mut Connection, frame: &[u8]) -> Answer {
    // The agent may close while it is being written to.
    let _ = connection.stream.write_frame(frame, || "mutated".into()).await;
    match timeout(ANSWER_LIMIT, connection.read()).await {
        Ok(Some(_)) => Answer::Frame,
        Ok(None) => Answer::Closed,
        Err(_) => Answer::None,
    }
}

/// The error code of an append, by an agent that is as well as ever.
async fn corpus_is_understood(connection: &mut Connection) -> i16 {
    let answer = connection.call(9, &produce(batch(PLAIN, 1, &["well"]), false)).await;
    answer.responses[0].partition_responses[0].error_code
}

/// Draws by SplitMix64.
struct Draw(u64);

impl Draw {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % n.max(1) as u64) as usize
    }
}

/// Numbers at which lengths, counts and offsets break.
const NUMBERS: [i64; 14] =
    [0, 1, -1, -2, 2, 127, 128, 255, 0x7fff, -0x8000, i32::MAX as i64, i32::MIN as i64, i64::MAX, i64::MIN];

/// Changes a frame; its length stays true, most of the time.
fn mutate(frame: &mut Vec<u8>, draw: &mut Draw) {
    for _ in 0..=draw.below(2) {
        // Mostly behind the header, and mostly such that lengths stay what they are.
        let first = if draw.below(16) == 0 { 4 } else { 14.min(frame.len() - 1) };
        let at = first + draw.below(frame.len() - first);
        match draw.below(18) {
            0..=3 => frame[at] ^= 1 << draw.below(8),
            4..=7 => frame[at] = [0, 1, 0x7f, 0x80, 0xff][draw.below(5)],
            8..=11 => {
                let width = [1, 2, 4, 8][draw.below(4)];
                let number = NUMBERS[draw.below(NUMBERS.len())].to_be_bytes();
                let end = (at + width).min(frame.len());
                frame[at..end].copy_from_slice(&number[8 - width..][..end - at]);
            }
            12 => frame.truncate(at.max(12)),
            13 => {
                let end = (at + 1 + draw.below(40)).min(frame.len());
                frame.drain(at..end);
                frame.resize(frame.len().max(12), 0);
            }
            14 => {
                let end = (at + 1 + draw.below(40)).min(frame.len());
                let again = frame[at..end].to_vec();
                frame.splice(at..at, again);
            }
            15 => {
                frame.splice(at..at, [0xff, 0xff, 0xff, 0xff, 0x0f]);
            }
            16 => frame[5] = draw.below(70) as u8,
            _ => frame[7] = draw.below(17) as u8,
        }
    }
    let lie = if draw.below(16) == 0 { draw.below(9) as i64 - 4 } else { 0 };
    let length = (frame.len() as i64 - 4 + lie) as i32;
    frame[..4].copy_from_slice(&length.to_be_bytes());
}

fn produce(records: Bytes, transactional: bool) -> ProduceRequest {
    use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
    let data = PartitionProduceData::default().with_index(0).with_records(Some(records));
    let topic = TopicProduceData::default().with_name(text("t").into()).with_partition_data(vec![data]);
    ProduceRequest::default()
        .with_acks(-1)
        .with_timeout_ms(5_000)
        .with_transactional_id(transactional.then(|| text("tx").into()))
        .with_topic_data(vec![topic])
}

/// Real requests of every API of the issue, in a plain and in a flexible version where both exist.
fn corpus() -> Vec<Bytes> {
    let writer = Writer { producer_id: 1, epoch: 0, base_sequence: 0, transactional: true };
    let mut corpus = vec![
        frame(3, 1, &produce(batch(PLAIN, 1_000, &["a", "b"]), false)),
        frame(9, 1, &produce(batch(PLAIN, 1_000, &["a", "b", "c"]), false)),
        frame(12, 1, &produce(batch(writer, 1_000, &["a"]), true)),
    ];
    corpus.extend(log());
    corpus.extend(transactions());
    corpus.extend(groups());
    corpus.extend(admin());
    corpus
}

fn log() -> Vec<Bytes> {
    use kafka_protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
    use kafka_protocol::messages::describe_producers_request::TopicRequest;
    use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
    use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
    use kafka_protocol::messages::offset_for_leader_epoch_request::{
        OffsetForLeaderPartition, OffsetForLeaderTopic,
    };
    let t = || TopicName(text("t"));
    let fetch = {
        let partition = FetchPartition::default().with_partition_max_bytes(1 << 20);
        let topic = FetchTopic::default().with_topic(t()).with_partitions(vec![partition]);
        FetchRequest::default()
            .with_replica_id(BrokerId(-1))
            .with_max_wait_ms(100)
            .with_max_bytes(1 << 20)
            .with_topics(vec![topic])
    };
    let list_offsets = {
        let partition = ListOffsetsPartition::default().with_timestamp(-1);
        let topic = ListOffsetsTopic::default().with_name(t()).with_partitions(vec![partition]);
        ListOffsetsRequest::default().with_replica_id(BrokerId(-1)).with_topics(vec![topic])
    };
    let epochs = {
        let partition = OffsetForLeaderPartition::default();
        let topic = OffsetForLeaderTopic::default().with_topic(t()).with_partitions(vec![partition]);
        OffsetForLeaderEpochRequest::default().with_topics(vec![topic])
    };
    let delete = {
        let partition = DeleteRecordsPartition::default().with_offset(0);
        let topic = DeleteRecordsTopic::default().with_name(t()).with_partitions(vec![partition]);
        DeleteRecordsRequest::default().with_topics(vec![topic]).with_timeout_ms(1_000)
    };
    let producers = {
        let topic = TopicRequest::default().with_name(t()).with_partition_indexes(vec![0, 1]);
        DescribeProducersRequest::default().with_topics(vec![topic])
    };
    vec![
        frame(4, 1, &fetch),
        frame(12, 1, &fetch),
        frame(1, 1, &list_offsets),
        frame(8, 1, &list_offsets),
        frame(3, 1, &epochs),
        frame(4, 1, &epochs),
        frame(0, 1, &delete),
        frame(2, 1, &delete),
        frame(0, 1, &producers),
    ]
}

fn transactions() -> Vec<Bytes> {
    use kafka_protocol::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
    use kafka_protocol::messages::txn_offset_commit_request::{
        TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
    };
    let (tx, t) = (|| TransactionalId(text("tx")), || TopicName(text("t")));
    let init = InitProducerIdRequest::default()
        .with_transactional_id(Some(tx()))
        .with_transaction_timeout_ms(60_000);
    let add = {
        let topic = AddPartitionsToTxnTopic::default().with_name(t()).with_partitions(vec![0, 1]);
        AddPartitionsToTxnRequest::default()
            .with_v3_and_below_transactional_id(tx())
            .with_v3_and_below_producer_id(ProducerId(1))
            .with_v3_and_below_topics(vec![topic])
    };
    let add_offsets = AddOffsetsToTxnRequest::default()
        .with_transactional_id(tx())
        .with_producer_id(ProducerId(1))
        .with_group_id(GroupId(text("g")));
    let offsets = {
        let partition = TxnOffsetCommitRequestPartition::default().with_committed_offset(1);
        let topic = TxnOffsetCommitRequestTopic::default().with_name(t()).with_partitions(vec![partition]);
        TxnOffsetCommitRequest::default()
            .with_transactional_id(tx())
            .with_group_id(GroupId(text("g")))
            .with_producer_id(ProducerId(1))
            .with_topics(vec![topic])
    };
    let end = EndTxnRequest::default().with_transactional_id(tx()).with_producer_id(ProducerId(1));
    let describe = DescribeTransactionsRequest::default().with_transactional_ids(vec![tx()]);
    let list = ListTransactionsRequest::default().with_state_filters(vec![text("Ongoing")]);
    vec![
        frame(0, 1, &init),
        frame(4, 1, &init),
        frame(0, 1, &add),
        frame(3, 1, &add),
        frame(0, 1, &add_offsets),
        frame(3, 1, &add_offsets),
        frame(0, 1, &offsets),
        frame(3, 1, &offsets),
        frame(1, 1, &end),
        frame(5, 1, &end),
        frame(0, 1, &describe),
        frame(0, 1, &list),
    ]
}

fn groups() -> Vec<Bytes> {
    use kafka_protocol::messages::offset_commit_request::{
        OffsetCommitRequestPartition, OffsetCommitRequestTopic,
    };
    use kafka_protocol::messages::offset_fetch_request::OffsetFetchRequestTopic;
    let (g, t) = (|| GroupId(text("g")), || TopicName(text("t")));
    let commit = {
        let partition = OffsetCommitRequestPartition::default().with_committed_offset(1);
        let topic = OffsetCommitRequestTopic::default().with_name(t()).with_partitions(vec![partition]);
        OffsetCommitRequest::default().with_group_id(g()).with_topics(vec![topic])
    };
    let fetch = {
        let topic = OffsetFetchRequestTopic::default().with_name(t()).with_partition_indexes(vec![0]);
        OffsetFetchRequest::default().with_group_id(g()).with_topics(Some(vec![topic]))
    };
    let find = FindCoordinatorRequest::default().with_key(text("g"));
    let find_many = FindCoordinatorRequest::default().with_coordinator_keys(vec![text("g"), text("h")]);
    vec![
        frame(2, 1, &commit),
        frame(8, 1, &commit),
        frame(1, 1, &fetch),
        frame(6, 1, &fetch),
        frame(2, 1, &find),
        frame(3, 1, &find),
        frame(4, 1, &find_many),
    ]
}

fn admin() -> Vec<Bytes> {
    use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
    use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
    use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
    use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
    let t = || TopicName(text("t"));
    let metadata = {
        let topic = MetadataRequestTopic::default().with_name(Some(t()));
        MetadataRequest::default().with_topics(Some(vec![topic]))
    };
    let create = {
        let config =
            CreatableTopicConfig::default().with_name(text("retention.ms")).with_value(Some(text("1000")));
        let topic = CreatableTopic::default()
            .with_name(text("gone").into())
            .with_num_partitions(1)
            .with_replication_factor(1)
            .with_configs(vec![config]);
        CreateTopicsRequest::default().with_topics(vec![topic]).with_timeout_ms(1_000)
    };
    let delete = DeleteTopicsRequest::default().with_topic_names(vec![text("gone").into()]);
    let partitions = {
        let topic = CreatePartitionsTopic::default().with_name(text("gone").into()).with_count(3);
        CreatePartitionsRequest::default().with_topics(vec![topic]).with_timeout_ms(1_000)
    };
    let configs = {
        let resource = DescribeConfigsResource::default().with_resource_type(2).with_resource_name(text("t"));
        DescribeConfigsRequest::default().with_resources(vec![resource])
    };
    let versions = ApiVersionsRequest::default()
        .with_client_software_name(text("test"))
        .with_client_software_version(text("1"));
    vec![
        frame(1, 1, &metadata),
        frame(12, 1, &metadata),
        frame(2, 1, &create),
        frame(5, 1, &create),
        frame(1, 1, &delete),
        frame(4, 1, &delete),
        frame(0, 1, &partitions),
        frame(2, 1, &partitions),
        frame(1, 1, &configs),
        frame(4, 1, &configs),
        frame(3, 1, &versions),
        frame(0, 1, &DescribeClusterRequest::default()),
    ]
}
