//! The load that is explored: three short transactions of one producer over two partitions, each with an offset of a group.
//!
//! World: three agents, a Java 3.8 producer, a consumer; no transaction times out.
//! Load: each transaction sends one record to each partition and commits an offset; the seed says which of them the
//! application aborts.
//! Trouble: none of its own. [`super::schedules`] adds one stale copy of one request.
//! Claim: without trouble nothing goes wrong.

use crate::config::Config;
use crate::plan::{Decision, Op, Operation, Plan, Send};
use crate::scenario::{Expect, Scenario};
use sim::run::Preempt;
use std::collections::BTreeMap;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "three-transactions",
    claim: "three short transactions of one producer; the seed says which of them it aborts (wavetank explore)",
    config: || Config { preempt: Preempt::default(), ..Config::default() },
    plan,
    expect: |_| Expect::Clean,
};

/// The producer.
pub(super) const PRODUCER: &str = "jt1";
/// Transactions of one run.
const TRANSACTIONS: u32 = 3;
/// Every combination of commits and aborts but that of aborts alone, which leaves nothing to be read.
pub(super) const LOADS: u64 = (1 << TRANSACTIONS) - 1;
/// The producer is done by then, whatever was held, in milliseconds since the start.
pub(super) const ALL_OVER_MS: u64 = 12_000;
/// Between two requests the application does nothing for so long, in milliseconds: a copy that is let go as one request is
/// sent, or answered, has arrived before the next.
const THINK_MS: u64 = 20;

fn plan(seed: u64, config: &Config) -> Plan {
    let transaction = |n: u32| {
        let value = u64::from(n);
        let sends = (0..2).map(|key| Send { key, value, think_ms: THINK_MS }).collect();
        let what = Op::Txn { sends, offset: Some(i64::from(n)), end: decision(seed, n) };
        Operation { id: n, think_ms: THINK_MS, what }
    };
    let until_over = Op::Consume { for_ms: ALL_OVER_MS + 2_000, think_ms: 500, uncommitted: false };
    let consumer = Operation { id: TRANSACTIONS + 1, think_ms: 0, what: until_over };
    Plan {
        scenario: SCENARIO.name.into(),
        seed,
        config: config.clone(),
        operations: BTreeMap::from([
            (PRODUCER.into(), (1..=TRANSACTIONS).map(transaction).collect()),
            ("c1".into(), vec![consumer]),
        ]),
        faults: vec![],
        overrides: vec![],
    }
}

/// How the application ends transaction `n`, from 1.
pub(super) fn decision(seed: u64, n: u32) -> Decision {
    if ((seed % LOADS) >> (n - 1)) & 1 == 0 { Decision::Commit } else { Decision::Abort }
}

/// A load in a few letters, such as `commit abort commit`.
pub(super) fn describe(seed: u64) -> String {
    let word = |n| match decision(seed, n) {
        Decision::Abort => "abort",
        _ => "commit",
    };
    (1..=TRANSACTIONS).map(word).collect::<Vec<_>>().join(" ")
}
