//! `inconsistent-offsets`: an offset that holds two values.

use crate::facts::Facts;
use crate::history::Atom;

/// Somebody was told one value, somebody else another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InconsistentOffset {
    /// The partition.
    pub key: Atom,
    /// The offset.
    pub offset: i64,
    /// Its place among the occupied offsets of the key.
    pub index: usize,
    /// The values, ascending.
    pub values: Vec<Atom>,
}

pub(crate) fn find(facts: &Facts<'_>) -> Vec<InconsistentOffset> {
    let mut found = Vec::new();
    for key in facts.keys() {
        for (index, entries) in key.log().enumerate().filter(|(_, entries)| entries.len() > 1) {
            let values = entries.iter().map(|entry| facts.history.message(entry.message).1).collect();
            found.push(InconsistentOffset { key: key.atom(), offset: entries[0].offset, index, values });
        }
    }
    found
}
