//! The trace of a run: what happened, when, where and because of what.
//!
//! Every event has an id (its place in the trace), a time, a node and a causal parent. Events are encoded canonically
//! (little-endian, lengths before contents) and folded into a rolling hash, the run's fingerprint. Two runs of one plan
//! have the same trace, byte for byte. How much is kept for reading is a separate setting and never changes the hash.

use rt::observe::Value;
use serde::{Deserialize, Serialize};
use std::fmt;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// An event's place in the trace, from 1; 0 is "nothing", the parent of what nobody caused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EventId(pub u64);

impl EventId {
    /// The parent of what nobody caused.
    pub const NONE: EventId = EventId(0);
}

/// A node, by its place in the world; 0 is the world itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

impl NodeId {
    /// The simulator itself: the script that runs outside every machine.
    pub const WORLD: NodeId = NodeId(0);
}

/// The rolling hash of a whole trace.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(pub u64);

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// How much of the trace is kept for reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Keep {
    /// Only the hash.
    #[default]
    Nothing,
    /// What programs said (events, intent), broken claims, faults, and the lives of nodes.
    Events,
    /// Events and labelled frames.
    Story,
    /// Everything, down to single task steps.
    Everything,
}

/// From which [`Keep`] on an event is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weight {
    Event,
    Story,
    Detail,
}

impl Keep {
    fn keeps(self, weight: Weight) -> bool {
        self >= match weight {
            Weight::Event => Keep::Events,
            Weight::Story => Keep::Story,
            Weight::Detail => Keep::Everything,
        }
    }
}

/// A field's value, owned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Field {
    /// An unsigned number.
    U64(u64),
    /// A signed number.
    I64(i64),
    /// A truth value.
    Bool(bool),
    /// Text.
    Str(String),
    /// Raw bytes.
    Bytes(Vec<u8>),
}

impl From<Value<'_>> for Field {
    fn from(value: Value<'_>) -> Self {
        match value {
            Value::U64(v) => Field::U64(v),
            Value::I64(v) => Field::I64(v),
            Value::Bool(v) => Field::Bool(v),
            Value::Str(v) => Field::Str(v.to_string()),
            Value::Bytes(v) => Field::Bytes(v.to_vec()),
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Field::U64(v) => write!(f, "{v}"),
            Field::I64(v) => write!(f, "{v}"),
            Field::Bool(v) => write!(f, "{v}"),
            Field::Str(v) => f.write_str(v),
            Field::Bytes(v) => match std::str::from_utf8(v) {
                Ok(text) if !text.is_empty() && text.chars().all(|c| !c.is_control()) => f.write_str(text),
                _ => v.iter().try_for_each(|byte| write!(f, "{byte:02x}")),
            },
        }
    }
}

/// One event, as kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its place in the trace.
    pub id: EventId,
    /// Simulated time since the start of the run, in nanoseconds.
    pub at_ns: u64,
    /// Where it happened.
    pub node: NodeId,
    /// The event that caused it.
    pub parent: EventId,
    /// What happened, such as `"txn.prepared"` or `"net.frame"`.
    pub name: &'static str,
    /// Named values, in the order given.
    pub fields: Vec<(&'static str, Field)>,
}

impl Entry {
    /// The field `name`, if the event has it.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|(field, _)| *field == name).map(|(_, value)| value)
    }

    /// The field `name` as text; empty if the event has none.
    pub fn text(&self, name: &str) -> String {
        self.field(name).map(Field::to_string).unwrap_or_default()
    }

    /// The field `name` as a number, if it is one.
    pub fn number(&self, name: &str) -> Option<i64> {
        match self.field(name)? {
            Field::U64(v) => i64::try_from(*v).ok(),
            Field::I64(v) => Some(*v),
            _ => None,
        }
    }

    /// The field `name` as a truth value; false if the event has none.
    pub fn flag(&self, name: &str) -> bool {
        self.field(name) == Some(&Field::Bool(true))
    }
}

/// The trace as it is written.
pub(crate) struct Trace {
    hash: u64,
    next: u64,
    keep: Keep,
    kept: Vec<Entry>,
    scratch: Vec<u8>,
}

impl Trace {
    pub(crate) fn new(keep: Keep) -> Self {
        Trace { hash: 0, next: 1, keep, kept: Vec::new(), scratch: Vec::with_capacity(256) }
    }

    /// A task's step. Steps and timers are the commonest events, so they have an encoding of fixed size.
    pub(crate) fn step(&mut self, at_ns: u64, node: NodeId, parent: EventId, task: u64) -> EventId {
        self.brief(1, at_ns, node, parent, "step", task)
    }

    /// A timer comes due; `armed_by` is the event that armed it.
    pub(crate) fn timer(&mut self, at_ns: u64, node: NodeId, armed_by: EventId) -> EventId {
        self.brief(3, at_ns, node, armed_by, "timer", 0)
    }

    fn brief(
        &mut self,
        kind: u8,
        at_ns: u64,
        node: NodeId,
        parent: EventId,
        name: &'static str,
        task: u64,
    ) -> EventId {
        let mut bytes = [0u8; 29];
        bytes[0] = kind;
        bytes[1..9].copy_from_slice(&at_ns.to_le_bytes());
        bytes[9..13].copy_from_slice(&node.0.to_le_bytes());
        bytes[13..21].copy_from_slice(&parent.0.to_le_bytes());
        bytes[21..].copy_from_slice(&task.to_le_bytes());
        self.hash = xxh3_64_with_seed(&bytes, self.hash);
        let id = self.next_id();
        if self.keep == Keep::Everything {
            self.kept.push(Entry { id, at_ns, node, parent, name, fields: vec![("task", Field::U64(task))] });
        }
        id
    }

    /// Any other event.
    pub(crate) fn record(
        &mut self,
        at_ns: u64,
        node: NodeId,
        parent: EventId,
        weight: Weight,
        name: &'static str,
        fields: &[(&'static str, Value<'_>)],
    ) -> EventId {
        let out = &mut self.scratch;
        out.clear();
        out.push(2);
        out.extend_from_slice(&at_ns.to_le_bytes());
        out.extend_from_slice(&node.0.to_le_bytes());
        out.extend_from_slice(&parent.0.to_le_bytes());
        encode_bytes(out, 0, name.as_bytes());
        for (field, value) in fields {
            encode_bytes(out, 0, field.as_bytes());
            encode(out, value);
        }
        self.hash = xxh3_64_with_seed(out, self.hash);
        let id = self.next_id();
        if self.keep.keeps(weight) {
            let fields = fields.iter().map(|(field, value)| (*field, Field::from(*value))).collect();
            self.kept.push(Entry { id, at_ns, node, parent, name, fields });
        }
        id
    }

    fn next_id(&mut self) -> EventId {
        let id = EventId(self.next);
        self.next += 1;
        id
    }

    /// The hash so far and the entries kept.
    pub(crate) fn finish(self) -> (Fingerprint, Vec<Entry>) {
        (Fingerprint(self.hash), self.kept)
    }

    /// Number of events so far.
    pub(crate) fn len(&self) -> u64 {
        self.next - 1
    }
}

fn encode(out: &mut Vec<u8>, value: &Value<'_>) {
    match value {
        Value::U64(v) => encode_number(out, 1, *v),
        Value::I64(v) => encode_number(out, 2, *v as u64),
        Value::Bool(v) => encode_number(out, 3, u64::from(*v)),
        Value::Str(v) => encode_bytes(out, 4, v.as_bytes()),
        Value::Bytes(v) => encode_bytes(out, 5, v),
    }
}

fn encode_number(out: &mut Vec<u8>, tag: u8, number: u64) {
    out.push(tag);
    out.extend_from_slice(&number.to_le_bytes());
}

fn encode_bytes(out: &mut Vec<u8>, tag: u8, bytes: &[u8]) {
    out.push(tag);
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash_of(fields: &[(&'static str, Value<'_>)]) -> Fingerprint {
        let mut trace = Trace::new(Keep::Nothing);
        trace.record(5, NodeId(1), EventId(0), Weight::Detail, "x", fields);
        trace.finish().0
    }

    #[test]
    fn the_encoding_keeps_apart_what_differs() {
        let hashes = [
            hash_of(&[]),
            hash_of(&[("a", Value::U64(1))]),
            hash_of(&[("a", Value::I64(1))]),
            hash_of(&[("b", Value::U64(1))]),
            hash_of(&[("a", Value::Str("ab")), ("b", Value::Str("c"))]),
            hash_of(&[("a", Value::Str("a")), ("b", Value::Str("bc"))]),
            hash_of(&[("a", Value::Bytes(b"ab"))]),
            hash_of(&[("a", Value::Str("ab"))]),
        ];
        for (i, a) in hashes.iter().enumerate() {
            assert!(hashes[i + 1..].iter().all(|b| a != b), "hash {i} is not unique");
        }
    }

    #[test]
    fn what_is_kept_never_changes_the_hash() {
        let [nothing, events, story, everything] =
            [Keep::Nothing, Keep::Events, Keep::Story, Keep::Everything].map(|keep| {
                let mut trace = Trace::new(keep);
                let step = trace.step(1, NodeId(1), EventId::NONE, 9);
                trace.record(2, NodeId(2), step, Weight::Detail, "net.deliver", &[]);
                trace.record(3, NodeId(2), step, Weight::Story, "net.frame", &[]);
                trace.record(4, NodeId(2), step, Weight::Event, "fault", &[("id", Value::U64(3))]);
                trace.finish()
            });
        assert!([&events, &story, &everything].iter().all(|trace| trace.0 == nothing.0));
        let kept = [&nothing, &events, &story, &everything].map(|trace| trace.1.len());
        assert_eq!(kept, [0, 1, 2, 4]);
        assert_eq!(events.1[0], everything.1[3]);
    }
}
