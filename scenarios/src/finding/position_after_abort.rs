//! Finding 8, scripted (KAFKA-17582): a consumer goes on behind what its application aborted, and has lost it.
//!
//! World: that of the queue workload; the consumer gets at most two records in a poll, and its application does not seek back
//! after an abort.
//! Load: one worker writes six records. Another polls, and writes something, in three transactions; it aborts the second.
//! Trouble: none. (`wavetank run abort` has the same with rebalances, which set positions to what is committed.)
//! Claim: the last poll begins behind what the aborted transaction polled, not behind what is committed: an application that
//! means to process every record at least once skips those. One that seeks back does not.

use super::blind::{Blind, QUICK};
use super::script::{self, Script, aborted, assign, final_reads, polls, send, work};
use super::{Class, Finding};
use crate::config::Config;
use crate::plan::{Micro, Plan};
use crate::scenario::{Expect, Scenario};

pub(super) const FINDING: Finding = Finding {
    id: 8,
    title: "an abort does not move the consumer back, and what it polled is skipped",
    what: "After an aborted transaction the next poll went on behind the records that the transaction had polled, unless a \
           rebalance happened to set the position to the committed offset. Applications that took the abort for undone \
           skipped records.",
    class: Class::Configuration,
    cause: "an application of consume-transform-produce that does not seek back to where an aborted transaction began",
    scenario: SCENARIO,
    blind: Blind {
        scenario: "queue-short",
        with: &["no-seek"],
        must: &[&["poll-skip"]],
        without: &[],
        may: &["nonmonotonic-poll"],
        left: &[],
        limits: QUICK,
    },
    fix: "the application seeks back after an abort, to what is committed: `--with seek-back`",
    fixed: Some(|config| config.queue.iter_mut().for_each(|queue| queue.seeks_back = true)),
    echo: "KAFKA-17582: on a healthy cluster most polls after an abort advanced, some rewound; every rewind had a rebalance, no \
           advance had one",
};

const SCENARIO: Scenario = Scenario {
    name: "position-after-abort",
    claim: "the poll after an aborted transaction begins behind what that transaction polled",
    config: || {
        let mut config = script::queue(4_000);
        config.queue.iter_mut().for_each(|queue| {
            (queue.seeks_back, queue.max_poll_records) = (false, Some(2));
        });
        config
    },
    plan,
    expect: |config| match config.queue.as_ref().is_some_and(|queue| queue.seeks_back) {
        true => Expect::Clean,
        false => Expect::Shows { must: &["poll-skip"], may: &["nonmonotonic-poll"] },
    },
};

fn plan(seed: u64, config: &Config) -> Plan {
    let mut writer = vec![(1_500, work(&[send(0, 1), send(0, 2), send(0, 3)]))];
    writer.extend([(50, work(&[send(0, 4), send(0, 5), send(0, 6)])), final_reads()]);
    let (poll, result) = (Micro::Poll, |value| send(1, value));
    let mut consumer = vec![(300, assign(&[0]))];
    // Nothing is there yet.
    consumer.extend(polls(5, 20));
    consumer.extend([
        (1_500, work(&[poll.clone(), result(1)])),
        (100, aborted(&[poll.clone(), result(2)])),
        (100, work(&[poll, result(3)])),
        final_reads(),
    ]);
    Script::new(SCENARIO.name, seed, config).worker("consumer", consumer).worker("writer", writer).plan()
}
