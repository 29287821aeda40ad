//! An append that takes long: what may have changed by the time it goes on, and when it must end.

use crate::harness::{Connection, PLAIN, World, Writer, batch, text};
use crate::storage::{delete_records, fetch_request, produce, records};
use broker::{AgentConfig, ExpirationConfig};
use bytes::Bytes;
use kafka_protocol::messages::{DeleteTopicsRequest, ProduceRequest};
use rt::time::{Instant, sleep_until};
use scenarios::Config;
use scenarios::cluster::{COORDINATOR, STORAGE};
use sim::fault::{Fault, Scheduled, When};
use std::time::Duration;

const UNKNOWN_TOPIC_OR_PARTITION: i16 = 3;
const REQUEST_TIMED_OUT: i16 = 7;
const KAFKA_STORAGE_ERROR: i16 = 56;

async fn second(n: u64) {
    sleep_until(Instant::from_nanos(0) + Duration::from_secs(n)).await;
}

/// Two agents with these settings; the tests append at `agent-2`.
fn world(agent: AgentConfig, faults: Vec<Scheduled>) -> World {
    World { config: Config { agents: 2, ..Config::default() }, agent, faults, ..World::default() }
}

fn pause(node: &str, when: When, for_ms: u64) -> (When, Fault) {
    (when, Fault::Pause { node: node.into(), for_ms })
}

fn schedule(faults: impl IntoIterator<Item = (When, Fault)>) -> Vec<Scheduled> {
    (1..).zip(faults).map(|(id, (when, fault))| Scheduled { id, when, fault }).collect()
}

fn before_commit() -> When {
    When::Point { node: Some("agent-2".into()), point: "produce.before-commit".into(), nth: 1 }
}

/// Error code and base offset of the answer to a Produce sent before.
async fn answer(agent: &mut Connection) -> (i16, i64) {
    let answer = agent.receive::<ProduceRequest>(9).await;
    let answer = &answer.responses[0].partition_responses[0];
    (answer.error_code, answer.base_offset)
}

async fn log(agent: &mut Connection) -> Vec<(i64, String)> {
    let answer = agent.call(11, &fetch_request("t", 0, 0)).await;
    records(&answer.responses[0].partitions[0])
}

fn plain() -> Bytes {
    batch(PLAIN, 1_000, &["a"])
}

#[test]
fn a_topic_made_again_meanwhile_does_not_get_the_batch() {
    let agent = AgentConfig { request_limit_ms: 100_000, ..AgentConfig::default() };
    let faults = schedule([pause("agent-2", before_commit(), 20_000)]);
    world(agent, faults).run(|cluster| async move {
        let mut other = cluster.connect("agent-1").await;
        other.create_topic("t", 1, &[]).await;
        let mut agent = cluster.connect("agent-2").await;
        agent.send(9, &produce("t", 0, plain())).await;
        second(5).await;
        let delete =
            DeleteTopicsRequest::default().with_topic_names(vec![text("t").into()]).with_timeout_ms(5_000);
        assert_eq!(other.call(4, &delete).await.responses[0].error_code, 0);
        other.create_topic("t", 1, &[]).await;
        assert_eq!(answer(&mut agent).await, (UNKNOWN_TOPIC_OR_PARTITION, -1));
        assert_eq!(log(&mut other).await, [], "the new topic is empty");
    });
}

#[test]
fn an_append_that_met_another_commits_the_chunk_that_it_has() {
    let faults = schedule([pause("agent-2", before_commit(), 1_000)]);
    world(AgentConfig::default(), faults).run(|cluster| async move {
        let mut other = cluster.connect("agent-1").await;
        other.create_topic("t", 1, &[]).await;
        let mut agent = cluster.connect("agent-2").await;
        agent.send(9, &produce("t", 0, plain())).await;
        rt::time::sleep(Duration::from_millis(500)).await;
        let first = other.call(9, &produce("t", 0, plain())).await;
        assert_eq!(first.responses[0].partition_responses[0].base_offset, 0);
        assert_eq!(answer(&mut agent).await, (0, 1));
        assert_eq!(cluster.chunks().await.len(), 2, "each wrote its batch once");
    });
}

#[test]
fn an_agent_that_wakes_after_the_deadline_answers_and_does_not_try_again() {
    let agent = AgentConfig {
        request_limit_ms: 30_000,
        store_timeout_ms: 5_000,
        retry_backoff_ms: 5_000,
        ..AgentConfig::default()
    };
    // The put is given up at 15 s; the next try would be at 20 s, when the store is back.
    let faults =
        schedule([pause(STORAGE, When::AtMs(9_500), 8_000), pause("agent-2", When::AtMs(17_000), 60_000)]);
    world(agent, faults).run(|cluster| async move {
        let mut agent = cluster.connect("agent-2").await;
        agent.create_topic("t", 1, &[]).await;
        second(10).await;
        agent.send(9, &produce("t", 0, plain())).await;
        assert_eq!(answer(&mut agent).await, (KAFKA_STORAGE_ERROR, -1));
        assert!(Instant::now() >= Instant::from_nanos(0) + Duration::from_secs(77));
        assert_eq!(log(&mut agent).await, []);
    });
}

#[test]
fn a_wait_behind_other_chunks_ends_with_the_request() {
    let agent = AgentConfig { store_timeout_ms: 20_000, request_limit_ms: 30_000, ..AgentConfig::default() };
    let faults = schedule([pause(STORAGE, When::AtMs(9_500), 60_000)]);
    world(agent, faults).run(|cluster| async move {
        let mut first = cluster.connect("agent-2").await;
        first.create_topic("t", 1, &[]).await;
        let mut second_in_line = cluster.connect("agent-2").await;
        second(10).await;
        first.send(9, &produce("t", 0, plain())).await;
        second(11).await;
        second_in_line.send(9, &produce("t", 0, plain()).with_timeout_ms(5_000)).await;
        assert_eq!(answer(&mut second_in_line).await, (KAFKA_STORAGE_ERROR, -1));
        let took = Instant::now() - (Instant::from_nanos(0) + Duration::from_secs(11));
        assert!(took < Duration::from_millis(5_100), "{took:?}");
    });
}

#[test]
fn what_may_have_landed_is_not_appended_again_when_its_producer_is_forgotten() {
    let expiration = ExpirationConfig {
        producer_id_ms: 10_000,
        producer_id_scan_ms: 1_000,
        ..ExpirationConfig::default()
    };
    let agent = AgentConfig {
        request_limit_ms: 100_000,
        retry_backoff_ms: 5_000,
        expiration,
        ..AgentConfig::default()
    };
    // The commit lands at 10 s and is not answered; the next try would be at 16 s.
    let no_answer = Fault::Cut {
        from: vec![COORDINATOR.into()],
        to: vec!["agent-2".into()],
        both_ways: false,
        for_ms: 3_000,
    };
    let faults = schedule([(before_commit(), no_answer), pause("agent-2", When::AtMs(13_000), 60_000)]);
    world(agent, faults).run(|cluster| async move {
        let mut other = cluster.connect("agent-1").await;
        other.create_topic("t", 1, &[]).await;
        let mut agent = cluster.connect("agent-2").await;
        second(10).await;
        let writer = Writer { producer_id: 7, epoch: 0, base_sequence: 0, transactional: false };
        agent.send(9, &produce("t", 0, batch(writer, 1_000, &["a"]))).await;
        second(60).await;
        assert_eq!(cluster.keys("producers/").await, [""; 0], "forgotten");
        assert_eq!(delete_records(&mut other, "t", 0, -1).await, (0, 1), "it had landed");
        assert_eq!(answer(&mut agent).await, (REQUEST_TIMED_OUT, -1));
        assert!(Instant::now() >= Instant::from_nanos(0) + Duration::from_secs(73));
        let end = other.call(11, &fetch_request("t", 0, 1)).await.responses[0].partitions[0].high_watermark;
        assert_eq!(end, 1, "appended once");
    });
}
