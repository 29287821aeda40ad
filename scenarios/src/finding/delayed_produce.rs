//! Finding 10, scripted: a Produce that arrives late becomes a part of a later transaction.
//!
//! World: three agents; a Java 3.8 producer with a `delivery.timeout.ms` of 3 s, that of one request, which keeps its epoch,
//! and the sequence it used, when it does not know how a Produce ended; a consumer.
//! Load: three transactions. The second sends a record, is not answered, and is aborted; the third commits.
//! Trouble: the Produce of the second is caught on its way. It is let go when the third has written its first record.
//! Claim: the record that the client aborted is committed with the third transaction: its epoch is right, and its sequence is
//! the next. A client that takes a new epoch after doubt (Java does, unless it is aborted before the record's callbacks have
//! returned) is not affected: the late Produce has the old one. But the partition learns of the new epoch from the next record:
//! over agents that do not ask the coordinator, the late Produce, which comes before that, is taken all the same, and committed.
//! So it is with the real client and Kafka: docs/open-questions.md.

use super::blind::{Blind, QUICK};
use super::script::{Script, consume, slow_txn, txn};
use super::{Class, Finding};
use crate::config::Config;
use crate::plan::{Decision, Plan};
use crate::scenario::{Expect, Scenario};
use broker::{Outside, Routing};
use sim::fault::{EventPattern, Fault, FramePattern, When};

pub(super) const FINDING: Finding = Finding {
    id: 10,
    title: "a delayed Produce lands in a later transaction",
    what: "The report asks whether a Produce that is late can become a part of a later transaction of its producer. It can, \
           if the client goes on with the same epoch and has not used the sequence for another record: nothing in the \
           request says which transaction it is of. Where the leader does not ask the coordinator, it can even if the client \
           takes a new epoch, as Java does: if it comes before the first record of that in its partition.",
    class: Class::Defect { switch: "keep-epoch" },
    cause: "a client that, after a Produce of unknown outcome, neither takes a new epoch nor uses the sequence again; the \
            second protocol, in which every transaction has its epoch, would help as well. Java does so if its application \
            aborts before the record's callbacks have returned (docs/open-questions.md). Or the old protocol without \
            verification (`--fixed --with outside-local`)",
    scenario: SCENARIO,
    blind: Blind {
        scenario: "outage",
        with: &["delivery-3s", "keep-epoch"],
        must: &[&["G1a"]],
        without: &[],
        // The white-box oracle names the marker; a part of the aborted transaction is there, and the rest is not.
        // Finding 19 is in this world too.
        may: &["wrong-decision", "torn-transaction", "false-fence"],
        left: &[],
        limits: QUICK,
    },
    fix: "the client takes a new epoch when it does not know how a Produce ended, as Java's does, and the broker verifies",
    fixed: Some(|config| config.producer_flaws.keep_epoch_after_unknown_produce = false),
    echo: "an open question of the report; no number. Shown with Java 3.8.0 and 4.4.0 over Apache Kafka",
};

const SCENARIO: Scenario = Scenario {
    name: "delayed-produce",
    claim: "one Produce, held while its transaction is aborted and released in the next, is committed with that",
    config: || {
        let mut config = Config { delivery_timeout_ms: Some(3_000), ..Config::default() };
        config.producer_flaws.keep_epoch_after_unknown_produce = true;
        // The leader is not the coordinator, so that the abort does not wait behind the Produce.
        config.agent.routing = Routing::Rendezvous;
        config
    },
    plan,
    expect: |config| match config.producer_flaws.keep_epoch_after_unknown_produce {
        _ if config.is_second_protocol() => Expect::Clean,
        true => Expect::Shows { must: &["G1a", "wrong-decision"], may: &[] },
        false if config.agent.transactions.outside == Outside::Local => {
            Expect::Shows { must: &["G1a", "wrong-decision"], may: &[] }
        }
        false => Expect::Clean,
    },
};

fn plan(seed: u64, config: &Config) -> Plan {
    // Its second record waits until the late one has arrived.
    let third = slow_txn(&[(1, 3), (0, 4)], 400, Decision::Commit);
    let producer = vec![
        (20, txn(&[(0, 1)], Decision::Commit)),
        (20, txn(&[(0, 2)], Decision::Commit)),
        (20, third),
        (20, txn(&[(0, 5)], Decision::Commit)),
    ];
    let late = FramePattern::words("Produce id=jt1 txn=2");
    let written = EventPattern { after_ms: 20, ..EventPattern::words("producer.delivered id=jt1 txn=3") };
    Script::new(SCENARIO.name, seed, config)
        .worker("jt1", producer)
        .worker("c1", vec![(0, consume(8_000))])
        .fault(When::default(), Fault::Hold { frame: late, until: When::Event(written) })
        .plan()
}
