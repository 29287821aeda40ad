//! `torn-transaction`: of one transaction, some records are visible at the end and others are not, whatever its client
//! was told. Jepsen's checker has no such anomaly.
//!
//! A record is *visible* if the final reads hold it, or, without final reads of its key, if an ok event polled it. It
//! is *hidden* if its send was acknowledged and the final reads lack it, or, without final reads, if an ok event read
//! past its offset. A send that was not acknowledged is not held against anyone: perhaps it was never appended. What
//! is partly visible for a while is legal; only the end counts.

use super::FinalReads;
use super::anomaly::{Anomaly, show};
use crate::facts::Facts;
use crate::history::{Ack, Atom, Function, History, Status};
use serde_json::{Value, json};
use std::collections::BTreeMap;

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

impl Anomaly for TornTransaction {
    fn event(&self) -> usize {
        self.event
    }

    fn words(&self, history: &History) -> String {
        let told = match self.told {
            Status::Ok => "committed",
            Status::Fail => "failed",
            Status::Info | Status::Invoke => "nothing certain",
        };
        let records = |list: &[(Atom, Atom)]| {
            let shown =
                list.iter().map(|(key, value)| format!("{}:{}", history.show(*key), history.show(*value)));
            shown.collect::<Vec<_>>().join(" ")
        };
        let (visible, hidden) = (records(&self.visible), records(&self.hidden));
        format!("event {}: {visible} visible, {hidden} not; the client was told {told}", self.event)
    }

    fn to_json(&self, history: &History) -> Value {
        let records = |list: &[(Atom, Atom)]| -> Value {
            list.iter().map(|(key, value)| json!([show(history, *key), show(history, *value)])).collect()
        };
        json!({"op": self.event, "visible": records(&self.visible), "hidden": records(&self.hidden)})
    }
}

pub(super) fn find(facts: &Facts<'_>, final_reads: &FinalReads) -> Vec<TornTransaction> {
    let bounds: BTreeMap<Atom, i64> =
        facts.keys().filter_map(|key| Some((key.atom(), key.read_bound()?.offset))).collect();
    let mut found = Vec::new();
    for event in facts.completions().filter(|event| event.function() == Function::Txn) {
        let mut torn = TornTransaction {
            event: event.index,
            told: event.status(),
            visible: Vec::new(),
            hidden: Vec::new(),
        };
        for (message, ack) in event.sent_messages() {
            let (key, value) = facts.history.message(message);
            let read_past = || ack.offset().is_some() && ack.offset() < bounds.get(&key).copied();
            let (visible, hidden) = match final_reads.get(&key) {
                Some(values) => (values.contains(&value), ack != Ack::None),
                None => (facts.is_ok_read(message), read_past()),
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
