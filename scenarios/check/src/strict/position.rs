//! `position-moved`: a consumer's position moved, forwards or back, and nothing that may move it had happened.
//!
//! Per process and partition, each polled record stands directly behind the one polled before it, among the offsets that
//! are known to be occupied. Only an ok operation moves the position: after any other the application goes back to where
//! that operation began. Positions may be moved by a rebalance that the client logged, by a seek of the application or a
//! reset (both told by [`Event::repositioned`] or [`Event::from_start`]), and by a new assignment or subscription; then
//! nothing is said about the next record. An assignment leaves the positions of the partitions that it keeps.
//!
//! Jepsen's checker waves every move through under subscribe. Here a client that subscribes is judged like one that assigns,
//! if the history logs rebalances; if not, it is not judged, nor is one of which neither is known. Passing over records that
//! some failed operation wrote is no move: whoever saw those is to blame. Values that are in two places are left to
//! `duplicate` and `inconsistent-offsets`.
//!
//! [`Event::repositioned`]: crate::Event::repositioned
//! [`Event::from_start`]: crate::Event::from_start

use super::anomaly::{Anomaly, show, values};
use crate::facts::{Facts, NONE};
use crate::history::{Atom, Event, Function, History, Message, Status};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A position that moved by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MovedPosition {
    /// The consumer.
    pub process: i64,
    /// The partition.
    pub key: Atom,
    /// The event that polled the record before, and its value.
    pub before: (usize, Atom),
    /// The event that polled the next one, and its value.
    pub after: (usize, Atom),
    /// By how many places it moved; 1 would be right.
    pub delta: i64,
    /// What was passed over, when it moved forwards.
    pub skipped: Vec<Atom>,
}

impl Anomaly for MovedPosition {
    fn event(&self) -> usize {
        self.after.0
    }

    fn words(&self, history: &History) -> String {
        let MovedPosition { process, key, before, after, delta, skipped } = self;
        let show = |atom: &Atom| history.show(*atom).to_string();
        let (key, from, to) = (show(key), show(&before.1), show(&after.1));
        let passed = match skipped.is_empty() {
            true => format!("by {delta}"),
            false => format!("past {}", skipped.iter().map(show).collect::<Vec<_>>().join(",")),
        };
        format!(
            "process {process} polled {key}:{from} in event {} and then {key}:{to} in event {}, {passed}, without a rebalance, \
             a seek or a reset",
            before.0, after.0
        )
    }

    fn to_json(&self, history: &History) -> Value {
        let MovedPosition { process, key, before, after, delta, skipped } = self;
        json!({"process": process, "key": show(history, *key), "ops": [before.0, after.0],
            "values": [show(history, before.1), show(history, after.1)], "delta": delta,
            "skipped": values(history, skipped)})
    }
}

/// How a process was given its partitions.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Given {
    Assigned,
    Subscribed,
}

/// The last record that a process polled from a partition: its place, the event, the message.
type Position = (u32, usize, Message);

struct Positions<'f> {
    facts: &'f Facts<'f>,
    moves_logged: bool,
    given: BTreeMap<i64, Given>,
    /// By process and key.
    at: BTreeMap<(i64, Atom), Position>,
    found: Vec<MovedPosition>,
}

pub(super) fn find(facts: &Facts<'_>) -> Vec<MovedPosition> {
    let logs = facts.history.conditions.moves_logged
        || facts.history.events().any(|event| !event.rebalanced().is_empty());
    let mut positions = Positions {
        facts,
        moves_logged: logs,
        given: BTreeMap::new(),
        at: BTreeMap::new(),
        found: Vec::new(),
    };
    for event in facts.history.events().filter(|event| event.status() != Status::Invoke) {
        match event.function() {
            Function::Assign | Function::Subscribe => positions.give(&event),
            Function::Send | Function::Poll | Function::Txn => positions.read(&event),
            Function::Crash | Function::Debug => {}
        }
    }
    positions.found
}

impl Positions<'_> {
    fn give(&mut self, event: &Event<'_>) {
        let process = event.process();
        let keeps =
            event.function() == Function::Assign && event.status() == Status::Ok && !event.from_start();
        if event.status() == Status::Fail {
            return;
        }
        let given = if event.function() == Function::Assign { Given::Assigned } else { Given::Subscribed };
        let before = self.given.insert(process, given);
        let keeps = keeps && before == Some(Given::Assigned);
        let moved = event.repositioned();
        self.at.retain(|(owner, key), _| {
            *owner != process || (keeps && event.keys().contains(key) && !moved.contains(key))
        });
    }

    fn read(&mut self, event: &Event<'_>) {
        let process = event.process();
        for key in event.rebalanced().iter().chain(event.repositioned()) {
            self.at.remove(&(process, *key));
        }
        let is_judged = match self.given.get(&process) {
            Some(Given::Assigned) => true,
            Some(Given::Subscribed) => self.moves_logged,
            None => false,
        };
        let history = self.facts.history;
        let polled = event.polled_messages();
        let last = event.last_poll();
        let mut ends: BTreeMap<u32, Option<Position>> = BTreeMap::new();
        for run in polled.chunk_by(|a, b| history.key_number(*a) == history.key_number(*b)) {
            let number = history.key_number(run[0]);
            let key = history.key_at(number);
            let remembered = || self.at.get(&(process, key)).copied();
            let mut before = ends.get(&number).copied().unwrap_or_else(remembered);
            // Within the operation it may have moved anywhere.
            let is_moved = event.rebalanced().contains(&key) || event.repositioned().contains(&key);
            let mut told = !is_judged || is_moved;
            for message in run {
                let place = self.place(*message);
                if let (Some(before), Some(place), false) = (before, place, told)
                    && let Some(moved) = self.moved(event, key, before, (place, *message))
                {
                    self.found.push(moved);
                    told = true;
                }
                before = place.map(|place| (place, event.index, *message));
            }
            // A rebalance falls into a poll, before its records: none came after those of the last poll.
            let is_sure =
                |message| !is_moved || (!event.repositioned().contains(&key) && last.contains(&message));
            ends.insert(number, before.filter(|(_, _, message)| is_sure(*message)));
        }
        if event.status() == Status::Ok {
            for (number, end) in ends {
                let owner = (process, history.key_at(number));
                match end {
                    Some(end) => drop(self.at.insert(owner, end)),
                    None => drop(self.at.remove(&owner)),
                }
            }
        }
    }

    /// The one place of a message that stands there alone.
    fn place(&self, message: Message) -> Option<u32> {
        let known = self.facts.message(message);
        (known.first != NONE && known.first == known.last).then_some(known.first)
    }

    fn moved(
        &self,
        event: &Event<'_>,
        key: Atom,
        before: Position,
        (place, message): (u32, Message),
    ) -> Option<MovedPosition> {
        let delta = i64::from(place) - i64::from(before.0);
        if delta == 1 {
            return None;
        }
        let log = self.facts.key_of(message);
        let value = |message: Message| self.facts.history.message(message).1;
        if log.at(place).len() > 1 || log.at(before.0).len() > 1 {
            return None;
        }
        let between = (before.0 + 1..place).flat_map(|place| log.at(place));
        let due = between.filter(|entry| !self.facts.message(entry.message).is_aborted);
        let skipped: Vec<Atom> = due.map(|entry| value(entry.message)).collect();
        if delta > 1 && skipped.is_empty() {
            return None;
        }
        Some(MovedPosition {
            process: event.process(),
            key,
            before: (before.1, value(before.2)),
            after: (event.index, value(message)),
            delta,
            skipped,
        })
    }
}
