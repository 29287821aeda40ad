//! What clients asked for and were told, in order: events, their micro-operations, and the records polled.
//!
//! Events refer to ranges of shared vectors, so that a history of ten million polled records is a few allocations.
//! An event's position in the history is its index everywhere.

use std::fmt;
use std::ops::Range;

/// A key or a value: a number, or a name by its place in [`History::names`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Atom {
    /// A number.
    Int(i64),
    /// A name.
    Name(u32),
}

impl From<i64> for Atom {
    fn from(number: i64) -> Self {
        Atom::Int(number)
    }
}

/// Whether an event begins an operation, or how it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It begins.
    Invoke,
    /// It succeeded.
    Ok,
    /// It failed, and had no effect.
    Fail,
    /// Nobody knows.
    Info,
}

/// What an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// Only sends.
    Send,
    /// Only polls.
    Poll,
    /// Sends and polls, or either in a transaction.
    Txn,
    /// Assignment of partitions.
    Assign,
    /// Subscription to topics.
    Subscribe,
    /// The client is given up.
    Crash,
    /// A look at the partitions' ends.
    Debug,
}

/// What a send was answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ack {
    /// Nothing, as far as the client knows.
    None,
    /// An acknowledgement without an offset.
    Offsetless,
    /// An acknowledgement with this offset.
    At(i64),
}

impl Ack {
    /// The offset, if one is known.
    pub fn offset(self) -> Option<i64> {
        match self {
            Ack::At(offset) => Some(offset),
            Ack::None | Ack::Offsetless => None,
        }
    }
}

/// One record of a poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Polled {
    /// The partition.
    pub key: Atom,
    /// Where it was found; unknown in some recorded histories.
    pub offset: Option<i64>,
    /// The payload.
    pub value: Atom,
}

/// A micro-operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// A record sent.
    Send {
        /// The partition.
        key: Atom,
        /// The payload.
        value: Atom,
        /// What came back.
        ack: Ack,
    },
    /// A poll; `None` if it has no result.
    Poll(Option<Range<u32>>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    process: i64,
    status: Status,
    function: Function,
    time_ns: u64,
    ops: Range<u32>,
    keys: Range<u32>,
    rebalanced: Range<u32>,
    error: Option<u32>,
}

/// A history. Events are appended with [`History::push`], then filled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    entries: Vec<Entry>,
    ops: Vec<Op>,
    records: Vec<Polled>,
    keys: Vec<Atom>,
    errors: Vec<String>,
    names: Vec<String>,
}

impl History {
    /// Appends an event and returns its index. The methods that follow fill the last event.
    pub fn push(&mut self, process: i64, status: Status, function: Function, time_ns: u64) -> usize {
        let (ops, keys) = (self.ops.len() as u32, self.keys.len() as u32);
        self.entries.push(Entry {
            process,
            status,
            function,
            time_ns,
            ops: ops..ops,
            keys: keys..keys,
            rebalanced: keys..keys,
            error: None,
        });
        self.entries.len() - 1
    }

    /// Adds a send to the last event.
    pub fn send(&mut self, key: impl Into<Atom>, value: impl Into<Atom>, ack: Ack) {
        self.op(Op::Send { key: key.into(), value: value.into(), ack });
    }

    /// Adds a poll to the last event.
    pub fn poll(&mut self, records: impl IntoIterator<Item = Polled>) {
        let start = self.records.len() as u32;
        self.records.extend(records);
        self.op(Op::Poll(Some(start..self.records.len() as u32)));
    }

    /// Adds a poll without a result to the last event.
    pub fn poll_unanswered(&mut self) {
        self.op(Op::Poll(None));
    }

    /// Says which keys the last event assigns, subscribes to or looks at.
    pub fn set_keys(&mut self, keys: impl IntoIterator<Item = Atom>) {
        let range = self.add_keys(keys);
        if let Some(last) = self.entries.last_mut() {
            last.keys = range;
        }
    }

    /// Says which keys a rebalance moved during the last event.
    pub fn set_rebalanced(&mut self, keys: impl IntoIterator<Item = Atom>) {
        let range = self.add_keys(keys);
        if let Some(last) = self.entries.last_mut() {
            last.rebalanced = range;
        }
    }

    /// Says in free text why the last event failed.
    pub fn set_error(&mut self, error: impl Into<String>) {
        if let Some(last) = self.entries.last_mut() {
            last.error = Some(self.errors.len() as u32);
            self.errors.push(error.into());
        }
    }

    /// The atom of a name; the same name gives the same atom.
    pub fn name(&mut self, name: &str) -> Atom {
        let at = self.names.iter().position(|known| known == name).unwrap_or_else(|| {
            self.names.push(name.to_string());
            self.names.len() - 1
        });
        Atom::Name(at as u32)
    }

    /// The names in use, in the order of [`Atom::Name`].
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The number of events.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no event.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// All events, in order.
    pub fn events(&self) -> impl Iterator<Item = Event<'_>> {
        (0..self.len()).map(|index| self.event(index))
    }

    /// The event at `index`.
    ///
    /// # Panics
    /// When there is none.
    pub fn event(&self, index: usize) -> Event<'_> {
        Event { history: self, entry: &self.entries[index], index }
    }

    /// Shows an atom as text.
    pub fn show(&self, atom: Atom) -> impl fmt::Display {
        match atom {
            Atom::Int(number) => number.to_string(),
            Atom::Name(at) => self.names.get(at as usize).cloned().unwrap_or_default(),
        }
    }

    fn op(&mut self, op: Op) {
        self.ops.push(op);
        if let Some(last) = self.entries.last_mut() {
            last.ops.end = self.ops.len() as u32;
        }
    }

    fn add_keys(&mut self, keys: impl IntoIterator<Item = Atom>) -> Range<u32> {
        let start = self.keys.len() as u32;
        self.keys.extend(keys);
        start..self.keys.len() as u32
    }
}

/// One event of a history.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    history: &'a History,
    entry: &'a Entry,
    /// Its position.
    pub index: usize,
}

impl<'a> Event<'a> {
    /// The logical client.
    pub fn process(&self) -> i64 {
        self.entry.process
    }

    /// How it ended, or that it begins.
    pub fn status(&self) -> Status {
        self.entry.status
    }

    /// What it is.
    pub fn function(&self) -> Function {
        self.entry.function
    }

    /// Nanoseconds since the start.
    pub fn time_ns(&self) -> u64 {
        self.entry.time_ns
    }

    /// Its micro-operations, in order.
    pub fn ops(&self) -> &'a [Op] {
        slice(&self.history.ops, &self.entry.ops)
    }

    /// Its sends: key, value, answer.
    pub fn sends(&self) -> impl Iterator<Item = (Atom, Atom, Ack)> + use<'a> {
        self.ops().iter().filter_map(|op| match op {
            Op::Send { key, value, ack } => Some((*key, *value, *ack)),
            Op::Poll(_) => None,
        })
    }

    /// All records it polled, in order.
    pub fn polled(&self) -> impl Iterator<Item = Polled> + use<'a> {
        let history = self.history;
        self.ops().iter().flat_map(move |op| match op {
            Op::Poll(Some(range)) => history.records(range).iter().copied(),
            Op::Poll(None) | Op::Send { .. } => [].iter().copied(),
        })
    }

    /// Keys it assigns, subscribes to or looks at.
    pub fn keys(&self) -> &'a [Atom] {
        slice(&self.history.keys, &self.entry.keys)
    }

    /// Keys that a rebalance moved meanwhile.
    pub fn rebalanced(&self) -> &'a [Atom] {
        slice(&self.history.keys, &self.entry.rebalanced)
    }

    /// Why it failed.
    pub fn error(&self) -> Option<&'a str> {
        self.entry.error.map(|at| self.history.errors[at as usize].as_str())
    }
}

impl History {
    /// The records of one poll.
    pub(crate) fn records(&self, range: &Range<u32>) -> &[Polled] {
        slice(&self.records, range)
    }
}

fn slice<'a, T>(all: &'a [T], range: &Range<u32>) -> &'a [T] {
    &all[range.start as usize..range.end as usize]
}
