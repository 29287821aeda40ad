//! Record batches (Kafka documentation, "Record Batch", magic 2): built by a producer, taken apart by a consumer.

use crate::types::Header;
use bytes::{Bytes, BytesMut};
use kafka_protocol::protocol::StrBytes;
use kafka_protocol::records::{
    Compression, NO_PARTITION_LEADER_EPOCH, Record, RecordBatchDecoder, RecordBatchEncoder,
    RecordEncodeOptions, TimestampType,
};

/// Bytes of a batch before its records.
pub(crate) const HEADER_BYTES: usize = 61;

/// More than any record adds to its key and value: varint lengths, deltas, attributes (Java's
/// `MAX_RECORD_OVERHEAD`).
pub(crate) const RECORD_OVERHEAD_BYTES: usize = 21;

/// More than a header adds to its key and value: two varint lengths.
const HEADER_OVERHEAD_BYTES: usize = 10;

/// A record waiting to be sent.
#[derive(Clone, Debug)]
pub(crate) struct Buffered {
    pub(crate) timestamp_ms: i64,
    pub(crate) key: Option<Bytes>,
    pub(crate) value: Bytes,
    pub(crate) headers: Vec<Header>,
}

impl Buffered {
    /// An upper bound of its encoded size.
    pub(crate) fn size_bytes(&self) -> usize {
        let headers = self.headers.iter().map(|header| {
            HEADER_OVERHEAD_BYTES + header.key.len() + header.value.as_ref().map_or(0, Bytes::len)
        });
        let key = self.key.as_ref().map_or(0, Bytes::len);
        RECORD_OVERHEAD_BYTES + key + self.value.len() + headers.sum::<usize>()
    }
}

/// Who writes a batch: producer id, epoch, sequence of the first record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) producer_id: i64,
    pub(crate) epoch: i16,
    pub(crate) base_sequence: i32,
}

/// The stamp of a producer without idempotence.
pub(crate) const UNSTAMPED: Stamp = Stamp { producer_id: -1, epoch: -1, base_sequence: -1 };

/// Encodes one batch, at offset 0 as producers do. The same arguments give the same bytes.
pub(crate) fn encode(records: &[Buffered], stamp: Stamp, transactional: bool) -> Bytes {
    let records: Vec<Record> = (0i32..)
        .zip(records)
        .map(|(i, record)| Record {
            transactional,
            control: false,
            delete_horizon: false,
            partition_leader_epoch: NO_PARTITION_LEADER_EPOCH,
            producer_id: stamp.producer_id,
            producer_epoch: stamp.epoch,
            timestamp_type: TimestampType::Creation,
            offset: i64::from(i),
            // The codec groups records by (offset - sequence): they must ascend together, also from -1, also past MAX.
            sequence: stamp.base_sequence.wrapping_add(i),
            timestamp: record.timestamp_ms,
            key: record.key.clone(),
            value: Some(record.value.clone()),
            headers: record
                .headers
                .iter()
                .map(|header| (StrBytes::from_string(header.key.clone()), header.value.clone()))
                .collect(),
        })
        .collect();
    let mut bytes = BytesMut::new();
    let options = RecordEncodeOptions { version: 2, compression: Compression::None };
    RecordBatchEncoder::encode(&mut bytes, &records, &options)
        .expect("records below the size limits can be encoded");
    bytes.freeze()
}

/// What a fetched batch says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchHeader {
    pub(crate) base_offset: i64,
    pub(crate) last_offset: i64,
    pub(crate) producer_id: i64,
    pub(crate) epoch: i16,
    pub(crate) base_sequence: i32,
    pub(crate) transactional: bool,
    pub(crate) control: bool,
}

/// Splits the first complete batch off `bytes`. `None` when there is none: a broker may cut the last batch short.
///
/// The codec drops `last_offset_delta`, which the next fetch offset is computed from, so the header is read here.
pub(crate) fn split_batch(bytes: &mut Bytes) -> Option<(BatchHeader, Bytes)> {
    let length = i32::from_be_bytes(*bytes.get(8..)?.first_chunk()?);
    let total = usize::try_from(length).ok()?.checked_add(12)?;
    if total < HEADER_BYTES || bytes.len() < total {
        return None;
    }
    let batch = bytes.split_to(total);
    let base_offset = i64::from_be_bytes(*batch.first_chunk()?);
    let attributes = i16::from_be_bytes(*batch[21..].first_chunk()?);
    let last_offset_delta = i32::from_be_bytes(*batch[23..].first_chunk()?);
    let header = BatchHeader {
        base_offset,
        last_offset: base_offset.checked_add(i64::from(last_offset_delta))?,
        producer_id: i64::from_be_bytes(*batch[43..].first_chunk()?),
        epoch: i16::from_be_bytes(*batch[51..].first_chunk()?),
        base_sequence: i32::from_be_bytes(*batch[53..].first_chunk()?),
        transactional: attributes & (1 << 4) != 0,
        control: attributes & (1 << 5) != 0,
    };
    Some((header, batch))
}

/// A decoded record's headers.
pub(crate) fn headers(record: &Record) -> Vec<Header> {
    let each = record.headers.iter();
    each.map(|(key, value)| Header { key: key.to_string(), value: value.clone() }).collect()
}

/// Decodes a batch's records; `None` when its checksum or its encoding is wrong.
pub(crate) fn decode(mut batch: Bytes) -> Option<Vec<Record>> {
    RecordBatchDecoder::decode(&mut batch).ok().map(|set| set.records)
}

/// Whether a control batch is an abort marker: its record's key is a version and a type, 0 for abort.
pub(crate) fn is_abort_marker(batch: Bytes) -> Option<bool> {
    let record = decode(batch)?.into_iter().next()?;
    let kind = i16::from_be_bytes(*record.key?.get(2..)?.first_chunk()?);
    Some(kind == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buffered(value: &'static str) -> Buffered {
        let value = Bytes::from_static(value.as_bytes());
        Buffered { timestamp_ms: 1_000, key: None, value, headers: Vec::new() }
    }

    #[test]
    fn a_batch_survives_the_round_trip_and_repeats_byte_for_byte() {
        let stamp = Stamp { producer_id: 7, epoch: 2, base_sequence: 40 };
        let records = [buffered("a"), buffered("b")];
        let bytes = encode(&records, stamp, true);
        assert_eq!(bytes, encode(&records, stamp, true));
        let mut rest = bytes.clone();
        let (header, batch) = split_batch(&mut rest).unwrap();
        let expected = BatchHeader {
            base_offset: 0,
            last_offset: 1,
            producer_id: 7,
            epoch: 2,
            base_sequence: 40,
            transactional: true,
            control: false,
        };
        assert_eq!(header, expected);
        assert!(rest.is_empty());
        let decoded = decode(batch).unwrap();
        assert_eq!(decoded.iter().map(|record| record.sequence).collect::<Vec<_>>(), [40, 41]);
    }

    #[test]
    fn a_batch_stays_one_batch_without_sequences_and_when_they_wrap() {
        for base_sequence in [-1, i32::MAX] {
            let stamp = Stamp { producer_id: 1, epoch: 0, base_sequence };
            let mut bytes = encode(&[buffered("a"), buffered("b"), buffered("c")], stamp, false);
            let (header, _) = split_batch(&mut bytes).unwrap();
            assert_eq!((header.last_offset, bytes.len()), (2, 0));
            assert_eq!(header.base_sequence, base_sequence);
        }
    }

    #[test]
    fn headers_and_timestamp_come_back_as_they_were_sent() {
        let sent = Buffered {
            headers: vec![Header::new("digest", "abc"), Header { key: "none".into(), value: None }],
            ..buffered("a")
        };
        let decoded = decode(encode(std::slice::from_ref(&sent), UNSTAMPED, false)).unwrap();
        assert_eq!((headers(&decoded[0]), decoded[0].timestamp), (sent.headers.clone(), 1_000));
        assert!(sent.size_bytes() >= buffered("a").size_bytes() + "digestabcnone".len());
    }

    #[test]
    fn a_batch_cut_short_is_no_batch() {
        let bytes = encode(&[buffered("a")], UNSTAMPED, false);
        assert_eq!(split_batch(&mut bytes.slice(..bytes.len() - 1)), None);
        assert_eq!(split_batch(&mut bytes.slice(..11)), None);
    }

    #[test]
    fn a_damaged_batch_is_not_decoded() {
        let mut bytes = encode(&[buffered("a")], UNSTAMPED, false).to_vec();
        *bytes.last_mut().unwrap() ^= 1;
        assert_eq!(decode(bytes.into()), None);
    }
}
