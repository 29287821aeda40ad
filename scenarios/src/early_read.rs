//! Jepsen's early-read workload (jepsen.md C): does anybody see what a transaction has written before it asks to commit?
//!
//! World: that of the queue workload, with one key.
//! Load: transactions that send a record, wait for up to a second, and, in half of the workers, poll until nothing comes.
//! Trouble: pauses of agents, and cuts between them and everybody.
//! Claims: no record is polled before its writer asked to commit it, nor by its own transaction; no two transactions each
//! see what the other wrote. A broker that serves what is undecided (`--with early-stable-offset`) is caught.

use crate::config::Config;
use crate::plan::Plan;
use crate::queue::{Queue, early};
use crate::queue_scenarios;
use crate::scenario::{Expect, Scenario};
use crate::storm;
use sim::choice::Choices;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "early-read",
    claim: "nobody sees a record before its writer asked to commit it, however long that takes",
    config: || {
        queue_scenarios::config(Queue {
            clients: 6,
            until_ms: 6_000,
            think_ms_max: 100,
            assign_chance: 0.25,
            settle_ms: 2_000,
            ..Queue::default()
        })
    },
    plan,
    expect: |config| match config.defects.early_stable_offset {
        true => Expect::Finds {
            must: &["early-visibility", "precommitted-read"],
            may: &["wr-cycle", "G1a", "G1b", "lost-write", "position-moved", "poll-skip", "int-poll-skip"],
        },
        false => Expect::Clean,
    },
};

fn plan(seed: u64, config: &Config) -> Plan {
    let choices = Choices::new(seed, &[]);
    let queue = config.queue.clone().unwrap_or_default();
    let operations = early::draw(&choices, &queue);
    Plan {
        scenario: SCENARIO.name.into(),
        seed,
        faults: storm::at_agents(&choices, config, operations.keys(), queue.until_ms),
        operations,
        config: Config { queue: Some(queue), ..config.clone() },
        overrides: vec![],
    }
}
