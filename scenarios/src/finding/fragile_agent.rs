//! Finding 15, scripted: an agent ends when what it depends on is away, and stays down when that is back.
//!
//! World: that of the queue workload without transactions, with three agents and a supervisor that starts one of them again
//! three times at most.
//! Load: records, and a consumer.
//! Trouble: one agent is cut from the coordinator and from the store for fifteen seconds.
//! Claim: an agent that ends when a dependency is away ends, cannot read the file that it needs at its start, and ends again
//! until its supervisor gives up: it is down long after all is healed. An agent that waits goes on.

use super::blind::{Blind, QUICK};
use super::script::{self, Script, assign, final_reads, polls, send, work};
use super::{Class, Finding};
use crate::cluster::{COORDINATOR, STORAGE};
use crate::config::Config;
use crate::plan::Plan;
use crate::scenario::{Expect, Scenario};
use sim::fault::{Fault, When};
use sim::node::Supervisor;

pub(super) const FINDING: Finding = Finding {
    id: 15,
    title: "an agent ends because something it depends on is away, and stays down",
    what: "About one test in thirty failed because an agent had not started: it reads a file that all agents share, and ended \
           when the store answered that there was none. An agent that ends for what passes is down for good once its \
           supervisor gives up.",
    class: Class::Defect { switch: "exits-on-trouble" },
    cause: "an agent ends when it cannot read a shared file at its start, and when coordinator or store do not answer later; \
            its supervisor starts it again three times",
    scenario: SCENARIO,
    blind: Blind {
        scenario: "safe-ground",
        with: &["exits-on-trouble"],
        must: &[&["agent-down"]],
        without: &[],
        // With all agents down for good, clients wait for them for good.
        may: &["unseen", "every worker is done"],
        left: &[],
        limits: QUICK,
    },
    fix: "try again, go on running, push back, and report one's health",
    fixed: Some(|config| config.defects.exits_on_trouble = false),
    echo: "Bufstream, until a layer of retries was added: one test of Jepsen's in thirty",
};

const SCENARIO: Scenario = Scenario {
    name: "fragile-agent",
    claim: "an agent that was cut from coordinator and store for fifteen seconds is down when all is healed",
    config: || {
        let mut config = script::queue(8_000);
        config.supervisor = Some(Supervisor { restart_after_ms: 1_000, give_up_after: 3 });
        script::of_queue(&mut config, |queue| queue.txn = false);
        config.defects.exits_on_trouble = true;
        config
    },
    plan,
    expect: |config| match config.defects.exits_on_trouble {
        true => Expect::Shows { must: &["agent-down"], may: &["unseen"] },
        false => Expect::Clean,
    },
};

fn plan(seed: u64, config: &Config) -> Plan {
    let mut writer: Vec<_> = (1..=60).map(|value| (50, work(&[send(0, value)]))).collect();
    writer.push(final_reads());
    let mut reader = vec![(300, assign(&[0]))];
    reader.extend(polls(40, 20));
    reader.push(final_reads());
    let cut = Fault::Cut {
        from: config.agent_names().into_iter().take(1).collect(),
        to: vec![COORDINATOR.into(), STORAGE.into()],
        both_ways: true,
        for_ms: 15_000,
    };
    Script::new(SCENARIO.name, seed, config)
        .worker("writer", writer)
        .worker("reader-1", reader)
        .fault(When::AtMs(2_000), cut)
        .plan()
}
