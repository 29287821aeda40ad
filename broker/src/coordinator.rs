//! The port to the coordinator: the part of etcd's v3 API that the agent needs, as plain data.
//!
//! Revisions, versions and leases mean exactly what they mean in etcd (docs: "Data model", "KV API guarantees").
//! Implementations adapt the fake's client or a real etcd client. The agent bounds every call by its own time-out, so
//! an implementation may wait as long as its transport does.

use async_trait::async_trait;
use bytes::Bytes;

/// etcd's default `--max-txn-ops`: the most operations (and the most compares) one transaction may carry.
pub const TXN_OPS_MAX: usize = 128;

/// The coordinator as the agent sees it.
#[async_trait]
pub trait Coordinator: Send + Sync + 'static {
    /// Reads keys.
    async fn range(&self, range: Range) -> Result<RangeResponse, CoordinatorError>;
    /// Evaluates `compares` and applies `success` or `failure`, atomically.
    async fn txn(&self, txn: Txn) -> Result<TxnResponse, CoordinatorError>;
    /// Grants a lease of `ttl_s` seconds; returns its id.
    async fn lease_grant(&self, ttl_s: i64) -> Result<i64, CoordinatorError>;
    /// Renews lease `id`; returns its time to live in seconds, 0 when the lease is gone.
    async fn lease_keep_alive(&self, id: i64) -> Result<i64, CoordinatorError>;
    /// Revokes lease `id`; its keys go with it.
    async fn lease_revoke(&self, id: i64) -> Result<(), CoordinatorError>;
    /// Watches every key that begins with `prefix`, from revision `from_revision` on (included).
    async fn watch(&self, prefix: Bytes, from_revision: i64) -> Result<Box<dyn Watch>, CoordinatorError>;
}

/// An open watch. Dropping it cancels it.
#[async_trait]
pub trait Watch: Send {
    /// Waits for the next events, at least one, in revision order.
    async fn next(&mut self) -> Result<Vec<Event>, WatchError>;
}

/// What is to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// The first key.
    pub key: Bytes,
    /// The end of the range, not included; empty reads `key` alone.
    pub range_end: Bytes,
    /// The revision to read at; 0 reads the newest.
    pub revision: i64,
    /// The most keys to return; 0 returns all.
    pub limit: i64,
}

/// A key with its value and etcd's metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyValue {
    /// The key.
    pub key: Bytes,
    /// The value.
    pub value: Bytes,
    /// Revision of the key's creation.
    pub create_revision: i64,
    /// Revision of the last write.
    pub mod_revision: i64,
    /// Writes since the creation, from 1.
    pub version: i64,
    /// The lease it hangs on; 0 for none.
    pub lease: i64,
}

/// The answer to a [`Range`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeResponse {
    /// Keys in ascending order.
    pub kvs: Vec<KeyValue>,
    /// Whether the limit left keys out.
    pub more: bool,
    /// The store's revision when it answered.
    pub revision: i64,
}

/// A transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Txn {
    /// All must hold for `success`.
    pub compares: Vec<Compare>,
    /// Applied when all compares hold.
    pub success: Vec<Op>,
    /// Applied otherwise.
    pub failure: Vec<Op>,
}

/// A condition on one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compare {
    /// The key.
    pub key: Bytes,
    /// How the key's attribute must relate to the target.
    pub op: CompareOp,
    /// Attribute and value compared with.
    pub target: Target,
}

/// The relation of a [`Compare`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompareOp {
    /// Equal to the target.
    Equal,
    /// Not equal to the target.
    NotEqual,
    /// Greater than the target.
    Greater,
    /// Less than the target.
    Less,
}

/// The attribute that a [`Compare`] looks at. An absent key has version, revisions and lease 0, and no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The key's version.
    Version(i64),
    /// The key's create revision.
    CreateRevision(i64),
    /// The key's mod revision.
    ModRevision(i64),
    /// The key's value.
    Value(Bytes),
    /// The key's lease.
    Lease(i64),
}

/// One operation of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Writes a key.
    Put {
        /// The key.
        key: Bytes,
        /// Its new value.
        value: Bytes,
        /// The lease to hang it on; 0 for none.
        lease: i64,
    },
    /// Deletes keys.
    Delete {
        /// The first key.
        key: Bytes,
        /// The end of the range, not included; empty deletes `key` alone.
        range_end: Bytes,
    },
    /// Reads keys.
    Range(Range),
}

/// The answer to a [`Txn`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TxnResponse {
    /// Whether all compares held.
    pub succeeded: bool,
    /// The store's revision after the transaction.
    pub revision: i64,
    /// One answer per operation applied.
    pub responses: Vec<OpResponse>,
}

/// The answer to an [`Op`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpResponse {
    /// The key was written.
    Put,
    /// This many keys were deleted.
    Delete {
        /// Number of keys.
        deleted: i64,
    },
    /// What was read.
    Range(RangeResponse),
}

/// A change of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// The key after the change. Of a deleted key only `key` and `mod_revision` (the deletion's) are meaningful.
    pub kv: KeyValue,
}

/// What happened to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// It was written.
    Put,
    /// It was deleted, or its lease ended.
    Delete,
}

/// Why a call to the coordinator failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CoordinatorError {
    /// It was certainly not applied (no connection, no leader).
    #[error("the coordinator is not available")]
    Unavailable,
    /// The outcome is unknown: the reply was lost, or the time allowed ran out.
    #[error("the outcome is unknown")]
    Unknown,
    /// The coordinator refused it (too many operations, compacted revision, bad request); the text says why.
    #[error("the coordinator refused: {0}")]
    Refused(String),
}

/// Why a watch ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WatchError {
    /// The revision to start from was compacted; events before `compact_revision` are gone for good.
    #[error("compacted at revision {compact_revision}")]
    Compacted {
        /// The first revision that a new watch may start from.
        compact_revision: i64,
    },
    /// The connection or the watch broke. A new watch may resume after the last revision seen.
    #[error("the watch broke")]
    Broken,
}

impl Range {
    /// Reads one key.
    pub fn key(key: Bytes) -> Self {
        Range { key, range_end: Bytes::new(), revision: 0, limit: 0 }
    }

    /// Reads every key from `key` up to `range_end`, at most `limit` (0: all).
    pub fn span(key: Bytes, range_end: Bytes, limit: i64) -> Self {
        Range { key, range_end, revision: 0, limit }
    }
}

impl Compare {
    /// The key's mod revision equals `revision`; 0 claims that the key is absent.
    pub fn unchanged(key: Bytes, revision: i64) -> Self {
        Compare { key, op: CompareOp::Equal, target: Target::ModRevision(revision) }
    }

    /// The key's value equals `value`.
    pub fn value(key: Bytes, value: Bytes) -> Self {
        Compare { key, op: CompareOp::Equal, target: Target::Value(value) }
    }
}

impl Op {
    /// Writes a key without a lease.
    pub fn put(key: Bytes, value: Bytes) -> Self {
        Op::Put { key, value, lease: 0 }
    }

    /// Deletes one key.
    pub fn delete(key: Bytes) -> Self {
        Op::Delete { key, range_end: Bytes::new() }
    }
}
