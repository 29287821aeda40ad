//! What the anomaly families share: who sent and read what, and the log of each key as the history shows it.

use crate::history::{Ack, Atom, Event, Function, History, Status};
use std::collections::BTreeMap;

/// Who sent a value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writer {
    pub(crate) event: usize,
    pub(crate) status: Status,
}

/// One key.
#[derive(Debug, Default)]
pub(crate) struct KeyFacts {
    /// By value: the completion that sent it.
    pub(crate) writers: BTreeMap<Atom, Writer>,
    /// By value: the first ok event that polled it.
    pub(crate) ok_readers: BTreeMap<Atom, usize>,
    /// The raw log: by offset, the distinct values that somebody was told are there, in the order seen.
    pub(crate) log: BTreeMap<i64, Vec<Atom>>,
}

/// A whole history.
#[derive(Debug)]
pub(crate) struct Facts<'a> {
    pub(crate) history: &'a History,
    pub(crate) keys: BTreeMap<Atom, KeyFacts>,
}

impl<'a> Facts<'a> {
    pub(crate) fn new(history: &'a History) -> Self {
        let mut facts = Facts { history, keys: BTreeMap::new() };
        facts.take_sends_and_reads();
        facts.take_logs();
        facts
    }

    /// The completions of sends, polls and transactions.
    pub(crate) fn completions(&self) -> impl Iterator<Item = Event<'a>> + use<'a> {
        let history = self.history;
        history.events().filter(|event| {
            event.status() != Status::Invoke
                && matches!(event.function(), Function::Send | Function::Poll | Function::Txn)
        })
    }

    /// Whether an ok event polled `value`.
    pub(crate) fn is_ok_read(&self, key: Atom, value: Atom) -> bool {
        self.keys.get(&key).is_some_and(|facts| facts.ok_readers.contains_key(&value))
    }

    /// Whether an event's sends must have taken effect: it is ok, or info and one of them was polled by an ok event.
    pub(crate) fn took_effect(&self, event: &Event<'_>) -> bool {
        match event.status() {
            Status::Ok => true,
            Status::Info => event.sends().any(|(key, value, _)| self.is_ok_read(key, value)),
            Status::Fail | Status::Invoke => false,
        }
    }

    fn take_sends_and_reads(&mut self) {
        for event in self.completions() {
            for (key, value, _) in event.sends() {
                let writer = Writer { event: event.index, status: event.status() };
                self.key(key).writers.entry(value).or_insert(writer);
            }
            for record in event.polled() {
                let facts = self.key(record.key);
                if event.status() == Status::Ok {
                    facts.ok_readers.entry(record.value).or_insert(event.index);
                }
            }
        }
    }

    /// Offsets from acknowledgements of sends that took effect, and from every record polled by anyone: pollers tell
    /// the truth about what they saw, however their operation ended.
    fn take_logs(&mut self) {
        for event in self.completions() {
            if self.took_effect(&event) {
                for (key, value, ack) in event.sends() {
                    if let Ack::At(offset) = ack {
                        self.note(key, offset, value);
                    }
                }
            }
            for record in event.polled() {
                if let Some(offset) = record.offset {
                    self.note(record.key, offset, record.value);
                }
            }
        }
    }

    fn note(&mut self, key: Atom, offset: i64, value: Atom) {
        let values = self.key(key).log.entry(offset).or_default();
        if !values.contains(&value) {
            values.push(value);
        }
    }

    fn key(&mut self, key: Atom) -> &mut KeyFacts {
        self.keys.entry(key).or_default()
    }
}

impl KeyFacts {
    /// By value: every offset at which it occurs in the raw log, ascending.
    pub(crate) fn offsets(&self) -> BTreeMap<Atom, Vec<i64>> {
        let mut out: BTreeMap<Atom, Vec<i64>> = BTreeMap::new();
        for (offset, values) in &self.log {
            for value in values {
                out.entry(*value).or_default().push(*offset);
            }
        }
        out
    }

    /// The dense index of an occupied offset.
    pub(crate) fn indices(&self) -> BTreeMap<i64, usize> {
        self.log.keys().enumerate().map(|(index, offset)| (*offset, index)).collect()
    }

    /// The highest offset that must have been passed to read what ok events read: of each value read, the lowest at
    /// which it occurs. With the value read there. Conservative when a value occurs twice.
    pub(crate) fn read_bound(&self, offsets: &BTreeMap<Atom, Vec<i64>>) -> Option<(i64, Atom)> {
        let first = |value: &Atom| offsets.get(value).and_then(|offsets| offsets.first()).copied();
        self.ok_readers.keys().filter_map(|value| Some((first(value)?, *value))).max()
    }
}
