//! `poll-skip`, `nonmonotonic-poll`, `nonmonotonic-send`: steps of one process from one event to a later one.
//!
//! Polls: from the last record of the last ok event that polled the key to the first record of this event, however it
//! ended. Sends: between events that are ok or info, and only backwards; other producers may write in between. An
//! assignment or subscription that may have taken effect ends what is remembered of keys it does not list, for sends
//! too, as Jepsen's checker has it.

use super::jump::Jumps;
use super::version_order::VersionOrders;
use crate::facts::{Facts, NONE};
use crate::history::{Event, Function, History, Message, Status};
use std::collections::BTreeMap;

/// Where a process stands: by key number, the event and its last message.
type Positions = BTreeMap<u32, (usize, Message)>;

pub(super) fn polls(facts: &Facts<'_>, orders: &VersionOrders) -> Jumps {
    let mut jumps = Jumps::default();
    let mut processes: BTreeMap<i64, Positions> = BTreeMap::new();
    let mut spans = Spans::new(facts.history);
    for event in facts.history.events().filter(|event| event.status() != Status::Invoke) {
        let positions = processes.entry(event.process()).or_default();
        if !event.is_records() {
            reassign(facts.history, positions, &event);
            continue;
        }
        for span in spans.of(facts.history, event.polled_messages().iter().copied()) {
            if let Some(before) = positions.get(&span.key) {
                jumps.step(orders, (before.0, event.index), (before.1, span.first));
            }
            if event.status() == Status::Ok {
                positions.insert(span.key, (event.index, span.last));
            }
        }
    }
    jumps
}

pub(super) fn sends(facts: &Facts<'_>, orders: &VersionOrders) -> Jumps {
    let mut jumps = Jumps::default();
    let mut processes: BTreeMap<i64, Positions> = BTreeMap::new();
    let mut spans = Spans::new(facts.history);
    let counts = |event: &Event<'_>| matches!(event.status(), Status::Ok | Status::Info);
    for event in facts.history.events().filter(counts) {
        let positions = processes.entry(event.process()).or_default();
        if !event.is_records() {
            reassign(facts.history, positions, &event);
            continue;
        }
        for span in spans.of(facts.history, event.sent_messages().map(|(message, _)| message)) {
            if let Some(before) = positions.insert(span.key, (event.index, span.last)) {
                jumps.step(orders, (before.0, event.index), (before.1, span.first));
            }
        }
    }
    jumps.skips.clear();
    jumps
}

/// Forgets the keys that an assignment or subscription does not list.
fn reassign(history: &History, positions: &mut Positions, event: &Event<'_>) {
    let is_assignment = matches!(event.function(), Function::Assign | Function::Subscribe);
    if is_assignment && event.status() != Status::Fail {
        let keys: Vec<u32> = event.keys().iter().filter_map(|key| history.number_of_key(*key)).collect();
        positions.retain(|key, _| keys.contains(key));
    }
}

/// A key's first and last message in one event.
#[derive(Clone, Copy)]
struct Span {
    key: u32,
    first: Message,
    last: Message,
}

/// The spans of one event after the other, in vectors that are kept.
struct Spans {
    spans: Vec<Span>,
    /// By key number: its place in `spans`, or [`NONE`].
    places: Vec<u32>,
}

impl Spans {
    fn new(history: &History) -> Self {
        Spans { spans: Vec::new(), places: vec![NONE; history.key_count()] }
    }

    fn of(&mut self, history: &History, messages: impl Iterator<Item = Message>) -> &[Span] {
        for span in self.spans.drain(..) {
            self.places[span.key as usize] = NONE;
        }
        for message in messages {
            let key = history.key_number(message);
            let place = &mut self.places[key as usize];
            if *place == NONE {
                *place = self.spans.len() as u32;
                self.spans.push(Span { key, first: message, last: message });
            }
            self.spans[*place as usize].last = message;
        }
        &self.spans
    }
}
