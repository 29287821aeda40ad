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
    for (key, key_facts) in &facts.keys {
        for (index, (offset, values)) in key_facts.log.iter().enumerate() {
            if values.len() > 1 {
                let mut values = values.clone();
                values.sort_unstable();
                found.push(InconsistentOffset { key: *key, offset: *offset, index, values });
            }
        }
    }
    found
}
