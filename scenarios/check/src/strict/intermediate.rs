//! `G1b`, intermediate read: one operation read on through a partition, and of one transaction's records there it was given
//! some and passed over others.
//!
//! Adya's G1b is a read of a version that is not its writer's last. In a log each record is a version of its own, and a
//! poll may end between two of them; so seeing the first of a transaction's records and not yet the others is legal
//! (Jepsen's checker notes it as an open question, and does not look for it). What can never be is that they differ in
//! *fate*: one marker decides all records of a transaction in a partition, so whoever reads from one offset to another is
//! given all of them that lie between, or none.
//!
//! So: of one transaction, some acknowledged record lies strictly between the lowest and the highest offset that an
//! operation polled from a partition, and was not polled by it, while another of the same transaction and partition was.
//! Operations during which the partition was moved by a rebalance, a seek or a reset are left out, and so are transactions
//! that are torn in the end.

use super::anomaly::{Anomaly, show, values};
use crate::facts::{Facts, NONE};
use crate::history::{Ack, Atom, Event, Function, History, Message};
use serde_json::{Value, json};

/// A transaction that was seen in part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntermediateRead {
    /// The partition.
    pub key: Atom,
    /// The event that read on.
    pub reader: usize,
    /// The completion of the transaction.
    pub writer: usize,
    /// Values of the transaction that it polled.
    pub seen: Vec<Atom>,
    /// Values of the transaction that it passed over.
    pub passed: Vec<Atom>,
}

impl Anomaly for IntermediateRead {
    fn event(&self) -> usize {
        self.reader
    }

    fn words(&self, history: &History) -> String {
        let list = |atoms: &[Atom]| {
            atoms.iter().map(|value| history.show(*value).to_string()).collect::<Vec<_>>().join(",")
        };
        let IntermediateRead { key, reader, writer, seen, passed } = self;
        let key = history.show(*key);
        format!(
            "event {reader} polled {key}:{} of event {writer}, and passed over its {key}:{}",
            list(seen),
            list(passed)
        )
    }

    fn to_json(&self, history: &History) -> Value {
        let IntermediateRead { key, reader, writer, seen, passed } = self;
        json!({"key": show(history, *key), "reader": reader, "writer": writer, "seen": values(history, seen),
            "passed": values(history, passed)})
    }
}

/// Records of one transaction in one partition: two or more, each with its offset.
struct Group {
    writer: usize,
    records: Vec<(i64, Message)>,
}

/// Groups, and by message the group that it belongs to, or [`NONE`].
struct Groups {
    all: Vec<Group>,
    of: Vec<u32>,
}

impl Groups {
    fn new(facts: &Facts<'_>) -> Self {
        let mut groups = Groups { all: Vec::new(), of: vec![NONE; facts.history.message_count()] };
        for event in facts.completions().filter(|event| event.function() == Function::Txn) {
            let mut sends: Vec<(u32, i64, Message)> = event
                .sent_messages()
                .filter_map(|(message, ack)| match ack {
                    // A value that was sent twice belongs to no single transaction.
                    Ack::At(offset) if facts.message(message).writer() == Some(event.index) => {
                        Some((facts.history.key_number(message), offset, message))
                    }
                    _ => None,
                })
                .collect();
            sends.sort_unstable();
            for chunk in sends.chunk_by(|a, b| a.0 == b.0).filter(|chunk| chunk.len() > 1) {
                let records: Vec<_> = chunk.iter().map(|(_, offset, message)| (*offset, *message)).collect();
                records
                    .iter()
                    .for_each(|(_, message)| groups.of[*message as usize] = groups.all.len() as u32);
                groups.all.push(Group { writer: event.index, records });
            }
        }
        groups
    }
}

pub(super) fn find(facts: &Facts<'_>) -> Vec<IntermediateRead> {
    let groups = Groups::new(facts);
    if groups.all.is_empty() {
        return Vec::new();
    }
    let mut reach = Reach {
        polled_by: vec![NONE; facts.history.message_count()],
        span: vec![(NONE, 0, 0); facts.history.key_count()],
    };
    let mut found = Vec::new();
    let mut met: Vec<u32> = Vec::new();
    for event in facts.completions() {
        met.clear();
        for (message, offset) in event.polled_offsets() {
            let group = groups.of[message as usize];
            // Records of a group mostly come one after the other.
            if group != NONE && met.last() != Some(&group) {
                met.push(group);
            }
            reach.note(facts, event.index as u32, message, offset);
        }
        met.sort_unstable();
        met.dedup();
        for group in met.iter().map(|group| &groups.all[*group as usize]) {
            found.extend(reach.judge(facts, &event, group));
        }
    }
    found
}

/// How far the operation at hand read.
struct Reach {
    /// By message: the last operation that polled it.
    polled_by: Vec<u32>,
    /// By key: the last operation that polled it, and its lowest and highest offset there.
    span: Vec<(u32, i64, i64)>,
}

impl Reach {
    fn note(&mut self, facts: &Facts<'_>, event: u32, message: Message, offset: Option<i64>) {
        self.polled_by[message as usize] = event;
        let Some(offset) = offset else { return };
        let span = &mut self.span[facts.history.key_number(message) as usize];
        *span = match *span {
            (of, low, high) if of == event => (event, low.min(offset), high.max(offset)),
            _ => (event, offset, offset),
        };
    }

    fn judge(&self, facts: &Facts<'_>, event: &Event<'_>, group: &Group) -> Option<IntermediateRead> {
        let reader = event.index;
        let (key, _) = facts.history.message(group.records[0].1);
        let (of, low, high) = self.span[facts.history.key_number(group.records[0].1) as usize];
        let is_seen = |message: Message| self.polled_by[message as usize] == reader as u32;
        let is_passed =
            |(offset, message): &&(i64, Message)| !is_seen(*message) && low < *offset && *offset < high;
        let passed: Vec<Atom> = group
            .records
            .iter()
            .filter(is_passed)
            .map(|(_, message)| facts.history.message(*message).1)
            .collect();
        let is_moved = event.rebalanced().contains(&key) || event.repositioned().contains(&key);
        if passed.is_empty() || is_moved || of != reader as u32 || group.writer == reader {
            return None;
        }
        let seen = group.records.iter().filter(|(_, message)| is_seen(*message));
        let seen = seen.map(|(_, message)| facts.history.message(*message).1).collect();
        Some(IntermediateRead { key, reader, writer: group.writer, seen, passed })
    }
}
