//! `G1a`, aborted read: an ok event polled a value whose writer failed.

use crate::facts::Facts;
use crate::history::{Atom, Status};

/// The writer was told that nothing would come of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbortedRead {
    /// The partition.
    pub key: Atom,
    /// The value.
    pub value: Atom,
    /// The event that polled it.
    pub reader: usize,
    /// The failed event that sent it.
    pub writer: usize,
}

pub(crate) fn find(facts: &Facts<'_>) -> Vec<AbortedRead> {
    let mut found = Vec::new();
    for event in facts.completions().filter(|event| event.status() == Status::Ok) {
        for message in event.polled_messages() {
            let message_facts = facts.message(*message);
            if let Some(writer) = message_facts.writer().filter(|_| message_facts.is_aborted) {
                let (key, value) = facts.history.message(*message);
                found.push(AbortedRead { key, value, reader: event.index, writer });
            }
        }
    }
    found
}
