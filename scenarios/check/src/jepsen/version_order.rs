//! The version order of each key: its occupied offsets, ascending, each represented by one message.
//!
//! An offset that holds several values is represented by the one that Clojure would list first. A message that
//! represents several offsets has the last of them as its index.

use crate::facts::{Facts, NONE};
use crate::hash_order;
use crate::history::Message;
use std::ops::Range;

/// Of all keys. An order is a range of `messages`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct VersionOrders {
    messages: Vec<Message>,
    /// By message: its place in `messages`, or [`NONE`].
    places: Vec<u32>,
    /// By message: where its key's order begins in `messages`.
    starts: Vec<u32>,
}

impl VersionOrders {
    pub(super) fn new(facts: &Facts<'_>) -> Self {
        let count = facts.history.message_count();
        let mut orders =
            VersionOrders { messages: Vec::new(), places: vec![NONE; count], starts: vec![0; count] };
        for key in facts.keys() {
            let start = orders.messages.len() as u32;
            for entries in key.log() {
                let held = entries.iter().map(|entry| entry.message);
                if let Some(message) = hash_order::first(facts.history, held) {
                    orders.places[message as usize] = orders.messages.len() as u32;
                    orders.messages.push(message);
                }
            }
            for message in key.messages() {
                orders.starts[*message as usize] = start;
            }
        }
        orders
    }

    /// How far `to` stands behind `from`, two messages of one key; unknown if either is in no order.
    pub(super) fn delta(&self, from: Message, to: Message) -> Option<i64> {
        let (from, to) = (self.places[from as usize], self.places[to as usize]);
        (from != NONE && to != NONE).then(|| i64::from(to) - i64::from(from))
    }

    /// The message before another one in its order.
    pub(super) fn previous(&self, message: Message) -> Option<Message> {
        let place = self.places[message as usize];
        (place != NONE && place > self.starts[message as usize]).then(|| self.messages[place as usize - 1])
    }

    /// What stands between two messages: a range for [`VersionOrders::between`].
    pub(super) fn gap(&self, from: Message, to: Message) -> Range<u32> {
        self.places[from as usize] + 1..self.places[to as usize]
    }

    /// The messages of a gap.
    pub(super) fn between(&self, gap: &Range<u32>) -> &[Message] {
        &self.messages[gap.start as usize..gap.end as usize]
    }
}
