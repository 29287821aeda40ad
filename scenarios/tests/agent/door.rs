//! The door: hostile frames, limits, readiness, membership.

use crate::harness::{Connection, Healths, PLAIN, World, batch, frame, text};
use broker::{AgentConfig, Dependency, Health, Readiness, Routing};
use bytes::Bytes;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{BrokerId, FetchRequest, MetadataRequest, ProduceRequest};
use kafka_protocol::records::RecordBatchDecoder;
use rt::net::TcpStream;
use rt::time::{Instant, sleep, sleep_until, wall_ms};
use scenarios::Config;
use sim::fault::{Fault, Scheduled, When};
use std::time::Duration;

/// Errors after which every client tries again.
const RETRIABLE: [i16; 10] = [3, 5, 6, 7, 13, 14, 15, 19, 20, 56];

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn produce(value: &str) -> ProduceRequest {
    // Of now, so that retention leaves it alone.
    let records = batch(PLAIN, wall_ms(), &[value]);
    let data = PartitionProduceData::default().with_index(0).with_records(Some(records));
    let topic = TopicProduceData::default().with_name(text("t").into()).with_partition_data(vec![data]);
    ProduceRequest::default().with_acks(-1).with_timeout_ms(5_000).with_topic_data(vec![topic])
}

/// The error code of an append to partition 0 of `t`.
async fn append(agent: &mut Connection, value: &str) -> i16 {
    agent.call(9, &produce(value)).await.responses[0].partition_responses[0].error_code
}

fn fetch(offset: i64, max_wait_ms: i32) -> FetchRequest {
    let partition = FetchPartition::default()
        .with_partition(0)
        .with_fetch_offset(offset)
        .with_partition_max_bytes(1 << 20);
    let topic = FetchTopic::default().with_topic(text("t").into()).with_partitions(vec![partition]);
    FetchRequest::default()
        .with_replica_id(BrokerId(-1))
        .with_max_wait_ms(max_wait_ms)
        .with_min_bytes(1)
        .with_max_bytes(1 << 20)
        .with_topics(vec![topic])
}

/// Everything in partition 0 of `t`, tried again on retriable errors.
async fn values(agent: &mut Connection) -> Vec<String> {
    let mut values = Vec::new();
    loop {
        let answer = agent.call(11, &fetch(values.len() as i64, 0)).await;
        let partition = &answer.responses[0].partitions[0];
        if partition.error_code != 0 {
            assert!(RETRIABLE.contains(&partition.error_code), "code {}", partition.error_code);
            sleep(seconds(1)).await;
            continue;
        }
        if partition.high_watermark == values.len() as i64 {
            return values;
        }
        let mut bytes = partition.records.clone().unwrap_or_default();
        for set in RecordBatchDecoder::decode_all(&mut bytes).expect("whole batches") {
            let value = |value: Option<Bytes>| String::from_utf8_lossy(&value.unwrap_or_default()).into();
            let read = set.records.into_iter().filter(|record| record.offset >= values.len() as i64);
            let read: Vec<String> = read.map(|record| value(record.value)).collect();
            values.extend(read);
        }
    }
}

fn health(of: &Healths, agent: &str) -> Health {
    of.lock().expect("no test panics under it")[agent].clone()
}

/// A frame of these bytes, its length before them.
fn framed(body: &[u8]) -> Vec<u8> {
    [&(body.len() as i32).to_be_bytes(), body].concat()
}

#[test]
fn hostile_frames_close_their_connection_and_no_other() {
    World::default().run(|cluster| async move {
        let mut witness = cluster.connect("agent-1").await;
        witness.create_topic("t", 1, &[]).await;
        let metadata = [0, 3, 0, 9, 0, 0, 0, 1, 0xff, 0xff, 0];
        let after_header = |rest: &[u8]| framed(&[&metadata[..], rest].concat());
        let hostile = [
            ("a negative length", vec![0xff, 0xff, 0xff, 0xff]),
            ("a length above the limit", vec![0x7f, 0xff, 0xff, 0xff]),
            ("no header", framed(&[0, 3])),
            ("an API nobody knows", framed(&[0x7f, 0xff, 0, 0, 0, 0, 0, 1, 0xff, 0xff])),
            ("a version nobody knows", framed(&[0, 3, 0, 99, 0, 0, 0, 1, 0xff, 0xff])),
            ("a client id beyond the frame", framed(&[0, 3, 0, 1, 0, 0, 0, 1, 0x7f, 0xff, b'c'])),
            ("4 G topics", after_header(&[0xff, 0xff, 0xff, 0xff, 0x0f, 1, 1, 1, 0])),
            ("a varint without end", after_header(&[0xff; 9])),
            ("a topic that is not UTF-8", after_header(&[2, 3, 0xc3, 0x28, 0, 1, 1, 1, 0])),
            ("4 G tagged fields", after_header(&[1, 1, 1, 1, 0xff, 0xff, 0xff, 0xff, 0x0f])),
            ("a byte too few", after_header(&[1, 1, 1, 1])),
            (
                "2 G topics, not compact",
                framed(&[0, 3, 0, 1, 0, 0, 0, 1, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff]),
            ),
        ];
        for (what, bytes) in hostile {
            let mut connection = cluster.connect("agent-1").await;
            connection.write(&bytes).await;
            assert_eq!(connection.read().await, None, "{what}");
            assert_eq!(append(&mut witness, what).await, 0, "{what}");
        }
        let good = after_header(&[1, 1, 1, 1, 0]);
        let mut connection = cluster.connect("agent-1").await;
        connection.write(&good).await;
        assert!(connection.read().await.is_some(), "the frame that the hostile ones are made of");
    });
}

#[test]
fn connections_beyond_the_limit_are_closed_and_idle_ones_make_room() {
    let limits = AgentConfig { connections_max: 2, connections_max_idle_ms: 5_000, ..AgentConfig::default() };
    let run = World { agent: limits, ..World::default() }.run(|cluster| async move {
        let mut busy = cluster.connect("agent-1").await;
        busy.create_topic("t", 1, &[]).await;
        let mut idle = cluster.connect("agent-1").await;
        let idle_since = Instant::now();
        sleep(seconds(1)).await;
        let mut third = cluster.connect("agent-1").await;
        assert_eq!(third.read().await, None, "there are two");
        assert_eq!(append(&mut busy, "a").await, 0);
        assert_eq!(idle.read().await, None);
        let idle_for = idle_since.elapsed();
        assert!((seconds(5)..seconds(6)).contains(&idle_for), "{idle_for:?}");
        assert_eq!(append(&mut busy, "b").await, 0, "it was not idle that long");
        let mut fourth = cluster.connect("agent-1").await;
        assert_eq!(values(&mut fourth).await, ["a", "b"]);
    });
    assert!(run.marks.held("an idle connection was closed") > 0);
    assert!(run.marks.held("a connection beyond the limit was closed") > 0);
}

#[test]
fn requests_beyond_the_memory_wait_and_are_all_answered() {
    let limits = AgentConfig { queued_max_request_bytes: 70_000, ..AgentConfig::default() };
    let run = World { agent: limits, ..World::default() }.run(|cluster| async move {
        let mut connections = Vec::new();
        for n in 0..6 {
            let mut connection = cluster.connect("agent-1").await;
            if n == 0 {
                connection.create_topic("t", 1, &[]).await;
            }
            connections.push(connection);
        }
        let request = frame(9, 1, &produce(&"v".repeat(50_000)));
        for connection in &mut connections {
            connection.write(&request).await;
        }
        for connection in &mut connections {
            assert!(connection.read().await.is_some());
        }
        assert_eq!(values(&mut connections[0]).await.len(), 6);
        let names = |n| vec![MetadataRequestTopic::default().with_name(Some(text("a").into())); n];
        let asks = |n| MetadataRequest::default().with_topics(Some(names(n)));
        assert_eq!(connections[0].call(9, &asks(900)).await.topics.len(), 900, "72 bytes each");
        connections[0].send(9, &asks(1_500)).await;
        assert_eq!(connections[0].read().await, None, "it would take more than there is");
    });
    assert!(run.marks.held("a request went beyond the memory of requests") > 0);
}

#[test]
fn a_request_that_does_not_end_is_given_up_after_thirty_seconds() {
    World::default().run(|cluster| async move {
        let mut slow = cluster.connect("agent-1").await;
        slow.write(&[&1_000i32.to_be_bytes()[..], &[0; 10]].concat()).await;
        let since = Instant::now();
        assert_eq!(slow.read().await, None);
        assert!((seconds(30)..seconds(31)).contains(&since.elapsed()), "{:?}", since.elapsed());
    });
}

/// A dependency is away for ten minutes and comes back.
fn ten_minutes_without(node: &str, dependency: Dependency) {
    let fault = Fault::Pause { node: node.into(), for_ms: 600_000 };
    let world = World {
        config: Config { agents: 2, ..Config::default() },
        faults: vec![Scheduled { id: 1, when: When::AtMs(30_000), fault }],
        ..World::default()
    };
    let healths = world.health.clone();
    world.run(move |cluster| async move {
        let mut agent = cluster.connect("agent-1").await;
        agent.create_topic("t", 1, &[]).await;
        sleep(seconds(1)).await;
        assert_eq!(health(&healths, "agent-1").readiness(), Readiness::Ready);
        let (mut acknowledged, mut refused, mut degraded) = (Vec::new(), 0, 0);
        for n in 0.. {
            if Instant::now() > Instant::from_nanos(0) + seconds(660) {
                break;
            }
            let value = n.to_string();
            match append(&mut agent, &value).await {
                0 => acknowledged.push(value),
                code => {
                    assert!(RETRIABLE.contains(&code), "code {code}");
                    refused += 1;
                    let health = health(&healths, "agent-1");
                    assert_eq!(health.readiness(), Readiness::Degraded);
                    let (away, since) = health.away()[0];
                    assert_eq!(away, dependency);
                    let since = since - Instant::from_nanos(0);
                    assert!((seconds(30)..seconds(40)).contains(&since), "away since {since:?}");
                    degraded += 1;
                }
            }
            sleep(seconds(5)).await;
        }
        assert!(refused >= 70 && degraded == refused, "{refused} refused: one every 7.5 s at most");
        assert!(acknowledged.len() >= 10, "{} acknowledged", acknowledged.len());
        let mut other = cluster.connect("agent-2").await;
        let values = values(&mut other).await;
        for value in &acknowledged {
            assert_eq!(values.iter().filter(|read| *read == value).count(), 1, "{value}");
        }
        for agent in ["agent-1", "agent-2"] {
            let health = health(&healths, agent);
            assert_eq!((health.readiness(), health.away()), (Readiness::Ready, Vec::new()), "{agent}");
        }
        assert_eq!(cluster.keys("agents/").await.len(), 2, "registered again");
    });
}

#[test]
fn the_coordinator_is_away_for_ten_minutes() {
    ten_minutes_without(scenarios::cluster::COORDINATOR, Dependency::Coordinator);
}

#[test]
fn the_store_is_away_for_ten_minutes() {
    ten_minutes_without(scenarios::cluster::STORAGE, Dependency::Store);
}

#[test]
fn an_agent_starts_without_its_coordinator_and_is_ready_when_it_comes() {
    let coordinator = scenarios::cluster::COORDINATOR.to_string();
    let fault = Fault::Pause { node: coordinator, for_ms: 20_000 };
    let world = World { faults: vec![Scheduled::from_start(1, fault)], ..World::default() };
    let healths = world.health.clone();
    world.run(move |cluster| async move {
        let mut agent = cluster.connect("agent-1").await;
        let metadata = agent.call(9, &MetadataRequest::default().with_topics(Some(Vec::new()))).await;
        assert_eq!(metadata.brokers.len(), 1, "it knows itself");
        assert_eq!(health(&healths, "agent-1").readiness(), Readiness::Starting);
        let code = append(&mut agent, "a").await;
        assert!(RETRIABLE.contains(&code), "code {code}");
        sleep_until(Instant::from_nanos(0) + seconds(25)).await;
        assert_eq!(health(&healths, "agent-1").readiness(), Readiness::Ready);
        agent.create_topic("t", 1, &[]).await;
    });
}

#[test]
fn an_agent_that_drains_answers_what_is_in_flight_and_gives_up_its_lease() {
    let world = World { config: Config { agents: 2, ..Config::default() }, ..World::default() };
    let healths = world.health.clone();
    world.run(move |cluster| async move {
        let mut agent = cluster.connect("agent-1").await;
        agent.create_topic("t", 1, &[]).await;
        let mut idle = cluster.connect("agent-1").await;
        let mut other = cluster.connect("agent-2").await;
        agent.send(11, &fetch(0, 60_000)).await;
        sleep(Duration::from_millis(500)).await;
        assert_eq!(cluster.keys("agents/").await.len(), 2);
        let since = Instant::now();
        health(&healths, "agent-1").drain();
        assert_eq!(health(&healths, "agent-1").readiness(), Readiness::Draining);
        assert_eq!(idle.read().await, None);
        assert!(since.elapsed() < Duration::from_millis(100), "{:?}", since.elapsed());
        let answer = agent.receive::<FetchRequest>(11).await;
        assert_eq!(answer.responses[0].partitions[0].error_code, 0);
        assert!(since.elapsed() < seconds(1), "it waits no longer for data: {:?}", since.elapsed());
        assert_eq!(agent.read().await, None, "closed once it was answered");
        sleep(seconds(1)).await;
        assert!(TcpStream::connect("agent-1:9092").await.is_err(), "nobody listens");
        assert_eq!(cluster.keys("agents/").await, ["agents/0000000002"]);
        let metadata = other.call(9, &MetadataRequest::default().with_topics(Some(Vec::new()))).await;
        assert_eq!(metadata.brokers.iter().map(|broker| broker.node_id.0).collect::<Vec<_>>(), [2]);
    });
}

/// The leaders of the partitions of `t`.
async fn leaders(agent: &mut Connection) -> Vec<i32> {
    let asked = MetadataRequestTopic::default().with_name(Some(text("t").into()));
    let answer = agent.call(9, &MetadataRequest::default().with_topics(Some(vec![asked]))).await;
    let mut partitions = answer.topics[0].partitions.clone();
    partitions.sort_by_key(|partition| partition.partition_index);
    partitions.iter().map(|partition| partition.leader_id.0).collect()
}

#[test]
fn when_an_agent_goes_only_its_partitions_move() {
    let fault = Fault::MachineCrash { node: "agent-2".into(), restart_after_ms: None };
    let world = World {
        config: Config { agents: 3, ..Config::default() },
        agent: AgentConfig { routing: Routing::Rendezvous, ..AgentConfig::default() },
        faults: vec![Scheduled { id: 1, when: When::AtMs(20_000), fault }],
        ..World::default()
    };
    world.run(|cluster| async move {
        let (mut one, mut three) = (cluster.connect("agent-1").await, cluster.connect("agent-3").await);
        one.create_topic("t", 60, &[]).await;
        sleep_until(Instant::from_nanos(0) + seconds(10)).await;
        let before = leaders(&mut one).await;
        assert_eq!(before, leaders(&mut three).await, "every agent names the same");
        for agent in 1..=3 {
            let led = before.iter().filter(|leader| **leader == agent).count();
            assert!((10..=30).contains(&led), "agent {agent} leads {led} of 60");
        }
        sleep_until(Instant::from_nanos(0) + seconds(45)).await;
        let after = leaders(&mut one).await;
        assert_eq!(after, leaders(&mut three).await);
        for (before, after) in before.iter().zip(&after) {
            assert!(*after != 2 && (before == after || *before == 2), "from {before} to {after}");
        }
    });
}

#[test]
fn a_revoked_lease_is_found_out_at_once() {
    World::default().run(|cluster| async move {
        while cluster.keys("agents/").await.is_empty() {
            sleep(seconds(1)).await;
        }
        let key = Bytes::from_static(b"agents/0000000001");
        let range = fake_etcd::api::RangeRequest { key, ..fake_etcd::api::RangeRequest::default() };
        let found = cluster.etcd().range(range).await.expect("the coordinator answers");
        cluster.etcd().lease_revoke(found.kvs[0].lease).await.expect("revoked");
        let since = Instant::now();
        while cluster.keys("agents/").await.is_empty() {
            sleep(Duration::from_millis(20)).await;
        }
        assert!(since.elapsed() < Duration::from_millis(200), "by the watch: {:?}", since.elapsed());
    });
}

#[test]
fn an_agent_that_was_paused_beyond_its_lease_registers_again() {
    let fault = Fault::Pause { node: "agent-1".into(), for_ms: 20_000 };
    let faults = vec![Scheduled { id: 1, when: When::AtMs(10_000), fault }];
    World { faults, ..World::default() }.run(|cluster| async move {
        sleep_until(Instant::from_nanos(0) + seconds(29)).await;
        assert!(cluster.keys("agents/").await.is_empty(), "15 s without a renewal");
        sleep_until(Instant::from_nanos(0) + seconds(31)).await;
        assert_eq!(cluster.keys("agents/").await, ["agents/0000000001"]);
    });
}
