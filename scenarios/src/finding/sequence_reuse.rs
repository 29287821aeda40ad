//! Finding 11, scripted (KAFKA-14397): a producer uses a sequence again, and a record is taken for one that is there already.
//!
//! World: one agent, so that answers wait for each other; a Java 3.8 producer whose requests time out after 3 s,
//! with a `delivery.timeout.ms` of 5 s; a consumer.
//! Load: four transactions of one producer. The second sends a record, after 4.5 s another to another partition, and commits.
//! Trouble: every answer to the first record of the second transaction is lost: each is caught until the run is over, with
//! what follows on its connection.
//! Claim: the second try of that record is given up by its request's time-out, when its delivery timeout is over and the
//! producer is committing: the producer gives the sequence back, and asks for no new epoch, as it does not while it completes.
//! The application aborts. The third transaction's record gets that sequence, and the agent takes it for a repetition: it is
//! acknowledged, its transaction commits, and it was never written. A client that takes a new epoch after doubt loses nothing.

use super::blind::{Blind, QUICK};
use super::script::{Script, consume, slow_txn, txn};
use super::{Class, Finding};
use crate::config::Config;
use crate::plan::{Decision, Plan};
use crate::scenario::{Expect, Scenario};
use client::Variant;
use sim::fault::{Fault, FramePattern, When};

pub(super) const FINDING: Finding = Finding {
    id: 11,
    title: "a producer uses a sequence number again, and an acknowledged record was never written",
    what: "The report suspects that the Java client can use a sequence number for a second record, which the broker then \
           takes for a repetition of the first and acknowledges without writing it. It does, if a batch fails after its \
           delivery timeout while the producer is committing.",
    class: Class::Protocol,
    cause: "the Java client of the old protocol (TV1): `failBatch` gives the sequence back while attempts are left, and no epoch \
            is bumped while a transaction completes (`.ci/real-findings` shows it with 3.8.0 and 4.4.0, over this broker and \
            over Apache Kafka: docs/open-questions.md)",
    scenario: SCENARIO,
    blind: Blind {
        scenario: "outage",
        with: &["java-3.8", "delivery-3s"],
        must: &[&["unseen"]],
        without: &["wrong-decision", "torn-transaction"],
        // The answer names the offset of the other record. Finding 9 is in this world too.
        may: &[
            "wrong-decision",
            "early-visibility",
            "false-fence",
            "torn-transaction",
            "inconsistent-offsets",
            "conflict",
            "lost-write",
            "poll-skip",
            "int-poll-skip",
            "G1a",
            "position-moved",
        ],
        left: &[],
        limits: QUICK,
    },
    fix: "a client that takes a new epoch whenever it does not know how a Produce ended: `--with strict`",
    fixed: Some(|config| config.client = Variant::Strict),
    echo: "a suspicion of the report; KAFKA-14397 tells of it, and was closed without a fix in 2022. Shown with Java 3.8.0 and 4.4.0",
};

const SCENARIO: Scenario = Scenario {
    name: "sequence-reuse",
    claim: "an abort whose record was written gives its sequence to the next one, which is acknowledged and not written",
    config: || Config { agents: 1, delivery_timeout_ms: Some(5_000), ..Config::default() },
    plan,
    expect: |config| match config.client {
        _ if config.is_second_protocol() => Expect::Clean,
        Variant::Java38 | Variant::Java4 => Expect::Shows {
            must: &["unseen"],
            may: &[
                "inconsistent-offsets",
                "lost-write",
                "position-moved",
                "poll-skip",
                "int-poll-skip",
                "G1a",
            ],
        },
        _ => Expect::Clean,
    },
};

/// Answers to Produce before the second transaction's, and tries of that until it is given up.
const ANSWERS_BEFORE: u32 = 1;
const TRIES: u32 = 2;
/// When nobody waits for an answer any more.
const OVER_MS: u64 = 100_000;

fn plan(seed: u64, config: &Config) -> Plan {
    let commit = |value| txn(&[(0, value)], Decision::Commit);
    let second = slow_txn(&[(0, 2), (1, 3)], 4_500, Decision::CommitUnawaited);
    let mut script = Script::new(SCENARIO.name, seed, config)
        .worker("jt1", vec![(20, commit(1)), (20, second), (20, commit(4)), (20, commit(5))])
        .worker("c1", vec![(0, consume(10_000))]);
    for nth in ANSWERS_BEFORE + 1..=ANSWERS_BEFORE + TRIES {
        let answer = FramePattern { nth, ..FramePattern::words("Produce.reply") };
        let lost = Fault::Hold { frame: answer, until: When::AtMs(OVER_MS) };
        script = script.fault(When::default(), lost);
    }
    script.plan()
}
