//! What clients did and were told, in the order in which it happened, and the checker's history of it.

use crate::queue::Progress;
use check::look::Look;
use check::order::Sent;
use check::out_of_range::Refused;
use check::reading::Reading;
use check::{Ack, Atom, Function, History, Polled, Status};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

/// One client-side fact. A fact's place in the log is its event's place in the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fact {
    /// The logical process: a new one after every client that was given up.
    pub(crate) process: i64,
    /// Whose it is: a transactional id, or a consumer's client id.
    pub(crate) client: String,
    /// Simulated time since the start.
    pub(crate) at_ns: u64,
    pub(crate) status: Status,
    pub(crate) work: Work,
    /// Why it did not succeed.
    pub(crate) error: Option<String>,
}

/// An operation, with what is known of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    Txn {
        /// The producer's own number of the transaction; 0 before it began.
        number: u64,
        /// Key, value, and offset if acknowledged. When complete, only those handed to the producer.
        sends: Vec<(u32, u64, Option<i64>)>,
        /// When the commit was asked for.
        commit_invoked_ns: Option<u64>,
    },
    /// A record outside transactions: key, value, and offset once acknowledged.
    Send {
        key: u32,
        value: u64,
        offset: Option<i64>,
    },
    /// Records polled, as (key, offset, value), in order.
    Poll(Vec<(u32, i64, u64)>),
    Assign(Vec<u32>),
    /// An operation of the queue workload.
    Queue(Function, Box<Details>),
}

/// What is known of an operation of the queue workload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Details {
    /// The producer's own number of the transaction; 0 without one.
    pub(crate) number: u64,
    /// Its sends and polls, done or not.
    pub(crate) done: Vec<Done>,
    /// Keys that it assigns, subscribes to or looks at.
    pub(crate) keys: Vec<u32>,
    /// It seeks to the start of its keys.
    pub(crate) from_start: bool,
    /// Keys that a rebalance moved meanwhile.
    pub(crate) rebalanced: Vec<u32>,
    /// Keys of which the application left the position where an operation that failed had moved it.
    pub(crate) repositioned: Vec<u32>,
    /// When the commit was asked for.
    pub(crate) commit_invoked_ns: Option<u64>,
}

/// What came of a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Done {
    Send {
        key: u32,
        value: u64,
        ack: Ack,
    },
    /// Records polled, as (key, offset, value), in order; none before it was polled.
    Poll(Option<Vec<(u32, i64, u64)>>),
}

/// Shared by the workers and the script.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Facts>>);

#[derive(Default)]
pub(crate) struct Facts {
    pub(crate) facts: Vec<Fact>,
    pub(crate) processes: i64,
    /// Workers whose operations are done.
    pub(crate) finished: BTreeSet<String>,
    /// Operations that each worker has done: it goes on there after a crash.
    pub(crate) done: BTreeMap<String, usize>,
    /// Group members that each worker has been.
    pub(crate) incarnations: BTreeMap<String, u32>,
    /// Members may go: the group has committed everything, or will not.
    pub(crate) drained: bool,
    /// Partitions whose end the group did not commit.
    pub(crate) behind: Vec<i32>,
    /// What the group has committed of the first partition in the end, if somebody asked and it was decided.
    pub(crate) last_offset: Option<i64>,
    /// Partition and offset of the record that each result of a member is of.
    pub(crate) results: Vec<(i64, i64)>,
    /// Keys that the final reader read from start to end.
    pub(crate) read_whole: Vec<u32>,
    /// What single consumers read, by process and key.
    pub(crate) readings: BTreeMap<(i64, u32), Reading>,
    /// What producers were told about records that they sent one after the other.
    pub(crate) acknowledged: Vec<Acknowledged>,
    /// What raw readers saw.
    pub(crate) looks: Vec<Look>,
    /// What raw readers were refused as out of range.
    pub(crate) refused: Vec<Refused>,
    /// What was left at the end, if somebody looked.
    pub(crate) remains: Option<Remains>,
    /// What the workers of the queue workload share.
    pub(crate) queue: Progress,
}

/// A record that its producer knows to be written.
pub(crate) struct Acknowledged {
    pub(crate) sent: Sent,
    pub(crate) value: u64,
}

/// What was left when all was over.
#[derive(Clone, Debug, Default)]
pub(crate) struct Remains {
    /// Partitions whose last stable offset had not reached the high watermark.
    pub(crate) undecided: Vec<i64>,
    /// The mod revision of each transactional id's state.
    pub(crate) transactions: BTreeMap<String, i64>,
}

impl Facts {
    /// Key and value of every record that the final reader polled.
    pub(crate) fn final_records(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        let of_reader = self.facts.iter().filter(|fact| fact.client == "reader");
        let polled = of_reader.filter_map(|fact| match &fact.work {
            Work::Poll(records) => Some(records),
            _ => None,
        });
        polled.flatten().map(|(key, _, value)| (*key, *value))
    }
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

    /// How many of its operations a worker has done.
    pub(crate) fn done(&self, worker: &str) -> usize {
        self.lock().done.get(worker).copied().unwrap_or_default()
    }

    /// A worker has done one more operation.
    pub(crate) fn did(&self, worker: &str) {
        *self.lock().done.entry(worker.to_string()).or_default() += 1;
    }

    /// The name of the worker's next group member: its own, then `name.2` and so on.
    pub(crate) fn incarnation(&self, worker: &str) -> String {
        let mut facts = self.lock();
        let count = facts.incarnations.entry(worker.to_string()).or_default();
        *count += 1;
        if *count == 1 { worker.to_string() } else { format!("{worker}.{count}") }
    }

    /// Notes which of the records that `producer` sent one after the other, the first of them its `first`-th, it knows
    /// to be written.
    pub(crate) fn acknowledge(&self, producer: &str, first: u64, sends: &[(u32, u64, Option<i64>)]) {
        let known = sends.iter().zip(first..).filter_map(|((key, value, offset), nth)| {
            let (producer, partition, offset) = (producer.to_string(), i64::from(*key), (*offset)?);
            Some(Acknowledged { sent: Sent { producer, partition, nth, offset }, value: *value })
        });
        self.lock().acknowledged.extend(known);
    }

    pub(crate) fn add(&self, process: i64, client: &str, status: Status, work: Work, error: Option<String>) {
        let at_ns = rt::time::Instant::now().as_nanos();
        self.lock().facts.push(Fact { process, client: client.to_string(), at_ns, status, work, error });
    }
}

/// The history that the checker judges.
pub(crate) fn history(facts: &[Fact]) -> History {
    let mut history = History::default();
    for fact in facts {
        let function = match &fact.work {
            Work::Txn { .. } => Function::Txn,
            Work::Send { .. } => Function::Send,
            Work::Poll(_) => Function::Poll,
            Work::Assign(_) => Function::Assign,
            Work::Queue(function, _) => *function,
        };
        history.push(fact.process, fact.status, function, fact.at_ns);
        match &fact.work {
            Work::Txn { sends, commit_invoked_ns, .. } => {
                for (key, value, offset) in sends {
                    history.send(atom(*key), value_atom(*value), offset.map_or(Ack::None, Ack::At));
                }
                if let Some(time_ns) = commit_invoked_ns {
                    history.set_commit_invoked(*time_ns);
                }
            }
            Work::Send { key, value, offset } => {
                history.send(atom(*key), value_atom(*value), offset.map_or(Ack::None, Ack::At));
            }
            Work::Poll(_) if fact.status == Status::Invoke => history.poll_unanswered(),
            Work::Poll(records) => history.poll(polled(records)),
            Work::Assign(keys) => history.set_keys(keys.iter().map(|key| atom(*key))),
            Work::Queue(_, queued) => fill(&mut history, queued),
        }
        if let Some(error) = &fact.error {
            history.set_error(error);
        }
    }
    history
}

/// Fills the last event.
fn fill(history: &mut History, queued: &Details) {
    for done in &queued.done {
        match done {
            Done::Send { key, value, ack } => history.send(atom(*key), value_atom(*value), *ack),
            Done::Poll(None) => history.poll_unanswered(),
            Done::Poll(Some(records)) => history.poll(polled(records)),
        }
    }
    history.set_keys(queued.keys.iter().map(|key| atom(*key)));
    history.set_rebalanced(queued.rebalanced.iter().map(|key| atom(*key)));
    history.set_repositioned(queued.repositioned.iter().map(|key| atom(*key)));
    if queued.from_start {
        history.set_from_start();
    }
    if let Some(time_ns) = queued.commit_invoked_ns {
        history.set_commit_invoked(time_ns);
    }
}

fn polled(records: &[(u32, i64, u64)]) -> impl Iterator<Item = Polled> + use<'_> {
    records.iter().map(|(key, offset, value)| Polled {
        key: atom(*key),
        offset: Some(*offset),
        value: value_atom(*value),
    })
}

/// A key as the checker has it.
pub(crate) fn atom(key: u32) -> Atom {
    Atom::Int(i64::from(key))
}

/// A value as the checker has it.
pub(crate) fn value_atom(value: u64) -> Atom {
    Atom::Int(value_number(value))
}

/// A value as a number. A payload that is not a value is a negative one, which nobody wrote.
pub(crate) fn value_number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(-1)
}
