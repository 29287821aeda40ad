//! The strict verdict: what Jepsen's checker finds in the log of each partition, and what it lacks.
//!
//! | anomaly | module |
//! |---|---|
//! | `G1a`, `lost-write`, `unseen`, `duplicate`, `inconsistent-offsets` | [`crate::aborted_read`] and so on: the rules of Jepsen's checker |
//! | `torn-transaction` | [`torn`] |
//! | `early-visibility` | [`early`] |
//! | `phantom` | [`phantom`] |
//! | `G1b` | [`intermediate`] |
//! | `wr-cycle` | [`wr_cycle`] |
//! | `position-moved` | [`position`] |
//! | `stale-poll`, `stuck-operation` | [`stale_poll`], [`stuck_operation`] |
//!
//! Some need more than the events: see [`Conditions`](crate::Conditions), and the marks of an [`Event`](crate::Event).

mod anomaly;
pub mod early;
pub mod exercised;
pub mod intermediate;
mod json;
pub mod phantom;
pub mod position;
mod sends;
mod shared;
pub mod stale_poll;
pub mod stuck_operation;
pub mod torn;
pub mod vacuity;
pub mod wr_cycle;

use crate::aborted_read::{self, AbortedRead};
use crate::duplicate::{self, Duplicate};
use crate::facts::Facts;
use crate::history::{Atom, History};
use crate::inconsistent_offset::{self, InconsistentOffset};
use crate::lost_write::{self, LostWrite};
use crate::unseen::{self, Unseen};
use early::EarlyRead;
use intermediate::IntermediateRead;
use phantom::Phantom;
use position::MovedPosition;
use sends::Sends;
use stale_poll::StalePoll;
use std::collections::{BTreeMap, BTreeSet};
use stuck_operation::StuckOperation;
use torn::TornTransaction;
use vacuity::Vacuity;
use wr_cycle::WrCycle;

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
    /// `G1b`.
    pub intermediate_reads: Vec<IntermediateRead>,
    /// `early-visibility`.
    pub early_reads: Vec<EarlyRead>,
    /// `phantom`.
    pub phantoms: Vec<Phantom>,
    /// `wr-cycle`.
    pub wr_cycles: Vec<WrCycle>,
    /// `lost-write`.
    pub lost_writes: Vec<LostWrite>,
    /// `unseen`.
    pub unseen: Vec<Unseen>,
    /// `duplicate`.
    pub duplicates: Vec<Duplicate>,
    /// `inconsistent-offsets`.
    pub inconsistent_offsets: Vec<InconsistentOffset>,
    /// `position-moved`.
    pub moved_positions: Vec<MovedPosition>,
    /// `stale-poll`.
    pub stale_polls: Vec<StalePoll>,
    /// `stuck-operation`.
    pub stuck_operations: Vec<StuckOperation>,
    /// Why the history proves nothing, if it does not.
    pub vacuous: Vec<Vacuity>,
}

/// An anomaly of any type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The name of its type.
    pub name: &'static str,
    /// The index of the event that decided it.
    pub event: usize,
    /// What it is, in a line; events by index.
    pub words: String,
}

/// Judges a history. `final_reads` may be empty.
pub fn strict(history: &History, final_reads: &FinalReads) -> Verdict {
    let facts = Facts::new(history);
    let sends = Sends::new(&facts);
    let torn_transactions = torn::find(&facts, final_reads);
    // What is torn in the end was torn for its readers: that is one fault, not two.
    let torn: BTreeSet<usize> = torn_transactions.iter().map(|torn| torn.event).collect();
    let mut intermediate_reads = intermediate::find(&facts);
    intermediate_reads.retain(|read| !torn.contains(&read.writer));
    Verdict {
        torn_transactions,
        aborted_reads: aborted_read::find(&facts),
        intermediate_reads,
        early_reads: early::find(&facts, &sends),
        phantoms: phantom::find(&facts, &sends),
        wr_cycles: wr_cycle::find(&facts),
        lost_writes: lost_write::find(&facts),
        unseen: unseen::find(&facts),
        duplicates: duplicate::find(&facts),
        inconsistent_offsets: inconsistent_offset::find(&facts),
        moved_positions: position::find(&facts),
        stale_polls: stale_poll::find(&facts),
        stuck_operations: stuck_operation::find(&facts),
        vacuous: vacuity::find(&facts),
    }
}

impl Verdict {
    /// The names of the anomaly types found.
    pub fn signature(&self) -> Signature {
        let all = [
            ("torn-transaction", self.torn_transactions.is_empty()),
            ("G1a", self.aborted_reads.is_empty()),
            ("G1b", self.intermediate_reads.is_empty()),
            ("early-visibility", self.early_reads.is_empty()),
            ("phantom", self.phantoms.is_empty()),
            ("wr-cycle", self.wr_cycles.is_empty()),
            ("lost-write", self.lost_writes.is_empty()),
            ("unseen", self.unseen.is_empty()),
            ("duplicate", self.duplicates.is_empty()),
            ("inconsistent-offsets", self.inconsistent_offsets.is_empty()),
            ("position-moved", self.moved_positions.is_empty()),
            ("stale-poll", self.stale_polls.is_empty()),
            ("stuck-operation", self.stuck_operations.is_empty()),
        ];
        all.into_iter().filter(|(_, empty)| !empty).map(|(name, _)| name).collect()
    }

    /// No anomaly, and not vacuous.
    pub fn is_valid(&self) -> bool {
        self.signature().is_empty() && self.vacuous.is_empty()
    }

    /// Every anomaly with its deciding event, the most telling types first. `history` is the one that was judged.
    pub fn anomalies(&self, history: &History) -> Vec<Found> {
        let facts = Facts::new(history);
        let mut all = json::found("torn-transaction", &self.torn_transactions, history);
        all.extend(self.aborted_reads.iter().map(|read| {
            let words = shared::aborted_read(history, read);
            Found { name: "G1a", event: read.reader, words }
        }));
        all.extend(json::found("G1b", &self.intermediate_reads, history));
        all.extend(json::found("early-visibility", &self.early_reads, history));
        all.extend(json::found("phantom", &self.phantoms, history));
        all.extend(json::found("wr-cycle", &self.wr_cycles, history));
        all.extend(self.lost_writes.iter().map(|lost| {
            let words = shared::lost_write(history, lost);
            Found { name: "lost-write", event: lost.max_read, words }
        }));
        all.extend(self.unseen.iter().map(|unseen| {
            let words = shared::unseen(history, unseen);
            Found { name: "unseen", event: shared::unseen_since(&facts, unseen), words }
        }));
        all.extend(self.contradictions(&facts));
        all.extend(json::found("position-moved", &self.moved_positions, history));
        all.extend(json::found("stale-poll", &self.stale_polls, history));
        all.extend(json::found("stuck-operation", &self.stuck_operations, history));
        all
    }

    fn contradictions(&self, facts: &Facts<'_>) -> Vec<Found> {
        if self.duplicates.is_empty() && self.inconsistent_offsets.is_empty() {
            return Vec::new();
        }
        let by_whom = shared::Contradictions::new(facts);
        let duplicates = self.duplicates.iter().map(|duplicate| {
            let words = shared::duplicate(facts.history, duplicate);
            Found { name: "duplicate", event: by_whom.duplicate(duplicate), words }
        });
        let inconsistent = self.inconsistent_offsets.iter().map(|inconsistent| {
            let words = shared::inconsistent_offset(facts.history, inconsistent);
            Found { name: "inconsistent-offsets", event: by_whom.inconsistent(inconsistent), words }
        });
        duplicates.chain(inconsistent).collect()
    }

    /// One line for each anomaly, in words; events by index.
    pub fn explain(&self, history: &History) -> Vec<String> {
        let found =
            self.anomalies(history).into_iter().map(|found| format!("{}: {}", found.name, found.words));
        let vacuous = self.vacuous.iter().map(|vacuity| format!("vacuous: {vacuity}"));
        found.chain(vacuous).collect()
    }
}
