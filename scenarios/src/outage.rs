//! Trouble that outlasts a request: agents pause, and are cut off, for longer than clients wait for an answer.
//!
//! World: three agents on a network on which requests spend their time on the way, and fast storage; a client that never
//! reuses an epoch after doubt, unless switched; no transaction times out.
//! Load: transactions of one to four records over both partitions, whose application waits for each record or for none;
//! two fifths are aborted; now and then a producer is given up, and another takes its place. A consumer, and a raw reader.
//! Trouble: pauses of agents, cuts between them and clients, and between them and what they depend on, one way or both, of 2.5
//! to 9 s. What was sent arrives
//! when its sender has long given it up; answers do not arrive.
//! Claims: those of the safe ground. Real clients under the old protocol show what the catalogue says of them (9, 11, 17,
//! 19).

use crate::cluster::{COORDINATOR, STORAGE};
use crate::config::Config;
use crate::plan::{Decision, Op, Operation, Plan, Send};
use crate::safe_ground::pick;
use crate::scenario::{Expect, Scenario};
use crate::torn_transaction_random;
use broker::Routing;
use client::Variant;
use sim::choice::Choices;
use sim::fault::Scheduled;
use sim::nemesis::{self, Kind, Swarm};
use std::collections::BTreeMap;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "outage",
    claim: "agents that are away for longer than clients wait for them lose, double and tear nothing of a strict client's",
    config: || Config { client: Variant::Strict, ..torn_transaction_random::config() },
    plan,
    expect: |config| match config.client {
        Variant::Strict => Expect::Clean,
        _ if config.is_second_protocol() => Expect::Clean,
        _ => Expect::Finds {
            must: &["G1a"],
            may: &["torn-transaction", "lost-write", "unseen", "wrong-decision", "position-moved"],
        },
    },
};

const PRODUCERS: u32 = 3;
/// Transactions of each producer.
const TRANSACTIONS: u32 = 24;
/// Time for the whole load, faults included.
const LOAD_MS: u64 = 45_000;

fn plan(seed: u64, config: &Config) -> Plan {
    let choices = Choices::new(seed, &[]);
    let mut values = vec![0; config.partitions as usize];
    let mut operations = BTreeMap::new();
    for producer in 1..=PRODUCERS {
        let all = (1..=TRANSACTIONS).flat_map(|n| turn(&choices, producer * 1_000 + 2 * n, &mut values));
        operations.insert(format!("t{producer}"), all.collect());
    }
    let clients: Vec<String> = operations.keys().cloned().collect();
    let one = |what| vec![Operation { id: 1, think_ms: 0, what }];
    operations.insert("c1".into(), one(Op::Consume { for_ms: LOAD_MS, think_ms: 400, uncommitted: false }));
    operations.insert("l1".into(), one(Op::Look { for_ms: LOAD_MS, every_ms: 3_000 }));
    let mut config = config.clone();
    let routing = choices.world("world.routing", 0, 0);
    config.agent.routing = pick(routing, [Routing::AnsweringAgent, Routing::Rendezvous]);
    Plan {
        scenario: SCENARIO.name.into(),
        seed,
        faults: faults(&choices, &config, clients),
        config,
        operations,
        overrides: vec![],
    }
}

/// Agents pause, are cut off from clients, and from what they depend on.
fn faults(choices: &Choices, config: &Config, clients: Vec<String>) -> Vec<Scheduled> {
    let from_clients = Swarm {
        kinds: vec![Kind::Pause, Kind::Cut],
        targets: config.agent_names(),
        others: clients,
        from_ms: 100,
        until_ms: LOAD_MS - 4_000,
        every_ms: (1_000, 2_500),
        for_ms: (2_500, 9_000),
        first_id: 1,
    };
    let others = [COORDINATOR, STORAGE].map(str::to_string).to_vec();
    let from_dependencies = Swarm {
        kinds: vec![Kind::Cut],
        others,
        every_ms: (4_000, 12_000),
        first_id: 1_001,
        ..from_clients.clone()
    };
    [nemesis::draw(choices, &from_clients), nemesis::draw(choices, &from_dependencies)].concat()
}

/// A transaction, and perhaps another producer before it.
fn turn(choices: &Choices, id: u32, values: &mut [u64]) -> Vec<Operation> {
    let draw = |what, ordinal| choices.world(what, u64::from(id), ordinal);
    let sends = (0..draw("load.length", 0).between(1, 4)).map(|n| {
        let key = draw("load.key", n).below(values.len() as u64) as usize;
        values[key] += 1;
        Send { key: key as u32, value: values[key], think_ms: draw("load.think", n).between(0, 150) }
    });
    let sends = sends.collect();
    let end = match (draw("load.end", 0).chance(0.4), draw("load.awaits", 0).chance(0.5)) {
        (true, _) => Decision::Abort,
        (false, true) => Decision::Commit,
        (false, false) => Decision::CommitUnawaited,
    };
    let think_ms = draw("load.pause", 0).between(0, 100);
    let renew =
        draw("load.renew", 0).chance(0.3).then_some(Operation { id: id - 1, think_ms: 0, what: Op::Renew });
    renew
        .into_iter()
        .chain([Operation { id, think_ms, what: Op::Txn { sends, offset: None, end } }])
        .collect()
}
