//! Answers on their way to the client: which error they carry, and which addresses are in them.
//!
//! Every address of a broker is replaced by the proxy's own for that broker, so that clients stay inside. An answer in
//! which nothing is to be replaced keeps its bytes. Versions and fields that the proxy does not know are never decoded:
//! what it advertises (ApiVersions) of an API that carries addresses ends where its knowledge does.

use super::brokers::Brokers;
use super::label::Asked;
use bytes::{Bytes, BytesMut};
use kafka_protocol::ResponseError;
use kafka_protocol::messages::{
    AddOffsetsToTxnResponse, AddPartitionsToTxnResponse, ApiKey, ApiVersionsResponse,
    ConsumerGroupHeartbeatResponse, DescribeClusterResponse, EndTxnResponse, FetchResponse,
    FindCoordinatorResponse, HeartbeatResponse, InitProducerIdResponse, JoinGroupResponse,
    LeaveGroupResponse, MetadataResponse, ProduceResponse, ResponseHeader, ShareAcknowledgeResponse,
    ShareFetchResponse, SyncGroupResponse, TxnOffsetCommitResponse,
};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Message, StrBytes};

/// APIs whose answers carry addresses.
const ADDRESSED: [ApiKey; 7] = [
    ApiKey::Produce,
    ApiKey::Fetch,
    ApiKey::Metadata,
    ApiKey::FindCoordinator,
    ApiKey::DescribeCluster,
    ApiKey::ShareFetch,
    ApiKey::ShareAcknowledge,
];

/// An answer as it goes on.
pub(super) struct Answer {
    /// Without its length.
    pub(super) frame: Bytes,
    /// Its error code: the only one it can carry, or the first that is not 0.
    pub(super) code: Option<i16>,
}

/// A host and a port inside an answer.
type Place<'a> = (&'a mut StrBytes, &'a mut i32);

/// Reads an answer to `asked`, and puts the proxy's addresses into it.
pub(super) async fn read(asked: &Asked, frame: Bytes, brokers: &Brokers) -> Answer {
    match try_read(asked, &frame, brokers).await {
        Some(answer) => answer,
        // What cannot be read is for the client to judge.
        None => Answer { frame, code: None },
    }
}

async fn try_read(asked: &Asked, frame: &Bytes, brokers: &Brokers) -> Option<Answer> {
    let version = asked.version;
    let code = |code| Some(Answer { frame: frame.clone(), code: Some(code) });
    macro_rules! own_code {
        ($response:ty) => {
            code(decode::<$response>(frame, version)?.1.error_code)
        };
    }
    macro_rules! addressed {
        ($response:ty, $code:expr, $places:expr) => {
            addressed::<$response>(version, frame, brokers, $code, $places).await
        };
    }
    match ApiKey::try_from(asked.api).ok()? {
        ApiKey::ApiVersions => api_versions(version, frame),
        ApiKey::Metadata => addressed!(MetadataResponse, |_| None, |body| {
            body.brokers.iter_mut().map(|broker| (&mut broker.host, &mut broker.port)).collect()
        }),
        ApiKey::FindCoordinator => addressed!(
            FindCoordinatorResponse,
            |body| Some(first(body.coordinators.iter().map(|one| one.error_code).chain([body.error_code]))),
            |body| {
                let many = body.coordinators.iter_mut().map(|one| (&mut one.host, &mut one.port));
                many.chain([(&mut body.host, &mut body.port)]).collect()
            }
        ),
        ApiKey::DescribeCluster => {
            addressed!(DescribeClusterResponse, |body| Some(body.error_code), |body| body
                .brokers
                .iter_mut()
                .map(|broker| (&mut broker.host, &mut broker.port))
                .collect())
        }
        ApiKey::Produce => addressed!(
            ProduceResponse,
            |body| {
                let partitions = body.responses.iter().flat_map(|topic| &topic.partition_responses);
                Some(first(partitions.map(|partition| partition.error_code)))
            },
            |body| body.node_endpoints.iter_mut().map(|node| (&mut node.host, &mut node.port)).collect()
        ),
        ApiKey::Fetch => addressed!(
            FetchResponse,
            |body| {
                let partitions = body.responses.iter().flat_map(|topic| &topic.partitions);
                Some(first([body.error_code].into_iter().chain(partitions.map(|one| one.error_code))))
            },
            |body| body.node_endpoints.iter_mut().map(|node| (&mut node.host, &mut node.port)).collect()
        ),
        ApiKey::ShareFetch => addressed!(ShareFetchResponse, |body| Some(body.error_code), |body| {
            body.node_endpoints.iter_mut().map(|node| (&mut node.host, &mut node.port)).collect()
        }),
        ApiKey::ShareAcknowledge => {
            addressed!(ShareAcknowledgeResponse, |body| Some(body.error_code), |body| {
                body.node_endpoints.iter_mut().map(|node| (&mut node.host, &mut node.port)).collect()
            })
        }
        ApiKey::EndTxn => own_code!(EndTxnResponse),
        ApiKey::InitProducerId => own_code!(InitProducerIdResponse),
        ApiKey::AddOffsetsToTxn => own_code!(AddOffsetsToTxnResponse),
        ApiKey::JoinGroup => own_code!(JoinGroupResponse),
        ApiKey::SyncGroup => own_code!(SyncGroupResponse),
        ApiKey::Heartbeat => own_code!(HeartbeatResponse),
        ApiKey::LeaveGroup => own_code!(LeaveGroupResponse),
        ApiKey::ConsumerGroupHeartbeat => own_code!(ConsumerGroupHeartbeatResponse),
        ApiKey::AddPartitionsToTxn => {
            let body = decode::<AddPartitionsToTxnResponse>(frame, version)?.1;
            let topics = body.results_by_topic_v3_and_below.iter();
            let partitions = topics.flat_map(|topic| &topic.results_by_partition);
            code(first(partitions.map(|partition| partition.partition_error_code)))
        }
        ApiKey::TxnOffsetCommit => {
            let body = decode::<TxnOffsetCommitResponse>(frame, version)?.1;
            let partitions = body.topics.iter().flat_map(|topic| &topic.partitions);
            code(first(partitions.map(|partition| partition.error_code)))
        }
        _ => None,
    }
}

/// The first code that is not 0.
fn first(codes: impl Iterator<Item = i16>) -> i16 {
    codes.into_iter().find(|code| *code != 0).unwrap_or_default()
}

async fn addressed<T: Decodable + Encodable + HeaderVersion>(
    version: i16,
    frame: &Bytes,
    brokers: &Brokers,
    code: fn(&T) -> Option<i16>,
    places: fn(&mut T) -> Vec<Place<'_>>,
) -> Option<Answer> {
    let (header, mut body) = decode::<T>(frame, version)?;
    let code = code(&body);
    let mut replaced = false;
    for (host, port) in places(&mut body) {
        // An error has no address.
        if host.is_empty() {
            continue;
        }
        let Ok(number) = u16::try_from(*port) else { continue };
        let local = brokers.local(host, number).await;
        (*host, *port) = (StrBytes::from_string(local.host), i32::from(local.port));
        replaced = true;
    }
    let frame = if replaced { encode(version, &header, &body)? } else { frame.clone() };
    Some(Answer { frame, code })
}

/// Ends the versions of APIs that carry addresses where they can be read.
fn api_versions(version: i16, frame: &Bytes) -> Option<Answer> {
    // Behind the correlation id, in every version.
    let error_code = i16::from_be_bytes(frame.get(4..6)?.try_into().ok()?);
    // A version that the broker does not know is answered in version 0. Version 5 (KIP-1242) is new in the request alone.
    let unsupported = error_code == ResponseError::UnsupportedVersion.code();
    let version = if unsupported { 0 } else { version.min(ApiVersionsResponse::VERSIONS.max) };
    let (header, mut body) = decode::<ApiVersionsResponse>(frame, version)?;
    let mut replaced = false;
    body.api_keys.retain_mut(|api| {
        let key = ADDRESSED.iter().find(|key| **key as i16 == api.api_key);
        let Some(range) = key.map(ApiKey::valid_versions) else { return true };
        replaced |= range.max < api.max_version;
        api.max_version = api.max_version.min(range.max);
        api.min_version <= api.max_version
    });
    let frame = if replaced { encode(version, &header, &body)? } else { frame.clone() };
    Some(Answer { frame, code: Some(body.error_code) })
}

pub(super) fn decode<T: Decodable + HeaderVersion>(
    frame: &Bytes,
    version: i16,
) -> Option<(ResponseHeader, T)> {
    let mut rest = frame.clone();
    let header = ResponseHeader::decode(&mut rest, T::header_version(version)).ok()?;
    let body = T::decode(&mut rest, version).ok()?;
    rest.is_empty().then_some((header, body))
}

pub(super) fn encode<T: Encodable + HeaderVersion>(
    version: i16,
    header: &ResponseHeader,
    body: &T,
) -> Option<Bytes> {
    let mut frame = BytesMut::new();
    header.encode(&mut frame, T::header_version(version)).ok()?;
    body.encode(&mut frame, version).ok()?;
    Some(frame.freeze())
}

#[cfg(test)]
mod tests {
    use super::*;
    use kafka_protocol::messages::api_versions_response::ApiVersion;
    use kafka_protocol::messages::metadata_response::{MetadataResponseBroker, MetadataResponseTopic};
    use kafka_protocol::messages::{ApiVersionsRequest, BrokerId, MetadataRequest, RequestHeader};
    use kafka_protocol::protocol::Request;
    use tokio::sync::mpsc;

    fn asked<R: Request>(version: i16) -> Asked {
        let header = RequestHeader::default()
            .with_request_api_key(R::KEY)
            .with_request_api_version(version)
            .with_client_id(Some(StrBytes::from_static_str("c")));
        let mut frame = BytesMut::new();
        header.encode(&mut frame, R::header_version(version)).unwrap();
        Asked::read(&frame.freeze()).unwrap()
    }

    /// Brokers of which one, at `localhost:7001`, was named.
    async fn brokers() -> Brokers {
        let (opened, _) = mpsc::unbounded_channel();
        let brokers = Brokers::new("127.0.0.1:0".parse().unwrap(), "proxy".into(), opened);
        brokers.add(&"localhost:7001".parse().unwrap()).await.unwrap();
        brokers
    }

    #[tokio::test]
    async fn addresses_are_replaced_and_the_rest_stays() {
        let broker = |node_id: i32, host: &'static str, port| {
            MetadataResponseBroker::default()
                .with_node_id(BrokerId(node_id))
                .with_host(StrBytes::from_static_str(host))
                .with_port(port)
                .with_rack(Some(StrBytes::from_static_str("r")))
        };
        let topic = MetadataResponseTopic::default()
            .with_name(Some(StrBytes::from_static_str("orders").into()))
            .with_topic_id("5f0c3c1e-8a5d-4b7c-9d53-0c2b7f0d8f10".parse().unwrap());
        let mut body = MetadataResponse::default()
            // The first by another of its names, the second unknown until now.
            .with_brokers(vec![broker(4, "127.0.0.1", 7001), broker(5, "localhost", 7002)])
            .with_topics(vec![topic]);
        body.unknown_tagged_fields.insert(77, Bytes::from_static(b"later"));
        let header = ResponseHeader::default().with_correlation_id(9);
        let brokers = brokers().await;
        for version in [9, 12, 13] {
            let frame = encode(version, &header, &body).unwrap();
            let answer = read(&asked::<MetadataRequest>(version), frame, &brokers).await;
            let (got_header, got) = decode::<MetadataResponse>(&answer.frame, version).unwrap();
            assert_eq!(got_header.correlation_id, 9);
            let known = brokers.list().await;
            assert_eq!(known.len(), 2);
            let mut expected =
                decode::<MetadataResponse>(&encode(version, &header, &body).unwrap(), version).unwrap().1;
            for (broker, (_, _, local)) in expected.brokers.iter_mut().zip(&known) {
                broker.host = StrBytes::from_static_str("proxy");
                broker.port = i32::from(local.port);
            }
            assert_eq!(got, expected);
        }
    }

    #[tokio::test]
    async fn what_is_advertised_ends_where_addresses_can_be_read() {
        let api = |key: ApiKey, max| {
            ApiVersion::default().with_api_key(key as i16).with_min_version(0).with_max_version(max)
        };
        let body = ApiVersionsResponse::default().with_api_keys(vec![
            api(ApiKey::Metadata, 99),
            api(ApiKey::Heartbeat, 99),
            api(ApiKey::Fetch, 12),
        ]);
        let frame = encode(3, &ResponseHeader::default(), &body).unwrap();
        let answer = read(&asked::<ApiVersionsRequest>(3), frame, &brokers().await).await;
        assert_eq!(answer.code, Some(0));
        let (_, got) = decode::<ApiVersionsResponse>(&answer.frame, 3).unwrap();
        let max: Vec<i16> = got.api_keys.iter().map(|api| api.max_version).collect();
        assert_eq!(max, [13, 99, 12]);
    }

    /// Java 4.4 and franz-go 1.22 ask in version 5.
    #[tokio::test]
    async fn api_versions_are_read_in_versions_that_are_newer_than_the_decoder() {
        let body = ApiVersionsResponse::default().with_api_keys(vec![
            ApiVersion::default().with_api_key(ApiKey::Metadata as i16).with_max_version(99),
        ]);
        let frame = encode(4, &ResponseHeader::default(), &body).unwrap();
        let answer = read(&asked::<ApiVersionsRequest>(5), frame, &brokers().await).await;
        assert_eq!(answer.code, Some(0));
        assert_eq!(decode::<ApiVersionsResponse>(&answer.frame, 4).unwrap().1.api_keys[0].max_version, 13);

        let body = body.with_error_code(ResponseError::UnsupportedVersion.code());
        let frame = encode(0, &ResponseHeader::default(), &body).unwrap();
        let answer = read(&asked::<ApiVersionsRequest>(5), frame, &brokers().await).await;
        assert_eq!(answer.code, Some(35));
    }

    #[tokio::test]
    async fn what_cannot_be_read_goes_on_as_it_is() {
        let frame = Bytes::from_static(b"\0\0\0\x09what is this");
        let answer = read(&asked::<MetadataRequest>(9), frame.clone(), &brokers().await).await;
        assert_eq!((answer.frame, answer.code), (frame, None));
    }
}
