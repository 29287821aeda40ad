//! Feeds the white-box oracle from the trace: which marker decided about records it had no business with.
//!
//! Events are told by whoever got the coordinator's answer: late by an agent that was paused meanwhile, and never if the
//! answer was lost. So a marker finds its decision by revision, not by time; a decision counts as taken when it, or its
//! first trace, was told; and since offsets are dense, a missing event shows as an offset that nobody accounts for: a
//! decision over such a gap is not judged.

use crate::mechanism::{Face, Mechanism};
use check::oracle::{Append, End, Intent, Marker, WrongDecision, wrong_decisions};
use sim::trace::{Entry, Field};
use std::collections::{BTreeMap, BTreeSet};

/// A wrong decision, with where it is in the trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) wrong: WrongDecision,
    pub(crate) partition: String,
    pub(crate) committed: bool,
    /// The event of the decision; the marker's, if nobody told the decision.
    pub(crate) event: u64,
    /// How it came about, if it is known.
    pub(crate) mechanism: Option<Mechanism>,
}

/// Everything the oracle needs, gathered in one pass.
#[derive(Default)]
struct Evidence {
    intents: Vec<Intent>,
    /// By partition and offset: producer id and event of the append.
    batches: BTreeMap<(String, i64), (i64, u64)>,
    /// By partition and offset: the payload.
    values: BTreeMap<String, BTreeMap<i64, Vec<u8>>>,
    markers: Vec<Marker>,
    ends: Vec<End>,
    /// Decisions by revision: the event, and whether the coordinator took it by itself.
    prepared: BTreeMap<i64, (u64, bool)>,
    /// The revision of the decision behind each marker.
    decided_at: Vec<i64>,
    /// By producer: the producer id told last.
    producer_ids: BTreeMap<String, i64>,
    /// By producer and transaction: when its client was told of its end.
    told: BTreeMap<(String, u64), u64>,
}

/// Wrong decisions in a trace, in the order of their markers.
pub(crate) fn judge(trace: &[Entry]) -> Vec<Decision> {
    let mut evidence = Evidence::default();
    trace.iter().for_each(|entry| evidence.take(entry));
    evidence.add_seen();
    evidence.attribute();
    let appends = evidence.appends();
    let wrong = wrong_decisions(&evidence.intents, &appends, &evidence.markers, &evidence.ends);
    let sound = wrong.into_iter().filter(|wrong| evidence.is_accounted(wrong));
    sound
        .map(|wrong| {
            let marker = &evidence.markers[wrong.marker];
            let decided = evidence.prepared.get(&evidence.decided_at[wrong.marker]);
            let event = decided.map_or(wrong.event, |decided| decided.0);
            let mechanism = evidence.mechanism(&wrong, marker);
            Decision {
                partition: marker.partition.clone(),
                committed: marker.committed,
                event,
                mechanism,
                wrong,
            }
        })
        .collect()
}

impl Evidence {
    fn take(&mut self, entry: &Entry) {
        let event = entry.id.0;
        match entry.name {
            "intent" => self.intents.push(Intent {
                producer: entry.text("producer"),
                transaction: number(entry, "transaction") as u64,
                partition: entry.text("partition"),
                value: bytes(entry, "value"),
                event,
            }),
            "produce.committed" => {
                let (base, count) = (number(entry, "base_offset"), number(entry, "count"));
                for offset in base..base + count {
                    let at = (entry.text("partition"), offset);
                    self.batches.entry(at).or_insert((number(entry, "producer_id"), event));
                }
            }
            "producer.delivered" => {
                let values = self.values.entry(entry.text("partition")).or_default();
                values.insert(number(entry, "offset"), bytes(entry, "value"));
            }
            "consumer.polled" => {
                let values = self.values.entry(entry.text("partition")).or_default();
                values.extend(client::polled_records(&entry.text("records")));
            }
            "producer.epoch" => {
                self.producer_ids.insert(entry.text("id"), number(entry, "producer_id"));
            }
            "txn.prepared" => {
                let by_coordinator = entry.text("by") != "client";
                self.prepared.insert(number(entry, "revision"), (event, by_coordinator));
            }
            "marker.written" => self.marker(entry),
            "producer.ending" => self.ends.push(End {
                producer: entry.text("id"),
                transaction: number(entry, "txn") as u64,
                committed: entry.flag("committed"),
                succeeded: false,
                event,
            }),
            "producer.end" => {
                let (producer, transaction) = (entry.text("id"), number(entry, "txn") as u64);
                self.told.entry((producer.clone(), transaction)).or_insert(event);
                if entry.text("outcome") != "ok" {
                    return;
                }
                let is_it = |end: &&mut End| end.producer == producer && end.transaction == transaction;
                if let Some(end) = self.ends.iter_mut().rev().find(is_it) {
                    end.succeeded = true;
                }
            }
            _ => {}
        }
    }

    /// Records that somebody saw, and of whose appends no agent told: their answers were lost. They were appended after they were
    /// sent.
    fn add_seen(&mut self) {
        let all = self.values.iter().flat_map(|(partition, values)| {
            values.iter().map(|(offset, value)| ((partition.clone(), *offset), value))
        });
        let untold: Vec<_> = all.filter(|(at, _)| !self.batches.contains_key(at)).collect();
        if untold.is_empty() {
            return;
        }
        let sent = self.intents.iter().map(|intent| ((intent.partition.as_str(), &intent.value[..]), intent));
        let sent: BTreeMap<(&str, &[u8]), &Intent> = sent.collect();
        for (at, value) in untold {
            let intent = sent.get(&(at.0.as_str(), &value[..]));
            let known =
                intent.and_then(|intent| Some((*self.producer_ids.get(&intent.producer)?, intent.event)));
            if let Some(batch) = known {
                self.batches.insert(at, batch);
            }
        }
    }

    /// A marker, for the time being decided by itself. An abort that nobody told may be the coordinator's own: it fences
    /// and times out.
    fn marker(&mut self, entry: &Entry) {
        let committed = entry.flag("committed");
        self.decided_at.push(number(entry, "prepared_revision"));
        self.markers.push(Marker {
            partition: entry.text("partition"),
            offset: number(entry, "offset"),
            producer_id: number(entry, "producer_id"),
            epoch: number(entry, "epoch") as i16,
            committed,
            by_coordinator: !committed,
            event: entry.id.0,
        });
    }

    /// Finds the decision behind each marker. The earlier of the two events bounds when it was taken.
    fn attribute(&mut self) {
        for (marker, revision) in self.markers.iter_mut().zip(&self.decided_at) {
            if let Some((event, by_coordinator)) = self.prepared.get(revision) {
                marker.by_coordinator = *by_coordinator;
                marker.event = marker.event.min(*event);
            }
        }
    }

    /// How a wrong decision came about. What asked for an end is a request that its client had sent: if not one of a later
    /// transaction, then one of an earlier.
    fn mechanism(&self, wrong: &WrongDecision, marker: &Marker) -> Option<Mechanism> {
        if marker.by_coordinator {
            return None;
        }
        let of = |producer: &str, number: u64| producer == wrong.producer && number == wrong.transaction;
        let told = self.told.get(&(wrong.producer.clone(), wrong.transaction));
        let appended = |offset: &i64| self.batches.get(&(marker.partition.clone(), *offset));
        let is_late = |offset: &i64| appended(offset).zip(told).is_some_and(|((_, at), told)| at > told);
        if wrong.offsets.iter().any(is_late) {
            return Some(Mechanism::DelayedProduce);
        }
        let by_a_later_one = self.ends.iter().any(|end| {
            end.producer == wrong.producer
                && end.transaction > wrong.transaction
                && end.committed == marker.committed
                && end.event <= marker.event
        });
        if by_a_later_one {
            return Some(Mechanism::HangingTransaction);
        }
        let goes_on = self
            .intents
            .iter()
            .any(|intent| of(&intent.producer, intent.transaction) && intent.event > marker.event);
        let end = self.ends.iter().rfind(|end| of(&end.producer, end.transaction));
        let committed = end.filter(|end| end.committed).map(|end| end.succeeded);
        let aborted = end.is_some_and(|end| !end.committed);
        Some(Mechanism::StaleEnd(match (marker.committed, committed) {
            (true, Some(true)) => Face::CommitSplit,
            (true, _) if !aborted => Face::UnendedVisible,
            (true, _) if goes_on => Face::AbortTorn,
            (true, _) => Face::AbortVisible,
            (false, Some(true)) if goes_on => Face::CommitTorn,
            (false, Some(true)) => Face::CommitLost,
            (false, _) => Face::AbortEarly,
        }))
    }

    /// Appends whose payload somebody saw.
    fn appends(&self) -> Vec<Append> {
        let value = |(partition, offset): &(String, i64)| self.values.get(partition)?.get(offset);
        let known = self.batches.iter().filter_map(|(at, batch)| Some((at, batch, value(at)?)));
        known
            .map(|((partition, offset), (producer_id, event), value)| Append {
                partition: partition.clone(),
                offset: *offset,
                producer_id: *producer_id,
                value: value.clone(),
                event: *event,
            })
            .collect()
    }

    /// Whether every offset from the first record decided about up to the marker is a known append or marker.
    fn is_accounted(&self, wrong: &WrongDecision) -> bool {
        let marker = &self.markers[wrong.marker];
        let markers: BTreeSet<i64> = self
            .markers
            .iter()
            .filter(|other| other.partition == marker.partition)
            .map(|other| other.offset)
            .collect();
        let first = wrong.offsets.first().copied().unwrap_or(marker.offset);
        (first..marker.offset).all(|offset| {
            markers.contains(&offset) || self.batches.contains_key(&(marker.partition.clone(), offset))
        })
    }
}

fn number(entry: &Entry, field: &str) -> i64 {
    entry.number(field).unwrap_or(-1)
}

fn bytes(entry: &Entry, field: &str) -> Vec<u8> {
    match entry.field(field) {
        Some(Field::Bytes(bytes)) => bytes.clone(),
        Some(other) => other.to_string().into_bytes(),
        None => Vec::new(),
    }
}

#[cfg(test)]
#[path = "oracle_tests.rs"]
mod tests;
