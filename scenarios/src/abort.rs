//! Jepsen's abort workload (jepsen.md C, KAFKA-17582): what does a consumer poll after a transaction was aborted?
//!
//! World: that of the queue workload; consumers with `max.poll.records` 4, which assign or subscribe, as drawn; an
//! application that does not seek back after an abort.
//! Load: in one topic after the other, each of one worker alone: transactions that poll and then send a few records to the
//! same topic; one that commits, two that abort, one that commits, each again until it polled a record.
//! Trouble: pauses of agents, and cuts between them and everybody, which put members out of the group.
//! Claims: an abort does not move a consumer's position, and nothing but a rebalance moves it back: without one every poll
//! begins behind the last record of the poll before it, aborted or not, and the application has lost what it aborted; with
//! one it begins behind what is committed, so before what was aborted and behind what was not. This is what Kafka intends:
//! positions belong to the consumer, which knows no transaction, and are asked for only when a partition is assigned. An
//! application that seeks back (`--with seek-back`) is one that goes back without a rebalance, and is told so.
//! `--history FILE.abort.json` writes the polls; `wavetank check` counts their steps as Jepsen does.

use crate::config::Config;
use crate::plan::Plan;
use crate::queue::{Queue, SubVia, aborts};
use crate::queue_scenarios;
use crate::scenario::{Expect, Scenario};
use crate::storm;
use sim::choice::Choices;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "abort",
    claim: "an aborted transaction does not move a consumer's position, and nothing but a rebalance moves it back",
    config: || {
        queue_scenarios::config(Queue {
            clients: 4,
            until_ms: 12_000,
            think_ms_max: 50,
            abort_chance: 0.0,
            seeks_back: false,
            max_poll_records: Some(4),
            settle_ms: 2_000,
            ..Queue::default()
        })
    },
    plan,
    expect: |config| match config.queue.as_ref().is_some_and(|queue| queue.seeks_back) {
        true => Expect::Finds { must: &["unintended-step"], may: &[] },
        false => Expect::Clean,
    },
};

/// The load goes on for so long after the last fault began, in milliseconds.
const QUIET_MS: u64 = 4_000;

fn plan(seed: u64, config: &Config) -> Plan {
    let choices = Choices::new(seed, &[]);
    let mut queue = config.queue.clone().unwrap_or_default();
    if choices.world("abort.subscribe", 0, 0).chance(0.5) {
        queue.sub_via = SubVia::Subscribe;
    }
    let operations = aborts::draw(&choices, &queue);
    Plan {
        scenario: SCENARIO.name.into(),
        seed,
        faults: storm::at_agents(&choices, config, operations.keys(), queue.until_ms - QUIET_MS),
        operations,
        config: Config { queue: Some(queue), ..config.clone() },
        overrides: vec![],
    }
}
