//! `duplicate`: a value at two offsets.

use crate::facts::Facts;
use crate::history::Atom;
use std::collections::BTreeMap;

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
    for key in facts.keys() {
        let mut offsets: BTreeMap<Atom, Vec<i64>> = BTreeMap::new();
        for entry in key.log().flatten() {
            let message = facts.message(entry.message);
            if message.first != message.last {
                offsets.entry(facts.history.message(entry.message).1).or_default().push(entry.offset);
            }
        }
        let found_here = offsets.into_iter();
        found.extend(found_here.map(|(value, offsets)| Duplicate { key: key.atom(), value, offsets }));
    }
    found
}
