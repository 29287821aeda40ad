//! Trouble that outlasts a request: agents pause, and are cut off, for longer than clients wait for an answer.
//!
//! World: three agents on a network on which requests spend their time on the way, and fast storage; a client that never
//! reuses an epoch after doubt, unless switched; no transaction times out.
//! Load: transactions of one to five records over four partitions, whose application waits for each record, or more often
//! for none; two fifths are aborted; now and then a producer is given up, and another takes its place. A consumer, and a
//! raw reader.
//! Trouble: pauses of agents, cuts between them and clients, and between them and what they depend on, one way or both; and
//! frames of every kind that transactions have, requests and answers alike, that are late. All of them by 2.5 to 9 s: what
//! was sent arrives when its sender has long given it up, and answers when nobody waits for them.
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
use sim::fault::{Fault, FramePattern, Scheduled};
use sim::nemesis::{self, Kind, Swarm};
use std::collections::BTreeMap;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "outage",
    claim: "agents that are away for longer than clients wait for them lose, double and tear nothing of a strict client's",
    config: || Config { client: Variant::Strict, partitions: 4, ..torn_transaction_random::config() },
    plan,
    expect: |config| match config.client {
        Variant::Strict => Expect::Clean,
        _ if config.is_second_protocol() => Expect::Clean,
        _ => Expect::Finds {
            must: &["G1a"],
            // A fence by an InitProducerId of which nobody learns that it did its work counts as a false one (19).
            may: &[
                "torn-transaction",
                "early-visibility",
                "lost-write",
                "unseen",
                "wrong-decision",
                "position-moved",
                "false-fence",
            ],
        },
    },
};

const PRODUCERS: u32 = 10;
/// Transactions of each producer.
const TRANSACTIONS: u32 = 9;
/// Time for the whole load, faults included.
const LOAD_MS: u64 = 30_000;

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

/// Agents pause, are cut off from clients, and from what they depend on; and frames are late.
fn faults(choices: &Choices, config: &Config, clients: Vec<String>) -> Vec<Scheduled> {
    let from_clients = Swarm {
        kinds: vec![Kind::Pause, Kind::Cut],
        targets: config.agent_names(),
        others: clients,
        from_ms: 100,
        until_ms: LOAD_MS - 4_000,
        every_ms: (1_500, 5_000),
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
    let mut faults = nemesis::draw(choices, &from_clients);
    faults.extend(nemesis::draw(choices, &from_dependencies));
    let all = (0..FRAMES.len()).flat_map(|kind| (0..LATE_OF_A_KIND).map(move |part| (kind, part)));
    faults.extend(all.map(|(kind, part)| late(choices, kind, part)));
    // Nobody sends AddPartitionsToTxn under the second protocol.
    let is_sent = |words: &str| !config.is_second_protocol() || !words.starts_with("AddPartitionsToTxn");
    faults.retain(
        |scheduled| !matches!(&scheduled.fault, Fault::Delay { frame, .. } if !is_sent(&frame.words)),
    );
    faults
}

/// Requests of a transaction's life and their answers, and how many of each there surely are.
const FRAMES: [(&str, u64); 8] = [
    ("InitProducerId", 12),
    ("InitProducerId.reply", 12),
    ("AddPartitionsToTxn", 48),
    ("AddPartitionsToTxn.reply", 48),
    ("Produce", 48),
    ("Produce.reply", 48),
    ("EndTxn", 48),
    ("EndTxn.reply", 48),
];
/// Late frames of each of these kinds, each of another part of them.
const LATE_OF_A_KIND: u64 = 4;

/// One frame that is late, and with it what follows on its connection.
fn late(choices: &Choices, kind: usize, part: u64) -> Scheduled {
    let (words, count) = FRAMES[kind];
    let id = LATE_ID + kind as u32 * LATE_OF_A_KIND as u32 + part as u32;
    let draw = |what| choices.world(what, u64::from(id), 0);
    let of_part = count / LATE_OF_A_KIND;
    let nth = part * of_part + draw("outage.nth").between(1, of_part);
    let frame = FramePattern { nth: nth as u32, ..FramePattern::words(words) };
    Scheduled::from_start(id, Fault::Delay { frame, by_ms: draw("outage.by").between(2_500, 9_000) })
}

/// The id of the first late frame.
const LATE_ID: u32 = 2_001;

/// A transaction, and perhaps another producer before it.
fn turn(choices: &Choices, id: u32, values: &mut [u64]) -> Vec<Operation> {
    let draw = |what, ordinal| choices.world(what, u64::from(id), ordinal);
    let sends = (0..draw("load.length", 0).between(1, 5)).map(|n| {
        let key = draw("load.key", n).below(values.len() as u64) as usize;
        values[key] += 1;
        Send { key: key as u32, value: values[key], think_ms: draw("load.think", n).between(0, 150) }
    });
    let sends = sends.collect();
    let end = match (draw("load.end", 0).chance(0.4), draw("load.awaits", 0).chance(0.25)) {
        (true, _) => Decision::Abort,
        (false, true) => Decision::Commit,
        (false, false) => Decision::CommitUnawaited,
    };
    let think_ms = draw("load.pause", 0).between(0, 100);
    let renew =
        draw("load.renew", 0).chance(0.2).then_some(Operation { id: id - 1, think_ms: 0, what: Op::Renew });
    renew
        .into_iter()
        .chain([Operation { id, think_ms, what: Op::Txn { sends, offset: None, end } }])
        .collect()
}
