//! Kafka frames: a length, a header, a body.

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages::{RequestHeader, ResponseHeader};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Request, StrBytes};

/// Largest answer accepted: Java's `socket.request.max.bytes` default, which brokers use for requests.
pub(crate) const FRAME_MAX_BYTES: usize = 100 * 1024 * 1024;

/// Encodes a request as one frame, length prefix included.
///
/// # Errors
/// When a field does not exist in that version: a mistake in this crate.
pub(crate) fn encode<R: Request>(
    request: &R,
    version: i16,
    correlation_id: i32,
    client_id: &str,
) -> Result<Bytes, Malformed> {
    let header = RequestHeader::default()
        .with_request_api_key(R::KEY)
        .with_request_api_version(version)
        .with_correlation_id(correlation_id)
        .with_client_id(Some(StrBytes::from_string(client_id.to_string())));
    let mut frame = BytesMut::new();
    frame.put_i32(0);
    header.encode(&mut frame, R::header_version(version)).map_err(|_| Malformed)?;
    request.encode(&mut frame, version).map_err(|_| Malformed)?;
    let length = i32::try_from(frame.len() - 4).map_err(|_| Malformed)?;
    frame[..4].copy_from_slice(&length.to_be_bytes());
    Ok(frame.freeze())
}

/// Decodes an answer without its length prefix, header included.
pub(crate) fn decode<R: Request>(version: i16, mut frame: Bytes) -> Result<R::Response, Malformed> {
    ResponseHeader::decode(&mut frame, R::Response::header_version(version)).map_err(|_| Malformed)?;
    R::Response::decode(&mut frame, version).map_err(|_| Malformed)
}

/// The correlation id of an answer: its first four bytes.
pub(crate) fn correlation_id(frame: &[u8]) -> Option<i32> {
    frame.first_chunk().map(|bytes| i32::from_be_bytes(*bytes))
}

/// Bytes that are not a message of the expected kind, or a message that has no such bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

#[cfg(test)]
mod tests {
    use super::*;
    use kafka_protocol::messages::{ApiVersionsRequest, ApiVersionsResponse, EndTxnRequest};

    #[test]
    fn an_end_txn_frame_has_the_bytes_of_the_protocol_guide() {
        let request = EndTxnRequest::default()
            .with_transactional_id(StrBytes::from_static_str("jt1").into())
            .with_producer_id(7.into())
            .with_producer_epoch(1)
            .with_committed(true);
        // Version 1 is not flexible: header v1 (key 26, version 1, correlation id, client id), then the fields.
        let expected = b"\0\0\0\x1c\0\x1a\0\x01\0\0\0\x09\0\x02c1\0\x03jt1\0\0\0\0\0\0\0\x07\0\x01\x01";
        assert_eq!(encode(&request, 1, 9, "c1").unwrap(), &expected[..]);
        // Versions 3 and 4 are: compact string, and an empty tagged-field section after header and body.
        let expected = b"\0\0\0\x1d\0\x1a\0\x04\0\0\0\x09\0\x02c1\0\x04jt1\0\0\0\0\0\0\0\x07\0\x01\x01\0";
        assert_eq!(encode(&request, 4, 9, "c1").unwrap(), &expected[..]);
    }

    #[test]
    fn an_api_versions_answer_has_the_oldest_header_in_every_version() {
        let mut frame = BytesMut::new();
        frame.put_i32(5);
        ApiVersionsResponse::default().encode(&mut frame, 3).unwrap();
        assert_eq!(correlation_id(&frame), Some(5));
        assert!(decode::<ApiVersionsRequest>(3, frame.freeze()).is_ok());
        assert!(decode::<ApiVersionsRequest>(3, Bytes::from_static(b"\0\0\0\x05")).is_err());
    }
}
