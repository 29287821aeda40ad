//! Finding 5, scripted: a limit on the size of answers hides records from a consumer that lags.
//!
//! World: that of the queue workload without transactions. An answer to Fetch holds 4,000 bytes of records, some thirty of
//! them, which is more than a consumer at the end of the log ever finds.
//! Load: a record about every 20 ms, and a consumer that follows.
//! Trouble: the consumer's process is paused for three seconds, so that it lags by more than an answer holds.
//! Claim: agents that drop records from the middle of an answer that is full let the consumer go on behind them: it passes
//! over records, and nobody ever polls them. Agents that end such an answer early lose nothing.

use super::blind::{Blind, QUICK};
use super::script::{self, Script, assign, final_reads, polls, send, work};
use super::{Class, Finding};
use crate::config::Config;
use crate::plan::Plan;
use crate::scenario::{Expect, Scenario};
use sim::fault::{Fault, When};

pub(super) const FINDING: Finding = Finding {
    id: 5,
    title: "consumers that lag are not given all records",
    what: "Acknowledged records could be polled by nobody any more; some had been seen for a while before. A limit on the \
           size of answers to Fetch, made for a user interface, had agents leave records out when there were too many, and \
           consumers went on behind them.",
    class: Class::Defect { switch: "fetch-drops-middle" },
    cause: "an answer that is full drops records from its middle and holds the newest, past which the consumer goes on; only \
            one that lags meets a full answer",
    scenario: SCENARIO,
    blind: Blind {
        scenario: "queue-short",
        with: &["no-txn", "fetch-drops-middle"],
        must: &[&["lost-write", "poll-skip", "int-poll-skip"]],
        without: &[],
        may: &["unseen", "position-moved"],
        left: &[],
        limits: QUICK,
    },
    fix: "a full answer ends early, and the next one begins where it ended",
    fixed: Some(|config| config.defects.fetch_drops_middle = false),
    echo: "Bufstream 0.1.3-rc.8, fixed in rc.12, with short pauses and partitions: 22 of 16,770 records in 5 min. \
           Here: `wavetank run queue-lag --with fetch-drops-middle`",
};

const SCENARIO: Scenario = Scenario {
    name: "fetch-filter",
    claim: "a consumer that lags by more than an answer holds passes over records that nobody ever polls",
    config: || {
        let mut config = script::queue(6_000);
        config.agent.fetch_max_bytes = 4_000;
        script::of_queue(&mut config, |queue| queue.txn = false);
        config.defects.fetch_drops_middle = true;
        config
    },
    plan,
    expect: |config| match config.defects.fetch_drops_middle {
        true => Expect::Shows {
            must: &["lost-write", "int-poll-skip", "position-moved"],
            may: &["unseen", "poll-skip"],
        },
        false => Expect::Clean,
    },
};

const READER: &str = "reader-1";

fn plan(seed: u64, config: &Config) -> Plan {
    let mut writer: Vec<_> = (1..=150).map(|value| (5, work(&[send(0, value)]))).collect();
    writer[0].0 = 300;
    writer.push(final_reads());
    let mut reader = vec![(300, assign(&[0]))];
    reader.extend(polls(60, 5));
    reader.push(final_reads());
    let pause = Fault::Pause { node: READER.into(), for_ms: 3_000 };
    Script::new(SCENARIO.name, seed, config)
        .worker("writer", writer)
        .worker(READER, reader)
        .fault(When::AtMs(1_000), pause)
        .plan()
}
