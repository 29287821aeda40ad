//! Everything at once: idempotent producers that try again at other agents, readers, compaction and collection every
//! few hundred milliseconds, agents and coordinator that sleep in between. What was acknowledged is there, once, in order, at
//! the offset told; and an offset that was read once gives the same record ever after.

use crate::harness::{Cluster, Connection, World, Writer, batch};
use crate::storage::{fetch_request, produce, records};
use broker::AgentConfig;
use kafka_protocol::messages::{FetchRequest, ProduceRequest};
use rt::time::timeout;
use scenarios::Config;
use sim::fault::{Fault, Scheduled, When};
use sim::property::Marks;
use std::collections::BTreeMap;
use std::time::Duration;

const SEEDS: u64 = 6;
const PARTITIONS: i32 = 2;
const PRODUCERS: i32 = 4;
/// Batches of each producer.
const BATCHES: i32 = 40;
const AGENTS: u32 = 3;
/// A request that takes longer is given up.
const REQUEST_LIMIT: Duration = Duration::from_secs(4);

/// Who sleeps, when and how long, spread over the run by the seed.
fn sleeps(seed: u64) -> Vec<Scheduled> {
    let nodes = ["agent-1", "agent-2", "agent-3", "agent-2", "etcd", "agent-3"];
    let draw = |n: u64, below: u64| rt::choice::stable_hash(format!("{seed}/{n}").as_bytes()) % below;
    let scheduled = (0u32..).zip(nodes).map(|(n, node)| {
        let when = When::AtMs(500 + 1_000 * u64::from(n) + draw(u64::from(n), 1_000));
        let for_ms = 500 + draw(100 + u64::from(n), if node == "etcd" { 1_000 } else { 4_000 });
        Scheduled { id: n + 1, when, fault: Fault::Pause { node: node.into(), for_ms } }
    });
    scheduled.collect()
}

/// Offset to value, of each partition.
type Log = Vec<BTreeMap<i64, String>>;

#[test]
fn nothing_acknowledged_is_lost_moved_or_changed() {
    let mut marks = Marks::default();
    for seed in 0..SEEDS {
        let agent = AgentConfig {
            chunk_linger_ms: 5,
            compaction_interval_ms: 300,
            compaction_min_chunks: 3,
            collection_interval_ms: 300,
            cache_max_bytes: 1_000,
            lease_ttl_s: 3,
            ..AgentConfig::default()
        };
        let preempt = sim::run::Preempt { chance: 0.1, hold_us_max: 50_000 };
        let config = Config { agents: AGENTS, preempt, ..Config::default() };
        let world = World { seed, config, agent, faults: sleeps(seed), ..World::default() };
        marks.add(&world.run(storm).marks);
    }
    for mark in ["a chunk was settled before it was committed", "a reader followed a batch to another chunk"]
    {
        assert!(marks.held(mark) > 0, "never in {SEEDS} seeds: {mark}");
    }
}

async fn storm(cluster: Cluster) {
    cluster.connect("agent-1").await.create_topic("t", PARTITIONS, &[]).await;
    let mut producers = rt::JoinSet::new();
    for producer in 0..PRODUCERS {
        producers.spawn("producer", write(cluster, producer));
    }
    let reader = rt::spawn("reader", async move {
        let mut seen = vec![BTreeMap::new(); PARTITIONS as usize];
        for round in 0..30 {
            read_all(cluster, round, &mut seen).await;
            rt::time::sleep(Duration::from_millis(300)).await;
        }
        seen
    });
    let mut told = Vec::new();
    while let Some(acknowledged) = producers.join_next().await {
        told.extend(acknowledged.expect("a producer ends"));
    }
    let mut seen: Log = reader.await.expect("the reader ends");
    for round in 0..AGENTS {
        read_all(cluster, round, &mut seen).await;
    }
    let written = (PRODUCERS * BATCHES) as usize;
    assert_eq!(told.len(), written);
    for (partition, offset, value) in told {
        assert_eq!(seen[partition as usize].get(&offset), Some(&value), "partition {partition}");
    }
    for log in &seen {
        assert!(log.keys().copied().eq(0..log.len() as i64), "a gap: {:?}", log.keys());
    }
    assert_eq!(seen.iter().map(BTreeMap::len).sum::<usize>(), written, "something was written twice");
    let chunks = cluster.chunks().await.len();
    assert!(chunks < written / 2, "{chunks} chunks are left of {written} batches");
}

/// Writes all batches of a producer; partition, offset and value of each.
async fn write(cluster: Cluster, producer: i32) -> Vec<(i32, i64, String)> {
    let partition = producer % PARTITIONS;
    let mut told = Vec::new();
    let mut client = Client::new(cluster, producer as u32);
    for base_sequence in 0..BATCHES {
        let value = format!("{producer}-{base_sequence}");
        let producer_id = 100 + i64::from(producer);
        let writer = Writer { producer_id, epoch: 0, base_sequence, transactional: false };
        let request = produce("t", partition, batch(writer, 1_000, &[&value]));
        let offset = loop {
            let Some(connection) = client.connection().await else { continue };
            let answer = timeout(REQUEST_LIMIT, connection.call::<ProduceRequest>(9, &request)).await;
            match answer.map(|answer| answer.responses[0].partition_responses[0].clone()) {
                Ok(answer) if answer.error_code == 0 => break answer.base_offset,
                Ok(answer) => assert!([7, 19, 56].contains(&answer.error_code), "{answer:?}"),
                Err(_) => {}
            }
            client.go_on();
        };
        told.push((partition, offset, value));
        rt::time::sleep(Duration::from_millis(100)).await;
    }
    told
}

/// Reads every partition from the start, and holds it against what was seen before.
async fn read_all(cluster: Cluster, first_agent: u32, seen: &mut Log) {
    let mut client = Client::new(cluster, first_agent);
    for (partition, log) in (0..).zip(seen) {
        let mut offset = 0;
        loop {
            let request = fetch_request("t", partition, offset);
            let Some(connection) = client.connection().await else { continue };
            let answer = timeout(REQUEST_LIMIT, connection.call::<FetchRequest>(11, &request)).await;
            let Ok(answer) = answer.map(|answer| answer.responses[0].partitions[0].clone()) else {
                client.go_on();
                continue;
            };
            if answer.error_code != 0 {
                assert!([6, 56].contains(&answer.error_code), "{}", answer.error_code);
                client.go_on();
                continue;
            }
            for (offset, value) in records(&answer) {
                let before = log.entry(offset).or_insert_with(|| value.clone());
                assert_eq!(*before, value, "offset {offset} of partition {partition} changed");
            }
            let last = records(&answer).last().map(|(offset, _)| *offset);
            offset = last.map_or(offset, |last| last + 1);
            if offset >= answer.high_watermark {
                break;
            }
        }
    }
}

/// A client that goes to another agent when it is told to.
struct Client {
    cluster: Cluster,
    agent: u32,
    connection: Option<Connection>,
}

impl Client {
    fn new(cluster: Cluster, agent: u32) -> Self {
        Client { cluster, agent, connection: None }
    }

    /// A connection to the present agent; `None` if it did not answer in time, and the next one is tried.
    async fn connection(&mut self) -> Option<&mut Connection> {
        if self.connection.is_none() {
            let name = format!("agent-{}", self.agent % AGENTS + 1);
            self.connection = timeout(REQUEST_LIMIT, self.cluster.connect(&name)).await.ok();
            if self.connection.is_none() {
                self.go_on();
            }
        }
        self.connection.as_mut()
    }

    /// Leaves the present agent for the next.
    fn go_on(&mut self) {
        self.agent += 1;
        self.connection = None;
    }
}
