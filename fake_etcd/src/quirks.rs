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
    /// Serializable reads are answered as of so many revisions ago, as by a member that lags behind. Read by
    /// `Store::apply`.
    pub serializable_lag_revisions: i64,
    /// For a second after a pause of at least an election timeout, ranges are answered as of its begin, serializable
    /// or not (etcd issue 20418). Read by the server's pause detector.
    pub stale_reads_after_pause: bool,
    /// A pause of at least an election timeout ends every watch and tells nobody, while their connections go on and
    /// answer pings: what is left of a watch when a proxy loses it (etcd issue 18231). Read by the server's pause
    /// detector.
    pub pause_ends_watches_silently: bool,
}
