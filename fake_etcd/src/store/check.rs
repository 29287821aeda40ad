//! What etcd refuses before it looks at the data: `v3rpc/key.go` and the raft proposal limit.

use super::index::Span;
use crate::api::{Compare, CompareTarget, DeleteRangeRequest, Op, PutRequest, Request, TxnRequest};
use crate::error::EtcdError;
use std::collections::BTreeSet;

/// etcd's default `--max-txn-ops`.
pub(super) const MAX_TXN_OPS: usize = 128;
/// etcd's default `--max-request-bytes`.
pub(super) const MAX_REQUEST_BYTES: usize = 1_572_864;

pub(crate) fn check(request: &Request) -> Result<(), EtcdError> {
    match request {
        Request::Range(range) => key(&range.key)?,
        Request::Put(request) => put(request)?,
        Request::DeleteRange(request) => key(&request.key)?,
        Request::Txn(request) => txn(request)?,
        _ => {}
    }
    // Only what goes through raft is measured.
    if !request.is_read_only() && encoded_bytes(request) > MAX_REQUEST_BYTES {
        return Err(EtcdError::REQUEST_TOO_LARGE);
    }
    Ok(())
}

fn key(key: &[u8]) -> Result<(), EtcdError> {
    if key.is_empty() { Err(EtcdError::EMPTY_KEY) } else { Ok(()) }
}

fn put(request: &PutRequest) -> Result<(), EtcdError> {
    key(&request.key)?;
    if request.ignore_value && !request.value.is_empty() {
        return Err(EtcdError::VALUE_PROVIDED);
    }
    if request.ignore_lease && request.lease != 0 {
        return Err(EtcdError::LEASE_PROVIDED);
    }
    Ok(())
}

fn txn(request: &TxnRequest) -> Result<(), EtcdError> {
    let most = request.compare.len().max(request.success.len()).max(request.failure.len());
    if most > MAX_TXN_OPS {
        return Err(EtcdError::TOO_MANY_OPS);
    }
    for compare in &request.compare {
        key(&compare.key)?;
    }
    for op in request.success.iter().chain(&request.failure) {
        match op {
            Op::Range(request) => key(&request.key)?,
            Op::Put(request) => put(request)?,
            Op::DeleteRange(request) => key(&request.key)?,
        }
    }
    overlaps(&request.success)?;
    overlaps(&request.failure)
}

/// A branch may put a key once, and not put what it deletes; deleting twice is fine.
fn overlaps(ops: &[Op]) -> Result<(), EtcdError> {
    let deletes: Vec<_> = ops.iter().filter_map(deleted).collect();
    let mut puts = BTreeSet::new();
    for op in ops {
        if let Op::Put(put) = op
            && (!puts.insert(&put.key) || deletes.iter().any(|span| span.contains(&put.key)))
        {
            return Err(EtcdError::DUPLICATE_KEY);
        }
    }
    Ok(())
}

fn deleted(op: &Op) -> Option<Span<'_>> {
    match op {
        Op::DeleteRange(delete) => Some(Span::new(&delete.key, &delete.range_end)),
        Op::Range(_) | Op::Put(_) => None,
    }
}

/// The request's protobuf size but for its raft header, within some ten bytes.
fn encoded_bytes(request: &Request) -> usize {
    match request {
        Request::Put(request) => put_bytes(request),
        Request::DeleteRange(request) => delete_bytes(request),
        Request::Txn(request) => {
            let compares = request.compare.iter().map(|compare| message(compare_bytes(compare)));
            let ops = request.success.iter().chain(&request.failure).map(|op| {
                message(message(match op {
                    Op::Range(range) => field(range.key.len()) + field(range.range_end.len()) + 16,
                    Op::Put(put) => put_bytes(put),
                    Op::DeleteRange(delete) => delete_bytes(delete),
                }))
            });
            compares.chain(ops).sum()
        }
        _ => 0,
    }
}

fn put_bytes(put: &PutRequest) -> usize {
    field(put.key.len()) + field(put.value.len()) + number(put.lease) + 2 * usize::from(put.prev_kv)
}

fn delete_bytes(delete: &DeleteRangeRequest) -> usize {
    field(delete.key.len()) + field(delete.range_end.len()) + 2 * usize::from(delete.prev_kv)
}

fn compare_bytes(compare: &Compare) -> usize {
    let target = match &compare.target {
        CompareTarget::Version(n)
        | CompareTarget::CreateRevision(n)
        | CompareTarget::ModRevision(n)
        | CompareTarget::Lease(n) => number(*n),
        CompareTarget::Value(value) => field(value.len()),
    };
    4 + field(compare.key.len()) + field(compare.range_end.len()) + target
}

/// A length-delimited protobuf field; an empty one is left out.
fn field(bytes: usize) -> usize {
    if bytes == 0 { 0 } else { message(bytes) }
}

fn message(bytes: usize) -> usize {
    1 + varint(bytes as u64) + bytes
}

fn number(n: i64) -> usize {
    if n == 0 { 0 } else { 1 + varint(n as u64) }
}

fn varint(n: u64) -> usize {
    (64 - (n | 1).leading_zeros() as usize).div_ceil(7)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protobuf_sizes_are_as_the_encoding_says() {
        assert_eq!([0, 127, 128, 16_383, 16_384, u64::MAX].map(varint), [1, 1, 2, 2, 3, 10]);
        // Tag, length, bytes; twice; tag and one byte of lease.
        let put = PutRequest { lease: 5, ..PutRequest::new("key", "value") };
        assert_eq!(put_bytes(&put), 5 + 7 + 2);
        assert_eq!(put_bytes(&PutRequest::new("k", "")), 3);
    }
}
