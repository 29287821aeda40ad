//! Fencing, with real zombies (jepsen.md C and E6): a client whose place was taken commits nothing more.
//!
//! World: that of the queue workload; a worker keeps its transactional id, whichever client it has.
//! Load: that of the queue workload; clients are given up again and again, in the middle of a transaction, and go on with
//! it when another with the same id has been initialised.
//! Trouble: pauses of agents, and cuts between them and everybody.
//! Claims: no end of a transaction that was asked for under an epoch after a newer one was handed out is told to have
//! succeeded (`zombie-end`); the history, in which zombies are processes like others, is valid. An agent that does not look
//! at the epoch of EndTxn (`--with unfenced-end`) is caught.

use crate::config::Config;
use crate::plan::Plan;
use crate::queue::{generator, zombie};
use crate::queue_scenarios;
use crate::scenario::{Expect, Scenario};
use crate::storm;
use sim::choice::Choices;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "fence",
    claim: "a client whose transactional id was taken over commits nothing more, whenever it comes back to life",
    config: || queue_scenarios::config(queue_scenarios::restless()),
    plan,
    expect: |config| match config.defects.unfenced_end {
        true => Expect::Finds {
            must: &["zombie-end"],
            may: &[
                "torn-transaction",
                "early-visibility",
                "G1a",
                "G1b",
                "lost-write",
                "unseen",
                "wrong-decision",
                "poll-skip",
                "int-poll-skip",
                "position-moved",
                "stale-poll",
            ],
        },
        false => Expect::Clean,
    },
};

fn plan(seed: u64, config: &Config) -> Plan {
    let choices = Choices::new(seed, &[]);
    let queue = config.queue.clone().unwrap_or_default();
    let mut operations = generator::draw(&choices, &queue);
    operations.values_mut().for_each(|of_worker| zombie::rise(&choices, &queue, of_worker));
    let ids = operations.keys().map(|name| (name.clone(), format!("txn-{name}"))).collect();
    Plan {
        scenario: SCENARIO.name.into(),
        seed,
        faults: storm::at_agents(&choices, config, operations.keys(), queue.until_ms),
        operations,
        config: Config { queue: Some(queue), transactional_ids: ids, ..config.clone() },
        overrides: vec![],
    }
}
