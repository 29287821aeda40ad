//! `unseen`: an acknowledged record that nobody has read by the end.
//!
//! Weaker than a lost write: perhaps nobody read far enough. Only sends of ok events count.

use crate::facts::Facts;
use crate::history::Atom;

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
    for key in facts.keys() {
        let acknowledged = key.messages().iter().filter(|message| facts.message(**message).is_acknowledged);
        let unseen = acknowledged.filter(|message| !facts.is_ok_read(**message));
        let values: Vec<Atom> = unseen.map(|message| facts.history.message(*message).1).collect();
        if !values.is_empty() {
            found.push(Unseen { key: key.atom(), values });
        }
    }
    found
}
