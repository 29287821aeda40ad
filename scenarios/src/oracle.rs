//! Feeds the white-box oracle from the trace: which marker decided about records it had no business with.
//!
//! Events are told by whoever got the coordinator's answer; one whose answer was lost is missing. Offsets are dense, so a
//! missing event shows as an offset that nobody accounts for, and a decision over such a gap is not judged.

use check::oracle::{Append, End, Intent, Marker, WrongDecision, wrong_decisions};
use sim::trace::{Entry, Field};
use std::collections::{BTreeMap, BTreeSet};

/// A wrong decision, with where it is in the trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) wrong: WrongDecision,
    pub(crate) partition: String,
    pub(crate) committed: bool,
}

/// Everything the oracle needs, gathered in one pass.
#[derive(Default)]
struct Evidence {
    intents: Vec<Intent>,
    /// By partition and offset: producer id and event of the append.
    batches: BTreeMap<(String, i64), (i64, u64)>,
    /// By partition and offset: the payload.
    values: BTreeMap<(String, i64), Vec<u8>>,
    markers: Vec<Marker>,
    ends: Vec<End>,
    /// The last decision for a producer id: its event, and whether the coordinator took it by itself.
    prepared: BTreeMap<(i64, bool), (u64, bool)>,
}

/// Wrong decisions in a trace, in the order of their markers.
pub(crate) fn judge(trace: &[Entry]) -> Vec<Decision> {
    let mut evidence = Evidence::default();
    trace.iter().for_each(|entry| evidence.take(entry));
    let appends = evidence.appends();
    let wrong = wrong_decisions(&evidence.intents, &appends, &evidence.markers, &evidence.ends);
    let sound = wrong.into_iter().filter(|wrong| evidence.is_accounted(wrong));
    sound
        .map(|wrong| {
            let marker = &evidence.markers[wrong.marker];
            Decision { partition: marker.partition.clone(), committed: marker.committed, wrong }
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
            "producer.delivered" | "consumer.polled" => {
                let at = (entry.text("partition"), number(entry, "offset"));
                self.values.insert(at, bytes(entry, "value"));
            }
            "txn.prepared" => {
                let by_coordinator = entry.text("by") != "client";
                let key = (number(entry, "producer_id"), entry.flag("committed"));
                self.prepared.insert(key, (event, by_coordinator));
            }
            "marker.written" => self.marker(entry),
            "producer.ending" => self.ends.push(End {
                producer: entry.text("id"),
                transaction: number(entry, "txn") as u64,
                committed: entry.flag("committed"),
                succeeded: false,
                event,
            }),
            "producer.end" if entry.text("outcome") == "ok" => {
                let (producer, transaction) = (entry.text("id"), number(entry, "txn") as u64);
                let is_it = |end: &&mut End| end.producer == producer && end.transaction == transaction;
                if let Some(end) = self.ends.iter_mut().rev().find(is_it) {
                    end.succeeded = true;
                }
            }
            _ => {}
        }
    }

    fn marker(&mut self, entry: &Entry) {
        let (producer_id, committed) = (number(entry, "producer_id"), entry.flag("committed"));
        let (partition, offset) = (entry.text("partition"), number(entry, "offset"));
        let before = self.batches.range((partition.clone(), 0)..(partition.clone(), offset));
        let last_append =
            before.rev().find(|(_, batch)| batch.0 == producer_id).map_or(0, |(_, batch)| batch.1);
        // A decision about these records comes after them. If it is not in the trace, the marker stands for it.
        let decided = self.prepared.get(&(producer_id, committed)).filter(|decided| decided.0 > last_append);
        let decided = decided.copied().unwrap_or((entry.id.0, false));
        self.markers.push(Marker {
            partition,
            offset,
            producer_id,
            epoch: number(entry, "epoch") as i16,
            committed,
            by_coordinator: decided.1,
            event: decided.0,
        });
    }

    /// Appends whose payload somebody saw.
    fn appends(&self) -> Vec<Append> {
        let known = self.batches.iter().filter_map(|(at, batch)| Some((at, batch, self.values.get(at)?)));
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
