//! Finding 19, scripted: an InitProducerId that arrives late fences the producer that sent it.
//!
//! World: three agents, a Java 3.8 producer, a consumer; no transaction times out.
//! Load: two transactions that commit.
//! Trouble: the first InitProducerId is caught on its way; the client gives up on it after 3 s and sends it again. The
//! answer to the commit of the second transaction takes 5 s. The caught request is let go when that has been done, and
//! before the client asks again.
//! Claim: the client asks for the commit again and is fenced, by itself, and reports that the transaction failed. It was
//! committed, and is read. A client that takes this for an unknown outcome says nothing wrong.

use super::blind::{Blind, QUICK};
use super::script::{Script, consume, txn};
use super::{Class, Finding};
use crate::config::Config;
use crate::plan::{Decision, Plan};
use crate::scenario::{Expect, Scenario};
use client::Variant;
use sim::fault::{EventPattern, Fault, FramePattern, When};

pub(super) const FINDING: Finding = Finding {
    id: 19,
    title: "a delayed InitProducerId fences its own producer, and a commit that was done is told to have failed",
    what: "A client sends InitProducerId again after a time-out, and the first copy arrives later: it moves the epoch on, and \
           aborts whatever transaction is open. If the answer to a commit was lost, the client is fenced when it asks again, \
           and reports that a committed transaction failed.",
    class: Class::Protocol,
    cause: "InitProducerId of a new producer, which carries no epoch, in either protocol; and a client that takes a fence after \
            a repeated EndTxn for a definite failure (Java 3.8)",
    scenario: SCENARIO,
    blind: Blind {
        scenario: "outage",
        with: &["fenced-is-failed"],
        must: &[&["G1a"]],
        without: &[],
        // No agent tells of a fence whose answer the coordinator did not give: the judge takes it for a false one.
        may: &["lost-write", "false-fence"],
        left: &[],
        limits: QUICK,
    },
    fix: "none on the wire; the client must take a fence after an EndTxn that it sent more than once for an unknown outcome: \
          `--with strict`",
    fixed: Some(|config| config.client = Variant::Strict),
    echo: "new: not in the report",
};

const SCENARIO: Scenario = Scenario {
    name: "stale-init",
    claim: "one InitProducerId, held and released after a commit whose answer is late, makes that commit a failure",
    config: Config::default,
    plan,
    expect: |config| match config.client {
        Variant::Java38 => Expect::Shows { must: &["G1a"], may: &["lost-write"] },
        _ => Expect::Clean,
    },
};

fn plan(seed: u64, config: &Config) -> Plan {
    let commit = |value| (50, txn(&[(0, value), (1, value)], Decision::Commit));
    let first = FramePattern::words("InitProducerId id=jt1");
    let done =
        EventPattern { nth: 2, after_ms: 500, ..EventPattern::words("txn.completed transactional_id=jt1") };
    let answer = FramePattern { nth: 2, ..FramePattern::words("EndTxn.reply") };
    Script::new(SCENARIO.name, seed, config)
        .worker("jt1", vec![commit(1), commit(2)])
        .worker("c1", vec![(0, consume(12_000))])
        .fault(When::default(), Fault::Hold { frame: first, until: When::Event(done) })
        .fault(When::default(), Fault::Delay { frame: answer, by_ms: 5_000 })
        .plan()
}
