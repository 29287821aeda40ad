//! Transactions.

use super::{DeleteRangeRequest, DeleteRangeResponse, PutRequest, PutResponse, RangeRequest, RangeResponse};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// How a compare relates the key's value (left) to the given one (right).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names of rpc.proto say it")]
pub enum CompareOp {
    Equal,
    NotEqual,
    Greater,
    Less,
}

/// What a compare looks at, and the given value. A missing key has version, revisions and lease 0, and no value: a
/// compare on the value of a missing key is false, whatever the operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names of rpc.proto say it")]
pub enum CompareTarget {
    Version(i64),
    CreateRevision(i64),
    ModRevision(i64),
    Value(Bytes),
    Lease(i64),
}

/// One condition of a transaction. With a `range_end` every key of the range must meet it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compare {
    /// First key; must not be empty.
    pub key: Bytes,
    /// End of the range; see the module.
    pub range_end: Bytes,
    /// The relation.
    pub op: CompareOp,
    /// What is compared.
    pub target: CompareTarget,
}

impl Compare {
    /// A condition on one key.
    pub fn new(key: impl Into<Bytes>, op: CompareOp, target: CompareTarget) -> Self {
        Compare { key: key.into(), range_end: Bytes::new(), op, target }
    }
}

/// One operation of a transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names of rpc.proto say it")]
pub enum Op {
    Range(RangeRequest),
    Put(PutRequest),
    DeleteRange(DeleteRangeRequest),
    /// Its conditions look at the store as it was before the outermost transaction.
    Txn(TxnRequest),
}

/// If all of `compare` hold, does `success`, otherwise `failure`; all in one revision.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TxnRequest {
    /// The conditions; none means success.
    pub compare: Vec<Compare>,
    /// Done in order when every condition holds.
    pub success: Vec<Op>,
    /// Done in order otherwise.
    pub failure: Vec<Op>,
}

/// Answers one [`Op`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names of rpc.proto say it")]
pub enum OpResponse {
    Range(RangeResponse),
    Put(PutResponse),
    DeleteRange(DeleteRangeResponse),
    /// Its revision is 0: only the outermost transaction is told one.
    Txn(TxnResponse),
}

/// Answers a [`TxnRequest`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TxnResponse {
    /// The store's revision afterwards; it moves only if something was written.
    pub revision: i64,
    /// Whether every condition held.
    pub succeeded: bool,
    /// One response an operation, in order.
    pub responses: Vec<OpResponse>,
}
