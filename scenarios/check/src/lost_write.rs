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
    for key in facts.keys() {
        let Some(bound) = key.read_bound() else { continue };
        let Some(max_read) = facts.message(bound.message).ok_reader() else { continue };
        for message in key.messages() {
            let message_facts = facts.message(*message);
            // Without a known place, `last` is beyond every bound.
            if message_facts.last > bound.index || facts.is_ok_read(*message) {
                continue;
            }
            let Some(writer) = message_facts.writer() else { continue };
            if facts.took_effect(&facts.history.event(writer)) {
                found.push(LostWrite {
                    key: key.atom(),
                    value: facts.history.message(*message).1,
                    index: message_facts.first as usize,
                    writer,
                    max_read_index: bound.index as usize,
                    max_read,
                });
            }
        }
    }
    found
}
