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
use sim::net::NetConfig;
use sim::run::Preempt;
use std::collections::BTreeMap;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "torn-transaction-random",
    claim: "random pauses of agents, and nothing else, tear a transaction of the old protocol",
    config,
    plan,
    expect: |config| match config.client {
        _ if config.is_second_protocol() => Expect::Clean,
        Variant::Strict => Expect::Clean,
        _ => Expect::Finds {
            must: &["torn-transaction"],
            may: &["G1a", "early-visibility", "lost-write", "unseen", "position-moved", "wrong-decision"],
        },
    },
};

/// A network on which requests spend their time on the way, and fast storage: a pause then meets requests of all kinds.
pub(crate) fn config() -> Config {
    let latency = |base_us, jitter_us| fake_s3::Latency { base_us, jitter_us };
    Config {
        net: NetConfig { latency_base_us: 5_000, latency_jitter_us: 15_000, ..NetConfig::default() },
        coordinator: fake_etcd::ServerConfig { fsync_min_us: 500, fsync_max_us: 2_000, ..Default::default() },
        storage: fake_s3::ServerConfig {
            write: latency(2_000, 3_000),
            read: latency(1_000, 2_000),
            ..Default::default()
        },
        preempt: Preempt { chance: 0.1, hold_us_max: 50_000 },
        ..Config::default()
    }
}

const PRODUCERS: u32 = 3;
/// Transactions of each producer.
const TRANSACTIONS: u32 = 11;
/// Time for the whole load, faults included.
const LOAD_MS: u64 = 40_000;

fn plan(seed: u64, config: &Config) -> Plan {
    let choices = Choices::new(seed, &[]);
    let mut values = vec![0; config.partitions as usize];
    let mut operations = BTreeMap::new();
    for producer in 1..=PRODUCERS {
        let ids = (1..=TRANSACTIONS).map(|n| producer * 1000 + n);
        let transactions = ids.map(|id| transaction(&choices, id, &mut values)).collect();
        operations.insert(format!("jt{producer}"), transactions);
    }
    operations.insert(
        "c1".into(),
        vec![Operation {
            id: 1,
            think_ms: 0,
            what: Op::Consume { for_ms: LOAD_MS, think_ms: 400, uncommitted: false },
        }],
    );
    let swarm = Swarm {
        kinds: vec![Kind::Pause],
        targets: config.agent_names(),
        others: vec![],
        from_ms: 500,
        until_ms: LOAD_MS - 4000,
        every_ms: (700, 1500),
        for_ms: (2500, 5000),
        first_id: 1,
    };
    let faults = nemesis::draw(&choices, &swarm);
    Plan {
        scenario: SCENARIO.name.into(),
        seed,
        config: config.clone(),
        operations,
        faults,
        overrides: vec![],
    }
}

fn transaction(choices: &Choices, id: u32, values: &mut [u64]) -> Operation {
    let draw = |what, ordinal| choices.world(what, u64::from(id), ordinal);
    let sends = (0..draw("load.length", 0).between(2, 5)).map(|n| {
        let key = draw("load.key", n).below(values.len() as u64) as usize;
        values[key] += 1;
        Send { key: key as u32, value: values[key], think_ms: draw("load.think", n).between(0, 5) }
    });
    let sends = sends.collect();
    let end = if draw("load.end", 0).chance(0.4) { Decision::Abort } else { Decision::Commit };
    Operation {
        id,
        think_ms: draw("load.think", 99).between(0, 20),
        what: Op::Txn { sends, offset: None, end },
    }
}
