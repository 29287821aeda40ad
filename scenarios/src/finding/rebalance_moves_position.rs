//! Finding 18, scripted: a rebalance moves a consumer, and its application, which counts on its position, skips records.
//!
//! World: that of the queue workload with consumers that subscribe, eager or cooperative as drawn; to its application, a step
//! between two polls of one consumer is an anomaly, which Jepsen allows at a rebalance.
//! Load: one worker writes to both partitions of a topic. Another polls, in transactions that take half a second. A third
//! subscribes as well, polls, and leaves.
//! Trouble: none but the rebalances, which fall into transactions of the second worker.
//! Claim: a partition goes to the third worker and comes back; the second begins at what is committed then, and so skips what
//! the third has polled (`poll-skip`). Positions move at rebalances that the client is told of, and nowhere else
//! (`position-moved` is not found). Consumers that assign their partitions are not moved.

use super::blind::{Blind, QUICK};
use super::script::{self, Script, assign, crash, final_reads, polls, send, wait, work};
use super::{Class, Finding};
use crate::config::Config;
use crate::plan::{Micro, Op, Plan};
use crate::queue::SubVia;
use crate::scenario::{Expect, Scenario};

pub(super) const FINDING: Finding = Finding {
    id: 18,
    title: "a rebalance moves a consumer's position, in the middle of a transaction too",
    what: "The report asks what a rebalance inside a transaction does to positions. It sets that of every partition that is \
           given to a member to what is committed: the member skips what others have done meanwhile, or gets again what it \
           had not committed.",
    class: Class::Protocol,
    cause: "consumers that subscribe: positions belong to the group, and a member has them on loan until the next rebalance",
    scenario: SCENARIO,
    blind: Blind {
        scenario: "queue-short",
        with: &["subscribe", "own-positions"],
        must: &[&["poll-skip", "nonmonotonic-poll"]],
        without: &[],
        may: &[],
        left: &[],
        limits: QUICK,
    },
    fix: "at every rebalance the application takes what is committed for its position; or it assigns partitions, as here",
    fixed: Some(|config| config.queue.iter_mut().for_each(|queue| queue.sub_via = SubVia::Assign)),
    echo: "an open question of the report, and of KAFKA-17671; every rewind of its abort workload had a rebalance",
};

const SCENARIO: Scenario = Scenario {
    name: "rebalance-moves-position",
    claim: "a member that loses a partition and gets it back goes on behind what another has polled meanwhile",
    config: || {
        let mut config = script::queue(12_000);
        config.transaction_timeout_ms = 60_000;
        config.queue.iter_mut().for_each(|queue| {
            (queue.sub_via, queue.close_ms) = (SubVia::Subscribe, 1_000);
            queue.counts = vec!["poll-skip".into(), "nonmonotonic-poll".into()];
        });
        config
    },
    plan,
    expect: |config| match config.queue.as_ref().map(|queue| queue.sub_via) {
        Some(SubVia::Subscribe) => Expect::Shows { must: &["poll-skip"], may: &["nonmonotonic-poll"] },
        _ => Expect::Clean,
    },
};

fn plan(seed: u64, config: &Config) -> Plan {
    let both = |value| (2_000, work(&[send(0, value), send(1, value)]));
    let mut writer: Vec<(u64, Op)> = (1..=5).map(both).collect();
    let mut stays = vec![(300, assign(&[0, 1]))];
    stays.extend(vec![(20, work(&[Micro::Poll, wait(300), Micro::Poll])); 24]);
    let mut comes = vec![(3_000, assign(&[0, 1]))];
    comes.extend(polls(35, 20));
    comes.push((0, crash()));
    for worker in [&mut writer, &mut stays, &mut comes] {
        worker.push(final_reads());
    }
    let script = Script::new(SCENARIO.name, seed, config);
    let cooperative = script.draw("rebalance.cooperative").chance(0.5);
    let script = script.worker("comes", comes).worker("stays", stays).worker("writer", writer);
    script.queue(|queue| queue.cooperative = cooperative).plan()
}
