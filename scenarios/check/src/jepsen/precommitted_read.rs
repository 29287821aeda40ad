//! `precommitted-read`: an event polled a value that it sent itself. Kafka shows nobody what is not yet committed.
//!
//! However the event ended. One is reported an event: of the first key, in the order in which it sent to them, that has
//! such values, the one that Clojure would list first.

use crate::facts::Facts;
use crate::hash_order;
use crate::history::{Event, History, Message};
use std::collections::BTreeSet;

/// An event that saw its own doings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrecommittedRead {
    /// The event.
    pub event: usize,
    /// The message.
    pub(super) message: Message,
}

pub(super) fn find(facts: &Facts<'_>) -> Vec<PrecommittedRead> {
    let mut sender = vec![u32::MAX; facts.history.message_count()];
    let mut found = Vec::new();
    for event in facts.completions() {
        let index = event.index as u32;
        for (message, _) in event.sent_messages() {
            sender[message as usize] = index;
        }
        if event.polled_messages().iter().any(|message| sender[*message as usize] == index) {
            found.extend(of_event(facts.history, &event));
        }
    }
    found
}

fn of_event(history: &History, event: &Event<'_>) -> Option<PrecommittedRead> {
    let polled: BTreeSet<Message> = event.polled_messages().iter().copied().collect();
    let sent = || event.sent_messages().map(|(message, _)| message);
    let seen = || sent().filter(|message| polled.contains(message));
    let keys: BTreeSet<u32> = seen().map(|message| history.key_number(message)).collect();
    let key = sent().map(|message| history.key_number(message)).find(|key| keys.contains(key))?;
    let of_key = seen().filter(|message| history.key_number(*message) == key);
    Some(PrecommittedRead { event: event.index, message: hash_order::first(history, of_key)? })
}
