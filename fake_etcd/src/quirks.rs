//! Documented deviations from what etcd promises, each something a real etcd has done or may do to its clients. All
//! off by default.

use serde::{Deserialize, Serialize};

/// Which deviations are on. Part of a run's plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Quirks {
    /// Compaction at the very revision of a deletion forgets the deletion, so that a watch from that revision misses
    /// it (etcd issue 18089). Read by `Store::apply`.
    pub compaction_drops_tombstones: bool,
    /// A watch that starts at a future revision is told of what happens before it, too (etcd issue 20221). Read where a
    /// watch begins.
    pub future_watch_sees_old_events: bool,
    /// Watchers that are up to date are not told of keys deleted because their lease ran out; the keys are gone all the
    /// same, and a watcher that catches up later learns of it. Read where the watches are notified.
    pub lease_deletions_are_silent: bool,
}
