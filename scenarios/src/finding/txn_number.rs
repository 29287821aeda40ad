//! Finding 4, scripted: an end of a transaction is taken for one that was executed before.
//!
//! World: that of the queue workload, with its transaction timeout of 1 s, at which a timer aborts; a worker keeps its
//! transactional id. Agents number transactions, anew with every epoch, and take an end for a repeat if one of the last
//! few had the same number.
//! Load: a transaction that commits; one that takes too long, is timed out, and so ends its client and the epoch; then one
//! that commits, the first of its epoch, one that is aborted, and one that commits. A consumer polls.
//! Trouble: none.
//! Claim: the commit of the first transaction of the new epoch is acknowledged and not executed: its number is 1, and
//! there was an end of that number. The abort of the next decides over both, and every poll passes over the record.

use super::blind::{Blind, QUICK};
use super::script::{self, Script, aborted, assign, final_reads, polls, send, wait, work};
use super::{Class, Finding};
use crate::config::Config;
use crate::plan::Plan;
use crate::scenario::{Expect, Scenario};
use broker::Timeouts;

pub(super) const FINDING: Finding = Finding {
    id: 4,
    title: "a commit is acknowledged and ignored, and the next abort takes the transaction with it",
    what: "Records of transactions whose commit had been acknowledged were never polled by anybody; every poll passed over \
           them. Agents had begun to number transactions so that an end that is asked for twice is executed once, and mixed \
           up the numbers of one epoch with those of another.",
    class: Class::Defect { switch: "number-without-epoch" },
    cause: "ends are told apart by producer id and number, though numbers begin anew with every epoch; a short \
            transaction timeout makes epochs, and a client that keeps its transactional id meets the old numbers again",
    scenario: SCENARIO,
    blind: Blind {
        scenario: "queue-short",
        with: &["kept-ids", "deadline", "number-without-epoch"],
        must: &[&["lost-write"], &["int-poll-skip"], &["unseen"]],
        without: &[],
        // What the abort took with it at the end of a log is waited for in vain.
        may: &["G1a", "poll-skip", "wrong-decision", "position-moved", "stale-poll"],
        left: &[],
        limits: QUICK,
    },
    fix: "an end is known by producer id, epoch and number",
    fixed: Some(|config| config.defects.number_without_epoch = false),
    echo: "Bufstream 0.1.2, fixed in 0.1.3-rc.2: 6,761 write transactions in 100 s without faults, 240 records lost; \
           record 141 at offset 274 was passed over. Here: `wavetank run queue-calm --with number-without-epoch`",
};

const SCENARIO: Scenario = Scenario {
    name: "txn-number",
    claim: "a commit with a number that was seen in an older epoch is ignored, and the records are lost with the next abort",
    config: || {
        let mut config = script::queue(6_000);
        config.transactional_ids = script::kept_ids(&[WRITER, READER]);
        config.agent.transactions.timeouts = Timeouts::Deadline;
        config.defects.number_without_epoch = true;
        config
    },
    plan,
    expect: |config| match config.defects.number_without_epoch {
        true => Expect::Shows {
            must: &["lost-write", "int-poll-skip", "unseen", "wrong-decision", "position-moved"],
            may: &["poll-skip"],
        },
        false => Expect::Clean,
    },
};

const WRITER: &str = "writer";
const READER: &str = "reader-1";

fn plan(seed: u64, config: &Config) -> Plan {
    let writer = vec![
        (500, work(&[send(0, 1)])),
        (20, work(&[send(0, 2), wait(2_000)])),
        (20, work(&[send(0, 3)])),
        (20, aborted(&[send(0, 4)])),
        (20, work(&[send(0, 5)])),
        final_reads(),
    ];
    let mut reader = vec![(300, assign(&[0]))];
    reader.extend(polls(60, 20));
    reader.push(final_reads());
    Script::new(SCENARIO.name, seed, config).worker(WRITER, writer).worker(READER, reader).plan()
}
