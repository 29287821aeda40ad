//! Finding 1, scripted: a restarted agent serves old watermarks, and consumers stand still.
//!
//! World: that of the queue workload without transactions, with one agent. It lists the watermarks of all partitions when
//! it starts, watches them from a later revision, and serves what it knows from there.
//! Load: records; then, after a restart of the agent, more of them, before anybody reads; then a consumer polls.
//! Trouble: none but that the agent is asked to stop, and started again.
//! Claim: the records written between the list and the watch are there and nobody is given them: polls return nothing, for
//! as long as nobody writes to the partition again.

use super::blind::{Blind, QUICK};
use super::script::{self, Script, assign, final_reads, polls, send, work};
use super::{Class, Finding};
use crate::config::Config;
use crate::plan::Plan;
use crate::scenario::{Expect, Scenario};
use sim::fault::{Fault, When};

pub(super) const FINDING: Finding = Finding {
    id: 1,
    title: "consumers of a freshly started agent stand still though there are records",
    what: "For tens of seconds, and up to more than an hour, polls returned at once and empty while acknowledged records lay \
           above the consumer's position. Agents that had just started served a high watermark and a last stable offset \
           from a cache that nobody brought up to date.",
    class: Class::Defect { switch: "watch-gap" },
    cause: "an agent lists the watermarks of its partitions once, when it starts, and watches them from a later revision; \
            what changed between is served as it was until the partition's next write",
    scenario: SCENARIO,
    blind: Blind {
        scenario: "queue-short",
        with: &["no-txn", "watch-gap"],
        must: &[&["unseen"], &["stale-poll"]],
        without: &[],
        may: &[],
        left: &[],
        limits: QUICK,
    },
    fix: "list and watch from the same revision",
    fixed: Some(|config| config.defects.watch_gap = false),
    echo: "Bufstream 0.1.0 to 0.1.3-rc.6, without faults: of 691 records acknowledged in 120 s, 40 were polled by nobody in \
           more than an hour",
};

const SCENARIO: Scenario = Scenario {
    name: "stuck-consumer",
    claim: "what is written while an agent has listed watermarks and does not watch them yet is never polled",
    config: || {
        let mut config = script::queue(4_000);
        config.agents = 1;
        script::of_queue(&mut config, |queue| {
            queue.txn = false;
            queue.final_limit_ms = 60_000;
        });
        config.defects.watch_gap = true;
        config
    },
    plan,
    expect: |config| match config.defects.watch_gap {
        true => Expect::Shows { must: &["unseen", "stale-poll"], may: &[] },
        false => Expect::Clean,
    },
};

fn plan(seed: u64, config: &Config) -> Plan {
    let write = |(after_ms, value)| (after_ms, work(&[send(0, value)]));
    // The third is sent while the agent is down.
    let mut writer: Vec<_> = [300, 20, 750, 20, 20, 20, 20].into_iter().zip(1..).map(write).collect();
    writer.push(final_reads());
    let mut reader = vec![(2_800, assign(&[0]))];
    reader.extend(polls(10, 20));
    reader.push(final_reads());
    let stop = Fault::Stop { node: "agent-1".into(), restart_after_ms: Some(400) };
    Script::new(SCENARIO.name, seed, config)
        .worker("writer", writer)
        .worker("reader-1", reader)
        .fault(When::AtMs(1_000), stop)
        .plan()
}
