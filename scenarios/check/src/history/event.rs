//! One event of a history, and what it says.

use super::{Ack, Atom, Entry, Function, History, Message, NO_OFFSET, Op, Polled, Status, slice};
use std::ops::Range;

/// One event of a history.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    pub(super) history: &'a History,
    pub(super) entry: &'a Entry,
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
        self.history.records_at(self.record_range())
    }

    /// Whether it sends or polls records.
    pub(crate) fn is_records(&self) -> bool {
        matches!(self.function(), Function::Send | Function::Poll | Function::Txn)
    }

    /// The micro-operation that sends a message.
    pub(crate) fn send_of(&self, message: Message) -> Option<usize> {
        self.message_slots().iter().position(|slot| *slot == message)
    }

    /// The micro-operation that polls a message.
    pub(crate) fn poll_of(&self, message: Message) -> Option<usize> {
        self.ops().iter().position(|op| match op {
            Op::Poll(Some(range)) => slice(&self.history.records, range).contains(&message),
            Op::Poll(None) | Op::Send { .. } => false,
        })
    }

    /// The messages it sent, with the answers.
    pub(crate) fn sent_messages(&self) -> impl Iterator<Item = (Message, Ack)> + use<'a> {
        self.message_slots().iter().zip(self.ops()).filter_map(|(message, op)| match op {
            Op::Send { ack, .. } => Some((*message, *ack)),
            Op::Poll(_) => None,
        })
    }

    /// Of each micro-operation the message it sends, or [`NO_MESSAGE`].
    pub(crate) fn message_slots(&self) -> &'a [Message] {
        slice(&self.history.sent, &self.entry.ops)
    }

    /// The messages it polled, in order.
    pub(crate) fn polled_messages(&self) -> &'a [Message] {
        slice(&self.history.records, &self.record_range())
    }

    /// The messages that its last poll returned.
    pub(crate) fn last_poll(&self) -> &'a [Message] {
        let last = self.ops().iter().rev().find_map(|op| match op {
            Op::Poll(range) => Some(range.clone().unwrap_or_default()),
            Op::Send { .. } => None,
        });
        slice(&self.history.records, &last.unwrap_or_default())
    }

    /// The messages it polled, with their offsets, in order.
    pub(crate) fn polled_offsets(&self) -> impl Iterator<Item = (Message, Option<i64>)> + use<'a> {
        let offsets = slice(&self.history.offsets, &self.record_range());
        let known = offsets.iter().map(|offset| (*offset != NO_OFFSET).then_some(*offset));
        self.polled_messages().iter().copied().zip(known)
    }

    /// The records of an event lie side by side, whichever of its polls returned them.
    fn record_range(&self) -> Range<u32> {
        let mut ranges = self.ops().iter().filter_map(|op| match op {
            Op::Poll(Some(range)) => Some(range),
            Op::Poll(None) | Op::Send { .. } => None,
        });
        let Some(first) = ranges.next() else { return 0..0 };
        first.start..ranges.next_back().unwrap_or(first).end
    }

    /// Keys it assigns, subscribes to or looks at.
    pub fn keys(&self) -> &'a [Atom] {
        slice(&self.history.keys, &self.entry.keys)
    }

    /// Keys that a rebalance moved meanwhile.
    pub fn rebalanced(&self) -> &'a [Atom] {
        slice(&self.history.keys, &self.entry.rebalanced)
    }

    /// Keys whose position was set meanwhile, otherwise than by a rebalance or by reading on.
    pub fn repositioned(&self) -> &'a [Atom] {
        slice(&self.history.keys, &self.entry.repositioned)
    }

    /// Whether it is an assignment that seeks to the beginning of its keys.
    pub fn from_start(&self) -> bool {
        self.entry.from_start
    }

    /// When the client asked to commit this transaction, if that was noted; in nanoseconds since the start.
    pub fn commit_invoked_ns(&self) -> Option<u64> {
        self.entry.commit_invoked_ns
    }

    /// Why it failed.
    pub fn error(&self) -> Option<&'a str> {
        self.entry.error.map(|at| self.history.errors[at as usize].as_str())
    }
}
