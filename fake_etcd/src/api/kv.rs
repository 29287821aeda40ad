//! Keys, and what reads and writes them.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A key, its value and its history in numbers (`mvccpb.KeyValue`). In a delete event only `key` and `mod_revision` are
/// set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyValue {
    /// The key.
    pub key: Bytes,
    /// The value; empty when only keys were asked for.
    pub value: Bytes,
    /// Revision of the put that created the key, after its last deletion.
    pub create_revision: i64,
    /// Revision of the last change.
    pub mod_revision: i64,
    /// Number of puts since creation; the first gives 1.
    pub version: i64,
    /// The lease it is attached to; 0 for none.
    pub lease: i64,
}

impl KeyValue {
    /// Whether this is the mark a deletion leaves: no live key has version 0.
    pub(crate) fn is_tombstone(&self) -> bool {
        self.version == 0
    }
}

/// The `range_end` that with `prefix` as key covers every key with that prefix: the prefix with its last byte
/// incremented (carrying over 0xff), `"\0"` when there is none above.
pub fn prefix_end(prefix: &[u8]) -> Bytes {
    match prefix.iter().rposition(|byte| *byte != 0xff) {
        Some(last) => {
            let mut end = prefix[..=last].to_vec();
            end[last] += 1;
            end.into()
        }
        None => Bytes::from_static(b"\0"),
    }
}

/// Key and `range_end` of every key with a prefix. The empty prefix is every key from the smallest on, as a key must
/// not be empty.
pub(super) fn prefix_range(prefix: Bytes) -> (Bytes, Bytes) {
    let range_end = prefix_end(&prefix);
    let key = if prefix.is_empty() { Bytes::from_static(b"\0") } else { prefix };
    (key, range_end)
}

/// What a range is sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names of rpc.proto say it")]
pub enum SortTarget {
    Key,
    Version,
    CreateRevision,
    ModRevision,
    Value,
}

/// Which way it is sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names of rpc.proto say it")]
pub enum SortOrder {
    /// By the target's ascending order, but among the keys that a limit let through in order of key.
    None,
    Ascend,
    Descend,
}

/// Reads keys.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RangeRequest {
    /// First key; must not be empty.
    pub key: Bytes,
    /// End of the range; see the module.
    pub range_end: Bytes,
    /// At most so many keys; 0 for all.
    pub limit: i64,
    /// Read as of this revision; 0 or less for now.
    pub revision: i64,
    /// Sorting other than by ascending key. The limit then applies after sorting, unless the order is none.
    pub sort: Option<(SortTarget, SortOrder)>,
    /// Let the member answer by itself what it knows, which may be old.
    pub serializable: bool,
    /// Leave values out.
    pub keys_only: bool,
    /// Only count.
    pub count_only: bool,
    /// Ours: do not count, `count` is then 0. etcd always counts, which takes as long as there are keys in the range.
    pub uncounted: bool,
    /// Leave out keys last changed before this revision; 0 for no bound. `count` still counts them.
    pub min_mod_revision: i64,
    /// Leave out keys last changed after this revision; 0 for no bound.
    pub max_mod_revision: i64,
    /// Leave out keys created before this revision; 0 for no bound.
    pub min_create_revision: i64,
    /// Leave out keys created after this revision; 0 for no bound.
    pub max_create_revision: i64,
}

impl RangeRequest {
    /// Reads one key, now.
    pub fn key(key: impl Into<Bytes>) -> Self {
        RangeRequest { key: key.into(), ..Default::default() }
    }

    /// Reads every key with a prefix, now.
    pub fn prefix(prefix: impl Into<Bytes>) -> Self {
        let (key, range_end) = prefix_range(prefix.into());
        RangeRequest { key, range_end, ..Default::default() }
    }
}

/// Answers a [`RangeRequest`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RangeResponse {
    /// The store's revision; inside a transaction that wrote before, the transaction's.
    pub revision: i64,
    /// The keys found.
    pub kvs: Vec<Arc<KeyValue>>,
    /// Whether the limit cut keys off.
    pub more: bool,
    /// How many keys the range has, whatever the limit.
    pub count: i64,
}

/// Writes a key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PutRequest {
    /// The key; must not be empty.
    pub key: Bytes,
    /// Its new value.
    pub value: Bytes,
    /// The lease to attach it to; 0 for none, which detaches it.
    pub lease: i64,
    /// Return the key as it was.
    pub prev_kv: bool,
    /// Keep the value the key has; it must exist.
    pub ignore_value: bool,
    /// Keep the lease the key has; it must exist.
    pub ignore_lease: bool,
}

impl PutRequest {
    /// Puts `value` under `key`, without a lease.
    pub fn new(key: impl Into<Bytes>, value: impl Into<Bytes>) -> Self {
        PutRequest { key: key.into(), value: value.into(), ..Default::default() }
    }
}

/// Answers a [`PutRequest`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PutResponse {
    /// The put's revision.
    pub revision: i64,
    /// The key as it was, if asked for and if it existed.
    pub prev_kv: Option<Arc<KeyValue>>,
}

/// Deletes keys.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeleteRangeRequest {
    /// First key; must not be empty.
    pub key: Bytes,
    /// End of the range; see the module.
    pub range_end: Bytes,
    /// Return the keys as they were.
    pub prev_kv: bool,
}

impl DeleteRangeRequest {
    /// Deletes one key.
    pub fn key(key: impl Into<Bytes>) -> Self {
        DeleteRangeRequest { key: key.into(), ..Default::default() }
    }

    /// Deletes every key with a prefix.
    pub fn prefix(prefix: impl Into<Bytes>) -> Self {
        let (key, range_end) = prefix_range(prefix.into());
        DeleteRangeRequest { key, range_end, ..Default::default() }
    }
}

/// Answers a [`DeleteRangeRequest`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeleteRangeResponse {
    /// The store's revision afterwards; it moves only if something was deleted.
    pub revision: i64,
    /// How many keys were deleted.
    pub deleted: i64,
    /// The keys as they were, if asked for.
    pub prev_kvs: Vec<Arc<KeyValue>>,
}
