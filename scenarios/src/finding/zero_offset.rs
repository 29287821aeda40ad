//! Finding 3, scripted: a producer is told that its record is at offset 0, where another one is.
//!
//! World: that of the queue workload without transactions, with one agent and a Java 3.8 client. A Produce error leaves the
//! base offset at the schema's default, 0; a batch that was sent before is such an error.
//! Load: records, one after the other, and a consumer.
//! Trouble: the coordinator is paused just as the agent is about to commit the fourth. It commits it when it goes on; the
//! agent has given up by then, and the producer sends the batch again.
//! Claim: the second time the producer is answered DUPLICATE_SEQUENCE_NUMBER, which the Java client takes for success, with
//! offset 0. The record is at another one, where everybody polls it.

use super::blind::{Blind, QUICK};
use super::script::{self, Script, assign, final_reads, polls, send, work};
use super::{Class, Finding};
use crate::config::Config;
use crate::plan::Plan;
use crate::scenario::{Expect, Scenario};
use client::Variant;
use sim::fault::{Fault, When};

pub(super) const FINDING: Finding = Finding {
    id: 3,
    title: "a record is acknowledged at offset 0, and is somewhere else",
    what: "After pauses of the coordinator several producers were told offset 0 for records that lay far above it, so that \
           many records seemed to be at one offset and each of them at two. The answers were errors whose base offset had \
           been left at 0; the Java client took them for success.",
    class: Class::Defect { switch: "zero-base-offset" },
    cause: "an error answer to Produce keeps the default base offset, 0, and a batch that was appended before is answered \
            DUPLICATE_SEQUENCE_NUMBER (46), which clients take for success, franz-go too. No answer to \
            Produce separates the two (docs/open-questions.md); their time-outs do: Jepsen's client sent again after 3 s, \
            franz-go after 20 s",
    scenario: SCENARIO,
    blind: Blind {
        scenario: "queue-short",
        with: &["no-txn", "zero-base-offset"],
        must: &[&["duplicate"], &["inconsistent-offsets"]],
        without: &[],
        may: &["unseen", "conflict"],
        left: &[],
        limits: QUICK,
    },
    fix: "an error answer has base offset -1, and a batch that was appended before is answered with its offset",
    fixed: Some(|config| config.defects.zero_base_offset = false),
    echo: "Bufstream 0.1.0 to 0.1.3-rc.2, one agent, 2 min, pauses of etcd: 6 writes were told offset 0",
};

const SCENARIO: Scenario = Scenario {
    name: "zero-offset",
    claim: "a batch whose commit outlasts a pause of the coordinator is acknowledged at offset 0 when it is sent again",
    config: || {
        let mut config = script::queue(8_000);
        config.agents = 1;
        config.client = Variant::Java38;
        script::of_queue(&mut config, |queue| queue.txn = false);
        config.defects.zero_base_offset = true;
        config
    },
    plan,
    expect: |config| match config.defects.zero_base_offset {
        true => Expect::Shows { must: &["duplicate", "inconsistent-offsets", "conflict"], may: &["unseen"] },
        false => Expect::Clean,
    },
};

fn plan(seed: u64, config: &Config) -> Plan {
    let mut writer: Vec<_> = (1..=8).map(|value| (30, work(&[send(0, value)]))).collect();
    writer[0].0 = 300;
    writer.push(final_reads());
    let mut reader = vec![(500, assign(&[0]))];
    reader.extend(polls(30, 20));
    reader.push(final_reads());
    let about_to_commit =
        When::Point { node: Some("agent-1".into()), point: "produce.before-commit".into(), nth: 4 };
    let pause = Fault::Pause { node: crate::cluster::COORDINATOR.into(), for_ms: 3_500 };
    Script::new(SCENARIO.name, seed, config)
        .worker("writer", writer)
        .worker("reader-1", reader)
        .fault(about_to_commit, pause)
        .plan()
}
