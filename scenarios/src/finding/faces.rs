//! What a late request of the old protocol does, row by row: those of jepsen.md E9, and S1 to S10 of kafka.md 4. Each is a script
//! that shows it on every seed, with the mechanism that the white-box oracle must name. Four rows are scripts of findings of
//! their own: S2 `torn-transaction`, S5 `hanging-transaction`, S8 `delayed-produce`, S10 `stale-init`.
//!
//! World: three agents, a Java 3.8 producer, a consumer; agents as each row needs them.
//! Load: four transactions; the second is the one whose request is late, the third the one that it strikes.
//! Trouble: a request of the second is caught on its way; the client gives up on it after 3 s and sends it again, to another
//! agent. The caught one is let go at the moment that the row says.

use super::script::{Script, consume, txn};
use crate::config::Config;
use crate::mechanism::{Face, Mechanism};
use crate::plan::{Decision, Op};
use crate::scenario::{Expect, Scenario};
use broker::Outside;
use client::Variant;
use sim::fault::{EventPattern, Fault, FramePattern, When};

/// A row.
pub struct FaceScript {
    /// Where it is described, and what arrives, where, and what the client does then.
    pub row: &'static str,
    /// Its script.
    pub scenario: Scenario,
    /// What made it: all that is to be named, and nothing else.
    pub mechanisms: &'static [Mechanism],
}

/// All rows that have a script of their own.
pub fn faces() -> &'static [FaceScript] {
    &[
        ABORT_VISIBLE,
        COMMIT_SPLIT,
        COMMIT_TORN,
        COMMIT_LOST,
        COMMIT_LOST_LENIENT,
        UNENDED_VISIBLE,
        LATE_BETWEEN,
        HANGING_DECIDED,
        STALE_OFFSETS,
    ]
}

/// What is shown by clients that are not safe; the others show nothing.
fn shows(config: &Config, must: &'static [&'static str], may: &'static [&'static str]) -> Expect {
    match config.client {
        _ if config.is_second_protocol() => Expect::Clean,
        Variant::Strict => Expect::Clean,
        _ => Expect::Shows { must, may },
    }
}

const ABORT_VISIBLE: FaceScript = FaceScript {
    row: "E9, S1: a commit after the last record of a transaction, whose client then aborts it",
    scenario: Scenario {
        name: "abort-visible",
        claim: "one EndTxn, held and released after the last record of a transaction to be aborted, shows all of it",
        config: Config::default,
        plan: |seed, config| {
            let script =
                late_end("abort-visible", seed, config, Decision::Commit, third(AT_ONCE, Decision::Abort));
            script.fault(AT_START, late_by("EndTxn abort id=jt1 txn=3", 400)).plan()
        },
        expect: |config| shows(config, &["G1a", "wrong-decision"], &[]),
    },
    mechanisms: &[Mechanism::StaleEnd(Face::AbortVisible)],
};

const COMMIT_SPLIT: FaceScript = FaceScript {
    row: "E9: a commit midway of a transaction, whose client then commits it",
    scenario: Scenario {
        name: "commit-split",
        claim: "one EndTxn, held and released in the middle of a transaction that commits, splits it in two",
        config: Config::default,
        plan: |seed, config| {
            late_end("commit-split", seed, config, Decision::Commit, third(MIDWAY, Decision::Commit)).plan()
        },
        expect: |config| shows(config, &["wrong-decision", "early-visibility"], &[]),
    },
    mechanisms: &[Mechanism::StaleEnd(Face::CommitSplit)],
};

const COMMIT_TORN: FaceScript = FaceScript {
    row: "E9, S3: an abort midway of a transaction, whose client then commits it",
    scenario: Scenario {
        name: "commit-torn",
        claim: "one EndTxn, an abort, held and released in the middle of a transaction that commits, loses its head",
        config: Config::default,
        plan: |seed, config| {
            late_end("commit-torn", seed, config, Decision::Abort, third(MIDWAY, Decision::Commit)).plan()
        },
        expect: |config| {
            shows(
                config,
                &["torn-transaction", "lost-write", "unseen", "wrong-decision"],
                &["position-moved"],
            )
        },
    },
    mechanisms: &[Mechanism::StaleEnd(Face::CommitTorn)],
};

/// Its offset opens the transaction again.
const COMMIT_LOST: FaceScript = FaceScript {
    row: "E9, S4: an abort after the last record of a transaction, whose client then commits an offset and it",
    scenario: Scenario {
        name: "commit-lost",
        claim: "one EndTxn, an abort, held and released after the last record of a transaction, loses all of it but its offset",
        config: Config::default,
        plan: |seed, config| {
            let script = late_end("commit-lost", seed, config, Decision::Abort, third_with_offset());
            // Nobody sends it under the second protocol.
            let is_sent = !config.is_second_protocol();
            let late = is_sent.then(|| late_by("AddOffsetsToTxn id=jt1 txn=3", 400));
            late.into_iter().fold(script, |script, late| script.fault(AT_START, late)).plan()
        },
        expect: |config| {
            shows(config, &["lost-write", "unseen", "wrong-decision", "torn-offsets"], &["position-moved"])
        },
    },
    mechanisms: &[Mechanism::StaleEnd(Face::CommitLost)],
};

const COMMIT_LOST_LENIENT: FaceScript = FaceScript {
    row: "E9, S4: an abort after the last record of a transaction, where agents answer any end with success",
    scenario: Scenario {
        name: "commit-lost-lenient",
        claim: "one EndTxn, an abort, held and released after the last record of a transaction, loses all of it; agents are lenient",
        config: || {
            let mut config = Config::default();
            config.defects.lenient_end = true;
            config
        },
        plan: |seed, config| {
            let script = late_end(
                "commit-lost-lenient",
                seed,
                config,
                Decision::Abort,
                third(AT_ONCE, Decision::Commit),
            );
            script.fault(AT_START, late_by("EndTxn commit id=jt1 txn=3", 400)).plan()
        },
        expect: |config| shows(config, &["lost-write", "unseen", "wrong-decision"], &["position-moved"]),
    },
    mechanisms: &[Mechanism::StaleEnd(Face::CommitLost)],
};

/// Nobody hears the client's own commit, whose copies are held until the transaction has timed out.
const UNENDED_VISIBLE: FaceScript = FaceScript {
    row: "E9: a commit midway of a transaction, which its client gives up",
    scenario: Scenario {
        name: "unended-visible",
        claim: "one EndTxn, held and released in the middle of a transaction that is given up, shows a half of it",
        config: || Config { transaction_timeout_ms: 30_000, ..Config::default() },
        plan: |seed, config| {
            let mut script =
                late_end("unended-visible", seed, config, Decision::Commit, third(MIDWAY, Decision::Commit));
            for nth in 1..=COPIES {
                let frame = FramePattern { nth, ..FramePattern::words("EndTxn commit id=jt1 txn=3") };
                script = script.fault(AT_START, Fault::Hold { frame, until: When::AtMs(OVER_MS) });
            }
            script.plan()
        },
        expect: |config| {
            shows(
                config,
                &["torn-transaction", "wrong-decision"],
                &["lost-write", "unseen", "early-visibility", "position-moved"],
            )
        },
    },
    mechanisms: &[Mechanism::StaleEnd(Face::UnendedVisible)],
};

const LATE_BETWEEN: FaceScript = FaceScript {
    row: "E9: any end where no transaction is open",
    scenario: Scenario {
        name: "late-between",
        claim: "one EndTxn, held and released between two transactions, does nothing",
        config: Config::default,
        plan: |seed, config| {
            let second = txn(&[(0, 3), (1, 4)], Decision::Commit);
            let done = EventPattern { after_ms: 20, ..EventPattern::words("producer.end id=jt1 txn=2") };
            transactions("late-between", seed, config, second, third(AT_ONCE, Decision::Commit), 500)
                .fault(AT_START, held("EndTxn commit id=jt1 txn=2", When::Event(done)))
                .plan()
        },
        expect: |_| Expect::Clean,
    },
    mechanisms: &[],
};

/// The record after the late commit opens a transaction that only its partition knows of; the fourth one's end decides it.
const HANGING_DECIDED: FaceScript = FaceScript {
    row: "S6: a commit midway of a transaction, then a record that only its partition knows of, and an abort of the next",
    scenario: Scenario {
        name: "hanging-decided",
        claim: "one EndTxn, held and released in the middle of a transaction that commits, gives its tail to the next, which aborts",
        config: || {
            let mut config = Config::default();
            config.agent.transactions.outside = Outside::Local;
            config
        },
        plan: |seed, config| {
            let second = txn(&[(0, 3)], Decision::Commit);
            let mut third = txn(&[(0, 5), (0, 6)], Decision::Commit);
            wait(&mut third, 1, 400);
            let first_written =
                EventPattern { after_ms: 20, ..EventPattern::words("producer.delivered id=jt1 txn=3") };
            Script::new("hanging-decided", seed, config)
                .worker(
                    "jt1",
                    vec![
                        (20, txn(&[(0, 1)], Decision::Commit)),
                        (20, second),
                        (20, third),
                        (20, txn(&[(0, 7)], Decision::Abort)),
                        (20, txn(&[(0, 8)], Decision::Commit)),
                    ],
                )
                .worker("c1", vec![(0, consume(8_000))])
                .fault(AT_START, held("EndTxn commit id=jt1 txn=2", When::Event(first_written)))
                .plan()
        },
        expect: |config| match config.agent.transactions.outside {
            Outside::Local => {
                shows(config, HANGING_SHOWS, &["position-moved", "torn-transaction", "early-visibility"])
            }
            Outside::Implicit | Outside::Verify => {
                Expect::Allows { may: &["early-visibility", "wrong-decision", "torn-transaction", "G1a"] }
            }
        },
    },
    // The head of the third is committed early, and its tail is the fourth's.
    mechanisms: &[Mechanism::StaleEnd(Face::CommitSplit), Mechanism::HangingTransaction],
};

const HANGING_SHOWS: &[&str] = &["lost-write", "unseen", "wrong-decision"];

const STALE_OFFSETS: FaceScript = FaceScript {
    row: "S9: an offset of an earlier transaction after that of a later one",
    scenario: Scenario {
        name: "stale-offsets",
        claim: "one TxnOffsetCommit, held and released in a later transaction that has sent its own, moves the group back",
        config: Config::default,
        plan: |seed, config| {
            let second = with_offset(txn(&[(0, 3), (1, 4)], Decision::Commit), 2);
            let third = with_offset(txn(&[(0, 5), (1, 6)], Decision::Commit), 3);
            let end = When::Frame(FramePattern::words("EndTxn commit id=jt1 txn=3"));
            transactions("stale-offsets", seed, config, second, third, 20)
                .fault(AT_START, held("TxnOffsetCommit id=jt1 txn=2", end))
                .fault(AT_START, late_by("EndTxn commit id=jt1 txn=3", 400))
                .plan()
        },
        expect: |config| shows(config, &["torn-offsets"], &[]),
    },
    mechanisms: &[Mechanism::StaleOffsets],
};

const AT_START: When = When::AtMs(0);
/// The third transaction does not wait before its third record, or for so long, in milliseconds.
const AT_ONCE: Option<u64> = None;
const MIDWAY: Option<u64> = Some(400);
/// More copies than a client sends before it gives up, and when all is over, in milliseconds.
const COPIES: u32 = 4;
const OVER_MS: u64 = 100_000;

/// Two records, and two more after a while if it is to be struck midway.
fn third(waits_ms: Option<u64>, end: Decision) -> Op {
    let Some(waits_ms) = waits_ms else { return txn(&[(0, 5), (1, 6)], end) };
    let mut third = txn(&[(0, 5), (1, 6), (0, 7), (1, 8)], end);
    wait(&mut third, 2, waits_ms);
    third
}

fn third_with_offset() -> Op {
    with_offset(third(AT_ONCE, Decision::Commit), 3)
}

fn wait(op: &mut Op, before: usize, think_ms: u64) {
    if let Op::Txn { sends, .. } = op {
        sends[before].think_ms = think_ms;
    }
}

fn with_offset(op: Op, group_offset: i64) -> Op {
    match op {
        Op::Txn { sends, end, .. } => Op::Txn { sends, offset: Some(group_offset), end },
        other => other,
    }
}

/// The second transaction's end is late, and arrives when the third has written two records.
fn late_end(name: &str, seed: u64, config: &Config, second: Decision, third: Op) -> Script {
    let verb = if second == Decision::Abort { "abort" } else { "commit" };
    let written = EventPattern::words("producer.delivered id=jt1 txn=3");
    let two_written = When::Event(EventPattern { nth: 2, after_ms: 20, ..written });
    let second = txn(&[(0, 3), (1, 4)], second);
    transactions(name, seed, config, second, third, 20)
        .fault(AT_START, held(&format!("EndTxn {verb} id=jt1 txn=2"), two_written))
}

fn transactions(
    name: &str,
    seed: u64,
    config: &Config,
    second: Op,
    third: Op,
    third_after_ms: u64,
) -> Script {
    let commit = |records: &[(u32, u64)]| txn(records, Decision::Commit);
    Script::new(name, seed, config)
        .worker(
            "jt1",
            vec![
                (20, commit(&[(0, 1), (1, 2)])),
                (20, second),
                (third_after_ms, third),
                (20, commit(&[(0, 9), (1, 10)])),
            ],
        )
        .worker("c1", vec![(0, consume(8_000))])
}

fn held(words: &str, until: When) -> Fault {
    Fault::Hold { frame: FramePattern::words(words), until }
}

fn late_by(words: &str, by_ms: u64) -> Fault {
    Fault::Delay { frame: FramePattern::words(words), by_ms }
}
