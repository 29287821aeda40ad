//! The tables are right, nothing hostile passes, and the estimate of memory is one.

use super::counting::allocated_by;
use super::field::struct_bytes;
use super::generate::body;
use super::{Malformed, check_header, fields, is_flexible};
use bytes::Bytes;
use kafka_protocol::messages::*;
use kafka_protocol::protocol::{Decodable, Encodable, Message, VersionRange};
use proptest::prelude::*;

/// As the walker is called, with no limit but that of the frame's length.
fn check(api: ApiKey, version: i16, body: &[u8]) -> Result<usize, Malformed> {
    super::check(api, version, body, usize::MAX)
}

/// A decoded request.
trait Decoded {
    fn encoded(&self, version: i16) -> Option<Vec<u8>>;
}

impl<T: Encodable> Decoded for T {
    fn encoded(&self, version: i16) -> Option<Vec<u8>> {
        let mut again = Vec::new();
        self.encode(&mut again, version).ok()?;
        Some(again)
    }
}

/// The type of each API's requests.
macro_rules! requests {
    ($use_them:ident) => {
        $use_them! {
            Produce => ProduceRequest,
            Fetch => FetchRequest,
            ListOffsets => ListOffsetsRequest,
            OffsetForLeaderEpoch => OffsetForLeaderEpochRequest,
            DeleteRecords => DeleteRecordsRequest,
            DescribeProducers => DescribeProducersRequest,
            FindCoordinator => FindCoordinatorRequest,
            OffsetCommit => OffsetCommitRequest,
            OffsetFetch => OffsetFetchRequest,
            OffsetDelete => OffsetDeleteRequest,
            JoinGroup => JoinGroupRequest,
            SyncGroup => SyncGroupRequest,
            Heartbeat => HeartbeatRequest,
            LeaveGroup => LeaveGroupRequest,
            DescribeGroups => DescribeGroupsRequest,
            ListGroups => ListGroupsRequest,
            DeleteGroups => DeleteGroupsRequest,
            ConsumerGroupHeartbeat => ConsumerGroupHeartbeatRequest,
            ConsumerGroupDescribe => ConsumerGroupDescribeRequest,
            InitProducerId => InitProducerIdRequest,
            AddPartitionsToTxn => AddPartitionsToTxnRequest,
            AddOffsetsToTxn => AddOffsetsToTxnRequest,
            TxnOffsetCommit => TxnOffsetCommitRequest,
            EndTxn => EndTxnRequest,
            DescribeTransactions => DescribeTransactionsRequest,
            ListTransactions => ListTransactionsRequest,
            ApiVersions => ApiVersionsRequest,
            Metadata => MetadataRequest,
            CreateTopics => CreateTopicsRequest,
            DeleteTopics => DeleteTopicsRequest,
            CreatePartitions => CreatePartitionsRequest,
            DescribeConfigs => DescribeConfigsRequest,
            DescribeCluster => DescribeClusterRequest,
        }
    };
}

/// Decodes a request off the front of `body`.
fn decode(api: ApiKey, version: i16, body: &mut Bytes) -> Option<Box<dyn Decoded>> {
    macro_rules! decode {
        ($($api:ident => $request:ident,)*) => {
            match api {
                $(ApiKey::$api => Some(Box::new($request::decode(body, version).ok()?)),)*
                _ => None,
            }
        };
    }
    requests!(decode)
}

/// The versions that the decoder of an API's requests knows. For some, `ApiKey::valid_versions` names one more.
fn versions(api: ApiKey) -> Option<VersionRange> {
    macro_rules! versions {
        ($($api:ident => $request:ident,)*) => {
            match api {
                $(ApiKey::$api => Some($request::VERSIONS),)*
                _ => None,
            }
        };
    }
    requests!(versions)
}

/// Decodes a body and encodes it again; what the decoder left over goes behind it.
fn recode(api: ApiKey, version: i16, mut body: Bytes) -> Option<Vec<u8>> {
    let mut again = decode(api, version, &mut body)?.encoded(version)?;
    again.extend_from_slice(&body);
    Some(again)
}

/// Every API that has a table, in every version that the decoder knows.
fn all() -> impl Iterator<Item = (ApiKey, i16)> {
    let with_versions = ApiKey::iter().filter_map(|api| Some((api, versions(api)?)));
    with_versions.flat_map(|(api, versions)| (versions.min..=versions.max).map(move |version| (api, version)))
}

#[test]
fn every_table_is_compared() {
    let apis: std::collections::BTreeSet<i16> = all().map(|(api, _)| api as i16).collect();
    let with_table: Vec<i16> =
        ApiKey::iter().filter(|api| fields(*api).is_some()).map(|a| a as i16).collect();
    assert_eq!(apis.into_iter().collect::<Vec<_>>(), with_table);
    assert_eq!(with_table.len(), 33);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_tables_are_those_of_the_decoder(seed in any::<u64>()) {
        for (api, version) in all() {
            let body = body(api, version, seed, 3, false);
            prop_assert!(check(api, version, &body.bytes).is_ok(), "{:?} {}", api, version);
            let again = recode(api, version, Bytes::from(body.bytes.clone()));
            prop_assert_eq!(again.as_ref(), Some(&body.bytes), "{:?} {}", api, version);
        }
    }

    #[test]
    fn no_length_beyond_the_frame_passes(seed in any::<u64>()) {
        for (api, version) in all() {
            let body = body(api, version, seed, 2, false);
            for cut in 0..body.bytes.len() {
                prop_assert!(check(api, version, &body.bytes[..cut]).is_err(), "{:?} {} at {}", api, version, cut);
            }
            let mut longer = body.bytes.clone();
            longer.push(0);
            prop_assert!(check(api, version, &longer).is_ok(), "{:?} {} with a byte behind", api, version);
            for (at, width) in body.lengths {
                let flexible = is_flexible(api, version);
                let huge: &[&[u8]] = match (flexible, width) {
                    (true, _) => &[&[0xff, 0xff, 0xff, 0xff, 0x0f], &[0xff; 5], &[0x80, 0x80, 0x04]],
                    (false, 2) => &[&[0x7f, 0xff], &[0x80, 0x00], &[0xff, 0xfe]],
                    (false, _) => &[&[0x7f, 0xff, 0xff, 0xff], &[0x80, 0, 0, 0], &[0, 0, 0x7f, 0xff]],
                };
                for length in huge {
                    let mut hostile = body.bytes.clone();
                    hostile.splice(at..at + width, length.iter().copied());
                    prop_assert!(check(api, version, &hostile).is_err(), "{:?} {} at {}", api, version, at);
                }
            }
        }
    }

    #[test]
    fn what_passes_takes_the_memory_that_was_estimated(seed in any::<u64>(), elements in 0u64..6, small: bool) {
        for (api, version) in all() {
            let body = Bytes::from(body(api, version, seed, elements, small).bytes);
            // The first clone of a buffer allocates its counter.
            let _counted = body.clone();
            let Ok(estimate) = check(api, version, &body) else { continue };
            let estimate = estimate + struct_bytes(fields(api).unwrap());
            let (decoded, allocated) = allocated_by(|| decode(api, version, &mut body.clone()));
            prop_assert!(decoded.is_some(), "{:?} {}", api, version);
            prop_assert!(allocated <= estimate, "{:?} {}: {} > {}", api, version, allocated, estimate);
        }
    }
}

#[test]
fn an_array_of_nothings_cannot_ask_for_more_than_32_times_its_frame() {
    let refused = all().filter(|(api, version)| {
        let body = body(*api, *version, 1, 40, true);
        check(*api, *version, &body.bytes).is_err()
    });
    let refused: std::collections::BTreeSet<i16> = refused.map(|(api, _)| api as i16).collect();
    assert!(refused.contains(&(ApiKey::Metadata as i16)), "{refused:?}");
    let honest: Vec<u8> = {
        let mut honest = vec![0xa1, 0x8d, 0x06];
        honest.extend(std::iter::repeat_n([2, b't', 0], 100_000).flatten());
        honest.extend([1, 1, 1, 0]);
        honest
    };
    assert_eq!(check(ApiKey::Metadata, 9, &honest), Ok(7_200_000), "a hundred thousand topics of one letter");
    let limited = |limit| super::check(ApiKey::Metadata, 9, &honest, limit);
    assert_eq!(limited(7_200_000), Ok(7_200_000));
    assert_eq!(limited(7_199_999), Err(Malformed { field: "topics" }));
}

#[test]
fn headers_are_checked_too() {
    let check = |api, frame: &[u8]| {
        let version = i16::from(frame[3]);
        check_header(api, version, frame).map_err(|malformed| malformed.field)
    };
    let plain = [0, 26, 0, 1, 0, 0, 0, 9, 0, 2, b'c', b'1'];
    assert_eq!(check(ApiKey::EndTxn, &plain), Ok(()));
    assert_eq!(check(ApiKey::EndTxn, &plain[..11]), Err("client_id"));
    assert_eq!(check(ApiKey::EndTxn, &[0, 26, 0, 1, 0, 0, 0, 9, 0xff, 0xff]), Ok(()), "no client id");
    assert_eq!(check(ApiKey::EndTxn, &[0, 26, 0, 1, 0, 0, 0, 9, 0x80, 0]), Err("client_id"));
    let flexible = [0, 3, 0, 9, 0, 0, 0, 9, 0xff, 0xff, 1, 5, 2, 1, 1];
    assert_eq!(check(ApiKey::Metadata, &flexible), Ok(()), "one unknown tag of two bytes");
    assert_eq!(check(ApiKey::Metadata, &flexible[..14]), Err("tagged_fields"));
    assert_eq!(
        check(ApiKey::Metadata, &[0, 3, 0, 9, 0, 0, 0, 9, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]),
        Err("tagged_fields"),
        "a varint of more than 32 bits"
    );
}

#[test]
fn a_header_has_room_for_a_few_tags_only() {
    let frame = |tags: u16| {
        let mut frame = vec![0, ApiKey::Fetch as u8, 0, 12, 0, 0, 0, 1, 0xff, 0xff];
        let varint = |n: u16| [n as u8 & 0x7f | 0x80, (n >> 7) as u8];
        frame.extend(varint(tags));
        (0..tags).for_each(|tag| frame.extend(varint(tag).into_iter().chain([0])));
        // A body of a megabyte gives the header no more.
        frame.resize(1 << 20, 0);
        frame
    };
    assert!(check_header(ApiKey::Fetch, 12, &frame(20)).is_ok());
    assert!(check_header(ApiKey::Fetch, 12, &frame(2_000)).is_err());
}
