//! What clients did and were told, in the order in which it happened.

use std::sync::{Arc, Mutex, MutexGuard};

/// One client-side fact. Times are simulated nanoseconds since the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fact {
    /// The logical process: a new one after every client that was given up.
    pub(crate) process: i64,
    pub(crate) at_ns: u64,
    pub(crate) what: What,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// An operation begins. Sends as (key, value).
    Invoke(Work<(u32, u64)>),
    /// It ends, and the client was told this. Sends as (key, value, offset if acknowledged); those never handed to the
    /// producer are left out.
    Complete { outcome: Outcome, work: Work<(u32, u64, Option<i64>)>, error: Option<String> },
}

/// An operation, with what is known of its sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Work<S> {
    Txn(Vec<S>),
    /// Records polled, as (key, offset, value), in order.
    Poll(Vec<(u32, i64, u64)>),
    Assign(Vec<u32>),
}

/// What the client was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It happened.
    Ok,
    /// It certainly did not happen.
    Fail,
    /// It may have happened, or yet happen.
    Info,
}

/// Shared by the workers and the script.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Facts>>);

#[derive(Default)]
pub(crate) struct Facts {
    pub(crate) facts: Vec<Fact>,
    processes: i64,
    /// Workers whose operations are done.
    pub(crate) finished: usize,
}

impl Log {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Facts> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(crate) fn new_process(&self) -> i64 {
        let mut facts = self.lock();
        facts.processes += 1;
        facts.processes
    }

    pub(crate) fn add(&self, process: i64, what: What) {
        let at_ns = rt::time::Instant::now().as_nanos();
        self.lock().facts.push(Fact { process, at_ns, what });
    }

    pub(crate) fn finish_worker(&self) {
        self.lock().finished += 1;
    }
}
