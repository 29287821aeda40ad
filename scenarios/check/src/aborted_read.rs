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
        for record in event.polled() {
            let writer = facts.keys.get(&record.key).and_then(|key| key.writers.get(&record.value));
            if let Some(writer) = writer.filter(|writer| writer.status == Status::Fail) {
                let (key, value) = (record.key, record.value);
                found.push(AbortedRead { key, value, reader: event.index, writer: writer.event });
            }
        }
    }
    found
}
