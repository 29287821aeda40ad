//! Finding 9, blind: nothing but random pauses of agents, and a general transactional load.
//!
//! World: three agents, a Java 3.8 producer, a consumer; no transaction times out.
//! Load: transactions of one to four records over both partitions; a quarter is aborted.
//! Trouble: agents pause, drawn by swarm. Nothing here knows of EndTxn.
//! Claim: some seed of a few hundred tears a transaction. A strict client never does.

use crate::config::Config;
use crate::plan::{Decision, Op, Operation, Plan, Send};
use crate::scenario::{Expect, Scenario};
use client::Variant;
use sim::choice::Choices;
use sim::nemesis::{self, Kind, Swarm};
use std::collections::BTreeMap;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "torn-transaction-random",
    claim: "random pauses of agents, and nothing else, tear a transaction of the old protocol",
    config: Config::default,
    plan,
    expect: |config| match config.client {
        Variant::Java38 => Expect::Finds {
            must: &["torn-transaction"],
            may: &["G1a", "lost-write", "unseen", "wrong-decision"],
        },
        Variant::Strict => Expect::Clean,
    },
};

const PRODUCER: &str = "jt1";
const TRANSACTIONS: u32 = 120;
/// Time for the whole load, faults included.
const LOAD_MS: u64 = 20_000;

fn plan(seed: u64, config: &Config) -> Plan {
    let choices = Choices::new(seed, &[]);
    let mut values = vec![0; config.partitions as usize];
    let transactions = (1..=TRANSACTIONS).map(|id| transaction(&choices, id, &mut values)).collect();
    let consumer = vec![Operation { id: 1001, think_ms: 0, what: Op::Consume { for_ms: LOAD_MS } }];
    let swarm = Swarm {
        kinds: vec![Kind::Pause],
        targets: config.agent_names(),
        others: vec![],
        from_ms: 1000,
        until_ms: LOAD_MS - 4000,
        every_ms: (1500, 5000),
        for_ms: (500, 6000),
    };
    Plan {
        scenario: SCENARIO.name.into(),
        seed,
        config: config.clone(),
        operations: BTreeMap::from([(PRODUCER.into(), transactions), ("c1".into(), consumer)]),
        faults: nemesis::draw(&choices, &swarm),
        overrides: vec![],
    }
}

fn transaction(choices: &Choices, id: u32, values: &mut [u64]) -> Operation {
    let draw = |what, ordinal| choices.world(what, u64::from(id), ordinal);
    let sends = (0..draw("load.length", 0).between(1, 4)).map(|n| {
        let key = draw("load.key", n).below(values.len() as u64) as usize;
        values[key] += 1;
        Send { key: key as u32, value: values[key], think_ms: draw("load.think", n).between(0, 25) }
    });
    let sends = sends.collect();
    let end = if draw("load.end", 0).chance(0.25) { Decision::Abort } else { Decision::Commit };
    Operation { id, think_ms: draw("load.think", 99).between(5, 80), what: Op::Txn { sends, end } }
}
