//! `unseen`: an acknowledged record that nobody has read by the end.
//!
//! Weaker than a lost write: perhaps nobody read far enough. Only sends of ok events count.

use crate::facts::Facts;
use crate::history::{Atom, Status};
use std::collections::BTreeSet;

/// The records of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unseen {
    /// The partition.
    pub key: Atom,
    /// The values, ascending.
    pub values: Vec<Atom>,
}

pub(crate) fn find(facts: &Facts<'_>) -> Vec<Unseen> {
    let mut found = Vec::new();
    for (key, key_facts) in &facts.keys {
        let acknowledged = key_facts.writers.iter().filter(|(_, writer)| writer.status == Status::Ok);
        let acknowledged: BTreeSet<Atom> = acknowledged.map(|(value, _)| *value).collect();
        let values: Vec<Atom> =
            acknowledged.into_iter().filter(|value| !key_facts.ok_readers.contains_key(value)).collect();
        if !values.is_empty() {
            found.push(Unseen { key: *key, values });
        }
    }
    found
}
