//! Claims about runs: what must always hold, what must hold sometimes, what must hold in the end.

use crate::trace::EventId;
use rt::observe::Kind;
use rt::time::Instant;
use std::collections::BTreeMap;
use std::time::Duration;

/// Why a run failed apart from any verdict on its history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The claim broken, in words.
    pub claim: String,
    /// Where: a node's name, or `"world"`.
    pub node: String,
    /// Simulated time since the start, in nanoseconds.
    pub at_ns: u64,
    /// The event at which it broke.
    pub event: EventId,
}

/// How often a `sometimes` or `reachable` mark was reached, and held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MarkCount {
    /// Times the mark was reached.
    pub reached: u64,
    /// Times its claim held.
    pub held: u64,
}

/// What the marks of a run, or of a set of runs, said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    counts: BTreeMap<&'static str, MarkCount>,
}

impl Marks {
    /// Counts one mark; true if it is an `always` that was broken.
    pub(crate) fn count(&mut self, name: &'static str, kind: Kind) -> bool {
        let held = match kind {
            Kind::Event | Kind::Intent => return false,
            Kind::Always(held) => return !held,
            Kind::Sometimes(held) => held,
            Kind::Reachable => true,
        };
        let count = self.counts.entry(name).or_default();
        count.reached += 1;
        count.held += u64::from(held);
        false
    }

    /// Adds the marks of another run.
    pub fn add(&mut self, other: &Marks) {
        for (name, count) in &other.counts {
            let mine = self.counts.entry(name).or_default();
            mine.reached += count.reached;
            mine.held += count.held;
        }
    }

    /// Every mark reached, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, MarkCount)> + '_ {
        self.counts.iter().map(|(name, count)| (*name, *count))
    }

    /// How often `name` held.
    pub fn held(&self, name: &str) -> u64 {
        self.counts.get(name).map_or(0, |count| count.held)
    }
}

/// Waits until `condition` holds, looking every 10 ms of simulated time, at most `within`; a bounded "eventually". False
/// if it did not hold in time, which also fails the run under `claim`.
pub async fn eventually(claim: &str, within: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + within;
    loop {
        if condition() {
            return true;
        }
        if Instant::now() >= deadline {
            crate::world::fail(format!("not within {} ms: {claim}", within.as_millis()));
            return false;
        }
        rt::time::sleep(Duration::from_millis(10)).await;
    }
}
