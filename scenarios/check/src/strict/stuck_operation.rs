//! `stuck-operation`: an operation that did not end within its bound though all trouble was over.
//!
//! The bound follows from the configuration and the number of micro-operations ([`Timeouts::operation_ns`]) and counts from
//! the invocation or from [`Conditions::heal_ns`], whichever is later; without that nothing is judged. An operation that
//! never ends is stuck if the history goes on for longer than the bound.
//!
//! [`Timeouts::operation_ns`]: crate::Timeouts::operation_ns
//! [`Conditions::heal_ns`]: crate::Conditions::heal_ns

use super::anomaly::Anomaly;
use crate::facts::Facts;
use crate::history::{Function, History, Status};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// An operation that took too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StuckOperation {
    /// The client.
    pub process: i64,
    /// The invocation.
    pub invoked: usize,
    /// The completion, if there is one.
    pub completed: Option<usize>,
    /// How long it was awaited from the bound's beginning, in nanoseconds.
    pub waited_ns: u64,
    /// The bound, in nanoseconds.
    pub bound_ns: u64,
}

impl Anomaly for StuckOperation {
    fn event(&self) -> usize {
        self.completed.unwrap_or(self.invoked)
    }

    fn words(&self, _: &History) -> String {
        let seconds = |ns: u64| format!("{}.{:03} s", ns / 1_000_000_000, ns / 1_000_000 % 1_000);
        let StuckOperation { process, invoked, completed, waited_ns, bound_ns } = self;
        let end = match completed {
            Some(completed) => format!("ended with event {completed}"),
            None => "never ended".to_string(),
        };
        format!(
            "the operation that process {process} invoked with event {invoked} {end}: {} after all trouble was over, and {} \
             would do",
            seconds(*waited_ns),
            seconds(*bound_ns)
        )
    }

    fn to_json(&self, _: &History) -> Value {
        let StuckOperation { process, invoked, completed, waited_ns, bound_ns } = self;
        json!({"process": process, "invoked": invoked, "completed": completed, "waited_ns": waited_ns,
            "bound_ns": bound_ns})
    }
}

pub(super) fn find(facts: &Facts<'_>) -> Vec<StuckOperation> {
    let conditions = &facts.history.conditions;
    let Some(heal_ns) = conditions.heal_ns else { return Vec::new() };
    let timeouts = conditions.timeouts.unwrap_or_default();
    let judge = |invoked: usize, completed: Option<usize>, now_ns: u64| {
        let event = facts.history.event(invoked);
        let bound_ns = timeouts.operation_ns(event.ops().len());
        let waited_ns = now_ns.saturating_sub(event.time_ns().max(heal_ns));
        let process = event.process();
        (waited_ns > bound_ns).then_some(StuckOperation { process, invoked, completed, waited_ns, bound_ns })
    };
    let mut found = Vec::new();
    let mut open: BTreeMap<i64, usize> = BTreeMap::new();
    let mut now_ns = 0;
    for event in facts.history.events() {
        now_ns = now_ns.max(event.time_ns());
        if event.status() == Status::Invoke {
            // A client that is given up, or asks for the partitions' ends, answers for itself.
            if !matches!(event.function(), Function::Crash | Function::Debug) {
                open.insert(event.process(), event.index);
            }
        } else if let Some(invoked) = open.remove(&event.process()) {
            found.extend(judge(invoked, Some(event.index), event.time_ns()));
        }
    }
    found.extend(open.into_values().filter_map(|invoked| judge(invoked, None, now_ns)));
    found.sort_by_key(|stuck| stuck.invoked);
    found
}
