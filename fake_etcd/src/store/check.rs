//! What etcd refuses before it looks at the data: `v3rpc/key.go` and the raft proposal limit.

use super::index::Span;
use crate::api::{
    Compare, CompareTarget, DeleteRangeRequest, Op, PutRequest, RangeRequest, Request, TxnRequest,
};
use crate::error::EtcdError;
use bytes::Bytes;
use std::collections::BTreeMap;

/// etcd's default `--max-txn-ops`.
pub(super) const MAX_TXN_OPS: usize = 128;
/// etcd's default `--max-request-bytes`.
pub(super) const MAX_REQUEST_BYTES: usize = 1_572_864;
/// A raft proposal's header: a tag of two bytes, a length, and an id.
const RAFT_HEADER_BYTES: usize = 14;

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
    shape(request, MAX_TXN_OPS)?;
    overlaps(&request.success)?;
    overlaps(&request.failure)?;
    Ok(())
}

/// Counts and fields. What one level takes of the `most` operations is gone for those below.
fn shape(request: &TxnRequest, most: usize) -> Result<(), EtcdError> {
    let taken = request.compare.len().max(request.success.len()).max(request.failure.len());
    let Some(left) = most.checked_sub(taken) else { return Err(EtcdError::TOO_MANY_OPS) };
    for compare in &request.compare {
        key(&compare.key)?;
    }
    for op in request.success.iter().chain(&request.failure) {
        match op {
            Op::Range(request) => key(&request.key)?,
            Op::Put(request) => put(request)?,
            Op::DeleteRange(request) => key(&request.key)?,
            Op::Txn(request) => shape(request, left)?,
        }
    }
    Ok(())
}

/// What a branch puts and deletes, with everything nested in it.
#[derive(Default)]
struct Touched<'r> {
    /// The keys put, and whether the put keeps a value or a lease that the key has.
    puts: BTreeMap<&'r Bytes, bool>,
    deletes: Vec<Span<'r>>,
    /// Deletions of every key from one on.
    deletes_from: Vec<Span<'r>>,
}

impl<'r> Touched<'r> {
    fn put(&mut self, key: &'r Bytes, keeps: bool) -> Result<(), EtcdError> {
        let hit = |spans: &[Span<'_>]| spans.iter().any(|span| span.contains(key));
        if hit(&self.deletes) || (keeps && hit(&self.deletes_from)) || self.puts.insert(key, keeps).is_some()
        {
            return Err(EtcdError::DUPLICATE_KEY);
        }
        Ok(())
    }

    fn absorb(&mut self, nested: Touched<'r>) {
        self.deletes.extend(nested.deletes);
        self.deletes_from.extend(nested.deletes_from);
    }
}

/// A branch may put a key once, and not put what it deletes; deleting twice is fine. The two branches of a nested
/// transaction may put the same key, as only one of them is done.
///
/// etcd looks neither at deletions of every key from one on, nor at those of a later nested transaction against the
/// puts of an earlier one; nor does this. But such a put that keeps what the same transaction deletes is refused here,
/// while it ends an etcd: it passes the checks, fails half done, and does so again at each start.
fn overlaps(ops: &[Op]) -> Result<Touched<'_>, EtcdError> {
    let mut touched = Touched::default();
    for op in ops {
        if let Op::DeleteRange(delete) = op {
            match Span::new(&delete.key, &delete.range_end) {
                span @ Span::From(_) => touched.deletes_from.push(span),
                span => touched.deletes.push(span),
            }
        }
    }
    for op in ops {
        let Op::Txn(nested) = op else { continue };
        let (then, otherwise) = (overlaps(&nested.success)?, overlaps(&nested.failure)?);
        for (key, keeps) in &then.puts {
            touched.put(key, *keeps)?;
        }
        for (key, keeps) in &otherwise.puts {
            if !then.puts.contains_key(key) {
                touched.put(key, *keeps)?;
            }
        }
        touched.absorb(then);
        touched.absorb(otherwise);
    }
    for op in ops {
        if let Op::Put(put) = op {
            touched.put(&put.key, put.ignore_value || put.ignore_lease)?;
        }
    }
    Ok(touched)
}

/// The size of the request's raft proposal in protobuf, within two bytes: its random id takes nine or ten.
fn encoded_bytes(request: &Request) -> usize {
    RAFT_HEADER_BYTES
        + message(match request {
            Request::Put(request) => put_bytes(request),
            Request::DeleteRange(request) => delete_bytes(request),
            Request::Txn(request) => txn_bytes(request),
            _ => 0,
        })
}

fn txn_bytes(request: &TxnRequest) -> usize {
    let compares = request.compare.iter().map(|compare| message(compare_bytes(compare)));
    let ops = request.success.iter().chain(&request.failure).map(|op| {
        message(message(match op {
            Op::Range(range) => range_bytes(range),
            Op::Put(put) => put_bytes(put),
            Op::DeleteRange(delete) => delete_bytes(delete),
            Op::Txn(nested) => txn_bytes(nested),
        }))
    });
    compares.chain(ops).sum()
}

fn range_bytes(range: &RangeRequest) -> usize {
    let numbers = [
        range.limit,
        range.revision,
        range.min_mod_revision,
        range.max_mod_revision,
        range.min_create_revision,
        range.max_create_revision,
    ];
    let (target, order) = range.sort.map_or((0, 0), |(target, order)| (target as i64, order as i64));
    let flags = [range.serializable, range.keys_only, range.count_only];
    field(range.key.len())
        + field(range.range_end.len())
        + numbers.into_iter().chain([target, order]).map(number).sum::<usize>()
        + 2 * flags.into_iter().filter(|flag| *flag).count()
}

fn put_bytes(put: &PutRequest) -> usize {
    let flags = [put.prev_kv, put.ignore_value, put.ignore_lease];
    let flags = 2 * flags.into_iter().filter(|flag| *flag).count();
    field(put.key.len()) + field(put.value.len()) + number(put.lease) + flags
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
