//! Watches.

use super::{KeyValue, kv::prefix_range};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Asks to be told of changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchRequest {
    /// First key; empty means the smallest key.
    pub key: Bytes,
    /// End of the range; see the module.
    pub range_end: Bytes,
    /// First revision of interest; 0 for whatever comes next.
    pub start_revision: i64,
    /// Send an empty response now and then when nothing changes.
    pub progress_notify: bool,
    /// Leave out puts.
    pub no_put: bool,
    /// Leave out deletions.
    pub no_delete: bool,
    /// Split messages above 2 MiB instead of sending them whole.
    pub fragment: bool,
    /// With each event the key as it was before, unless that was compacted.
    pub prev_kv: bool,
}

impl WatchRequest {
    /// Watches one key from `start_revision` on.
    pub fn key(key: impl Into<Bytes>, start_revision: i64) -> Self {
        WatchRequest { key: key.into(), start_revision, ..Default::default() }
    }

    /// Watches every key with a prefix from `start_revision` on.
    pub fn prefix(prefix: impl Into<Bytes>, start_revision: i64) -> Self {
        let (key, range_end) = prefix_range(prefix.into());
        WatchRequest { key, range_end, start_revision, ..Default::default() }
    }
}

/// What happened to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names of kv.proto say it")]
pub enum EventKind {
    Put,
    Delete,
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// The key as it is now; after a deletion only `key` and `mod_revision`.
    pub kv: Arc<KeyValue>,
    /// The key as it was, if asked for, if it existed and unless that was compacted.
    pub prev_kv: Option<Arc<KeyValue>>,
}

/// Tells a watcher something. The events of one revision always come together; a watch that catches up gets several
/// revisions at once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchResponse {
    /// The store's revision when it was sent; 0 when canceled by compaction. Without events, and not created or
    /// canceled: nothing up to this revision is still to come.
    pub revision: i64,
    /// More of the same message follows.
    pub fragment: bool,
    /// The watch begins.
    pub created: bool,
    /// The watch is over.
    pub canceled: bool,
    /// When canceled because the next revision was compacted: the first revision still there. Otherwise 0.
    pub compact_revision: i64,
    /// Why a watch could not begin.
    pub cancel_reason: String,
    /// The changes, in order of revision and of operation within it.
    pub events: Vec<Event>,
}
