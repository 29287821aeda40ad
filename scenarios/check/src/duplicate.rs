//! `duplicate`: a value at two offsets.

use crate::facts::Facts;
use crate::history::Atom;

/// One record, written twice or reported at two places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Duplicate {
    /// The partition.
    pub key: Atom,
    /// The value.
    pub value: Atom,
    /// Where it is, ascending.
    pub offsets: Vec<i64>,
}

pub(crate) fn find(facts: &Facts<'_>) -> Vec<Duplicate> {
    let mut found = Vec::new();
    for (key, key_facts) in &facts.keys {
        for (value, offsets) in key_facts.offsets() {
            if offsets.len() > 1 {
                found.push(Duplicate { key: *key, value, offsets });
            }
        }
    }
    found
}
