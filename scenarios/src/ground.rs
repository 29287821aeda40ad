//! Judges the log itself, by what raw readers, consumers and producers saw of it, and by what is left in the end: the
//! claims of the safe ground that no history of operations can be held against.
//!
//! It says nothing about a run without raw readers.

use crate::log::Facts;
use check::look;
use check::order::Sent;
use check::reading::Reading;
use check::zombie::{End, Grant};
use check::{hole, moved_back, order, out_of_range, reading, rewritten, sequence, zombie};
use sim::trace::{Entry, NodeId};
use std::collections::{BTreeMap, BTreeSet};
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
    findings.add("out-of-range", out_of_range::find(&facts.refused, looks));
    let grants = grants(trace);
    findings.add("zombie-append", zombie::find(&grants, looks, &log));
    findings.add("zombie-end", zombie::ends(&grants, &ends(trace)));
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
pub(crate) fn grants(trace: &[Entry]) -> Vec<Grant> {
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

/// Every end of a transaction with acknowledged records that its producer was told succeeded.
pub(crate) fn ends(trace: &[Entry]) -> Vec<End> {
    // By machine and transactional id: the producer id and epoch last told; by transaction, too: when its end was asked for.
    let mut epochs: BTreeMap<(NodeId, String), (i64, i16)> = BTreeMap::new();
    let mut asked: BTreeMap<(NodeId, String, i64), End> = BTreeMap::new();
    let mut written: BTreeSet<(NodeId, String, i64)> = BTreeSet::new();
    let mut ends = Vec::new();
    for entry in trace {
        let number = |field| entry.number(field).unwrap_or(-1);
        let producer = || (entry.node, entry.text("id"));
        let transaction = || (entry.node, entry.text("id"), number("txn"));
        match entry.name {
            "producer.epoch" => {
                epochs.insert(producer(), (number("producer_id"), number("epoch") as i16));
            }
            "producer.delivered" => drop(written.insert(transaction())),
            "producer.ending" => {
                if let Some((producer_id, epoch)) = epochs.get(&producer()).copied() {
                    let (producer, asked_ns) = (entry.text("id"), entry.at_ns);
                    asked.entry(transaction()).or_insert(End { producer, producer_id, epoch, asked_ns });
                }
            }
            "producer.end" => {
                let end = asked.remove(&transaction());
                let counts = entry.text("outcome") == "ok" && written.contains(&transaction());
                ends.extend(end.filter(|_| counts));
            }
            _ => {}
        }
    }
    ends
}

/// What was prepared is finished within two scans, in nanoseconds.
const FINISHED_NS: u64 = 20_000_000_000;

/// Transactional ids whose state, in the end, still is what Prepare wrote long before.
fn unfinished<'a>(trace: &[Entry], ends: impl Iterator<Item = (&'a String, &'a i64)>) -> Vec<String> {
    let end_ns = trace.last().map_or(0, |entry| entry.at_ns);
    let is_old = |entry: &&Entry| entry.name == "txn.prepared" && entry.at_ns + FINISHED_NS <= end_ns;
    let prepared = trace.iter().filter(is_old);
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
        let mut trace = [told("txn.prepared", &[("revision", 9)]), told("the end", &[])];
        let left = |undecided: &[i64], revision| Facts {
            remains: Some(Remains {
                undecided: undecided.to_vec(),
                transactions: [("txns/t1".to_string(), revision)].into(),
            }),
            ..Facts::default()
        };
        assert_eq!(names(&left(&[], 10), &trace), [""; 0]);
        assert_eq!(names(&left(&[], 9), &trace), [""; 0], "it was prepared just now");
        trace[1].at_ns += FINISHED_NS;
        assert_eq!(names(&left(&[], 9), &trace), ["stuck-transaction"]);
        assert_eq!(names(&left(&[1], 10), &trace), ["stuck-transaction"]);
    }

    #[test]
    fn an_epoch_counts_from_when_its_producer_was_told() {
        let trace = [told("producer.epoch", &[("producer_id", 7), ("epoch", 1)])];
        assert_eq!(grants(&trace), [Grant { producer_id: 7, epoch: 1, at_ns: 50 }]);
    }

    #[test]
    fn an_end_has_the_epoch_that_its_producer_had_when_it_asked() {
        let of = |name, numbers: &[(&'static str, i64)], outcome: &str| {
            let mut entry = told(name, numbers);
            entry.fields.push(("id", Field::Str("t1".into())));
            entry.fields.push(("outcome", Field::Str(outcome.into())));
            entry
        };
        let story = |outcome| {
            [
                of("producer.epoch", &[("producer_id", 7), ("epoch", 0)], ""),
                of("producer.delivered", &[("txn", 1)], ""),
                of("producer.ending", &[("txn", 1)], ""),
                of("producer.epoch", &[("producer_id", 7), ("epoch", 1)], ""),
                of("producer.end", &[("txn", 1)], outcome),
            ]
        };
        let end = End { producer: "t1".into(), producer_id: 7, epoch: 0, asked_ns: 50 };
        assert_eq!(ends(&story("ok")), [end]);
        assert_eq!(ends(&story("fenced")), []);
        let nothing_written = story("ok").into_iter().filter(|entry| entry.name != "producer.delivered");
        assert_eq!(ends(&nothing_written.collect::<Vec<_>>()), []);
    }

    #[test]
    fn a_run_that_nobody_looked_at_is_not_judged_and_one_without_batches_proves_nothing() {
        assert!(judge(&Facts::default(), &[]).vacuous.is_empty());
        let facts = Facts { remains: Some(Remains::default()), ..Facts::default() };
        assert_eq!(judge(&facts, &[]).vacuous, ["no raw reader saw a batch"]);
    }
}
