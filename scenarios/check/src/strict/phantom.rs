//! `phantom`: a value was polled that nobody ever sent.
//!
//! Every operation counts as a sender, however it ended, and one that never completed by its invocation. Whoever reads a
//! damaged payload tells a value that nobody sends, so this finds it. Jepsen's checker crashes on such a value.

use super::anomaly::{Anomaly, show};
use super::sends::Sends;
use crate::facts::Facts;
use crate::history::{Atom, History};
use serde_json::{Value, json};

/// A value from nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phantom {
    /// The partition.
    pub key: Atom,
    /// The value.
    pub value: Atom,
    /// The first event that polled it.
    pub reader: usize,
}

impl Anomaly for Phantom {
    fn event(&self) -> usize {
        self.reader
    }

    fn words(&self, history: &History) -> String {
        let (key, value) = (history.show(self.key), history.show(self.value));
        format!("event {} polled {key}:{value}, which nobody sent", self.reader)
    }

    fn to_json(&self, history: &History) -> Value {
        json!({"key": show(history, self.key), "value": show(history, self.value), "reader": self.reader})
    }
}

pub(super) fn find(facts: &Facts<'_>, sends: &Sends) -> Vec<Phantom> {
    let messages = 0..facts.history.message_count() as u32;
    let unsent = messages.filter(|message| sends.begun(*message).is_none());
    let polled = unsent.filter_map(|message| Some((message, facts.message(message).reader()?)));
    polled
        .map(|(message, reader)| {
            let (key, value) = facts.history.message(message);
            Phantom { key, value, reader }
        })
        .collect()
}
