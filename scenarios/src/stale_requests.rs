//! What a request that arrives late may do, where anything may arrive late: the ground on which mitigations are compared.
//!
//! World: three agents, Java 3.8 producers whose requests and records time out after 3 s, a consumer; where
//! agents append without asking (`outside-local`) a raw reader too. Who is leader and coordinator is drawn.
//! Load: transactions of one to four records over two partitions; four of ten are aborted, and half of the others wait for no
//! acknowledgement before they commit. Some of one producer's commit an offset.
//! Trouble: agents pause, the coordinator pauses, and single frames of clients are late, each drawn by the seed. Nothing here
//! knows what a frame is.
//! Claim: a client that takes a new epoch after doubt (`strict`) and the second protocol (`tv2`) are not affected. What the
//! others show is attributed ([`crate::Attribution`]) and counted (`wavetank matrix`).

use crate::cluster::COORDINATOR;
use crate::config::Config;
use crate::plan::{Decision, Op, Operation, Plan, Send};
use crate::scenario::{Expect, Scenario};
use crate::torn_transaction_random;
use broker::{Outside, Routing};
use client::Variant;
use sim::choice::Choices;
use sim::fault::{Fault, FramePattern, Scheduled, When};
use sim::nemesis::{self, Kind, Swarm};
use std::collections::BTreeMap;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "stale-requests",
    claim: "pauses and single late frames, whatever they are, do harm by known mechanisms only (wavetank matrix)",
    config,
    plan,
    expect: |config| match config.client {
        _ if config.is_second_protocol() => Expect::Clean,
        Variant::Strict => Expect::Clean,
        _ => Expect::Allows { may: MAY },
    },
};

const MAY: &[&str] = &[
    "torn-transaction",
    "G1a",
    "G1b",
    "early-visibility",
    "lost-write",
    "unseen",
    "inconsistent-offsets",
    "position-moved",
    "conflict",
    "stale-poll",
    "stuck-transaction",
    "zombie-append",
    "torn-offsets",
    "wrong-decision",
];

/// The network and storage of `torn-transaction-random`, on which trouble meets requests of all kinds.
fn config() -> Config {
    Config { delivery_timeout_ms: Some(3_000), ..torn_transaction_random::config() }
}

const PRODUCERS: u32 = 2;
/// Transactions of each producer.
const TRANSACTIONS: u32 = 16;
/// Time for the whole load, faults included, in milliseconds.
const LOAD_MS: u64 = 30_000;
/// When trouble begins, and when no more is made, in milliseconds.
const TROUBLE_MS: (u64, u64) = (300, LOAD_MS - 6_000);
/// Late frames of each client at most; how long after the beginning of trouble one may be looked for, so that it surely comes; and
/// by how much it is late, in milliseconds.
const LATE_MAX: u64 = 3;
const LATE_WITHIN_MS: u64 = 2_000;
const LATE_MS: (u64, u64) = (2_500, 9_000);

fn plan(seed: u64, config: &Config) -> Plan {
    let choices = Choices::new(seed, &[]);
    let mut config = config.clone();
    if choices.world("stale.routing", 0, 0).chance(0.5) {
        config.agent.routing = Routing::Rendezvous;
    }
    let mut values = vec![0; config.partitions as usize];
    let mut operations = BTreeMap::new();
    for producer in 1..=PRODUCERS {
        let ids = (1..=TRANSACTIONS).map(|n| producer * 1000 + n);
        let transactions = ids.map(|id| transaction(&choices, id, &mut values)).collect();
        operations.insert(format!("jt{producer}"), transactions);
    }
    let alone = |id, what| vec![Operation { id, think_ms: 0, what }];
    let consume = Op::Consume { for_ms: LOAD_MS, think_ms: 400, uncommitted: false };
    operations.insert("c1".into(), alone(1, consume));
    if config.agent.transactions.outside == Outside::Local {
        operations.insert("l1".into(), alone(2, Op::Look { for_ms: LOAD_MS, every_ms: 2_000 }));
    }
    let faults = trouble(&choices, &config);
    Plan { scenario: SCENARIO.name.into(), seed, config, operations, faults, overrides: vec![] }
}

fn transaction(choices: &Choices, id: u32, values: &mut [u64]) -> Operation {
    let draw = |what, ordinal| choices.world(what, u64::from(id), ordinal);
    let sends = (0..draw("load.length", 0).between(1, 4)).map(|n| {
        let key = draw("load.key", n).below(values.len() as u64) as usize;
        values[key] += 1;
        let think_ms = match draw("load.slow", n).chance(0.2) {
            true => draw("load.think", n).between(100, 1_000),
            false => draw("load.think", n).between(0, 20),
        };
        Send { key: key as u32, value: values[key], think_ms }
    });
    let sends = sends.collect();
    let end = match draw("load.end", 0).below(10) {
        0..4 => Decision::Abort,
        4..7 => Decision::Commit,
        _ => Decision::CommitUnawaited,
    };
    let think_ms = draw("load.think", 99).between(0, 50);
    // The first producer commits offsets as well, each one higher than the last.
    let offset = (id < 2_000 && draw("load.offset", 0).chance(0.3)).then_some(i64::from(id));
    Operation { id, think_ms, what: Op::Txn { sends, offset, end } }
}

fn trouble(choices: &Choices, config: &Config) -> Vec<Scheduled> {
    let (from_ms, until_ms) = TROUBLE_MS;
    let agents = Swarm {
        kinds: vec![Kind::Pause],
        targets: config.agent_names(),
        others: vec![],
        from_ms,
        until_ms,
        every_ms: (1_000, 4_000),
        for_ms: (2_500, 6_000),
        first_id: 1,
    };
    let coordinator = Swarm {
        targets: vec![COORDINATOR.to_string()],
        every_ms: (6_000, 15_000),
        for_ms: (1_500, 12_000),
        first_id: 101,
        ..agents.clone()
    };
    let mut faults = Vec::new();
    if choices.world("stale.agents", 0, 0).chance(0.6) {
        faults.extend(nemesis::draw(choices, &agents));
    }
    if choices.world("stale.coordinator", 0, 0).chance(0.4) {
        faults.extend(nemesis::draw(choices, &coordinator));
    }
    for producer in 1..=PRODUCERS {
        let count = choices.world("stale.frames", u64::from(producer), 0).between(0, LATE_MAX) as u32;
        faults.extend((0..count).map(|n| late(choices, producer, 200 + producer * 10 + n)));
    }
    faults
}

/// The next frame of a producer's that leaves it after a drawn moment is late. One of a few is among its first.
fn late(choices: &Choices, producer: u32, id: u32) -> Scheduled {
    let draw = |what| choices.world(what, u64::from(id), 0);
    let at_ms = match draw("stale.first").chance(0.2) {
        true => 0,
        false => TROUBLE_MS.0 + draw("stale.at").between(0, LATE_WITHIN_MS),
    };
    let nth = draw("stale.nth").between(1, 5) as u32;
    let frame = FramePattern { from: Some(format!("jt{producer}")), nth, ..FramePattern::words("") };
    Scheduled {
        id,
        when: When::AtMs(at_ms),
        fault: Fault::Delay { frame, by_ms: draw("stale.by").between(LATE_MS.0, LATE_MS.1) },
    }
}
