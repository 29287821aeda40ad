//! Closing clients in trouble (finding 7, KAFKA-17734): `close` comes back when its timeout is over, whatever is away.
//!
//! World: that of the queue workload; consumers assign or subscribe, as drawn.
//! Load: that of the queue workload, whose clients are given up again and again: producer and consumer are then closed,
//! each with a timeout of 300 ms.
//! Trouble: pauses of agents, and cuts between them and everybody: what a client waits for in `close` does not come.
//! Claims: no `close` takes longer than its timeout, but for 100 ms; the history is valid. A client that waits over a dead
//! connection whatever its timeout says (`--with close-hangs`) is caught.

use crate::config::Config;
use crate::plan::Plan;
use crate::queue::{Queue, SubVia, generator};
use crate::queue_scenarios;
use crate::scenario::{Expect, Scenario};
use crate::storm;
use sim::choice::Choices;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "close",
    claim: "a client that is closed with a timeout is closed by then, though agents pause and the network is cut",
    config: || queue_scenarios::config(Queue { close_ms: 300, ..queue_scenarios::restless() }),
    plan,
    expect: |config| match config.member_flaws.close_hangs {
        true => Expect::Finds { must: &["close-hung"], may: &[] },
        false => Expect::Clean,
    },
};

fn plan(seed: u64, config: &Config) -> Plan {
    let choices = Choices::new(seed, &[]);
    let mut queue = config.queue.clone().unwrap_or_default();
    if choices.world("close.subscribe", 0, 0).chance(0.5) {
        queue.sub_via = SubVia::Subscribe;
    }
    let operations = generator::draw(&choices, &queue);
    Plan {
        scenario: SCENARIO.name.into(),
        seed,
        faults: storm::at_agents(&choices, config, operations.keys(), queue.until_ms),
        operations,
        config: Config { queue: Some(queue), ..config.clone() },
        overrides: vec![],
    }
}
