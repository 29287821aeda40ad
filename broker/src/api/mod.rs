//! The Kafka APIs this agent serves, their versions, and the way from a frame to an answer. One file per API.
//!
//! Versions are those of kafka.md 1.0. Where transaction version 1 is offered, EndTxn and TxnOffsetCommit end at 4. Produce is advertised
//! from 0 because librdkafka wants it so (KAFKA-18659), and served from 3.

mod add_offsets_to_txn;
mod add_partitions_to_txn;
mod api_versions;
mod consumer_group_describe;
mod consumer_group_heartbeat;
mod create_partitions;
mod create_topics;
mod delete_groups;
mod delete_records;
mod delete_topics;
mod describe_cluster;
mod describe_configs;
mod describe_groups;
mod describe_producers;
mod describe_transactions;
mod described;
mod end_txn;
mod fetch;
mod find_coordinator;
mod heartbeat;
mod init_producer_id;
mod join_group;
mod leave_group;
mod list_groups;
mod list_offsets;
mod list_transactions;
mod metadata;
mod offset_commit;
mod offset_delete;
mod offset_fetch;
mod offset_for_leader_epoch;
mod outcome;
mod produce;
mod refuse;
mod sync_group;
mod txn_offset_commit;

use crate::agent::Context;
use crate::config::TransactionVersion;
use crate::memory::Held;
use crate::wire::{self, Malformed};
use bytes::{Bytes, BytesMut};
use kafka_protocol::ResponseError;
use kafka_protocol::messages::{ApiKey, RequestHeader, ResponseHeader};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, StrBytes};
use outcome::Outcome;
use rt::time::Instant;

/// An API's versions: advertised from `min`, served from `served_min`, both up to `max`, or up to `max_v1` where
/// transaction version 1 is offered.
struct Api {
    key: ApiKey,
    min: i16,
    served_min: i16,
    max: i16,
    max_v1: i16,
}

const fn api(key: ApiKey, min: i16, max: i16) -> Api {
    Api { key, min, served_min: min, max, max_v1: max }
}

impl Api {
    fn max(&self, offered: TransactionVersion) -> i16 {
        match offered {
            TransactionVersion::V1 => self.max_v1,
            TransactionVersion::V2 => self.max,
        }
    }
}

/// Everything served, by API key.
const APIS: [Api; 33] = [
    Api { served_min: 3, ..api(ApiKey::Produce, 0, 12) },
    api(ApiKey::Fetch, 4, 16),
    api(ApiKey::ListOffsets, 1, 8),
    api(ApiKey::Metadata, 0, 12),
    api(ApiKey::OffsetCommit, 2, 9),
    api(ApiKey::OffsetFetch, 1, 9),
    api(ApiKey::FindCoordinator, 0, 6),
    api(ApiKey::JoinGroup, 0, 9),
    api(ApiKey::Heartbeat, 0, 4),
    api(ApiKey::LeaveGroup, 0, 5),
    api(ApiKey::SyncGroup, 0, 5),
    api(ApiKey::DescribeGroups, 0, 6),
    api(ApiKey::ListGroups, 0, 5),
    api(ApiKey::ApiVersions, 0, 4),
    api(ApiKey::CreateTopics, 2, 7),
    api(ApiKey::DeleteTopics, 1, 6),
    api(ApiKey::DeleteRecords, 0, 2),
    api(ApiKey::InitProducerId, 0, 5),
    api(ApiKey::OffsetForLeaderEpoch, 2, 4),
    api(ApiKey::AddPartitionsToTxn, 0, 3),
    api(ApiKey::AddOffsetsToTxn, 0, 4),
    Api { max_v1: 4, ..api(ApiKey::EndTxn, 0, 5) },
    Api { max_v1: 4, ..api(ApiKey::TxnOffsetCommit, 0, 5) },
    api(ApiKey::DescribeConfigs, 1, 4),
    api(ApiKey::CreatePartitions, 0, 3),
    api(ApiKey::DeleteGroups, 0, 2),
    api(ApiKey::OffsetDelete, 0, 0),
    api(ApiKey::DescribeCluster, 0, 2),
    api(ApiKey::DescribeProducers, 0, 0),
    api(ApiKey::DescribeTransactions, 0, 0),
    api(ApiKey::ListTransactions, 0, 2),
    api(ApiKey::ConsumerGroupHeartbeat, 0, 1),
    api(ApiKey::ConsumerGroupDescribe, 0, 1),
];

/// What becomes of a request.
pub(crate) enum Answer {
    /// This frame, length prefix included, under this label.
    Reply { frame: Bytes, label: Label },
    /// Nothing is sent (Produce with acks=0).
    Nothing,
    /// The connection is closed.
    Close,
}

/// A reply's label: the API, and the error code of APIs that answer with a single one.
#[derive(Clone, Copy)]
pub(crate) struct Label {
    api: ApiKey,
    code: Option<i16>,
    /// What it is counted by; not told.
    outcome: i16,
}

impl std::fmt::Display for Label {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.code {
            Some(code) => write!(f, "{:?}.reply {code}", self.api),
            None => write!(f, "{:?}.reply", self.api),
        }
    }
}

/// A request's header and the rest of its frame.
struct Request {
    api: ApiKey,
    version: i16,
    correlation_id: i32,
    client_id: Option<StrBytes>,
    body: Bytes,
}

/// Who sent a request.
struct Client<'a> {
    /// As it names itself.
    id: &'a str,
    address: &'a str,
}

impl Client<'_> {
    /// Its address as Kafka tells it.
    fn host(&self) -> String {
        format!("/{}", self.address)
    }
}

impl Request {
    /// Reads the header; `None` if it cannot be understood.
    fn read(mut frame: Bytes, offered: TransactionVersion) -> Option<Self> {
        let code = i16::from_be_bytes([*frame.first()?, *frame.get(1)?]);
        let version = i16::from_be_bytes([*frame.get(2)?, *frame.get(3)?]);
        let correlation_id = i32::from_be_bytes(frame.get(4..8)?.try_into().ok()?);
        let api = ApiKey::try_from(code).ok()?;
        let served = APIS.iter().find(|served| served.key as i16 == code)?;
        let mut client_id = None;
        if (served.served_min..=served.max(offered)).contains(&version) {
            wire::check_header(api, version, &frame).map_err(|malformed| told(api, malformed)).ok()?;
            let header = RequestHeader::decode(&mut frame, api.request_header_version(version)).ok()?;
            client_id = header.client_id;
        } else if api != ApiKey::ApiVersions {
            return None;
        }
        Some(Request { api, version, correlation_id, client_id, body: frame })
    }

    /// Decodes the body, once no length in it can ask for more memory than the frame warrants, and there is room for it.
    async fn decode<T: Decodable>(&mut self, context: &Context, held: &mut Held<'_>) -> Option<T> {
        let max_bytes = context.config.queued_max_request_bytes;
        let checked = wire::check(self.api, self.version, &self.body, max_bytes);
        held.grow(checked.map_err(|malformed| told(self.api, malformed)).ok()?).await;
        T::decode(&mut self.body, self.version).ok()
    }

    fn reply<T: Encodable + HeaderVersion + Outcome>(
        &self,
        version: i16,
        body: &T,
        code: Option<i16>,
    ) -> Option<Answer> {
        let header = ResponseHeader::default().with_correlation_id(self.correlation_id);
        let header_version = T::header_version(version);
        let size = header.compute_size(header_version).ok()? + body.compute_size(version).ok()?;
        let mut frame = BytesMut::with_capacity(4 + size);
        frame.extend_from_slice(&i32::try_from(size).ok()?.to_be_bytes());
        header.encode(&mut frame, header_version).ok()?;
        body.encode(&mut frame, version).ok()?;
        Some(Answer::Reply {
            frame: frame.freeze(),
            label: Label { api: self.api, code, outcome: body.code() },
        })
    }
}

/// Tells the observer why a frame is not decoded; its connection closes.
fn told(api: ApiKey, malformed: Malformed) -> Malformed {
    rt::event!("request.malformed", api = api as i16, field = malformed.field);
    malformed
}

/// Executes one request, which holds the memory of its frame.
/// `peer` is the address it came from.
pub(crate) async fn handle(context: &Context, frame: Bytes, peer: &str, held: &mut Held<'_>) -> Answer {
    match Request::read(frame, context.config.transactions.version) {
        Some(request) => counted(context, request, peer, held).await,
        None => Answer::Close,
    }
}

async fn counted(context: &Context, request: Request, peer: &str, held: &mut Held<'_>) -> Answer {
    let (api, begun) = (request.api, Instant::now());
    let answer = answer(context, request, peer, held).await.unwrap_or(Answer::Close);
    let code = match &answer {
        Answer::Reply { label, .. } => label.outcome,
        Answer::Nothing => 0,
        // Whatever was wrong, the client is told by the end of its connection.
        Answer::Close => ResponseError::InvalidRequest.code(),
    };
    context.counters.request(api, code, begun.elapsed());
    answer
}

async fn answer(context: &Context, mut request: Request, peer: &str, held: &mut Held<'_>) -> Option<Answer> {
    let version = request.version;
    macro_rules! serve {
        ($module:ident) => {{
            let message = request.decode(context, held).await?;
            let response = $module::handle(context, version, message).await;
            request.reply(version, &response, None)
        }};
        ($module:ident, with its code) => {{
            let message = request.decode(context, held).await?;
            let response = $module::handle(context, version, message).await;
            request.reply(version, &response, Some(response.error_code))
        }};
    }
    match request.api {
        ApiKey::Produce => {
            let message = request.decode(context, held).await?;
            match produce::handle(context, version, message).await {
                produce::Outcome::Answer(response) => request.reply(version, &response, None),
                produce::Outcome::Silence => Some(Answer::Nothing),
                produce::Outcome::Close => None,
            }
        }
        ApiKey::ApiVersions => {
            let (version, response) = api_versions::handle(context.config.transactions.version, version);
            request.reply(version, &response, Some(response.error_code))
        }
        ApiKey::Fetch => serve!(fetch),
        ApiKey::ListOffsets => serve!(list_offsets),
        ApiKey::Metadata => serve!(metadata),
        ApiKey::JoinGroup => {
            let message = request.decode(context, held).await?;
            let client_id = request.client_id.clone().unwrap_or_default();
            let client = Client { id: &client_id, address: peer };
            let response = join_group::handle(context, version, &client, message).await;
            request.reply(version, &response, Some(response.error_code))
        }
        ApiKey::ConsumerGroupHeartbeat => {
            let message = request.decode(context, held).await?;
            let client_id = request.client_id.clone().unwrap_or_default();
            let client = Client { id: &client_id, address: peer };
            let response = consumer_group_heartbeat::handle(context, version, &client, message).await;
            request.reply(version, &response, Some(response.error_code))
        }
        ApiKey::ConsumerGroupDescribe => serve!(consumer_group_describe),
        ApiKey::SyncGroup => serve!(sync_group, with its code),
        ApiKey::Heartbeat => serve!(heartbeat, with its code),
        ApiKey::LeaveGroup => serve!(leave_group, with its code),
        ApiKey::OffsetCommit => serve!(offset_commit),
        ApiKey::OffsetFetch => serve!(offset_fetch),
        ApiKey::OffsetDelete => serve!(offset_delete, with its code),
        ApiKey::DescribeGroups => serve!(describe_groups),
        ApiKey::ListGroups => serve!(list_groups, with its code),
        ApiKey::DeleteGroups => serve!(delete_groups),
        ApiKey::FindCoordinator => serve!(find_coordinator),
        ApiKey::CreateTopics => serve!(create_topics),
        ApiKey::DeleteRecords => serve!(delete_records),
        ApiKey::DeleteTopics => serve!(delete_topics),
        ApiKey::OffsetForLeaderEpoch => serve!(offset_for_leader_epoch),
        ApiKey::DescribeConfigs => serve!(describe_configs),
        ApiKey::CreatePartitions => serve!(create_partitions),
        ApiKey::DescribeCluster => serve!(describe_cluster, with its code),
        ApiKey::InitProducerId => serve!(init_producer_id, with its code),
        ApiKey::AddPartitionsToTxn => serve!(add_partitions_to_txn),
        ApiKey::AddOffsetsToTxn => serve!(add_offsets_to_txn, with its code),
        ApiKey::EndTxn => serve!(end_txn, with its code),
        ApiKey::DescribeProducers => serve!(describe_producers),
        ApiKey::DescribeTransactions => serve!(describe_transactions),
        ApiKey::ListTransactions => serve!(list_transactions, with its code),
        ApiKey::TxnOffsetCommit => serve!(txn_offset_commit),
        _ => None,
    }
}

/// PRODUCER_FENCED exists in a transaction API from version `since` on; older clients are told INVALID_PRODUCER_EPOCH.
fn fenced_since(error: ResponseError, version: i16, since: i16) -> ResponseError {
    match error {
        ResponseError::ProducerFenced if version < since => ResponseError::InvalidProducerEpoch,
        other => other,
    }
}

fn text(text: impl Into<String>) -> StrBytes {
    StrBytes::from_string(text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_advertised_can_be_encoded_and_is_sorted() {
        for api in &APIS {
            let range = api.key.valid_versions();
            assert!(range.min <= api.served_min && api.max <= range.max, "{:?}", api.key);
            assert!(wire::is_known(api.key), "{:?} has no table in `wire`", api.key);
        }
        assert!(APIS.is_sorted_by_key(|api| api.key as i16));
    }

    #[test]
    fn short_and_foreign_frames_are_not_understood() {
        let read = |frame| Request::read(frame, TransactionVersion::V1);
        for frame in [&[][..], &[0; 7], &[0, 99, 0, 0, 0, 0, 0, 1], &[0, 0, 0, 2, 0, 0, 0, 1, 0xff, 0xff]] {
            assert!(read(Bytes::copy_from_slice(frame)).is_none(), "{frame:?}");
        }
        let unknown_version = read(Bytes::from_static(&[0, 18, 0, 77, 0, 0, 0, 9])).unwrap();
        assert_eq!((unknown_version.version, unknown_version.correlation_id), (77, 9));
    }

    #[test]
    fn labels_name_the_api_and_its_code() {
        assert_eq!(Label { api: ApiKey::EndTxn, code: Some(0), outcome: 0 }.to_string(), "EndTxn.reply 0");
        assert_eq!(Label { api: ApiKey::Produce, code: None, outcome: 0 }.to_string(), "Produce.reply");
    }
}
