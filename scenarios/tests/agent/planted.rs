//! Planted defects of logs and of agents themselves, each beside what is right.

use crate::calls::again;
use crate::harness::{Connection, PLAIN, World, Writer, batch};
use crate::storage::{fetch_request, produce, records};
use broker::{AgentConfig, Defects};
use kafka_protocol::messages::MetadataRequest;
use rt::time::sleep;
use scenarios::Config;
use sim::fault::{Fault, Scheduled, When};
use std::time::Duration;

const UNKNOWN_TOPIC_OR_PARTITION: i16 = 3;
const DUPLICATE_SEQUENCE_NUMBER: i16 = 46;

/// What is written here has no time of today.
fn agent(defects: Defects) -> AgentConfig {
    AgentConfig { defects, retention_interval_ms: 0, ..AgentConfig::default() }
}

fn at(at_ms: u64, fault: Fault) -> Vec<Scheduled> {
    vec![Scheduled { id: 1, when: When::AtMs(at_ms), fault }]
}

/// Produces a batch of one record: error code and base offset.
async fn send(agent: &mut Connection, topic: &str, writer: Writer, value: &str) -> (i16, i64) {
    let answer = agent.call(9, &produce(topic, 0, batch(writer, 1_000, &[value]))).await;
    let answer = &answer.responses[0].partition_responses[0];
    (answer.error_code, answer.base_offset)
}

/// What a reader is given at offset 0.
async fn values(agent: &mut Connection) -> Vec<String> {
    let answer = agent.call(11, &fetch_request("t", 0, 0)).await;
    records(&answer.responses[0].partitions[0]).into_iter().map(|(_, value)| value).collect()
}

#[test]
fn a_new_agent_serves_what_there_is_unless_its_watch_begins_after_its_list() {
    for (watch_gap, seen) in [(false, &["a", "b"][..]), (true, &["a"])] {
        let world = World {
            config: Config { agents: 1, spare_agents: 1, ..Config::default() },
            agent: agent(Defects { watch_gap, ..Defects::default() }),
            faults: at(2_000, Fault::Start { node: "agent-2".into() }),
            ..World::default()
        };
        world.run(move |cluster| async move {
            let mut old = cluster.connect("agent-1").await;
            old.create_topic("t", 1, &[]).await;
            assert_eq!(send(&mut old, "t", PLAIN, "a").await, (0, 0));
            let mut new = cluster.connect("agent-2").await;
            sleep(Duration::from_millis(200)).await;
            assert_eq!(send(&mut old, "t", PLAIN, "b").await, (0, 1));
            assert_eq!(values(&mut new).await, seen, "gap: {watch_gap}");
            sleep(Duration::from_secs(60)).await;
            assert_eq!(values(&mut new).await, seen, "gap: {watch_gap}");
            assert_eq!(send(&mut old, "t", PLAIN, "c").await, (0, 2));
            sleep(Duration::from_millis(200)).await;
            assert_eq!(values(&mut new).await, ["a", "b", "c"], "until the next write");
        });
    }
}

#[test]
fn a_full_answer_ends_early_unless_it_drops_what_is_in_the_middle() {
    for (fetch_drops_middle, seen) in [(false, ["a", "b", "c"]), (true, ["a", "b", "e"])] {
        let size = batch(PLAIN, 1_000, &["a"]).len();
        let defects = Defects { fetch_drops_middle, ..Defects::default() };
        let agent = AgentConfig { fetch_max_bytes: 3 * size, ..agent(defects) };
        World { agent, ..World::default() }.run(move |cluster| async move {
            let mut agent = cluster.connect("agent-1").await;
            agent.create_topic("t", 1, &[]).await;
            for value in ["a", "b", "c"] {
                send(&mut agent, "t", PLAIN, value).await;
            }
            assert_eq!(values(&mut agent).await, ["a", "b", "c"], "nothing to leave out");
            for value in ["d", "e"] {
                send(&mut agent, "t", PLAIN, value).await;
            }
            assert_eq!(values(&mut agent).await, seen, "drops: {fetch_drops_middle}");
        });
    }
}

#[test]
fn an_error_has_no_offset_and_a_repeat_its_own_unless_both_are_left_at_0() {
    for (zero_base_offset, repeated, unknown) in
        [(false, (0, 1), -1), (true, (DUPLICATE_SEQUENCE_NUMBER, 0), 0)]
    {
        let defects = Defects { zero_base_offset, ..Defects::default() };
        World { agent: agent(defects), ..World::default() }.run(move |cluster| async move {
            let mut agent = cluster.connect("agent-1").await;
            agent.create_topic("t", 1, &[]).await;
            let second = Writer { producer_id: 7, epoch: 0, base_sequence: 1, transactional: false };
            let first = Writer { base_sequence: 0, ..second };
            assert_eq!(send(&mut agent, "t", first, "a").await, (0, 0));
            assert_eq!(send(&mut agent, "t", second, "b").await, (0, 1));
            assert_eq!(send(&mut agent, "t", second, "b").await, repeated, "zero: {zero_base_offset}");
            let refused = (UNKNOWN_TOPIC_OR_PARTITION, unknown);
            assert_eq!(send(&mut agent, "u", PLAIN, "c").await, refused, "zero: {zero_base_offset}");
        });
    }
}

#[test]
fn an_agent_registers_again_unless_it_forgets_its_lease() {
    for (forgotten_lease, listed) in [(false, 1), (true, 0)] {
        let defects = Defects { forgotten_lease, ..Defects::default() };
        let world = World {
            agent: AgentConfig { lease_ttl_s: 3, ..agent(defects) },
            faults: at(2_500, Fault::Pause { node: "etcd".into(), for_ms: 6_000 }),
            ..World::default()
        };
        world.run(move |cluster| async move {
            let mut agent = cluster.connect("agent-1").await;
            while agents(&mut agent).await != 1 {
                again().await;
            }
            sleep(Duration::from_secs(60)).await;
            assert_eq!(cluster.keys("agents/").await.len(), listed, "forgotten: {forgotten_lease}");
            assert_eq!(agents(&mut agent).await, listed, "forgotten: {forgotten_lease}");
        });
    }
}

/// How many agents Metadata lists.
async fn agents(agent: &mut Connection) -> usize {
    agent.call(4, &MetadataRequest::default()).await.brokers.len()
}

#[test]
fn an_agent_outlives_its_store_unless_it_exits_on_trouble() {
    for exits_on_trouble in [false, true] {
        let defects = Defects { exits_on_trouble, ..Defects::default() };
        let world = World {
            agent: agent(defects),
            faults: at(2_500, Fault::Pause { node: "s3".into(), for_ms: 3_000 }),
            ..World::default()
        };
        let run = world.run(move |cluster| async move {
            let mut agent = cluster.connect("agent-1").await;
            agent.create_topic("t", 1, &[]).await;
            assert_eq!(send(&mut agent, "t", PLAIN, "a").await, (0, 0));
            sleep(Duration::from_millis(2_600)).await;
            let request = produce("t", 0, batch(PLAIN, 1_000, &["b"]));
            let answer = agent.try_call(9, &request, Duration::from_secs(10)).await;
            assert_eq!(answer.is_none(), exits_on_trouble);
            if !exits_on_trouble {
                sleep(Duration::from_secs(5)).await;
                assert_eq!(send(&mut agent, "t", PLAIN, "c").await.0, 0, "the store is back");
            }
        });
        let gave_up = run.trace.iter().filter(|entry| entry.name == "agent.gave-up").count();
        assert_eq!(gave_up, usize::from(exits_on_trouble));
    }
}
