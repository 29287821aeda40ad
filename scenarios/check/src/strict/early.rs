//! `early-visibility`: a value was polled before its writer had asked to commit it.
//!
//! A poll that was complete before that moment saw what nobody had decided yet: another's transaction in the middle, or, if
//! it is the writer itself, its own. Jepsen's checker sees nothing when a transaction is split in two halves that both
//! commit (KAFKA-17754); this does. When the client asked is told by [`Event::commit_invoked_ns`]; where it is not told, the
//! operation's invocation stands for it, which is as early as it can have been.
//!
//! [`Event::commit_invoked_ns`]: crate::Event::commit_invoked_ns

use super::anomaly::{Anomaly, show};
use super::sends::Sends;
use crate::facts::Facts;
use crate::history::{Atom, History};
use serde_json::{Value, json};

/// A value that was seen too early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EarlyRead {
    /// The partition.
    pub key: Atom,
    /// The value.
    pub value: Atom,
    /// The first event that polled it.
    pub reader: usize,
    /// The event that completed its send; its invocation, if that never completed.
    pub writer: usize,
    /// When its commit was asked for, in nanoseconds since the start; `None` if it was polled before its writer began.
    pub commit_invoked_ns: Option<u64>,
}

impl Anomaly for EarlyRead {
    fn event(&self) -> usize {
        self.reader
    }

    fn words(&self, history: &History) -> String {
        let record = format!("{}:{}", history.show(self.key), history.show(self.value));
        let (reader, writer) = (self.reader, self.writer);
        let polled_ns = history.event(reader).time_ns();
        match self.commit_invoked_ns {
            Some(_) if reader == writer => {
                format!("event {reader} polled {record}, which it had not committed yet")
            }
            Some(commit_ns) => format!(
                "event {reader} had polled {record} at {polled_ns} ns, and event {writer} asked to commit it at {commit_ns} ns"
            ),
            None => format!("event {reader} had polled {record} before its writer, event {writer}, began"),
        }
    }

    fn to_json(&self, history: &History) -> Value {
        json!({"key": show(history, self.key), "value": show(history, self.value), "reader": self.reader,
            "writer": self.writer, "commit_invoked_ns": self.commit_invoked_ns})
    }
}

pub(super) fn find(facts: &Facts<'_>, sends: &Sends) -> Vec<EarlyRead> {
    let mut found = Vec::new();
    for message in 0..facts.history.message_count() as u32 {
        let known = facts.message(message);
        let (Some(reader), Some(begun)) = (known.reader(), sends.begun(message)) else { continue };
        let writer = known.writer().unwrap_or(begun);
        let polled_ns = facts.history.event(reader).time_ns();
        let is_early = |commit_ns: &u64| polled_ns < *commit_ns || reader == writer;
        let commit_invoked_ns = sends.commit_ns(message).filter(is_early);
        if reader < begun || commit_invoked_ns.is_some() {
            let (key, value) = facts.history.message(message);
            let commit_invoked_ns = commit_invoked_ns.filter(|_| reader >= begun);
            found.push(EarlyRead { key, value, reader, writer, commit_invoked_ns });
        }
    }
    found
}
