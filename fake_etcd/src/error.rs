//! etcd's refusals: gRPC codes and texts, as in `api/v3rpc/rpctypes/error.go`.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The gRPC status codes etcd's key-value, lease and watch calls refuse with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Code {
    /// The request is malformed; the same request never succeeds.
    InvalidArgument,
    /// A revision (or a TTL) lies outside what the store has.
    OutOfRange,
    /// There is no such lease.
    NotFound,
    /// The state forbids it: the lease exists already.
    FailedPrecondition,
    /// A message is larger than gRPC lets through.
    ResourceExhausted,
    /// The watch was canceled.
    Cancelled,
}

/// A refusal: the request was understood and not applied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message} ({code:?})")]
pub struct EtcdError {
    /// The gRPC code.
    pub code: Code,
    /// etcd's own text.
    pub message: Cow<'static, str>,
}

const fn refusal(code: Code, message: &'static str) -> EtcdError {
    EtcdError { code, message: Cow::Borrowed(message) }
}

impl EtcdError {
    /// A request names no key.
    pub const EMPTY_KEY: Self = refusal(Code::InvalidArgument, "etcdserver: key is not provided");
    /// `ignore_value` or `ignore_lease` on a key that does not exist.
    pub const KEY_NOT_FOUND: Self = refusal(Code::InvalidArgument, "etcdserver: key not found");
    /// `ignore_value` together with a value.
    pub const VALUE_PROVIDED: Self = refusal(Code::InvalidArgument, "etcdserver: value is provided");
    /// `ignore_lease` together with a lease.
    pub const LEASE_PROVIDED: Self = refusal(Code::InvalidArgument, "etcdserver: lease is provided");
    /// More than 128 compares, success operations or failure operations (`--max-txn-ops`).
    pub const TOO_MANY_OPS: Self =
        refusal(Code::InvalidArgument, "etcdserver: too many operations in txn request");
    /// One transaction puts a key twice, or puts a key it also deletes.
    pub const DUPLICATE_KEY: Self =
        refusal(Code::InvalidArgument, "etcdserver: duplicate key given in txn request");
    /// A write above 1.5 MiB (`--max-request-bytes`).
    pub const REQUEST_TOO_LARGE: Self = refusal(Code::InvalidArgument, "etcdserver: request is too large");
    /// The revision was compacted away.
    pub const COMPACTED: Self =
        refusal(Code::OutOfRange, "etcdserver: mvcc: required revision has been compacted");
    /// The revision does not exist yet.
    pub const FUTURE_REVISION: Self =
        refusal(Code::OutOfRange, "etcdserver: mvcc: required revision is a future revision");
    /// No such lease, or no longer.
    pub const LEASE_NOT_FOUND: Self = refusal(Code::NotFound, "etcdserver: requested lease not found");
    /// The lease id is taken.
    pub const LEASE_EXISTS: Self = refusal(Code::FailedPrecondition, "etcdserver: lease already exists");
    /// A TTL above 9,000,000,000 s.
    pub const LEASE_TTL_TOO_LARGE: Self = refusal(Code::OutOfRange, "etcdserver: too large lease TTL");
    /// A second watch under one id on one connection.
    pub const WATCH_DUPLICATE_ID: Self =
        refusal(Code::InvalidArgument, "mvcc: duplicate watch ID provided on the WatchStream");
    /// A watch on a range without keys.
    pub const WATCH_EMPTY_RANGE: Self = refusal(Code::InvalidArgument, "mvcc: watcher range is empty");
    /// What a watcher answers once its watch is over.
    pub const WATCH_CANCELED: Self = refusal(Code::Cancelled, "etcdserver: watch canceled");
}
