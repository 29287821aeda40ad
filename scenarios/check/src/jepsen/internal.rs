//! `int-poll-skip`, `int-nonmonotonic-poll`, `int-send-skip`, `int-nonmonotonic-send`: steps within one event, however
//! it ended. Polls of a key that a rebalance moved during the event are not judged.

use super::jump::Jumps;
use super::version_order::VersionOrders;
use crate::facts::{Facts, NONE};
use crate::history::{Event, Message};

/// The last message of each key within the event at hand, by the key's number.
struct Last {
    of_key: Vec<(u32, Message)>,
}

impl Last {
    fn new(facts: &Facts<'_>) -> Self {
        Last { of_key: vec![(NONE, 0); facts.history.key_count()] }
    }

    /// Makes `message` the last of its key, and returns the one before it in the same event.
    fn replace(&mut self, event: u32, key: u32, message: Message) -> Option<Message> {
        let (of, before) = std::mem::replace(&mut self.of_key[key as usize], (event, message));
        (of == event).then_some(before)
    }
}

pub(super) fn polls(facts: &Facts<'_>, orders: &VersionOrders) -> Jumps {
    let (mut jumps, mut last) = (Jumps::default(), Last::new(facts));
    for event in facts.completions() {
        let moved = moved_keys(facts, &event);
        for message in event.polled_messages() {
            let key = facts.history.key_number(*message);
            let Some(before) = last.replace(event.index as u32, key, *message) else { continue };
            if !moved.contains(&key) {
                jumps.step(orders, (event.index, event.index), (before, *message));
            }
        }
    }
    jumps
}

pub(super) fn sends(facts: &Facts<'_>, orders: &VersionOrders) -> Jumps {
    let (mut jumps, mut last) = (Jumps::default(), Last::new(facts));
    for event in facts.completions() {
        for (message, _) in event.sent_messages() {
            let key = facts.history.key_number(message);
            if let Some(before) = last.replace(event.index as u32, key, message) {
                jumps.step(orders, (event.index, event.index), (before, message));
            }
        }
    }
    jumps
}

/// The numbers of the keys that a rebalance moved.
fn moved_keys(facts: &Facts<'_>, event: &Event<'_>) -> Vec<u32> {
    event.rebalanced().iter().filter_map(|key| facts.history.number_of_key(*key)).collect()
}
