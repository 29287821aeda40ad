//! Responses put together by hand: batches with their offsets patched in, as a broker does.

use super::*;
use crate::records::{Buffered, Stamp, UNSTAMPED, encode};
use bytes::{BufMut, BytesMut};

fn batch(offset: i64, producer_id: i64, values: &[&'static str], transactional: bool) -> Bytes {
    let records: Vec<Buffered> = values
        .iter()
        .map(|value| Buffered {
            timestamp_ms: 5,
            key: None,
            value: Bytes::from_static(value.as_bytes()),
            headers: Vec::new(),
        })
        .collect();
    let stamp = if transactional { Stamp { producer_id, epoch: 0, base_sequence: 0 } } else { UNSTAMPED };
    at(offset, &encode(&records, stamp, transactional))
}

/// The base offset is outside the checksum.
fn at(offset: i64, batch: &[u8]) -> Bytes {
    let mut bytes = BytesMut::from(batch);
    bytes[..8].copy_from_slice(&offset.to_be_bytes());
    bytes.freeze()
}

/// A control batch, written out field by field as the protocol guide has it.
fn marker(offset: i64, producer_id: i64, commit: bool) -> Bytes {
    let mut body = BytesMut::new();
    body.put_i16(0b11_0000); // control, transactional
    body.put_i32(0);
    body.put_i64(5);
    body.put_i64(5);
    body.put_i64(producer_id);
    body.put_i16(0);
    body.put_i32(-1);
    body.put_i32(1);
    // One record: length, attributes, deltas, a key of 4 bytes, a value of 6, no headers (varints are zigzag).
    body.put_slice(&[32, 0, 0, 0, 8, 0, 0, 0, u8::from(commit), 12, 0, 0, 0, 0, 0, 0, 0]);
    let mut bytes = BytesMut::new();
    bytes.put_i64(offset);
    bytes.put_i32((body.len() + 9) as i32);
    bytes.put_i32(0);
    bytes.put_u8(2);
    bytes.put_u32(crc32c::crc32c(&body));
    bytes.put_slice(&body);
    bytes.freeze()
}

fn response(batches: &[Bytes]) -> Bytes {
    batches.concat().into()
}

fn read(bytes: Bytes, aborted: &[(i64, i64)], position: i64) -> (Vec<(i64, String)>, i64) {
    let aborted = aborted.iter().map(|(producer_id, first_offset)| Aborted {
        producer_id: *producer_id,
        first_offset: *first_offset,
    });
    let filtered = filter(bytes, Some(aborted.collect()), position).unwrap();
    let text = |value: Option<Bytes>| String::from_utf8(value.unwrap().to_vec()).unwrap();
    (filtered.records.into_iter().map(|r| (r.offset, text(r.value))).collect(), filtered.next_offset)
}

fn records(expected: &[(i64, &str)]) -> Vec<(i64, String)> {
    expected.iter().map(|(offset, value)| (*offset, (*value).to_string())).collect()
}

#[test]
fn an_aborted_transaction_is_dropped_and_passed_over() {
    let bytes = response(&[batch(0, 7, &["a"], true), batch(1, 9, &["b", "c"], true), marker(3, 7, false)]);
    assert_eq!(read(bytes, &[(7, 0)], 0), (records(&[(1, "b"), (2, "c")]), 4));
}

#[test]
fn the_same_producers_next_transaction_is_not_dropped() {
    let bytes = response(&[
        batch(0, 7, &["a"], true),
        marker(1, 7, false),
        batch(2, 7, &["b"], true),
        marker(3, 7, true),
    ]);
    assert_eq!(read(bytes, &[(7, 0)], 0), (records(&[(2, "b")]), 4));
}

#[test]
fn a_transaction_that_began_before_the_fetch_offset_is_dropped_too() {
    let bytes = response(&[batch(5, 7, &["late"], true), marker(6, 7, false)]);
    assert_eq!(read(bytes, &[(7, 1)], 5), (records(&[]), 7));
}

#[test]
fn an_entry_that_begins_later_drops_nothing_before_it() {
    let bytes = response(&[batch(0, 7, &["a"], true), marker(1, 7, true), batch(2, 7, &["b"], true)]);
    assert_eq!(read(bytes, &[(7, 2)], 0), (records(&[(0, "a")]), 3));
}

#[test]
fn an_entry_without_batches_is_harmless() {
    let bytes = response(&[batch(4, 9, &["a"], true), marker(5, 9, true)]);
    assert_eq!(read(bytes, &[(7, 0)], 4), (records(&[(4, "a")]), 6));
}

#[test]
fn nothing_is_remembered_from_one_response_to_the_next() {
    let first = response(&[batch(0, 7, &["a"], true)]);
    assert_eq!(read(first, &[(7, 0)], 0).0, []);
    // A broker that forgets the entry in the next response shows an aborted record.
    assert_eq!(read(batch(1, 7, &["b"], true), &[], 1).0, records(&[(1, "b")]));
}

#[test]
fn a_record_outside_transactions_is_never_dropped() {
    let bytes = response(&[batch(0, 7, &["plain"], false)]);
    assert_eq!(read(bytes, &[(-1, 0)], 0).0, records(&[(0, "plain")]));
}

#[test]
fn records_below_the_fetch_offset_are_dropped_and_the_rest_of_the_batch_is_not() {
    assert_eq!(read(batch(10, 7, &["a", "b", "c"], true), &[], 11), (records(&[(11, "b"), (12, "c")]), 13));
}

#[test]
fn read_uncommitted_sees_all_but_markers() {
    let bytes = response(&[batch(0, 7, &["a"], true), marker(1, 7, false)]);
    let filtered = filter(bytes, None, 0).unwrap();
    assert_eq!((filtered.records.len(), filtered.next_offset), (1, 2));
}

#[test]
fn a_batch_cut_short_is_ignored_unless_it_is_all_there_is() {
    let (whole, cut) = (batch(0, 7, &["a"], true), batch(1, 7, &["b"], true));
    let cut = cut.slice(..cut.len() - 1);
    assert_eq!(read(response(&[whole, cut.clone()]), &[], 0), (records(&[(0, "a")]), 1));
    assert_eq!(filter(cut, Some(Vec::new()), 1), Err(Corrupt));
    assert_eq!(read(Bytes::new(), &[], 3), (records(&[]), 3));
}
