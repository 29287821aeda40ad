//! What a history exercised: how much of what was done came out how, and how much of it met trouble.

use crate::history::{Event, Function, History, Op, Status};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt;

/// Operations of one kind, by how they came out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// They succeeded.
    pub ok: usize,
    /// They failed.
    pub fail: usize,
    /// Nobody knows.
    pub info: usize,
    /// They were invoked and never completed.
    pub open: usize,
}

/// What met trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// Operations that were not over before some trouble began, and began before it ended.
    pub operations: usize,
    /// Those of them that are transactions.
    pub transactions: usize,
}

/// What was exercised.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exercised {
    /// By the name of a function.
    pub operations: BTreeMap<&'static str, Counts>,
    /// Records that an ok operation sent.
    pub acknowledged: usize,
    /// Records that an ok operation polled, each as often as it was polled.
    pub polled: usize,
    /// Polls during which a rebalance moved a partition.
    pub polls_across_rebalance: usize,
    /// What met trouble, if it is known when there was any.
    pub trouble: Option<Trouble>,
}

/// Counts what a history exercised.
pub fn exercised(history: &History) -> Exercised {
    let mut out = Exercised::default();
    let faults = &history.conditions.faults;
    let mut trouble = Trouble { operations: 0, transactions: 0 };
    let mut open: BTreeMap<i64, Event<'_>> = BTreeMap::new();
    let mut meet = |event: &Event<'_>, from_ns: u64, to_ns: u64| {
        let met = faults.iter().any(|fault| fault.start <= to_ns && from_ns < fault.end);
        trouble.operations += usize::from(met && event.is_records());
        trouble.transactions += usize::from(met && event.function() == Function::Txn);
    };
    for event in history.events() {
        if event.status() == Status::Invoke {
            if let Some(before) = open.insert(event.process(), event) {
                out.counts(&before).open += 1;
            }
            continue;
        }
        let from_ns = open.remove(&event.process()).map_or(event.time_ns(), |invoked| invoked.time_ns());
        meet(&event, from_ns, event.time_ns());
        out.take(&event);
    }
    for event in open.into_values() {
        meet(&event, event.time_ns(), u64::MAX);
        out.counts(&event).open += 1;
    }
    out.trouble = (!faults.is_empty()).then_some(trouble);
    out
}

impl Exercised {
    fn take(&mut self, event: &Event<'_>) {
        let counts = self.counts(event);
        match event.status() {
            Status::Ok => counts.ok += 1,
            Status::Fail => counts.fail += 1,
            Status::Info | Status::Invoke => counts.info += 1,
        }
        let polls = event.ops().iter().filter(|op| matches!(op, Op::Poll(_))).count();
        if event.status() == Status::Ok {
            self.acknowledged += event.ops().len() - polls;
            self.polled += event.polled_messages().len();
        }
        if !event.rebalanced().is_empty() {
            self.polls_across_rebalance += polls;
        }
    }

    fn counts(&mut self, event: &Event<'_>) -> &mut Counts {
        self.operations.entry(event.function().name()).or_default()
    }

    /// One object.
    pub fn to_json(&self) -> Value {
        let counts = |counts: &Counts| json!({"ok": counts.ok, "fail": counts.fail, "info": counts.info, "open": counts.open});
        let operations: Map<String, Value> =
            self.operations.iter().map(|(name, of)| ((*name).to_string(), counts(of))).collect();
        let mut out = json!({"operations": operations, "acknowledged": self.acknowledged, "polled": self.polled,
            "polls_across_rebalance": self.polls_across_rebalance});
        if let Some(Trouble { operations, transactions }) = self.trouble {
            out["met_trouble"] = json!({"operations": operations, "transactions": transactions});
        }
        out
    }
}

/// In a line.
impl fmt::Display for Exercised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, counts) in &self.operations {
            write!(f, "{name} {} ok", counts.ok)?;
            for (count, how) in [(counts.fail, "fail"), (counts.info, "info"), (counts.open, "open")] {
                if count > 0 {
                    write!(f, " {count} {how}")?;
                }
            }
            f.write_str("; ")?;
        }
        write!(f, "{} records acknowledged, {} polled", self.acknowledged, self.polled)?;
        if self.polls_across_rebalance > 0 {
            write!(f, "; {} polls across a rebalance", self.polls_across_rebalance)?;
        }
        match self.trouble {
            Some(Trouble { operations, transactions }) => {
                write!(f, "; {operations} operations met trouble, {transactions} of them transactions")
            }
            None => Ok(()),
        }
    }
}
