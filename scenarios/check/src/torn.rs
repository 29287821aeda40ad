//! `torn-transaction`: of one transaction, some records are visible at the end and others are not, whatever its client
//! was told. Jepsen's checker has no such anomaly.
//!
//! A record is *visible* if the final reads hold it, or, without final reads of its key, if an ok event polled it. It
//! is *hidden* if its send was acknowledged and the final reads lack it, or, without final reads, if an ok event read
//! past its offset. A send that was not acknowledged is not held against anyone: perhaps it was never appended. What
//! is partly visible for a while is legal; only the end counts.

use crate::facts::Facts;
use crate::history::{Ack, Atom, Function, Status};
use crate::verdict::FinalReads;

/// A transaction that is neither there nor not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornTransaction {
    /// The completion of the transaction.
    pub event: usize,
    /// What its client was told.
    pub told: Status,
    /// Key and value of the records that are there.
    pub visible: Vec<(Atom, Atom)>,
    /// Of those that were acknowledged and are not.
    pub hidden: Vec<(Atom, Atom)>,
}

pub(crate) fn find(facts: &Facts<'_>, final_reads: &FinalReads) -> Vec<TornTransaction> {
    let bounds = facts
        .keys
        .iter()
        .map(|(key, key_facts)| (*key, key_facts.read_bound(&key_facts.offsets()).map(|(offset, _)| offset)));
    let bounds: std::collections::BTreeMap<Atom, Option<i64>> = bounds.collect();
    let mut found = Vec::new();
    for event in facts.completions().filter(|event| event.function() == Function::Txn) {
        let mut torn = TornTransaction {
            event: event.index,
            told: event.status(),
            visible: Vec::new(),
            hidden: Vec::new(),
        };
        for (key, value, ack) in event.sends() {
            let read_past = || ack.offset() < bounds.get(&key).copied().flatten() && ack.offset().is_some();
            let (visible, hidden) = match final_reads.get(&key) {
                Some(values) => (values.contains(&value), ack != Ack::None),
                None => (facts.is_ok_read(key, value), read_past()),
            };
            if visible {
                torn.visible.push((key, value));
            } else if hidden {
                torn.hidden.push((key, value));
            }
        }
        if !torn.visible.is_empty() && !torn.hidden.is_empty() {
            found.push(torn);
        }
    }
    found
}
