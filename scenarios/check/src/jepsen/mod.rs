//! The verdict of Jepsen's checker of Kafka histories, `jepsen.tests.kafka` 0.3.7 with `elle` 0.2.2: the same anomalies
//! under the same names, found by the same rules, in linear time.
//!
//! | anomaly | module |
//! |---|---|
//! | `inconsistent-offsets`, `duplicate`, `G1a`, `lost-write`, `unseen` | [`crate::inconsistent_offset`], [`crate::duplicate`], [`crate::aborted_read`], [`crate::lost_write`], [`crate::unseen`] |
//! | `precommitted-read` | [`precommitted_read`] |
//! | `int-poll-skip`, `int-nonmonotonic-poll`, `int-send-skip`, `int-nonmonotonic-send` | `internal` |
//! | `poll-skip`, `nonmonotonic-poll`, `nonmonotonic-send` | `external` |
//! | `G0`, `G1c`, `-realtime`, `-cycle-exists`, `empty-transaction-graph` | [`cycle`], `graph` |
//!
//! Where it differs: it gives a verdict where that checker throws (a polled value that nobody sent, a key without known
//! offsets), it has no false alarm of `unseen` (when the last ok event is the first to poll a key without acknowledged
//! sends), and no `cycle-search-timeout`, since it needs none. An offset that holds two values is represented in the
//! version order by the one that Clojure would list first, so that the result is the same in every run.

mod bound_reader;
pub(crate) mod components;
pub mod cycle;
mod external;
mod graph;
mod internal;
pub(crate) mod json;
pub mod jump;
pub mod lag;
pub mod precommitted_read;
pub mod unseen_series;
mod version_order;

use crate::aborted_read::{self, AbortedRead};
use crate::duplicate::{self, Duplicate};
use crate::facts::Facts;
use crate::history::{Atom, History};
use crate::inconsistent_offset::{self, InconsistentOffset};
use crate::lost_write::{self, LostWrite};
use crate::unseen::{self, Unseen};
use cycle::{Cycle, CycleExists};
use graph::Graph;
use jump::Jump;
use precommitted_read::PrecommittedRead;
use std::collections::{BTreeMap, BTreeSet};
use version_order::VersionOrders;

/// How the clients were given their partitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SubVia {
    /// By hand: a consumer proceeds in order.
    #[default]
    Assign,
    /// By a group: a rebalance may move a consumer between two events, so `poll-skip` and `nonmonotonic-poll` are
    /// allowed.
    Subscribe,
}

/// What to infer and to allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Whether the order of two writes in a partition makes a dependency. Kafka does not isolate writes, so cycles of
    /// the `G1c` family are then allowed.
    pub ww_deps: bool,
    /// How partitions were given.
    pub sub_via: SubVia,
}

impl Default for Options {
    fn default() -> Self {
        Options { ww_deps: true, sub_via: SubVia::Assign }
    }
}

/// Everything that was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// The options it was reached with.
    pub options: Options,
    /// `inconsistent-offsets`.
    pub inconsistent_offsets: Vec<InconsistentOffset>,
    /// `duplicate`.
    pub duplicates: Vec<Duplicate>,
    /// `G1a`.
    pub aborted_reads: Vec<AbortedRead>,
    /// `precommitted-read`.
    pub precommitted_reads: Vec<PrecommittedRead>,
    /// `lost-write`.
    pub lost_writes: Vec<LostWrite>,
    /// `unseen`.
    pub unseen: Vec<Unseen>,
    /// `int-poll-skip`.
    pub int_poll_skips: Vec<Jump>,
    /// `int-nonmonotonic-poll`.
    pub int_nonmonotonic_polls: Vec<Jump>,
    /// `int-send-skip`.
    pub int_send_skips: Vec<Jump>,
    /// `int-nonmonotonic-send`.
    pub int_nonmonotonic_sends: Vec<Jump>,
    /// `poll-skip`.
    pub poll_skips: Vec<Jump>,
    /// `nonmonotonic-poll`.
    pub nonmonotonic_polls: Vec<Jump>,
    /// `nonmonotonic-send`.
    pub nonmonotonic_sends: Vec<Jump>,
    /// `G0`, `G1c`, `G0-realtime`, `G1c-realtime`.
    pub cycles: Vec<Cycle>,
    /// `PL-1-cycle-exists` and so on.
    pub cycles_exist: Vec<CycleExists>,
    /// `empty-transaction-graph`: no event depends on another, so cycles were sought for nothing.
    pub is_graph_empty: bool,
    /// By key with a lost write: the event shown beside it.
    bound_readers: BTreeMap<Atom, Option<usize>>,
    /// For the lists of what was skipped.
    orders: VersionOrders,
}

/// Judges a history.
pub fn verdict(history: &History, options: Options) -> Verdict {
    let facts = Facts::new(history);
    let orders = VersionOrders::new(&facts);
    let (int_polls, int_sends) = (internal::polls(&facts, &orders), internal::sends(&facts, &orders));
    let (polls, sends) = (external::polls(&facts, &orders), external::sends(&facts, &orders));
    let graph = Graph::new(&facts, &orders, options.ww_deps);
    let (cycles, cycles_exist) = cycle::find(&graph);
    let lost_writes = lost_write::find(&facts);
    let lossy: BTreeSet<Atom> = lost_writes.iter().map(|lost| lost.key).collect();
    let lossy = facts.keys().filter(|key| lossy.contains(&key.atom()));
    let bound_readers = lossy.map(|key| (key.atom(), bound_reader::find(&facts, key))).collect();
    Verdict {
        options,
        inconsistent_offsets: inconsistent_offset::find(&facts),
        duplicates: duplicate::find(&facts),
        aborted_reads: aborted_read::find(&facts),
        precommitted_reads: precommitted_read::find(&facts),
        lost_writes,
        unseen: unseen::find(&facts),
        int_poll_skips: int_polls.skips,
        int_nonmonotonic_polls: int_polls.nonmonotonic,
        int_send_skips: int_sends.skips,
        int_nonmonotonic_sends: int_sends.nonmonotonic,
        poll_skips: polls.skips,
        nonmonotonic_polls: polls.nonmonotonic,
        nonmonotonic_sends: sends.nonmonotonic,
        cycles,
        cycles_exist,
        is_graph_empty: graph.is_empty(),
        bound_readers,
        orders,
    }
}

impl Verdict {
    /// The names of all anomaly types found.
    pub fn types(&self) -> BTreeSet<&'static str> {
        let lists = [
            ("inconsistent-offsets", !self.inconsistent_offsets.is_empty()),
            ("duplicate", !self.duplicates.is_empty()),
            ("G1a", !self.aborted_reads.is_empty()),
            ("precommitted-read", !self.precommitted_reads.is_empty()),
            ("lost-write", !self.lost_writes.is_empty()),
            ("unseen", !self.unseen.is_empty()),
            ("empty-transaction-graph", self.is_graph_empty),
        ];
        let jumps = self.jumps().map(|(name, jumps)| (name, !jumps.is_empty()));
        let mut types: BTreeSet<_> =
            lists.into_iter().chain(jumps).filter(|(_, found)| *found).map(|(name, _)| name).collect();
        types.extend(self.cycles.iter().map(|cycle| cycle.name));
        types.extend(self.cycles_exist.iter().map(|exists| exists.level.name()));
        types
    }

    /// Those types that are not allowed when partitions are given this way.
    pub fn bad_types(&self, sub_via: SubVia) -> BTreeSet<&'static str> {
        let Options { ww_deps, .. } = self.options;
        let is_allowed = |name: &str| match name {
            "int-send-skip" | "G0" | "G0-realtime" | "PL-1-cycle-exists" | "strong-PL-1-cycle-exists" => true,
            "poll-skip" | "nonmonotonic-poll" => sub_via == SubVia::Subscribe,
            "G1c" | "G1c-realtime" | "PL-2-cycle-exists" | "strong-PL-2-cycle-exists" => ww_deps,
            _ => false,
        };
        self.types().into_iter().filter(|name| !is_allowed(name)).collect()
    }

    /// Types that Jepsen's test of Bufstream adds to the bad ones. They decide nothing: what they name is bad already.
    /// `duplicate-nonzero`: a value at two offsets, neither of which is the 0 of a spurious acknowledgement.
    pub fn bufstream_extra(&self) -> BTreeSet<&'static str> {
        let nonzero = |duplicate: &Duplicate| duplicate.offsets.iter().filter(|offset| **offset != 0).count();
        let found = self.duplicates.iter().any(|duplicate| nonzero(duplicate) > 1);
        found.then_some("duplicate-nonzero").into_iter().collect()
    }

    /// Whether nothing was found that is not allowed under its options.
    pub fn is_valid(&self) -> bool {
        self.bad_types(self.options.sub_via).is_empty()
    }

    fn jumps(&self) -> [(&'static str, &[Jump]); 7] {
        [
            ("int-poll-skip", &self.int_poll_skips),
            ("int-nonmonotonic-poll", &self.int_nonmonotonic_polls),
            ("int-send-skip", &self.int_send_skips),
            ("int-nonmonotonic-send", &self.int_nonmonotonic_sends),
            ("poll-skip", &self.poll_skips),
            ("nonmonotonic-poll", &self.nonmonotonic_polls),
            ("nonmonotonic-send", &self.nonmonotonic_sends),
        ]
    }
}
