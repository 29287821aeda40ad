//! Finding 16, scripted: transactions overtake each other.
//!
//! World: that of the queue workload, with an application that takes transactions for isolated.
//! Load: two transactions write to the same two partitions at the same time, in opposite orders. Then one writes, waits, and
//! reads what another has written meanwhile, after it in the first partition and committed before it.
//! Trouble: none.
//! Claim: the writes of the first two make a cycle (G0), those of the others and the read another (G1c). Kafka promises
//! nothing else: a transaction is atomic, not isolated. Run one after the other, by one producer, they make none.

use super::blind::{Blind, QUICK};
use super::script::{self, Script, assign, final_reads, polls, send, wait, work};
use super::{Class, Finding};
use crate::config::Config;
use crate::plan::{Micro, Plan};
use crate::scenario::{Expect, Scenario};

pub(super) const FINDING: Finding = Finding {
    id: 16,
    title: "transactions are not isolated: they overtake each other",
    what: "Two transactions that wrote to the same partitions were each before the other in one of them. Kafka commits records \
           where they were appended, so concurrent transactions interleave, and readers see cycles.",
    class: Class::Protocol,
    cause: "Kafka's transactions, of either version, whose records stay where they were appended",
    scenario: SCENARIO,
    blind: Blind {
        scenario: "queue-short",
        with: &["isolation"],
        must: &[&["G0"], &["G1c"]],
        without: &[],
        may: &[],
        left: &[],
        limits: QUICK,
    },
    fix: "none in the protocol: an application whose transactions must not interleave runs them one after the other",
    fixed: None,
    echo: "seen in Kafka, Redpanda and Bufstream; Jepsen's checker allows it",
};

const SCENARIO: Scenario = Scenario {
    name: "write-cycles",
    claim: "two transactions are each before the other, in one partition and in the other",
    config: || {
        let mut config = script::queue(8_000);
        config.transaction_timeout_ms = 60_000;
        config.queue.iter_mut().for_each(|queue| {
            (queue.counts, queue.clients) = (vec!["G0".into(), "G1c".into()], 2);
        });
        config
    },
    plan,
    expect: |config| match config.queue.as_ref().map(|queue| queue.clients) {
        Some(2) => Expect::Shows { must: &["G0", "G1c"], may: &[] },
        _ => Expect::Clean,
    },
};

fn plan(seed: u64, config: &Config) -> Plan {
    let mut one = vec![(300, assign(&[2]))];
    // Nothing is there yet.
    one.extend(polls(5, 0));
    one.extend([
        (700, work(&[send(0, 1), wait(600), send(1, 1)])),
        (1_000, work(&[send(0, 3), wait(1_500), Micro::PollAll])),
    ]);
    let mut two =
        vec![(1_500, work(&[send(1, 2), wait(600), send(0, 2)])), (1_500, work(&[send(0, 4), send(2, 1)]))];
    let mut script = Script::new(SCENARIO.name, seed, config);
    if config.queue.as_ref().is_some_and(|queue| queue.clients == 1) {
        one.append(&mut two);
    } else {
        two.push(final_reads());
        script = script.worker("two", two);
    }
    one.push(final_reads());
    script.worker("one", one).plan()
}
