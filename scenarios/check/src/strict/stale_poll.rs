//! `stale-poll`: long after all trouble was over, a consumer polled and was given nothing, though in a partition that it was
//! assigned an acknowledged record had been lying above its position for longer than anything can have held it back.
//!
//! The bound follows from the configuration ([`Timeouts::visible_ns`]) and counts from the acknowledgement, from the
//! assignment, and from [`Conditions::heal_ns`], whichever is last; without that nothing is judged. A record counts as
//! acknowledged when the operation that sent it was ok. Only consumers that assign are judged, and only where their position
//! is known: they read from that partition, or sought to its beginning. Jepsen's checker has `unseen`, which forgives a
//! consumer that is stuck as long as another one is not.
//!
//! [`Timeouts::visible_ns`]: crate::Timeouts::visible_ns
//! [`Conditions::heal_ns`]: crate::Conditions::heal_ns

use super::anomaly::{Anomaly, show};
use crate::facts::Facts;
use crate::history::{Ack, Atom, Event, Function, History, Message, Op, Status};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// A poll that should have returned something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StalePoll {
    /// The consumer.
    pub process: i64,
    /// The partition.
    pub key: Atom,
    /// The first such poll.
    pub event: usize,
    /// Its position: the offset of the last record it read, -1 for none.
    pub position: i64,
    /// The value of the highest record that it should have been given, and its offset.
    pub due: (Atom, i64),
    /// The event that acknowledged that.
    pub writer: usize,
}

impl Anomaly for StalePoll {
    fn event(&self) -> usize {
        self.event
    }

    fn words(&self, history: &History) -> String {
        let StalePoll { process, key, event, position, due: (value, offset), writer } = self;
        let (key, value) = (history.show(*key), history.show(*value));
        format!(
            "event {event} of process {process} polled nothing; {key}:{value} at offset {offset} was acknowledged by event \
             {writer}, and all trouble was over, long before; its position in {key} is behind offset {position}"
        )
    }

    fn to_json(&self, history: &History) -> Value {
        let StalePoll { process, key, event, position, due: (value, offset), writer } = self;
        json!({"process": process, "key": show(history, *key), "op": event, "position": position,
            "value": show(history, *value), "offset": offset, "writer": writer})
    }
}

/// A consumer that assigns.
#[derive(Default)]
struct Consumer {
    /// When its invocation was, if one is open.
    invoked_ns: Option<u64>,
    /// By assigned key: since when, and the offset of the last record read, if that is known.
    keys: BTreeMap<Atom, (u64, Option<i64>)>,
}

/// An acknowledged record: when, which, where, by whom.
type Acked = (u64, Message, i64, usize);

pub(super) fn find(facts: &Facts<'_>) -> Vec<StalePoll> {
    let conditions = &facts.history.conditions;
    let Some(heal_ns) = conditions.heal_ns else { return Vec::new() };
    let bound_ns = conditions.timeouts.unwrap_or_default().visible_ns();
    let mut acked = acknowledged(facts).into_iter().peekable();
    // By key, the highest record that is long acknowledged at the moment of the event.
    let mut due: BTreeMap<Atom, Acked> = BTreeMap::new();
    let mut consumers: BTreeMap<i64, Consumer> = BTreeMap::new();
    let mut told: BTreeSet<(i64, Atom)> = BTreeSet::new();
    let mut found = Vec::new();
    for event in facts.history.events() {
        let consumer = consumers.entry(event.process()).or_default();
        if event.status() == Status::Invoke {
            consumer.invoked_ns = Some(event.time_ns());
            continue;
        }
        let invoked_ns = consumer.invoked_ns.take().unwrap_or(event.time_ns());
        consumer.take(&event);
        // No poll that begins before this is judged.
        let Some(long_ago_ns) = invoked_ns.checked_sub(bound_ns).filter(|ago| *ago >= heal_ns) else {
            continue;
        };
        if !is_empty_poll(&event) {
            continue;
        }
        while let Some(record) = acked.next_if(|record| record.0 <= long_ago_ns) {
            let (key, _) = facts.history.message(record.1);
            let highest = due.entry(key).or_insert(record);
            if record.2 > highest.2 {
                *highest = record;
            }
        }
        for (key, (since_ns, position)) in &consumer.keys {
            let (Some(position), Some(record)) = (*position, due.get(key)) else { continue };
            let (acked_ns, message, offset, writer) = record;
            // An operation that was invoked later may have completed before.
            let is_due = *since_ns.max(acked_ns) <= long_ago_ns && *offset > position;
            if is_due && told.insert((event.process(), *key)) {
                let due = (facts.history.message(*message).1, *offset);
                let (process, key, event, writer) = (event.process(), *key, event.index, *writer);
                found.push(StalePoll { process, key, event, position, due, writer });
            }
        }
    }
    found
}

/// Records of ok operations, by the time of their acknowledgement.
fn acknowledged(facts: &Facts<'_>) -> Vec<Acked> {
    let mut acked = Vec::new();
    for event in facts.completions().filter(|event| event.status() == Status::Ok) {
        acked.extend(event.sent_messages().filter_map(|(message, ack)| match ack {
            Ack::At(offset) => Some((event.time_ns(), message, offset, event.index)),
            Ack::None | Ack::Offsetless => None,
        }));
    }
    acked.sort_unstable();
    acked
}

fn is_empty_poll(event: &Event<'_>) -> bool {
    let polls = event.ops().iter().any(|op| matches!(op, Op::Poll(Some(_))));
    event.status() == Status::Ok && polls && event.polled_messages().is_empty()
}

impl Consumer {
    fn take(&mut self, event: &Event<'_>) {
        let (now_ns, from_start) = (event.time_ns(), event.from_start());
        match (event.function(), event.status()) {
            (_, Status::Invoke) | (Function::Crash | Function::Debug, _) => {}
            (Function::Assign, Status::Ok) => {
                let before = std::mem::take(&mut self.keys);
                for key in event.keys() {
                    let kept = before.get(key).copied().filter(|_| !event.repositioned().contains(key));
                    let spell = match (from_start, kept) {
                        (true, _) => (now_ns, Some(-1)),
                        (false, Some(kept)) => kept,
                        (false, None) => (now_ns, None),
                    };
                    self.keys.insert(*key, spell);
                }
            }
            // Nobody knows what it has now.
            (Function::Assign, Status::Fail | Status::Info) | (Function::Subscribe, _) => self.keys.clear(),
            (Function::Send | Function::Poll | Function::Txn, status) => {
                for key in event.rebalanced().iter().chain(event.repositioned()) {
                    if let Some(spell) = self.keys.get_mut(key) {
                        spell.1 = None;
                    }
                }
                if status == Status::Ok && !self.keys.is_empty() {
                    self.advance(event);
                }
            }
        }
    }

    fn advance(&mut self, event: &Event<'_>) {
        let polled = event.polled();
        let mut last: Option<(Atom, Option<i64>)> = None;
        let mut note = |(key, offset): (Atom, Option<i64>)| {
            if let Some(spell) = self.keys.get_mut(&key) {
                spell.1 = offset;
            }
        };
        for record in polled {
            if let Some(run) = last.filter(|(key, _)| *key != record.key) {
                note(run);
            }
            last = Some((record.key, record.offset));
        }
        last.into_iter().for_each(note);
    }
}
