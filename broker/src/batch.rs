//! Record batches (magic 2) as opaque bytes: read the header, check it, patch what lies outside the CRC, and write
//! control batches. Records are only walked to count them and to answer a timestamp lookup. Of a batch with more than
//! [`RECORDS_MAX_BYTES`] of records the rest is believed.
//!
//! Layout: Kafka's docs, "Message format, record batch". Rules for a produced batch: kafka.md 1.4, after
//! `ProduceRequest.validateRecords` and `LogValidator`.

use crate::decompress::{self, RECORDS_MAX_BYTES};
use crate::walk::{Walked, walk};
use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::ResponseError;
use std::io::BufRead;
use std::ops::ControlFlow;

/// Bytes before the records.
pub(crate) const HEADER_BYTES: usize = 61;
/// Size of a control batch written by [`marker`].
pub(crate) const MARKER_BYTES: usize = 78;

const LENGTH_AT: usize = 8;
const LEADER_EPOCH_AT: usize = 12;
const MAGIC_AT: usize = 16;
const CRC_AT: usize = 17;
const ATTRIBUTES_AT: usize = 21;
const LAST_OFFSET_DELTA_AT: usize = 23;
const BASE_TIMESTAMP_AT: usize = 27;
const MAX_TIMESTAMP_AT: usize = 35;
const PRODUCER_ID_AT: usize = 43;
const EPOCH_AT: usize = 51;
const BASE_SEQUENCE_AT: usize = 53;
const COUNT_AT: usize = 57;

const CODEC_MASK: i16 = 0b111;
const TRANSACTIONAL: i16 = 1 << 4;
const CONTROL: i16 = 1 << 5;

/// What a batch's header says about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) count: i32,
    pub(crate) max_timestamp_ms: i64,
    /// -1 when the producer is not idempotent.
    pub(crate) producer_id: i64,
    pub(crate) epoch: i16,
    pub(crate) base_sequence: i32,
    pub(crate) transactional: bool,
}

impl Header {
    /// The sequence number of the last record; sequences wrap from `i32::MAX` to 0.
    pub(crate) fn last_sequence(&self) -> i32 {
        ((i64::from(self.base_sequence) + i64::from(self.count) - 1) & i64::from(i32::MAX)) as i32
    }
}

/// Checks the records of one partition of a Produce request, which must be exactly one whole batch.
///
/// # Errors
/// What the partition is answered: CORRUPT_MESSAGE or INVALID_RECORD.
pub(crate) fn check(records: &[u8]) -> Result<Header, ResponseError> {
    if records.len() < HEADER_BYTES {
        return Err(if records.is_empty() {
            ResponseError::InvalidRecord
        } else {
            ResponseError::CorruptMessage
        });
    }
    if records[MAGIC_AT] != 2 {
        return Err(ResponseError::InvalidRecord);
    }
    let length = usize::try_from(get_i32(records, LENGTH_AT)).map_err(|_| ResponseError::CorruptMessage)?;
    match (LENGTH_AT + 4).checked_add(length) {
        Some(size) if size == records.len() => {}
        Some(size) if size < records.len() && size >= HEADER_BYTES => {
            return Err(ResponseError::InvalidRecord);
        }
        _ => return Err(ResponseError::CorruptMessage),
    }
    if crc32c::crc32c(&records[ATTRIBUTES_AT..]) != get_i32(records, CRC_AT) as u32 {
        return Err(ResponseError::CorruptMessage);
    }
    let header = check_header(records)?;
    let codec = get_i16(records, ATTRIBUTES_AT) & CODEC_MASK;
    let holds = match codec {
        0 => holds(&records[HEADER_BYTES..], header.count),
        _ => decompress::records(codec, &records[HEADER_BYTES..])
            .is_ok_and(|records| holds(records, header.count)),
    };
    if holds { Ok(header) } else { Err(ResponseError::InvalidRecord) }
}

/// Whether these are exactly `count` records, by their lengths and offset deltas; offsets are given out by the count.
fn holds(records: impl BufRead, count: i32) -> bool {
    let mut next = 0;
    let walked = walk(records, |record| {
        let in_order = record.offset_delta == next && next < i64::from(count);
        next += 1;
        if in_order { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    match walked {
        Ok(Walked::ToTheEnd { bytes }) => next == i64::from(count) || bytes >= RECORDS_MAX_BYTES,
        Ok(Walked::Stopped) | Err(_) => false,
    }
}

fn check_header(records: &[u8]) -> Result<Header, ResponseError> {
    let attributes = get_i16(records, ATTRIBUTES_AT);
    let header = Header {
        count: get_i32(records, COUNT_AT),
        max_timestamp_ms: get_i64(records, MAX_TIMESTAMP_AT),
        producer_id: get_i64(records, PRODUCER_ID_AT),
        epoch: get_i16(records, EPOCH_AT),
        base_sequence: get_i32(records, BASE_SEQUENCE_AT),
        transactional: attributes & TRANSACTIONAL != 0,
    };
    let idempotent = header.producer_id >= 0;
    let sound = header.count > 0
        && get_i32(records, LAST_OFFSET_DELTA_AT) == header.count - 1
        && attributes & CONTROL == 0
        && (idempotent || !header.transactional)
        && (!idempotent || (header.epoch >= 0 && header.base_sequence >= 0));
    if sound { Ok(header) } else { Err(ResponseError::InvalidRecord) }
}

/// Writes the offset and the leader epoch that readers see into a stored batch. Both lie outside the CRC.
pub(crate) fn patch(batch: &mut [u8], base_offset: i64, leader_epoch: i32) {
    batch[..8].copy_from_slice(&base_offset.to_be_bytes());
    batch[LEADER_EPOCH_AT..LEADER_EPOCH_AT + 4].copy_from_slice(&leader_epoch.to_be_bytes());
}

/// Appends the control batch that ends a transaction on a partition: one record whose key says abort (0) or commit (1).
/// The same arguments always give the same bytes.
pub(crate) fn marker(
    out: &mut BytesMut,
    offset: i64,
    producer_id: i64,
    epoch: i16,
    committed: bool,
    timestamp_ms: i64,
) {
    let start = out.len();
    out.put_i64(offset);
    out.put_i32((MARKER_BYTES - LENGTH_AT - 4) as i32);
    out.put_i32(0);
    out.put_i8(2);
    out.put_u32(0);
    out.put_i16(TRANSACTIONAL | CONTROL);
    out.put_i32(0);
    out.put_i64(timestamp_ms);
    out.put_i64(timestamp_ms);
    out.put_i64(producer_id);
    out.put_i16(epoch);
    out.put_i32(-1);
    out.put_i32(1);
    // One record: varint length 16, attributes, deltas, key length 4, key (version 0, type), value length 6, value
    // (version 0, coordinator epoch 0), no headers.
    out.put_slice(&[32, 0, 0, 0, 8, 0, 0, 0, u8::from(committed), 12, 0, 0, 0, 0, 0, 0, 0]);
    let crc = crc32c::crc32c(&out[start + ATTRIBUTES_AT..]);
    out[start + CRC_AT..start + ATTRIBUTES_AT].copy_from_slice(&crc.to_be_bytes());
}

/// The first record at or after `timestamp_ms`, from offset delta `from_delta` on: its offset delta and its own timestamp.
/// `None` when there is none, or when the records cannot be read that far.
pub(crate) fn find_timestamp(batch: &Bytes, from_delta: i64, timestamp_ms: i64) -> Option<(i64, i64)> {
    let compressed = batch.get(HEADER_BYTES..)?;
    let base = get_i64(batch, BASE_TIMESTAMP_AT);
    let records = decompress::records(get_i16(batch, ATTRIBUTES_AT) & CODEC_MASK, compressed).ok()?;
    let mut found = None;
    walk(records, |record| {
        let timestamp = base.saturating_add(record.timestamp_delta);
        if record.offset_delta < from_delta || timestamp < timestamp_ms {
            return ControlFlow::Continue(());
        }
        found = Some((record.offset_delta, timestamp));
        ControlFlow::Break(())
    })
    .ok()?;
    found
}

fn get_i16(bytes: &[u8], at: usize) -> i16 {
    i16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn get_i32(bytes: &[u8], at: usize) -> i32 {
    i32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn get_i64(bytes: &[u8], at: usize) -> i64 {
    i64::from(get_i32(bytes, at)) << 32 | i64::from(get_i32(bytes, at + 4) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kafka_protocol::records::{
        Compression, Record, RecordBatchDecoder, RecordBatchEncoder, RecordEncodeOptions, TimestampType,
    };

    fn encoded(count: i32, producer_id: i64, transactional: bool) -> Vec<u8> {
        let records: Vec<Record> = (0..count)
            .map(|n| Record {
                transactional,
                control: false,
                delete_horizon: false,
                partition_leader_epoch: -1,
                producer_id,
                producer_epoch: if producer_id < 0 { -1 } else { 3 },
                timestamp_type: TimestampType::Creation,
                offset: i64::from(n),
                sequence: if producer_id < 0 { n - 1 } else { 5 + n },
                timestamp: 1_000 + 10 * i64::from(n),
                key: None,
                value: Some(Bytes::from(format!("v{n}"))),
                headers: Default::default(),
            })
            .collect();
        let mut out = BytesMut::new();
        let options = RecordEncodeOptions { version: 2, compression: Compression::None };
        RecordBatchEncoder::encode(&mut out, &records, &options).unwrap();
        out.to_vec()
    }

    fn seal(batch: &mut [u8]) {
        let crc = crc32c::crc32c(&batch[ATTRIBUTES_AT..]);
        batch[CRC_AT..ATTRIBUTES_AT].copy_from_slice(&crc.to_be_bytes());
    }

    #[test]
    fn the_header_of_a_real_batch_is_read() {
        let header = check(&encoded(3, 7, true)).unwrap();
        let expected = Header {
            count: 3,
            max_timestamp_ms: 1_020,
            producer_id: 7,
            epoch: 3,
            base_sequence: 5,
            transactional: true,
        };
        assert_eq!(header, expected);
        assert_eq!(header.last_sequence(), 7);
        let wrapping = Header { base_sequence: i32::MAX, ..header };
        assert_eq!(wrapping.last_sequence(), 1, "MAX, 0, 1");
        assert!(!check(&encoded(1, -1, false)).unwrap().transactional);
    }

    #[test]
    fn a_produced_batch_must_be_one_whole_sound_batch() {
        let good = encoded(2, 7, false);
        let broken = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut batch = good.clone();
            change(&mut batch);
            check(&batch).unwrap_err()
        };
        assert_eq!(check(&[]).unwrap_err(), ResponseError::InvalidRecord);
        assert_eq!(broken(&|b| b.truncate(60)), ResponseError::CorruptMessage);
        assert_eq!(broken(&|b| b.truncate(b.len() - 1)), ResponseError::CorruptMessage);
        assert_eq!(broken(&|b| b[MAGIC_AT] = 1), ResponseError::InvalidRecord);
        assert_eq!(broken(&|b| b[LENGTH_AT] = 0x80), ResponseError::CorruptMessage);
        assert_eq!(broken(&|b| *b.last_mut().unwrap() ^= 1), ResponseError::CorruptMessage);
        let second = good.clone();
        assert_eq!(broken(&|b| b.extend_from_slice(&second)), ResponseError::InvalidRecord);
        let sealed = |at: usize, value: u8| {
            broken(&|b| {
                b[at] = value;
                seal(b);
            })
        };
        assert_eq!(sealed(COUNT_AT + 3, 3), ResponseError::InvalidRecord, "count is not last delta + 1");
        let counted = |count: u8| {
            broken(&|b| {
                b[COUNT_AT + 3] = count;
                b[LAST_OFFSET_DELTA_AT + 3] = count - 1;
                seal(b);
            })
        };
        assert_eq!((counted(1), counted(3)), (ResponseError::InvalidRecord, ResponseError::InvalidRecord));
        assert_eq!(sealed(HEADER_BYTES, 1), ResponseError::InvalidRecord, "a record of length -1");
        assert_eq!(sealed(HEADER_BYTES, 0x7e), ResponseError::InvalidRecord, "a record of length 63");
        assert_eq!(
            sealed(ATTRIBUTES_AT + 1, CONTROL as u8),
            ResponseError::InvalidRecord,
            "clients write no control"
        );
        assert_eq!(
            sealed(HEADER_BYTES + 3, 2),
            ResponseError::InvalidRecord,
            "the first record has offset delta 1"
        );
        assert_eq!(sealed(EPOCH_AT, 0xff), ResponseError::InvalidRecord, "negative epoch");
        assert_eq!(sealed(BASE_SEQUENCE_AT, 0xff), ResponseError::InvalidRecord, "negative sequence");
    }

    #[test]
    fn patched_offsets_are_seen_and_the_crc_holds() {
        let mut batch = encoded(2, 7, false);
        patch(&mut batch, 1_000_000_007, 0);
        assert!(check(&batch).is_ok());
        let set = RecordBatchDecoder::decode(&mut Bytes::from(batch)).unwrap();
        assert_eq!(set.records.iter().map(|r| r.offset).collect::<Vec<_>>(), [1_000_000_007, 1_000_000_008]);
        assert_eq!(set.records[0].partition_leader_epoch, 0);
    }

    #[test]
    fn markers_are_control_batches_a_client_understands() {
        for committed in [false, true] {
            let mut out = BytesMut::new();
            marker(&mut out, 41, 7, 2, committed, 5_000);
            assert_eq!(out.len(), MARKER_BYTES);
            let set = RecordBatchDecoder::decode(&mut out.freeze()).unwrap();
            let [record] = &set.records[..] else { panic!("one record") };
            assert!(record.control && record.transactional);
            assert_eq!((record.offset, record.producer_id, record.producer_epoch), (41, 7, 2));
            assert_eq!(record.timestamp, 5_000);
            assert_eq!(record.key.as_deref(), Some(&[0, 0, 0, u8::from(committed)][..]));
            assert_eq!(record.value.as_deref(), Some(&[0; 6][..]));
        }
    }

    #[test]
    fn timestamps_are_found_inside_a_batch() {
        let batch = Bytes::from(encoded(3, 7, false));
        assert_eq!(find_timestamp(&batch, 0, 0), Some((0, 1_000)));
        assert_eq!(find_timestamp(&batch, 0, 1_001), Some((1, 1_010)));
        assert_eq!(find_timestamp(&batch, 0, 1_020), Some((2, 1_020)));
        assert_eq!(find_timestamp(&batch, 0, 1_021), None);
        assert_eq!(find_timestamp(&batch, 2, 0), Some((2, 1_020)), "the records before are gone");
    }

    /// The batch with its records compressed by each codec.
    fn compressed(batch: &[u8]) -> Vec<Vec<u8>> {
        let with = |(codec, records): (i16, Vec<u8>)| {
            let mut out = [&batch[..HEADER_BYTES], &records].concat();
            let length = (out.len() - LENGTH_AT - 4) as i32;
            out[LENGTH_AT..LENGTH_AT + 4].copy_from_slice(&length.to_be_bytes());
            out[ATTRIBUTES_AT + 1] |= codec as u8;
            seal(&mut out);
            out
        };
        decompress::tests::compressed(&batch[HEADER_BYTES..]).into_iter().map(with).collect()
    }

    #[test]
    fn compressed_records_are_counted_and_found_too() {
        for batch in compressed(&encoded(3, 7, false)) {
            assert_eq!(check(&batch).map(|header| header.count), Ok(3));
            let found = |timestamp_ms| find_timestamp(&Bytes::from(batch.clone()), 0, timestamp_ms);
            assert_eq!((found(1_001), found(1_021)), (Some((1, 1_010)), None));
            let mut counted_wrongly = batch.clone();
            counted_wrongly[COUNT_AT + 3] = 4;
            counted_wrongly[LAST_OFFSET_DELTA_AT + 3] = 3;
            seal(&mut counted_wrongly);
            assert_eq!(check(&counted_wrongly), Err(ResponseError::InvalidRecord));
        }
    }

    #[test]
    fn no_bytes_make_the_reader_panic() {
        compressed(&encoded(2, 7, false)).into_iter().for_each(spoil);
    }

    fn spoil(good: Vec<u8>) {
        for at in 0..good.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut batch = good.clone();
                batch[at] = value;
                let _ = check(&batch);
                seal(&mut batch);
                let _ = check(&batch);
                let _ = find_timestamp(&Bytes::from(batch), 0, 1_005);
            }
        }
    }
}
