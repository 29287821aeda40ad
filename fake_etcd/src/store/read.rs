//! Ranges and compares.

use super::index::{Index, Span};
use crate::api::{
    Compare, CompareOp, CompareTarget, KeyValue, RangeRequest, RangeResponse, SortOrder, SortTarget,
};
use crate::error::EtcdError;
use bytes::Bytes;
use std::cmp::Ordering;
use std::sync::Arc;

/// Whether a range may be read at `revision`, now being `current`.
fn check_revision(index: &Index, revision: i64, current: i64) -> Result<(), EtcdError> {
    if revision > current {
        Err(EtcdError::FUTURE_REVISION)
    } else if revision > 0 && revision < index.compacted() {
        Err(EtcdError::COMPACTED)
    } else {
        Ok(())
    }
}

/// What a transaction checks of its ranges before it does anything. Unlike a range by itself it takes a negative
/// revision for one that was compacted, or lies before the first.
pub(super) fn check_in_txn(index: &Index, revision: i64) -> Result<(), EtcdError> {
    if revision > index.revision() {
        Err(EtcdError::FUTURE_REVISION)
    } else if revision != 0 && revision < index.compacted() {
        Err(EtcdError::COMPACTED)
    } else {
        Ok(())
    }
}

/// Reads a range, now being `current`.
pub(crate) fn range(index: &Index, request: &RangeRequest, current: i64) -> Result<RangeResponse, EtcdError> {
    check_revision(index, request.revision, current)?;
    let at = if request.revision > 0 { request.revision } else { current };
    let span = Span::new(&request.key, &request.range_end);
    let mut response = RangeResponse { revision: current, ..Default::default() };
    if !request.uncounted {
        response.count = index.count(span, at) as i64;
    }
    if request.count_only {
        return Ok(response);
    }
    let limit = usize::try_from(request.limit).ok().filter(|limit| *limit > 0).unwrap_or(usize::MAX);
    // With sorting or bounds the limit applies to the end result.
    let fetch = if limits_first(request) { limit.saturating_add(1) } else { usize::MAX };
    let within = index.live(span, at).filter(|record| within_bounds(request, record));
    response.kvs.extend(within.take(fetch).cloned());
    if let Some((target, order)) = request.sort {
        sort(&mut response.kvs, target, order);
    }
    response.more = response.kvs.len() > limit;
    response.kvs.truncate(limit);
    if request.keys_only {
        for record in &mut response.kvs {
            *record = Arc::new(KeyValue { value: Bytes::new(), ..(**record).clone() });
        }
    }
    Ok(response)
}

/// Whether a limit applies before anything else.
fn limits_first(request: &RangeRequest) -> bool {
    matches!(request.sort, None | Some((_, SortOrder::None)))
        && request.min_mod_revision == 0
        && request.max_mod_revision == 0
        && request.min_create_revision == 0
        && request.max_create_revision == 0
}

fn within_bounds(request: &RangeRequest, record: &KeyValue) -> bool {
    let within = |n: i64, min: i64, max: i64| (min == 0 || n >= min) && (max == 0 || n <= max);
    within(record.mod_revision, request.min_mod_revision, request.max_mod_revision)
        && within(record.create_revision, request.min_create_revision, request.max_create_revision)
}

fn sort(kvs: &mut [Arc<KeyValue>], target: SortTarget, order: SortOrder) {
    let compare = |a: &KeyValue, b: &KeyValue| match target {
        SortTarget::Key => a.key.cmp(&b.key),
        SortTarget::Version => a.version.cmp(&b.version),
        SortTarget::CreateRevision => a.create_revision.cmp(&b.create_revision),
        SortTarget::ModRevision => a.mod_revision.cmp(&b.mod_revision),
        SortTarget::Value => a.value.cmp(&b.value),
    };
    // etcd leaves the order of equals open; here they stay in order of key.
    kvs.sort_by(|a, b| match order {
        SortOrder::None | SortOrder::Ascend => compare(a, b),
        SortOrder::Descend => compare(b, a),
    });
}

/// Whether every key of the compare's range meets it; see [`CompareTarget`] for a range without keys.
pub(crate) fn holds(index: &Index, compare: &Compare) -> bool {
    let span = Span::new(&compare.key, &compare.range_end);
    let mut records = index.live(span, index.revision()).peekable();
    if records.peek().is_none() {
        return !matches!(compare.target, CompareTarget::Value(_)) && meets(compare, &KeyValue::default());
    }
    records.all(|record| meets(compare, record))
}

fn meets(compare: &Compare, record: &KeyValue) -> bool {
    let ordering = match &compare.target {
        CompareTarget::Version(given) => record.version.cmp(given),
        CompareTarget::CreateRevision(given) => record.create_revision.cmp(given),
        CompareTarget::ModRevision(given) => record.mod_revision.cmp(given),
        CompareTarget::Value(given) => record.value.cmp(given),
        CompareTarget::Lease(given) => record.lease.cmp(given),
    };
    match compare.op {
        CompareOp::Equal => ordering == Ordering::Equal,
        CompareOp::NotEqual => ordering != Ordering::Equal,
        CompareOp::Greater => ordering == Ordering::Greater,
        CompareOp::Less => ordering == Ordering::Less,
    }
}
