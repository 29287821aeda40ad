//! The safe ground (findings.md): under all faults at once, nothing goes wrong.
//!
//! World: three agents, a client that never reuses an epoch after doubt; settings that must not matter are drawn.
//! Load: transactions, some of them by two producers that share a transactional id and fence each other; records of
//! idempotent producers outside transactions; consumers of both isolation levels that follow, and begin anew; a raw
//! reader.
//! Trouble: everything that `storm` knows.
//! Claims: nothing acknowledged is lost, doubled or reordered; no aborted read; watermarks never move back; an offset
//! keeps its bytes and is in one batch; every prepared end is finished; nothing lands under an epoch that was replaced.

use crate::config::Config;
use crate::plan::{Decision, Op, Operation, Plan, Send};
use crate::scenario::{Expect, Scenario};
use crate::storm;
use broker::{Outside, Routing, Timeouts};
use client::Variant;
use rt::choice::Choice;
use sim::choice::Choices;
use std::collections::BTreeMap;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "safe-ground",
    claim: "with a strict client no fault loses, doubles, reorders or tears anything",
    config: || Config { client: Variant::Strict, ..Config::default() },
    plan,
    expect: |config| match config.client {
        Variant::Strict => Expect::Clean,
        _ if config.is_second_protocol() => Expect::Clean,
        // The same load and trouble find the old protocol's hazards.
        _ => Expect::Finds {
            must: &["G1a"],
            may: &["torn-transaction", "lost-write", "unseen", "wrong-decision", "duplicate", "conflict"],
        },
    },
};

/// Producers with transactions, and what each does.
const PRODUCERS: u32 = 3;
const TRANSACTIONS: u32 = 9;
/// Producers without transactions, and what each does.
const PLAIN: u32 = 2;
const BURSTS: u32 = 8;
/// Time for the whole load, faults included.
pub(crate) const LOAD_MS: u64 = 16_000;

fn plan(seed: u64, config: &Config) -> Plan {
    let choices = Choices::new(seed, &[]);
    let mut load = Load::new(&choices, config);
    let mut operations = BTreeMap::new();
    for producer in 1..=PRODUCERS {
        let ids = (1..=TRANSACTIONS).map(|n| producer * 1000 + n);
        operations.insert(format!("t{producer}"), ids.map(|id| load.transaction(id)).collect());
    }
    for producer in 1..=PLAIN {
        let ids = (1..=BURSTS).map(|n| 10_000 + producer * 1000 + n);
        operations.insert(format!("p{producer}"), ids.map(|id| load.burst(id)).collect());
    }
    let clients: Vec<String> = operations.keys().cloned().collect();
    let one = |what| vec![Operation { id: 1, think_ms: 0, what }];
    let consume = |for_ms, think_ms, uncommitted| Op::Consume { for_ms, think_ms, uncommitted };
    operations.insert("c1".into(), one(consume(LOAD_MS, 300, false)));
    operations.insert("c2".into(), one(consume(LOAD_MS, 300, true)));
    let anew = (1..=4).map(|id| Operation { id, think_ms: 2_000, what: consume(1_500, 100, id % 2 == 0) });
    operations.insert("c3".into(), anew.collect());
    operations.insert("l1".into(), one(Op::Look { for_ms: LOAD_MS, every_ms: 600 }));
    Plan {
        scenario: SCENARIO.name.into(),
        seed,
        config: world(&choices, config),
        operations,
        faults: storm::draw(&choices, config, &clients, LOAD_MS - 2_000),
        overrides: vec![],
    }
}

/// Which producers share a transactional id, and settings of agents that must not matter: those that a switch has changed
/// stay so.
pub(crate) fn world(choices: &Choices, config: &Config) -> Config {
    let draw = |what| choices.world(what, 0, 0);
    let mut config = config.clone();
    let shared = draw("world.shared").chance(0.5);
    config.transactional_ids = (1..=PRODUCERS)
        .map(|n| (format!("t{n}"), format!("txn-{}", if shared && n == PRODUCERS { 1 } else { n })))
        .collect();
    let agent = &mut config.agent;
    agent.routing = pick(draw("world.routing"), [Routing::AnsweringAgent, Routing::Rendezvous]);
    let transactions = &mut agent.transactions;
    if transactions.outside == Outside::default() {
        transactions.outside = pick(draw("world.outside"), [Outside::Implicit, Outside::Verify]);
    }
    if transactions.timeouts == Timeouts::default() {
        transactions.timeouts = pick(draw("world.timeouts"), [Timeouts::Scan, Timeouts::Deadline]);
    }
    agent.transactions.scan_interval_ms = pick(draw("world.scan"), [2_000, 10_000]);
    agent.lease_ttl_s = pick(draw("world.lease"), [3, 15]);
    agent.cache_max_bytes = pick(draw("world.cache"), [0, 2_000, 16 << 20]);
    agent.chunk_linger_ms = pick(draw("world.linger"), [0, 30]);
    agent.chunk_max_bytes = pick(draw("world.chunk"), [600, 4 << 20]);
    agent.compaction_interval_ms = pick(draw("world.compaction"), [700, 300_000]);
    agent.compaction_min_chunks = pick(draw("world.compaction-min"), [2, 8]);
    agent.collection_interval_ms = pick(draw("world.collection"), [1_500, 300_000]);
    agent.fetch_max_bytes = pick(draw("world.fetch"), [2_000, 57_671_680]);
    config
}

pub(crate) fn pick<T: Copy, const N: usize>(choice: Choice, all: [T; N]) -> T {
    all[choice.below(N as u64) as usize]
}

/// Records to be sent.
pub(crate) struct Load<'a> {
    choices: &'a Choices,
    /// The last value of each key.
    values: Vec<u64>,
}

impl<'a> Load<'a> {
    pub(crate) fn new(choices: &'a Choices, config: &Config) -> Self {
        Load { choices, values: vec![0; config.partitions as usize] }
    }

    pub(crate) fn transaction(&mut self, id: u32) -> Operation {
        let sends = self.sends(id, 4, 150);
        let draw = |what| self.choices.world(what, u64::from(id), 99);
        let end = if draw("load.end").chance(0.3) { Decision::Abort } else { Decision::Commit };
        let think_ms = draw("load.think").between(500, 1_500);
        Operation { id, think_ms, what: Op::Txn { sends, offset: None, end } }
    }

    pub(crate) fn burst(&mut self, id: u32) -> Operation {
        let think_ms = self.choices.world("load.think", u64::from(id), 99).between(500, 1_500);
        Operation { id, think_ms, what: Op::Send { sends: self.sends(id, 8, 10) } }
    }

    fn sends(&mut self, id: u32, most: u64, think_ms: u64) -> Vec<Send> {
        let draw = |what, ordinal| self.choices.world(what, u64::from(id), ordinal);
        let sends = (0..draw("load.length", 0).between(1, most)).map(|n| {
            let key = draw("load.key", n).below(self.values.len() as u64) as usize;
            self.values[key] += 1;
            let think_ms = draw("load.think", n).between(0, think_ms);
            Send { key: key as u32, value: self.values[key], think_ms }
        });
        sends.collect()
    }
}
