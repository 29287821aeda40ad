//! The strict verdict as JSON: the encoding of the field `oracle` in the cases, with names of its own beside Jepsen's.

use super::anomaly::Anomaly;
use super::{Found, Verdict};
use crate::history::History;
use crate::jepsen::json as jepsen;
use serde_json::{Map, Value, json};

impl Verdict {
    /// An object of `valid`, `types`, `errors` by type, and `vacuous`: why the history proves nothing, if it does not.
    /// `history` is the one that was judged. Every error names the events that it is about by index.
    pub fn to_json(&self, history: &History) -> Value {
        let mut errors = Map::new();
        for name in self.signature() {
            errors.insert(name.to_string(), self.errors_of(history, name));
        }
        let vacuous: Vec<String> = self.vacuous.iter().map(ToString::to_string).collect();
        json!({"valid": self.is_valid(), "types": self.signature(), "errors": errors, "vacuous": vacuous})
    }

    fn errors_of(&self, history: &History, name: &str) -> Value {
        match name {
            "torn-transaction" => list(&self.torn_transactions, history),
            "G1a" => jepsen::aborted_reads(history, &self.aborted_reads),
            "G1b" => list(&self.intermediate_reads, history),
            "early-visibility" => list(&self.early_reads, history),
            "phantom" => list(&self.phantoms, history),
            "wr-cycle" => list(&self.wr_cycles, history),
            "lost-write" => jepsen::lost_writes(history, &self.lost_writes, |lost| Some(lost.max_read)),
            "unseen" => jepsen::unseen(history, &self.unseen),
            "duplicate" => jepsen::duplicates(history, &self.duplicates),
            "inconsistent-offsets" => jepsen::inconsistent_offsets(history, &self.inconsistent_offsets),
            "position-moved" => list(&self.moved_positions, history),
            "stale-poll" => list(&self.stale_polls, history),
            _ => list(&self.stuck_operations, history),
        }
    }
}

fn list(found: &[impl Anomaly], history: &History) -> Value {
    found.iter().map(|anomaly| anomaly.to_json(history)).collect()
}

/// Anomalies of one type, in words.
pub(super) fn found(name: &'static str, found: &[impl Anomaly], history: &History) -> Vec<Found> {
    found.iter().map(|one| Found { name, event: one.event(), words: one.words(history) }).collect()
}
