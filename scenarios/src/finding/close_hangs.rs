//! Finding 7, scripted (KAFKA-17734): a consumer is closed with a timeout, and does not come back.
//!
//! World: that of the queue workload; consumers wait in `close` for what is under way, whatever their timeout says.
//! Load: one worker writes. Another polls, is given up, and closes its clients with a timeout of 300 ms each.
//! Trouble: before that the network to all agents is cut for 8 s, while the consumer waits for records.
//! Claim: `close` is not back when its timeout is over, but for 100 ms. With a deadline on every step it is.

use super::blind::{Blind, QUICK};
use super::script::{self, Script, assign, crash, final_reads, polls, send, work};
use super::{Class, Finding};
use crate::config::Config;
use crate::plan::Plan;
use crate::scenario::{Expect, Scenario};
use sim::fault::{Fault, When};

pub(super) const FINDING: Finding = Finding {
    id: 7,
    title: "a consumer's close does not come back when its timeout is over",
    what: "Every few hours of testing, Consumer.close with a timeout of 0 waited for the network for more than an hour, and \
           wakeup from another thread did not help. It waited for answers over a dead connection, without a deadline.",
    class: Class::Defect { switch: "close-hangs" },
    cause: "a consumer that closes waits for what is under way over its connections, however long that takes",
    scenario: SCENARIO,
    blind: Blind {
        scenario: "close",
        with: &["close-hangs"],
        must: &[&["close-hung"]],
        without: &[],
        may: &[],
        left: &[],
        limits: QUICK,
    },
    fix: "every step of close has a deadline: what is left of the timeout",
    fixed: Some(|config| config.member_flaws.close_hangs = false),
    echo: "KAFKA-17734, in Kafka's Java client: more than 1 h",
};

const SCENARIO: Scenario = Scenario {
    name: "close-hangs",
    claim: "a consumer that is cut off and closed with a timeout of 300 ms does not come back",
    config: || {
        let mut config = script::queue(12_000);
        config.member_flaws.close_hangs = true;
        config.queue.iter_mut().for_each(|queue| queue.close_ms = 300);
        config
    },
    plan,
    expect: |config| match config.member_flaws.close_hangs {
        true => Expect::Shows { must: &["close-hung"], may: &[] },
        false => Expect::Clean,
    },
};

const CONSUMER: &str = "consumer";
const CUT_AT_MS: u64 = 2_000;

fn plan(seed: u64, config: &Config) -> Plan {
    let mut consumer = vec![(300, assign(&[0]))];
    consumer.extend(polls(24, 20));
    consumer.extend([(0, crash()), final_reads()]);
    let writer = vec![(500, work(&[send(0, 1)])), (100, work(&[send(0, 2)])), final_reads()];
    let agents = config.agent_names();
    let cut = Fault::Cut { from: vec![CONSUMER.into()], to: agents, both_ways: true, for_ms: 8_000 };
    Script::new(SCENARIO.name, seed, config)
        .worker(CONSUMER, consumer)
        .worker("writer", writer)
        .fault(When::AtMs(CUT_AT_MS), cut)
        .plan()
}
