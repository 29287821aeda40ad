//! `lost-write`: somebody read past a record that must be there, and nobody read it.
//!
//! The bound is the highest, over the values that ok events read, of the lowest index at which each occurs. Every
//! value whose highest index is within the bound must have been read, if its writer is ok, or info and one of its
//! sends was read (a transaction is committed as a whole or not at all).

use crate::facts::Facts;
use crate::history::Atom;

/// A record that was passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostWrite {
    /// The partition.
    pub key: Atom,
    /// The value.
    pub value: Atom,
    /// Its first place among the occupied offsets of the key.
    pub index: usize,
    /// The event that sent it.
    pub writer: usize,
    /// The bound.
    pub max_read_index: usize,
    /// An event that read that far.
    pub max_read: usize,
}

pub(crate) fn find(facts: &Facts<'_>) -> Vec<LostWrite> {
    let mut found = Vec::new();
    for (key, key_facts) in &facts.keys {
        let offsets = key_facts.offsets();
        let Some((bound, read)) = key_facts.read_bound(&offsets) else { continue };
        let indices = key_facts.indices();
        for (value, offsets) in &offsets {
            let (Some(first), Some(last)) = (offsets.first(), offsets.last()) else { continue };
            if *last > bound || key_facts.ok_readers.contains_key(value) {
                continue;
            }
            let Some(writer) = key_facts.writers.get(value) else { continue };
            if facts.took_effect(&facts.history.event(writer.event)) {
                found.push(LostWrite {
                    key: *key,
                    value: *value,
                    index: indices[first],
                    writer: writer.event,
                    max_read_index: indices[&bound],
                    max_read: key_facts.ok_readers[&read],
                });
            }
        }
    }
    found
}
