//! The words that scripts are written in.
//!
//! A script is its workers' steps and its faults. Each step follows the one before it after a while, to which the seed
//! adds a few milliseconds: a script must show the same on every seed.

use crate::config::{Config, Members};
use crate::plan::{Commits, Decision, Life, Micro, Op, Operation, Plan, Queued, Send};
use crate::queue::Queue;
use crate::queue_scenarios;
use rt::choice::Choice;
use sim::choice::Choices;
use sim::fault::{Fault, Scheduled, When};
use std::collections::BTreeMap;

/// The most that the seed adds to a pause, in milliseconds.
const JITTER_MS_MAX: u64 = 20;
/// Ids of one worker's operations: beyond those of the workers before it.
const IDS: u32 = 100;

/// A plan in the making.
pub(super) struct Script {
    choices: Choices,
    plan: Plan,
}

impl Script {
    pub(super) fn new(name: &str, seed: u64, config: &Config) -> Script {
        let plan = Plan {
            scenario: name.into(),
            seed,
            config: config.clone(),
            operations: BTreeMap::new(),
            faults: vec![],
            overrides: vec![],
        };
        Script { choices: Choices::new(seed, &[]), plan }
    }

    /// A worker that does these, each so many milliseconds after the one before.
    pub(super) fn worker(mut self, name: &str, steps: Vec<(u64, Op)>) -> Script {
        let first_id = (self.plan.operations.len() as u32 + 1) * IDS;
        let operations = steps.into_iter().zip(first_id..).map(|((after_ms, what), id)| {
            let jitter = self.choices.world("script.think", u64::from(id), 0);
            Operation { id, think_ms: after_ms + jitter.between(0, JITTER_MS_MAX), what }
        });
        self.plan.operations.insert(name.into(), operations.collect());
        self
    }

    /// A fault that strikes then.
    pub(super) fn fault(mut self, when: When, fault: Fault) -> Script {
        let id = self.plan.faults.len() as u32 + 1;
        self.plan.faults.push(Scheduled { id, when, fault });
        self
    }

    /// What the seed draws.
    pub(super) fn draw(&self, what: &'static str) -> Choice {
        self.choices.world(what, 0, 0)
    }

    /// Changes the settings of the queue workload.
    pub(super) fn queue(mut self, change: impl FnOnce(&mut Queue)) -> Script {
        self.plan.config.queue.as_mut().map(change);
        self
    }

    /// Changes the settings of group members.
    pub(super) fn members(mut self, change: impl FnOnce(&mut Members)) -> Script {
        change(&mut self.plan.config.members);
        self
    }

    pub(super) fn plan(self) -> Plan {
        self.plan
    }
}

/// A transaction of these records, keys and values, outside the queue workload.
pub(super) fn txn(records: &[(u32, u64)], end: Decision) -> Op {
    Op::Txn { sends: sends(records), end }
}

/// The same with so many milliseconds before the last of them.
pub(super) fn slow_txn(records: &[(u32, u64)], before_last_ms: u64, end: Decision) -> Op {
    let mut sends = sends(records);
    sends.last_mut().expect("a transaction has records").think_ms = before_last_ms;
    Op::Txn { sends, end }
}

fn sends(records: &[(u32, u64)]) -> Vec<Send> {
    records.iter().map(|(key, value)| Send { key: *key, value: *value, think_ms: 0 }).collect()
}

/// A consumer of committed records, outside the queue workload.
pub(super) fn consume(for_ms: u64) -> Op {
    Op::Consume { for_ms, think_ms: 0, uncommitted: false }
}

/// Records, keys and values, of an idempotent producer without transactions, outside the queue workload.
pub(super) fn send_all(records: &[(u32, u64)]) -> Op {
    Op::Send { sends: sends(records) }
}

/// A group member that stays until everything is consumed.
pub(super) fn member(commits: Commits, think_ms: u64) -> Op {
    Op::Member(Life {
        for_ms: None,
        think_ms,
        cooperative: false,
        is_static: false,
        session_timeout_ms: 6_000,
        max_poll_interval_ms: 8_000,
        commits,
        closes: true,
    })
}

/// A raw reader of the whole log.
pub(super) fn look(for_ms: u64) -> Op {
    Op::Look { for_ms, every_ms: 500 }
}

/// The world of the queue workload, with nothing drawn and no trouble: transactions, and consumers that assign. The final
/// phase begins after `until_ms`.
pub(super) fn queue(until_ms: u64) -> Config {
    queue_scenarios::config(Queue { until_ms, abort_chance: 0.0, settle_ms: 1_000, ..Queue::default() })
}

/// Changes the workload.
pub(super) fn of_queue(config: &mut Config, change: impl FnOnce(&mut Queue)) {
    change(config.queue.get_or_insert_default());
}

/// Transactional ids that these workers keep.
pub(super) fn kept_ids(workers: &[&str]) -> BTreeMap<String, String> {
    workers.iter().map(|worker| ((*worker).to_string(), format!("txn-{worker}"))).collect()
}

/// An operation of sends and polls, committed if it is a transaction.
pub(super) fn work(what: &[Micro]) -> Op {
    Op::Queue(Queued::Work { what: what.to_vec(), abort_at: None })
}

/// A transaction that its application aborts in the end.
pub(super) fn aborted(what: &[Micro]) -> Op {
    Op::Queue(Queued::Work { what: what.to_vec(), abort_at: Some(what.len()) })
}

/// The consumer gets these keys.
pub(super) fn assign(keys: &[u32]) -> Op {
    Op::Queue(Queued::Give { drawn: keys.to_vec(), unseen: false, keys: None })
}

/// So many operations of one poll each.
pub(super) fn polls(count: usize, every_ms: u64) -> Vec<(u64, Op)> {
    vec![(every_ms, work(&[Micro::Poll])); count]
}

/// The client is given up, and closed.
pub(super) fn crash() -> Op {
    Op::Queue(Queued::Crash)
}

/// When all is over: a fresh client reads everything.
pub(super) fn final_reads() -> (u64, Op) {
    (0, Op::Queue(Queued::FinalReads { keys: None }))
}

pub(super) fn send(key: u32, value: u64) -> Micro {
    Micro::Send { key, value }
}

pub(super) fn wait(ms: u64) -> Micro {
    Micro::Wait(ms)
}
