//! Requests and responses, with the names and meanings of etcd's `rpc.proto`.
//!
//! Keys are raw bytes. A range is a key and a `range_end`: empty for that key alone, `"\0"` for every key from `key`
//! on, otherwise the half-open `[key, range_end)`. Each response carries its header's revision; cluster, member and
//! term are left out, as there is one member.

mod kv;
mod txn;
mod watch;

pub use kv::{
    DeleteRangeRequest, DeleteRangeResponse, KeyValue, PutRequest, PutResponse, RangeRequest, RangeResponse,
    SortOrder, SortTarget, prefix_end,
};
pub use txn::{Compare, CompareOp, CompareTarget, Op, OpResponse, TxnRequest, TxnResponse};
pub use watch::{Event, EventKind, WatchRequest, WatchResponse};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// A lease's state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseTimeToLiveResponse {
    /// The store's revision.
    pub revision: i64,
    /// The lease.
    pub id: i64,
    /// Whole seconds left; -1 when the lease is gone.
    pub ttl_s: i64,
    /// The TTL it was granted; 0 when the lease is gone.
    pub granted_ttl_s: i64,
    /// The keys attached, if asked for, in order.
    pub keys: Vec<Bytes>,
}

/// How the server stands (`maintenance.Status`), as far as one member can.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusResponse {
    /// The store's revision.
    pub revision: i64,
    /// The version whose behaviour the server has.
    pub version: String,
    /// Bytes of the keys and values kept, superseded ones included.
    pub db_size_bytes: i64,
    /// Grows by one with each proposal: each write, whether or not it was refused in the end, and each expiry.
    pub raft_index: u64,
    /// Grows by one with each start of the server.
    pub raft_term: u64,
}

/// A request of the key-value, lease or maintenance service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Reads keys.
    Range(RangeRequest),
    /// Writes a key.
    Put(PutRequest),
    /// Deletes keys.
    DeleteRange(DeleteRangeRequest),
    /// A transaction.
    Txn(TxnRequest),
    /// Forgets what was superseded before `revision`.
    Compact {
        /// The first revision still readable.
        revision: i64,
    },
    /// Grants a lease.
    LeaseGrant {
        /// Seconds to live; below 2 it becomes 2.
        ttl_s: i64,
        /// The id wanted; 0 lets the server choose.
        id: i64,
    },
    /// Revokes a lease and deletes its keys in one revision.
    LeaseRevoke {
        /// The lease.
        id: i64,
    },
    /// Renews a lease to its full TTL.
    LeaseKeepAlive {
        /// The lease.
        id: i64,
    },
    /// Asks how a lease stands.
    LeaseTimeToLive {
        /// The lease.
        id: i64,
        /// Whether to list its keys.
        keys: bool,
    },
    /// Lists leases.
    LeaseLeases,
    /// Asks how the server stands.
    Status,
}

impl Request {
    /// Whether it leaves the store as it is, so that sending it twice does no harm.
    pub fn is_read_only(&self) -> bool {
        match self {
            Request::Range(_) | Request::LeaseTimeToLive { .. } | Request::LeaseLeases | Request::Status => {
                true
            }
            Request::Txn(txn) => txn.success.iter().chain(&txn.failure).all(|op| matches!(op, Op::Range(_))),
            _ => false,
        }
    }

    /// Whether it goes through raft's log: a renewal does not, as the leader alone knows of it.
    pub(crate) fn is_proposal(&self) -> bool {
        !self.is_read_only() && !matches!(self, Request::LeaseKeepAlive { .. })
    }
}

/// Answers a [`Request`] of the same name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Response {
    /// Keys.
    Range(RangeResponse),
    /// The put was made.
    Put(PutResponse),
    /// Keys were deleted.
    DeleteRange(DeleteRangeResponse),
    /// The transaction's outcome.
    Txn(TxnResponse),
    /// Compacted.
    Compact {
        /// The store's revision.
        revision: i64,
    },
    /// Granted.
    LeaseGrant {
        /// The store's revision.
        revision: i64,
        /// The lease.
        id: i64,
        /// The TTL granted.
        ttl_s: i64,
    },
    /// Revoked.
    LeaseRevoke {
        /// The store's revision afterwards.
        revision: i64,
    },
    /// Renewed, or gone.
    LeaseKeepAlive {
        /// The store's revision.
        revision: i64,
        /// The lease.
        id: i64,
        /// The TTL it has again; 0 when the lease is gone.
        ttl_s: i64,
    },
    /// The lease's state.
    LeaseTimeToLive(LeaseTimeToLiveResponse),
    /// The leases, the next to run out first.
    LeaseLeases {
        /// The store's revision.
        revision: i64,
        /// Their ids.
        ids: Vec<i64>,
    },
    /// The server's state.
    Status(StatusResponse),
}
