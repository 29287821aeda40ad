//! A read-process-write pipeline (KIP-447), and its exactly-once count.
//!
//! World: that of the safe ground, with two partitions.
//! Load: producers with transactions, some aborted, and without; members that come, go, crash, and are closed or not, each
//! of which writes one result for each record that it was handed, in the transaction that commits the offset after it.
//! Trouble: the machines and processes of members, their networks and their frames; agents pause and are cut off.
//! Claims: when all is over, each record that members see has exactly one committed result: none has two
//! (`processed-twice`), none below the committed offset has none (`unprocessed`), and none above it has one
//! (`uncommitted-result`). A member that goes on where it stood, not at what is committed (`--with resume-from-memory`), is
//! caught.

use crate::config::Config;
use crate::life;
use crate::plan::{Commits, Op, Operation, Plan};
use crate::safe_ground::Load;
use crate::scenario::{Expect, Scenario};
use crate::storm::{self, Committing};
use broker::Outside;
use client::Variant;
use sim::choice::Choices;
use std::collections::BTreeMap;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "pipeline",
    claim: "what is read, processed and written in one transaction has exactly one result, whoever comes, goes and crashes",
    config: || {
        let mut config = Config { client: Variant::Strict, ..Config::default() };
        config.agent.groups.min_session_timeout_ms = life::SESSION_MS as i32;
        // See `safe_ground_groups::world`.
        config.agent.transactions.outside = Outside::Verify;
        config
    },
    plan,
    expect: |config| match config.member_flaws.resume_from_memory {
        true => Expect::Finds {
            must: &["processed-twice"],
            may: &[
                "redelivered",
                "commit-moved-back",
                "unprocessed",
                "uncommitted-result",
                "undelivered",
                "stuck-group",
            ],
        },
        false => Expect::Clean,
    },
};

/// What the producers with transactions do, and the one without.
const TRANSACTIONS: u32 = 5;
const BURSTS: u32 = 6;
const MEMBERS: u32 = 3;
/// Time for the whole load, faults included.
const LOAD_MS: u64 = 9_000;

fn plan(seed: u64, config: &Config) -> Plan {
    let choices = Choices::new(seed, &[]);
    let mut load = Load::new(&choices, config);
    let mut operations = BTreeMap::new();
    for producer in 1..=2 {
        let ids = (1..=TRANSACTIONS).map(|n| producer * 1_000 + n);
        operations.insert(format!("t{producer}"), ids.map(|id| load.transaction(id)).collect());
    }
    operations.insert("p1".into(), (1..=BURSTS).map(|n| load.burst(10_000 + n)).collect());
    let clients: Vec<String> = operations.keys().cloned().collect();
    let members: Vec<String> = (1..=MEMBERS).map(|n| format!("m{n}")).collect();
    for (name, n) in members.iter().zip(1..) {
        operations.insert(name.clone(), life::draw(&choices, n, Commits::Transaction));
    }
    let one = |what| vec![Operation { id: 1, think_ms: 0, what }];
    operations.insert("l1".into(), one(Op::Look { for_ms: LOAD_MS, every_ms: 600 }));
    operations.insert("w1".into(), one(Op::Watch { for_ms: LOAD_MS, every_ms: 200 }));
    let until_ms = LOAD_MS - 2_000;
    let mut faults = storm::draw_at_members(&choices, config, &members, Committing::Transactions, until_ms);
    faults.extend(storm::at_agents(&choices, config, clients.iter().chain(&members), until_ms));
    Plan {
        scenario: SCENARIO.name.into(),
        seed,
        config: config.clone(),
        operations,
        faults,
        overrides: vec![],
    }
}
