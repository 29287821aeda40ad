//! The `read_committed` filter: Java's `CompletedFetch`.
//!
//! It works on one fetch response and keeps nothing across responses: what the broker lists as aborted is all it
//! knows. An entry that is missing is an aborted read; one with a wrong producer id, or a first offset too low,
//! loses committed records.

use crate::records;
use crate::types::Header;
use bytes::Bytes;
use std::collections::BTreeSet;

/// An aborted transaction, as a fetch response lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Aborted {
    pub(crate) producer_id: i64,
    pub(crate) first_offset: i64,
}

/// A record that passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fetched {
    pub(crate) offset: i64,
    pub(crate) timestamp_ms: i64,
    pub(crate) key: Option<Bytes>,
    pub(crate) value: Option<Bytes>,
    pub(crate) headers: Vec<Header>,
}

/// What one partition's part of a response holds for the application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Filtered {
    pub(crate) records: Vec<Fetched>,
    /// Where the next fetch starts: past control batches and aborted ones, too.
    pub(crate) next_offset: i64,
}

/// Bytes without a complete batch, or a batch that cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Corrupt;

/// Takes `bytes`, fetched at `position`, apart. `aborted` is the response's list under `read_committed`, `None` under
/// `read_uncommitted`, where only control batches are dropped.
pub(crate) fn filter(
    mut bytes: Bytes,
    aborted: Option<Vec<Aborted>>,
    position: i64,
) -> Result<Filtered, Corrupt> {
    let committed_only = aborted.is_some();
    let mut pending = aborted.unwrap_or_default();
    // Latest first, so that the earliest is taken off the end.
    pending.sort_by_key(|entry| std::cmp::Reverse(entry.first_offset));
    let mut open = BTreeSet::new();
    let mut out = Filtered { records: Vec::new(), next_offset: position };
    let empty = bytes.is_empty();
    let mut batches = 0;
    while let Some((header, batch)) = records::split_batch(&mut bytes) {
        batches += 1;
        if committed_only {
            while let Some(entry) = pending.pop_if(|entry| entry.first_offset <= header.last_offset) {
                open.insert(entry.producer_id);
            }
        }
        let drop_aborted = committed_only && header.transactional && open.contains(&header.producer_id);
        if header.control {
            if committed_only && records::is_abort_marker(batch).ok_or(Corrupt)? {
                open.remove(&header.producer_id);
            }
        } else if !drop_aborted {
            for record in records::decode(batch).ok_or(Corrupt)? {
                // A batch is returned whole when it holds the offset asked for.
                if record.offset >= position {
                    out.records.push(Fetched {
                        headers: records::headers(&record),
                        offset: record.offset,
                        timestamp_ms: record.timestamp,
                        key: record.key,
                        value: record.value,
                    });
                }
            }
        }
        out.next_offset = out.next_offset.max(header.last_offset + 1);
    }
    if batches == 0 && !empty { Err(Corrupt) } else { Ok(out) }
}

#[cfg(test)]
#[path = "filter_tests.rs"]
mod tests;
