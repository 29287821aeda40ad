//! What clients asked for and were told, in order: events, their micro-operations, and the records polled.
//!
//! Events refer to ranges of shared vectors, so that a history of ten million polled records is a few allocations.
//! An event's position in the history is its index everywhere. A *message* is a value in a key; the history numbers
//! them when it first meets them, so that checkers work on vectors.

mod event;

use crate::conditions::Conditions;
use crate::intern::Interner;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

pub use event::Event;

/// The number of a message in its history.
pub(crate) type Message = u32;

/// Stands where an operation sends no message.
pub(crate) const NO_MESSAGE: Message = u32::MAX;

/// Stands where a polled record has no known offset. No broker hands it out.
const NO_OFFSET: i64 = i64::MIN;

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

impl Status {
    /// Jepsen's word for it.
    pub fn name(self) -> &'static str {
        match self {
            Status::Invoke => "invoke",
            Status::Ok => "ok",
            Status::Fail => "fail",
            Status::Info => "info",
        }
    }
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

impl Function {
    /// Jepsen's word for it; of [`Function::Debug`] the short one.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Function::Send => "send",
            Function::Poll => "poll",
            Function::Txn => "txn",
            Function::Assign => "assign",
            Function::Subscribe => "subscribe",
            Function::Crash => "crash",
            Function::Debug => "debug",
        }
    }
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
    /// Where it was found; unknown in some recorded histories. `i64::MIN` counts as unknown.
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
    repositioned: Range<u32>,
    from_start: bool,
    commit_invoked_ns: Option<u64>,
    error: Option<u32>,
}

/// A history. Events are appended with [`History::push`], then filled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// What is known of it beside its events.
    pub conditions: Conditions,
    entries: Vec<Entry>,
    ops: Vec<Op>,
    /// The message of each of `ops` that is a send, else [`NO_MESSAGE`].
    sent: Vec<Message>,
    /// The message of each record polled.
    records: Vec<Message>,
    /// Their offsets.
    offsets: Vec<i64>,
    keys: Vec<Atom>,
    errors: Vec<String>,
    names: Vec<String>,
    /// Where each name is in `names`.
    places: BTreeMap<String, u32>,
    /// The keys of messages, in space 0.
    message_keys: Interner,
    /// The messages: values, in the space of their key's number.
    messages: Interner,
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
            repositioned: keys..keys,
            from_start: false,
            commit_invoked_ns: None,
            error: None,
        });
        self.entries.len() - 1
    }

    /// Adds a send to the last event.
    pub fn send(&mut self, key: impl Into<Atom>, value: impl Into<Atom>, ack: Ack) {
        let (key, value) = (key.into(), value.into());
        let message = self.add_message(key, value);
        self.op(Op::Send { key, value, ack }, message);
    }

    /// Adds a poll to the last event.
    pub fn poll(&mut self, records: impl IntoIterator<Item = Polled>) {
        let start = self.records.len() as u32;
        for record in records {
            let message = self.add_message(record.key, record.value);
            self.records.push(message);
            self.offsets.push(record.offset.unwrap_or(NO_OFFSET));
        }
        self.op(Op::Poll(Some(start..self.records.len() as u32)), NO_MESSAGE);
    }

    /// Adds a poll without a result to the last event.
    pub fn poll_unanswered(&mut self) {
        self.op(Op::Poll(None), NO_MESSAGE);
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

    /// Says of which keys the position was set during the last event, otherwise than by a rebalance or by reading on: the
    /// application sought, or the client's reset policy did. The rewind after an operation that failed needs no mark.
    pub fn set_repositioned(&mut self, keys: impl IntoIterator<Item = Atom>) {
        let range = self.add_keys(keys);
        if let Some(last) = self.entries.last_mut() {
            last.repositioned = range;
        }
    }

    /// Says that the last event, an assignment, seeks to the beginning of its keys.
    pub fn set_from_start(&mut self) {
        if let Some(last) = self.entries.last_mut() {
            last.from_start = true;
        }
    }

    /// Says when the client asked to commit the transaction whose completion is the last event; in nanoseconds since the
    /// start.
    pub fn set_commit_invoked(&mut self, time_ns: u64) {
        if let Some(last) = self.entries.last_mut() {
            last.commit_invoked_ns = Some(time_ns);
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
        if let Some(at) = self.places.get(name) {
            return Atom::Name(*at);
        }
        let at = self.names.len() as u32;
        self.places.insert(name.to_string(), at);
        self.names.push(name.to_string());
        Atom::Name(at)
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

    fn add_message(&mut self, key: Atom, value: Atom) -> Message {
        let key = self.message_keys.add(0, key);
        self.messages.add(key, value)
    }

    fn op(&mut self, op: Op, message: Message) {
        self.ops.push(op);
        self.sent.push(message);
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

impl History {
    /// The records of one poll.
    pub(crate) fn records(&self, range: &Range<u32>) -> impl Iterator<Item = Polled> + use<'_> {
        self.records_at(range.clone())
    }

    /// How many messages there are; they are numbered from 0.
    pub(crate) fn message_count(&self) -> usize {
        self.messages.len()
    }

    /// How many keys messages have; they are numbered from 0.
    pub(crate) fn key_count(&self) -> usize {
        self.message_keys.len()
    }

    /// The number of a message's key.
    pub(crate) fn key_number(&self, message: Message) -> u32 {
        self.messages.pair(message).0
    }

    /// The key of a number.
    pub(crate) fn key_at(&self, number: u32) -> Atom {
        self.message_keys.pair(number).1
    }

    /// The number of a key, if a message has it.
    pub(crate) fn number_of_key(&self, key: Atom) -> Option<u32> {
        self.message_keys.get(0, key)
    }

    /// The key and the value of a message.
    pub(crate) fn message(&self, message: Message) -> (Atom, Atom) {
        let (key, value) = self.messages.pair(message);
        (self.key_at(key), value)
    }

    fn records_at(&self, range: Range<u32>) -> impl Iterator<Item = Polled> + use<'_> {
        let offsets = slice(&self.offsets, &range);
        slice(&self.records, &range).iter().zip(offsets).map(|(message, offset)| {
            let (key, value) = self.message(*message);
            Polled { key, offset: (*offset != NO_OFFSET).then_some(*offset), value }
        })
    }
}

fn slice<'a, T>(all: &'a [T], range: &Range<u32>) -> &'a [T] {
    &all[range.start as usize..range.end as usize]
}
