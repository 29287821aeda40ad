//! The strict verdict: everything it found, with the evidence, and the signature by which findings are recognised.

use crate::aborted_read::{self, AbortedRead};
use crate::duplicate::{self, Duplicate};
use crate::facts::Facts;
use crate::history::{Atom, History, Status};
use crate::inconsistent_offset::{self, InconsistentOffset};
use crate::lost_write::{self, LostWrite};
use crate::torn::{self, TornTransaction};
use crate::unseen::{self, Unseen};
use crate::vacuity::{self, Vacuity};
use std::collections::{BTreeMap, BTreeSet};

/// By key: every value in the partition at the end, read from its start to its end after all trouble had ceased. A
/// key that was not read so is left out, and judged by the history alone.
pub type FinalReads = BTreeMap<Atom, BTreeSet<Atom>>;

/// The names of the anomaly types found.
pub type Signature = BTreeSet<&'static str>;

/// What is wrong with a history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// `torn-transaction`.
    pub torn_transactions: Vec<TornTransaction>,
    /// `G1a`.
    pub aborted_reads: Vec<AbortedRead>,
    /// `lost-write`.
    pub lost_writes: Vec<LostWrite>,
    /// `unseen`.
    pub unseen: Vec<Unseen>,
    /// `duplicate`.
    pub duplicates: Vec<Duplicate>,
    /// `inconsistent-offsets`.
    pub inconsistent_offsets: Vec<InconsistentOffset>,
    /// Why the history proves nothing, if it does not.
    pub vacuous: Vec<Vacuity>,
}

/// Judges a history. `final_reads` may be empty.
pub fn strict(history: &History, final_reads: &FinalReads) -> Verdict {
    let facts = Facts::new(history);
    Verdict {
        torn_transactions: torn::find(&facts, final_reads),
        aborted_reads: aborted_read::find(&facts),
        lost_writes: lost_write::find(&facts),
        unseen: unseen::find(&facts),
        duplicates: duplicate::find(&facts),
        inconsistent_offsets: inconsistent_offset::find(&facts),
        vacuous: vacuity::find(&facts),
    }
}

impl Verdict {
    /// The names of the anomaly types found.
    pub fn signature(&self) -> Signature {
        let all = [
            ("torn-transaction", self.torn_transactions.is_empty()),
            ("G1a", self.aborted_reads.is_empty()),
            ("lost-write", self.lost_writes.is_empty()),
            ("unseen", self.unseen.is_empty()),
            ("duplicate", self.duplicates.is_empty()),
            ("inconsistent-offsets", self.inconsistent_offsets.is_empty()),
        ];
        all.into_iter().filter(|(_, empty)| !empty).map(|(name, _)| name).collect()
    }

    /// No anomaly, and not vacuous.
    pub fn is_valid(&self) -> bool {
        self.signature().is_empty() && self.vacuous.is_empty()
    }

    /// One line for each anomaly, in words; events by index.
    pub fn explain(&self, history: &History) -> Vec<String> {
        let show = |atom: Atom| history.show(atom).to_string();
        let records = |list: &[(Atom, Atom)]| {
            list.iter()
                .map(|(key, value)| format!("{}:{}", show(*key), show(*value)))
                .collect::<Vec<_>>()
                .join(" ")
        };
        let torn = self.torn_transactions.iter().map(|t| {
            let told = match t.told {
                Status::Ok => "committed",
                Status::Fail => "failed",
                Status::Info | Status::Invoke => "nothing certain",
            };
            let (visible, hidden) = (records(&t.visible), records(&t.hidden));
            format!(
                "torn-transaction: event {}: {visible} visible, {hidden} not; the client was told {told}",
                t.event
            )
        });
        let aborted = self.aborted_reads.iter().map(|a| {
            let (key, value) = (show(a.key), show(a.value));
            format!("G1a: event {} polled {key}:{value}, which event {} failed to write", a.reader, a.writer)
        });
        let lost = self.lost_writes.iter().map(|l| {
            let (key, value) = (show(l.key), show(l.value));
            format!("lost-write: {key}:{value} of event {}: event {} read past it", l.writer, l.max_read)
        });
        let unseen = self.unseen.iter().map(|u| {
            let values: Vec<String> = u.values.iter().map(|value| show(*value)).collect();
            format!("unseen: {}:{} acknowledged, never polled", show(u.key), values.join(","))
        });
        let duplicates = self
            .duplicates
            .iter()
            .map(|d| format!("duplicate: {}:{} at offsets {:?}", show(d.key), show(d.value), d.offsets));
        let inconsistent = self.inconsistent_offsets.iter().map(|i| {
            let values: Vec<String> = i.values.iter().map(|value| show(*value)).collect();
            format!(
                "inconsistent-offsets: {} holds {} at offset {}",
                show(i.key),
                values.join(" and "),
                i.offset
            )
        });
        let vacuous = self.vacuous.iter().map(|vacuity| format!("vacuous: {vacuity}"));
        torn.chain(aborted)
            .chain(lost)
            .chain(unseen)
            .chain(duplicates)
            .chain(inconsistent)
            .chain(vacuous)
            .collect()
    }
}
