//! Finding 20, scripted: readers of committed records are served what nobody has decided yet.
//!
//! World: that of the queue workload; agents serve readers of committed records up to the high watermark.
//! Load: a transaction that writes a record, takes a second over it, and commits; another that does the same and is
//! aborted. Meanwhile a consumer polls.
//! Trouble: none.
//! Claim: the consumer polled the first record before its writer asked to commit it. It polled the second one as well,
//! which nobody ever committed. Agents that serve such readers up to the last stable offset show neither before its time.

use super::blind::{Blind, QUICK};
use super::script::{self, Script, aborted, assign, final_reads, polls, send, wait, work};
use super::{Class, Finding};
use crate::config::Config;
use crate::plan::Plan;
use crate::scenario::{Expect, Scenario};

pub(super) const FINDING: Finding = Finding {
    id: 20,
    title: "readers of committed records see what an open transaction has written",
    what: "A consumer with isolation.level=read_committed was served records above the first open transaction of the \
           partition, as if its last stable offset were the high watermark. It acted on what nobody had committed, \
           and what was then aborted had been read all the same.",
    class: Class::Defect { switch: "early-stable-offset" },
    cause: "agents tell readers of committed records the high watermark as the last stable offset, and serve up to it",
    scenario: SCENARIO,
    blind: Blind {
        scenario: "early-read",
        with: &["early-stable-offset"],
        must: &[&["early-visibility"]],
        without: &[],
        // Jepsen's names for the same: what was read before its writer's commit, and two that each read the other's.
        may: &["G1a", "precommitted-read", "wr-cycle"],
        left: &[],
        limits: QUICK,
    },
    fix: "the last stable offset is the first offset of the oldest open transaction, and nothing above it is served",
    fixed: Some(|config| config.defects.early_stable_offset = false),
    echo: "not in Jepsen's report of Bufstream; Tansu and Redpanda had bugs of this kind",
};

const SCENARIO: Scenario = Scenario {
    name: "early-visibility",
    claim: "a consumer polls a record while the transaction that wrote it is still open",
    config: || {
        let mut config = script::queue(4_000);
        config.transaction_timeout_ms = 60_000;
        config.defects.early_stable_offset = true;
        config
    },
    plan,
    expect: |config| match config.defects.early_stable_offset {
        true => Expect::Shows { must: &["early-visibility"], may: &["G1a"] },
        false => Expect::Clean,
    },
};

fn plan(seed: u64, config: &Config) -> Plan {
    let mut reader = vec![(300, assign(&[0]))];
    reader.extend(polls(30, 20));
    reader.push(final_reads());
    let writer = vec![
        (500, work(&[send(0, 1), wait(1_000)])),
        (100, aborted(&[send(0, 2), wait(1_000)])),
        final_reads(),
    ];
    Script::new(SCENARIO.name, seed, config).worker("c1", reader).worker("writer", writer).plan()
}
