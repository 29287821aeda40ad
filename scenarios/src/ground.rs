//! Judges the log itself, by what raw readers, consumers and producers saw of it, and by what is left in the end: the
//! claims of the safe ground that no history of operations can be held against.
//!
//! It says nothing about a run without raw readers.

use crate::log::Facts;
use check::look;
use check::order::Sent;
use check::reading::Reading;
use check::zombie::Grant;
use check::{hole, moved_back, order, reading, rewritten, sequence, zombie};
use sim::trace::Entry;
use std::collections::BTreeSet;
use std::fmt::Display;

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// The type of each anomaly, and what it is in words.
    pub(crate) anomalies: Vec<(&'static str, String)>,
    /// Why the run proves nothing, if it does not.
    pub(crate) vacuous: Vec<String>,
}

pub(crate) fn judge(facts: &Facts, trace: &[Entry]) -> Findings {
    let mut findings = Findings::default();
    let Some(remains) = &facts.remains else { return findings };
    let (looks, log) = (&facts.looks, look::log(&facts.looks));
    let mut readings: Vec<Reading> = facts.readings.values().cloned().collect();
    findings.add("moved-back", moved_back::find(looks));
    findings.add("rewritten", rewritten::find(looks));
    findings.add("hole", hole::find(looks));
    findings.add("sequence", sequence::find(&log));
    findings.add("zombie-append", zombie::find(&grants(trace), looks, &log));
    findings.add("skipped-read", reading::skipped(&readings, &log));
    let sent: Vec<Sent> = facts.acknowledged.iter().map(|known| known.sent.clone()).collect();
    findings.add("reordered", order::find(&sent));
    readings.extend(facts.acknowledged.iter().map(|known| Reading {
        reader: known.sent.producer.clone(),
        partition: known.sent.partition,
        committed: false,
        records: vec![(known.sent.offset, known.value.cast_signed())],
    }));
    findings.add("conflict", reading::conflicts(&readings));
    let undecided =
        remains.undecided.iter().map(|partition| format!("partition {partition} is undecided at the end"));
    findings.add("stuck-transaction", undecided.collect());
    findings.add("stuck-transaction", unfinished(trace, remains.transactions.iter()));
    if log.values().all(|batches| batches.is_empty()) {
        findings.vacuous.push("no raw reader saw a batch".into());
    }
    findings
}

impl Findings {
    pub(crate) fn add(&mut self, name: &'static str, found: Vec<impl Display>) {
        self.anomalies.extend(found.into_iter().map(|found| (name, found.to_string())));
    }
}

/// Every epoch that a producer was told.
fn grants(trace: &[Entry]) -> Vec<Grant> {
    let told = trace.iter().filter(|entry| entry.name == "producer.epoch");
    let grant = told.map(|entry| {
        Some(Grant {
            producer_id: entry.number("producer_id")?,
            epoch: i16::try_from(entry.number("epoch")?).ok()?,
            at_ns: entry.at_ns,
        })
    });
    grant.flatten().collect()
}

/// Transactional ids whose state, in the end, still is what Prepare wrote.
fn unfinished<'a>(trace: &[Entry], ends: impl Iterator<Item = (&'a String, &'a i64)>) -> Vec<String> {
    let prepared = trace.iter().filter(|entry| entry.name == "txn.prepared");
    let prepared: BTreeSet<i64> = prepared.filter_map(|entry| entry.number("revision")).collect();
    let stuck = ends.filter(|(_, revision)| prepared.contains(revision));
    stuck.map(|(id, revision)| format!("{id} is still as it was prepared at revision {revision}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Remains;
    use sim::trace::{EventId, Field, NodeId};

    fn told(name: &'static str, fields: &[(&'static str, i64)]) -> Entry {
        let fields = fields.iter().map(|(name, value)| (*name, Field::I64(*value))).collect();
        Entry { id: EventId(1), at_ns: 50, node: NodeId(1), parent: EventId::NONE, name, fields }
    }

    fn names(facts: &Facts, trace: &[Entry]) -> Vec<&'static str> {
        judge(facts, trace).anomalies.into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn what_is_left_prepared_or_undecided_is_stuck() {
        let trace = [told("txn.prepared", &[("revision", 9)])];
        let left = |undecided: &[i64], revision| Facts {
            remains: Some(Remains {
                undecided: undecided.to_vec(),
                transactions: [("txns/t1".to_string(), revision)].into(),
            }),
            ..Facts::default()
        };
        assert_eq!(names(&left(&[], 10), &trace), [""; 0]);
        assert_eq!(names(&left(&[], 9), &trace), ["stuck-transaction"]);
        assert_eq!(names(&left(&[1], 10), &trace), ["stuck-transaction"]);
    }

    #[test]
    fn an_epoch_counts_from_when_its_producer_was_told() {
        let trace = [told("producer.epoch", &[("producer_id", 7), ("epoch", 1)])];
        assert_eq!(grants(&trace), [Grant { producer_id: 7, epoch: 1, at_ns: 50 }]);
    }

    #[test]
    fn a_run_that_nobody_looked_at_is_not_judged_and_one_without_batches_proves_nothing() {
        assert!(judge(&Facts::default(), &[]).vacuous.is_empty());
        let facts = Facts { remains: Some(Remains::default()), ..Facts::default() };
        assert_eq!(judge(&facts, &[]).vacuous, ["no raw reader saw a batch"]);
    }
}
