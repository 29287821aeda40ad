//! Finding 12, scripted: a record that the client calls sent was never written.
//!
//! World: that of the queue workload without transactions, with one agent; producers with `acks=0`.
//! Load: a worker sends twenty records, one after the other. Another polls.
//! Trouble: the agent crashes as the tenth Produce leaves the client, and is back after a second.
//! Claim: records that the client was told are sent are read by nobody, ever. With `acks=all` (or 1, which waits for the same
//! here: an agent answers when the record is durable) each is sent again until it is written.

use super::blind::{Blind, QUICK};
use super::script::{self, Script, assign, final_reads, polls, send, work};
use super::{Class, Finding};
use crate::config::Config;
use crate::plan::Plan;
use crate::scenario::{Expect, Scenario};
use sim::fault::{Fault, FramePattern, When};

pub(super) const FINDING: Finding = Finding {
    id: 12,
    title: "what was sent with acks=0 is lost with the agent that had it",
    what: "A producer with acks=0 reports a record as sent when it is in the socket. When the agent on the other side crashes \
           such records are gone, and neither the producer nor anyone else is told.",
    class: Class::Configuration,
    cause: "acks=0, which takes enable.idempotence away where that is not asked for; no transactional id",
    scenario: SCENARIO,
    blind: Blind {
        scenario: "queue-short",
        with: &["no-txn", "acks-0"],
        must: &[&["unseen"]],
        without: &[],
        // Without idempotence what waits at an agent that is away is overtaken by what goes to another.
        may: &["lost-write", "nonmonotonic-send"],
        left: &[],
        limits: QUICK,
    },
    fix: "acks=1 or acks=all: both wait until the record is durable",
    fixed: Some(|config| config.acks = -1),
    echo: "no number in the report, which tested with acks=all",
};

const SCENARIO: Scenario = Scenario {
    name: "acks-zero",
    claim: "an agent crashes, and records that the client was told are sent never come",
    config: || {
        let mut config = Config { agents: 1, acks: 0, ..script::queue(8_000) };
        config.queue.iter_mut().for_each(|queue| queue.txn = false);
        config
    },
    plan,
    expect: |config| match config.acks {
        0 => Expect::Shows { must: &["unseen"], may: &["lost-write"] },
        _ => Expect::Clean,
    },
};

const WRITER: &str = "writer";

fn plan(seed: u64, config: &Config) -> Plan {
    let mut writer: Vec<_> = (1..=20).map(|value| (50, work(&[send(0, value)]))).collect();
    writer.push(final_reads());
    let mut reader = vec![(300, assign(&[0]))];
    reader.extend(polls(40, 50));
    reader.push(final_reads());
    let tenth = FramePattern { from: Some(WRITER.into()), nth: 10, ..FramePattern::words("Produce") };
    let crash = Fault::Crash { node: "agent-1".into(), restart_after_ms: Some(1_000) };
    Script::new(SCENARIO.name, seed, config)
        .worker("c1", reader)
        .worker(WRITER, writer)
        .fault(When::Frame(tenth), crash)
        .plan()
}
