//! Finding 9, scripted (KAFKA-17754): a commit that arrives late ends a later transaction of the same producer.
//!
//! World: three agents, a Java 3.8 producer, a consumer; no transaction times out.
//! Load: three transactions; the third sends two records, then two more, and is aborted.
//! Trouble: the second transaction's EndTxn is caught on its way to the first agent it goes to. The client gives up on
//! it after 3 s and sends the same EndTxn to another agent. The caught one is let go in the middle of the third.
//! Claim: the third transaction is torn: its first two records are committed although the client aborted it. A strict
//! client, which moves to a new epoch after doubt, is not affected.

use super::blind::{Blind, QUICK};
use super::{Class, Finding, second_protocol};
use crate::config::Config;
use crate::plan::{Decision, Op, Operation, Plan, Send};
use crate::scenario::{Expect, Scenario};
use client::Variant;
use sim::choice::Choices;
use sim::fault::{EventPattern, Fault, FramePattern, Scheduled, When};
use std::collections::BTreeMap;

pub(super) const FINDING: Finding = Finding {
    id: 9,
    title: "a delayed EndTxn ends a later transaction of the same producer",
    what: "A client aborted a transaction, and consumers polled some of its records all the same and never the others. A \
           commit that the client had sent several transactions earlier, and again after a time-out, was processed late \
           and committed what the current transaction had written so far.",
    class: Class::Protocol,
    cause: "the old transaction protocol (TV1), in which EndTxn names no transaction, and a client that sends it again after \
            a time-out and goes on with the same epoch (Java 3.8); a Produce outside a transaction begins one",
    scenario: SCENARIO,
    blind: Blind {
        scenario: "outage",
        with: &["java-3.8"],
        must: &[&["torn-transaction", "G1a", "lost-write", "unseen"], &["wrong-decision"]],
        without: &[],
        // Polls pass over what is lost, and see a half that is committed early. Finding 19 is in this world too.
        may: &["int-poll-skip", "poll-skip", "position-moved", "early-visibility", "false-fence"],
        left: &[],
        limits: QUICK,
    },
    fix: "the second protocol (KIP-890, TV2) bumps the epoch with every end: `--with tv2` instead of `--fixed`; or a client \
          that takes a new epoch after doubt: `--with strict`",
    fixed: Some(second_protocol),
    echo: "KAFKA-17754, seen in Bufstream 0.1.0 to 0.1.3 and in Kafka 3.0: 15 polls of an aborted transaction's records",
};

const SCENARIO: Scenario = Scenario {
    name: "torn-transaction",
    claim: "one EndTxn, held and released in the middle of a later transaction, tears that transaction",
    config: Config::default,
    plan,
    expect: |config| match config.client {
        _ if config.is_second_protocol() => Expect::Clean,
        Variant::Strict => Expect::Clean,
        _ => Expect::Shows { must: &["torn-transaction", "G1a", "wrong-decision"], may: &[] },
    },
};

const PRODUCER: &str = "jt1";

fn plan(seed: u64, config: &Config) -> Plan {
    let choices = Choices::new(seed, &[]);
    let think_ms = |operation: u32| choices.world("torn.think", u64::from(operation), 0).between(20, 80);
    let txn = |id, sends: &[(u32, u64)], end| {
        let sends = sends
            .iter()
            .map(|(key, value)| Send { key: *key, value: *value, think_ms: think_ms(id) })
            .collect();
        Operation { id, think_ms: 20, what: Op::Txn { sends, offset: None, end } }
    };
    // The second pair waits until the late commit has done its work.
    let mut third = txn(3, &[(0, 5), (0, 6), (1, 7), (1, 8)], Decision::Abort);
    if let Op::Txn { sends, .. } = &mut third.what {
        sends[2].think_ms = 400;
    }
    let producer = vec![
        txn(1, &[(0, 1), (1, 2)], Decision::Commit),
        txn(2, &[(0, 3), (1, 4)], Decision::Commit),
        third,
        txn(4, &[(0, 9), (1, 10)], Decision::Commit),
    ];
    let consumer = vec![Operation {
        id: 101,
        think_ms: 0,
        what: Op::Consume { for_ms: 6000, think_ms: 0, uncommitted: false },
    }];
    let late = FramePattern::words(format!("EndTxn commit id={PRODUCER} txn=2"));
    let two_written = EventPattern::words(format!("producer.delivered id={PRODUCER} txn=3"));
    let middle = When::Event(EventPattern { nth: 2, after_ms: 20, ..two_written });
    Plan {
        scenario: SCENARIO.name.into(),
        seed,
        config: config.clone(),
        operations: BTreeMap::from([(PRODUCER.into(), producer), ("c1".into(), consumer)]),
        faults: vec![Scheduled::from_start(1, Fault::Hold { frame: late, until: middle })],
        overrides: vec![],
    }
}
