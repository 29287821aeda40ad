//! Finding 6, scripted (KIP-588): a transaction that takes too long ends with news of a producer that never was.
//!
//! World: three agents that abort at the deadline, a Java 3.8 producer with a transaction timeout of 1 s; nobody else has
//! its transactional id.
//! Load: a transaction that sends, does nothing for 2 s, and commits; then one that does not take as long.
//! Trouble: none.
//! Claim: the client is told that a newer producer fences it. Under the second protocol it is told that the transaction is
//! not there any more, which is so.

use super::blind::{Blind, QUICK};
use super::script::{Script, consume, txn};
use super::{Class, Finding, second_protocol};
use crate::config::Config;
use crate::plan::{Decision, Plan};
use crate::scenario::{Expect, Scenario};
use broker::Timeouts;

pub(super) const FINDING: Finding = Finding {
    id: 6,
    title: "a transaction timeout is told as a newer producer, though there is none",
    what: "A client whose transaction had timed out was told on commit that a newer producer with its transactional id \
           fences it, when no other had ever used that id. The coordinator's abort had moved the epoch on, and the client \
           cannot tell that from another producer.",
    class: Class::Protocol,
    cause: "the old transaction protocol (TV1), and a transaction that is open for longer than transaction.timeout.ms; \
            agents abort at the deadline, where Kafka scans every 10 s",
    scenario: SCENARIO,
    blind: Blind {
        scenario: "safe-ground",
        with: &["timeout-1s", "deadline"],
        must: &[&["false-fence"]],
        without: &[],
        may: &[],
        left: &[],
        limits: QUICK,
    },
    fix: "the second protocol (KIP-890, TV2): the commit fails with INVALID_TXN_STATE, and an abort would succeed",
    fixed: Some(second_protocol),
    echo: "send, wait 2 s at a transaction timeout of 1 s, commit; KIP-588 was accepted and never finished",
};

const SCENARIO: Scenario = Scenario {
    name: "fenced-by-timeout",
    claim: "a producer that waits 2 s at a transaction timeout of 1 s is fenced by a newer producer that never was",
    config: || {
        let mut config = Config { transaction_timeout_ms: 1_000, ..Config::default() };
        config.agent.transactions.timeouts = Timeouts::Deadline;
        config
    },
    plan,
    expect: |config| match config.is_second_protocol() {
        true => Expect::Clean,
        false => Expect::Shows { must: &["false-fence"], may: &[] },
    },
};

fn plan(seed: u64, config: &Config) -> Plan {
    let producer = vec![
        (20, txn(&[(0, 1)], Decision::CommitAfter(2_000))),
        (20, txn(&[(0, 2), (1, 3)], Decision::Commit)),
    ];
    Script::new(SCENARIO.name, seed, config)
        .worker("jt1", producer)
        .worker("c1", vec![(0, consume(4_000))])
        .plan()
}
