//! What a scripted agent answers: as a broker does, or with an error code.

use super::{State, decode, reply};
use bytes::Bytes;
use client::TopicPartition;
use kafka_protocol::messages::add_partitions_to_txn_response::{
    AddPartitionsToTxnPartitionResult, AddPartitionsToTxnTopicResult,
};
use kafka_protocol::messages::api_versions_response::{ApiVersion, FinalizedFeatureKey};
use kafka_protocol::messages::fetch_response::{AbortedTransaction, FetchableTopicResponse, PartitionData};
use kafka_protocol::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
};
use kafka_protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use kafka_protocol::messages::offset_commit_response::{
    OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use kafka_protocol::messages::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartitions, OffsetFetchResponseTopics,
};
use kafka_protocol::messages::produce_response::{PartitionProduceResponse, TopicProduceResponse};
use kafka_protocol::messages::txn_offset_commit_response::{
    TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic,
};
use kafka_protocol::messages::*;
use kafka_protocol::protocol::StrBytes;

/// A group of one member, which leads it.
#[derive(Default)]
pub(crate) struct Group {
    pub(crate) generation: i32,
    assignment: Bytes,
}

impl State {
    pub(super) fn answer(&mut self, agent: usize, header: &RequestHeader, body: Bytes) -> Bytes {
        match ApiKey::try_from(header.request_api_key).unwrap() {
            ApiKey::ApiVersions => reply(header, self.versions()),
            ApiKey::Metadata => reply(header, self.metadata(agent, &decode(header, body))),
            ApiKey::FindCoordinator => {
                let node = self.coordinator.unwrap_or(agent);
                let found = find_coordinator_response::Coordinator::default()
                    .with_node_id((node as i32).into())
                    .with_host(host(node))
                    .with_port(super::PORT.into());
                reply(header, FindCoordinatorResponse::default().with_coordinators(vec![found]))
            }
            ApiKey::InitProducerId => {
                self.epoch = decode::<InitProducerIdRequest>(header, body).producer_epoch + 1;
                let answer = InitProducerIdResponse::default().with_producer_id(7.into());
                reply(header, answer.with_producer_epoch(self.epoch))
            }
            ApiKey::AddPartitionsToTxn => reply(header, AddPartitionsToTxnResponse::default()),
            ApiKey::AddOffsetsToTxn => reply(header, AddOffsetsToTxnResponse::default()),
            ApiKey::EndTxn if header.request_api_version >= 5 => {
                self.epoch = decode::<EndTxnRequest>(header, body).producer_epoch + 1;
                let answer = EndTxnResponse::default().with_producer_id(7.into());
                reply(header, answer.with_producer_epoch(self.epoch))
            }
            ApiKey::EndTxn => reply(header, EndTxnResponse::default()),
            ApiKey::Produce => reply(header, self.produce(decode(header, body))),
            ApiKey::ListOffsets => reply(header, self.list_offsets(&decode(header, body))),
            ApiKey::Fetch => reply(header, self.fetch(&decode(header, body))),
            ApiKey::TxnOffsetCommit => reply(header, txn_offset_commit(&decode(header, body), 0)),
            ApiKey::OffsetCommit => reply(header, self.commit(&decode(header, body))),
            ApiKey::OffsetFetch => reply(header, self.offsets(&decode(header, body))),
            ApiKey::JoinGroup => reply(header, self.join(&decode(header, body))),
            ApiKey::SyncGroup => {
                let request = decode::<SyncGroupRequest>(header, body);
                if let Some(assigned) = request.assignments.first() {
                    self.group.assignment = assigned.assignment.clone();
                }
                reply(header, SyncGroupResponse::default().with_assignment(self.group.assignment.clone()))
            }
            ApiKey::Heartbeat => reply(header, HeartbeatResponse::default()),
            ApiKey::LeaveGroup => reply(header, LeaveGroupResponse::default()),
            ApiKey::CreateTopics => reply(header, create_topics(0)),
            ApiKey::DeleteTopics => reply(header, delete_topics(0)),
            other => panic!("nobody scripted {other:?}"),
        }
    }

    fn versions(&self) -> ApiVersionsResponse {
        let range = |(key, min, max): &(ApiKey, i16, i16)| {
            ApiVersion::default().with_api_key(*key as i16).with_min_version(*min).with_max_version(*max)
        };
        let feature = FinalizedFeatureKey::default()
            .with_name(StrBytes::from_static_str("transaction.version"))
            .with_max_version_level(self.transaction_version);
        ApiVersionsResponse::default()
            .with_api_keys(SERVED.iter().map(range).collect())
            .with_finalized_features(vec![feature])
    }

    /// Both agents, and the topic `t` if it was asked for.
    fn metadata(&self, agent: usize, request: &MetadataRequest) -> MetadataResponse {
        if self.nobody_known {
            return MetadataResponse::default();
        }
        let brokers = (0..2).map(|id| {
            MetadataResponseBroker::default()
                .with_node_id((id as i32).into())
                .with_host(host(id))
                .with_port(super::PORT.into())
        });
        let partition = |number| {
            MetadataResponsePartition::default()
                .with_partition_index(number)
                .with_leader_id((self.leader.unwrap_or(agent) as i32).into())
                .with_leader_epoch(self.leader_epoch)
        };
        let topic = MetadataResponseTopic::default()
            .with_name(Some(topic()))
            .with_partitions(vec![partition(0), partition(1)]);
        let asked = request.topics.as_deref().unwrap_or_default();
        let topics = if asked.is_empty() { vec![] } else { vec![topic] };
        MetadataResponse::default()
            .with_brokers(brokers.collect())
            .with_controller_id(1.into())
            .with_topics(topics)
    }

    fn produce(&mut self, request: ProduceRequest) -> ProduceResponse {
        let partitions = request.topic_data.into_iter().flat_map(|topic| topic.partition_data);
        let answers = partitions.map(|data| {
            let log = self.logs.entry(TopicPartition::new("t", data.index)).or_default();
            let (code, offset) = log.append(&data.records.unwrap());
            produced(data.index, code, offset)
        });
        produce_answer(answers.collect())
    }

    fn list_offsets(&mut self, request: &ListOffsetsRequest) -> ListOffsetsResponse {
        let asked = request.topics.iter().flat_map(|topic| &topic.partitions);
        let answers = asked.map(|asked| {
            let log = self.logs.entry(TopicPartition::new("t", asked.partition_index)).or_default();
            let offset = match (asked.timestamp, request.isolation_level) {
                (-2, _) => log.start,
                (_, 1) => log.stable.unwrap_or(log.next_offset),
                _ => log.next_offset,
            };
            listed(asked.partition_index, 0, offset)
        });
        list_answer(answers.collect())
    }

    fn fetch(&mut self, request: &FetchRequest) -> FetchResponse {
        let asked = request.topics.iter().flat_map(|topic| &topic.partitions);
        let answers = asked.map(|asked| {
            let log = self.logs.entry(TopicPartition::new("t", asked.partition)).or_default();
            let inside = (log.start..=log.next_offset).contains(&asked.fetch_offset);
            let aborted = log.aborted.iter().map(|(producer_id, first_offset)| {
                AbortedTransaction::default()
                    .with_producer_id((*producer_id).into())
                    .with_first_offset(*first_offset)
            });
            PartitionData::default()
                .with_partition_index(asked.partition)
                .with_error_code(if inside { 0 } else { 1 })
                .with_high_watermark(log.next_offset)
                .with_last_stable_offset(log.stable.unwrap_or(log.next_offset))
                .with_aborted_transactions(Some(aborted.collect()))
                .with_records(Some(if inside { log.read(asked.fetch_offset) } else { Bytes::new() }))
        });
        fetch_answer(answers.collect())
    }

    fn commit(&mut self, request: &OffsetCommitRequest) -> OffsetCommitResponse {
        for asked in request.topics.iter().flat_map(|topic| &topic.partitions) {
            let partition = TopicPartition::new("t", asked.partition_index);
            self.committed.insert(partition, asked.committed_offset);
        }
        commit_answer(request, 0)
    }

    fn offsets(&self, request: &OffsetFetchRequest) -> OffsetFetchResponse {
        offsets_answer(request, 0, |partition| self.committed.get(partition).copied().unwrap_or(-1))
    }

    /// A new member is given an id first (KIP-394), and then leads its group.
    fn join(&mut self, request: &JoinGroupRequest) -> JoinGroupResponse {
        let member_id = StrBytes::from_static_str("m-1");
        if request.member_id.is_empty() {
            return JoinGroupResponse::default().with_error_code(79).with_member_id(member_id);
        }
        self.group.generation += 1;
        let protocol = &request.protocols[0];
        let member = join_group_response::JoinGroupResponseMember::default()
            .with_member_id(member_id.clone())
            .with_metadata(protocol.metadata.clone());
        JoinGroupResponse::default()
            .with_generation_id(self.group.generation)
            .with_protocol_name(Some(protocol.name.clone()))
            .with_leader(member_id.clone())
            .with_member_id(member_id)
            .with_members(vec![member])
    }
}

/// The refusal of a request with `code`, in its own shape.
pub(super) fn refuse(header: &RequestHeader, body: Bytes, code: i16) -> Bytes {
    match ApiKey::try_from(header.request_api_key).unwrap() {
        ApiKey::EndTxn => reply(header, EndTxnResponse::default().with_error_code(code)),
        ApiKey::InitProducerId => {
            let answer = InitProducerIdResponse::default().with_error_code(code);
            reply(header, answer.with_producer_id((-1).into()).with_producer_epoch(-1))
        }
        ApiKey::AddPartitionsToTxn => reply(header, added(&decode(header, body), code)),
        ApiKey::AddOffsetsToTxn => reply(header, AddOffsetsToTxnResponse::default().with_error_code(code)),
        ApiKey::TxnOffsetCommit => reply(header, txn_offset_commit(&decode(header, body), code)),
        ApiKey::Heartbeat => reply(header, HeartbeatResponse::default().with_error_code(code)),
        ApiKey::CreateTopics => reply(header, create_topics(code)),
        ApiKey::DeleteTopics => reply(header, delete_topics(code)),
        ApiKey::OffsetCommit => reply(header, commit_answer(&decode(header, body), code)),
        ApiKey::OffsetFetch => reply(header, offsets_answer(&decode(header, body), code, |_| -1)),
        ApiKey::Produce => {
            let request = decode::<ProduceRequest>(header, body);
            let asked = request.topic_data.iter().flat_map(|topic| &topic.partition_data);
            reply(header, produce_answer(asked.map(|data| produced(data.index, code, -1)).collect()))
        }
        ApiKey::ListOffsets => {
            let request = decode::<ListOffsetsRequest>(header, body);
            let asked = request.topics.iter().flat_map(|topic| &topic.partitions);
            reply(header, list_answer(asked.map(|asked| listed(asked.partition_index, code, -1)).collect()))
        }
        ApiKey::Fetch => {
            let request = decode::<FetchRequest>(header, body);
            let asked = request.topics.iter().flat_map(|topic| &topic.partitions);
            let refused = |asked: &fetch_request::FetchPartition| {
                PartitionData::default().with_partition_index(asked.partition).with_error_code(code)
            };
            reply(header, fetch_answer(asked.map(refused).collect()))
        }
        other => panic!("nobody scripted how {other:?} is refused"),
    }
}

/// What the agents serve.
const SERVED: [(ApiKey, i16, i16); 19] = [
    (ApiKey::Produce, 3, 12),
    (ApiKey::Fetch, 4, 12),
    (ApiKey::ListOffsets, 1, 8),
    (ApiKey::Metadata, 0, 9),
    (ApiKey::OffsetCommit, 2, 8),
    (ApiKey::OffsetFetch, 1, 8),
    (ApiKey::FindCoordinator, 0, 4),
    (ApiKey::JoinGroup, 0, 9),
    (ApiKey::Heartbeat, 0, 4),
    (ApiKey::LeaveGroup, 0, 5),
    (ApiKey::SyncGroup, 0, 5),
    (ApiKey::ApiVersions, 0, 3),
    (ApiKey::CreateTopics, 2, 7),
    (ApiKey::DeleteTopics, 1, 6),
    (ApiKey::InitProducerId, 0, 4),
    (ApiKey::AddPartitionsToTxn, 0, 3),
    (ApiKey::AddOffsetsToTxn, 0, 3),
    (ApiKey::EndTxn, 0, 5),
    (ApiKey::TxnOffsetCommit, 0, 5),
];

fn host(agent: usize) -> StrBytes {
    StrBytes::from_string(format!("agent-{agent}"))
}

fn topic() -> TopicName {
    TopicName(StrBytes::from_static_str("t"))
}

fn produced(partition: i32, code: i16, offset: i64) -> PartitionProduceResponse {
    PartitionProduceResponse::default().with_index(partition).with_error_code(code).with_base_offset(offset)
}

fn produce_answer(partitions: Vec<PartitionProduceResponse>) -> ProduceResponse {
    let topic = TopicProduceResponse::default().with_name(topic()).with_partition_responses(partitions);
    ProduceResponse::default().with_responses(vec![topic])
}

fn listed(partition: i32, code: i16, offset: i64) -> ListOffsetsPartitionResponse {
    ListOffsetsPartitionResponse::default()
        .with_partition_index(partition)
        .with_error_code(code)
        .with_offset(offset)
}

fn list_answer(partitions: Vec<ListOffsetsPartitionResponse>) -> ListOffsetsResponse {
    let topic = ListOffsetsTopicResponse::default().with_name(topic()).with_partitions(partitions);
    ListOffsetsResponse::default().with_topics(vec![topic])
}

fn fetch_answer(partitions: Vec<PartitionData>) -> FetchResponse {
    let topic = FetchableTopicResponse::default().with_topic(topic()).with_partitions(partitions);
    FetchResponse::default().with_responses(vec![topic])
}

fn commit_answer(request: &OffsetCommitRequest, code: i16) -> OffsetCommitResponse {
    let asked = request.topics.iter().flat_map(|topic| &topic.partitions);
    let partitions = asked.map(|asked| {
        let partition = OffsetCommitResponsePartition::default();
        partition.with_partition_index(asked.partition_index).with_error_code(code)
    });
    let topic = OffsetCommitResponseTopic::default().with_name(topic()).with_partitions(partitions.collect());
    OffsetCommitResponse::default().with_topics(vec![topic])
}

fn offsets_answer(
    request: &OffsetFetchRequest,
    code: i16,
    committed: impl Fn(&TopicPartition) -> i64,
) -> OffsetFetchResponse {
    let asked = request.groups[0].topics.iter().flatten().flat_map(|topic| &topic.partition_indexes);
    let partitions = asked.map(|number| {
        OffsetFetchResponsePartitions::default()
            .with_partition_index(*number)
            .with_error_code(code)
            .with_committed_offset(committed(&TopicPartition::new("t", *number)))
    });
    let topic = OffsetFetchResponseTopics::default().with_name(topic()).with_partitions(partitions.collect());
    let group = OffsetFetchResponseGroup::default()
        .with_group_id(request.groups[0].group_id.clone())
        .with_topics(vec![topic]);
    OffsetFetchResponse::default().with_groups(vec![group])
}

fn txn_offset_commit(request: &TxnOffsetCommitRequest, code: i16) -> TxnOffsetCommitResponse {
    let asked = request.topics.iter().flat_map(|topic| &topic.partitions);
    let partitions = asked.map(|asked| {
        let partition = TxnOffsetCommitResponsePartition::default();
        partition.with_partition_index(asked.partition_index).with_error_code(code)
    });
    let topic =
        TxnOffsetCommitResponseTopic::default().with_name(topic()).with_partitions(partitions.collect());
    TxnOffsetCommitResponse::default().with_topics(vec![topic])
}

fn added(request: &AddPartitionsToTxnRequest, code: i16) -> AddPartitionsToTxnResponse {
    let asked = request.v3_and_below_topics.iter().flat_map(|topic| &topic.partitions);
    let partitions = asked.map(|number| {
        AddPartitionsToTxnPartitionResult::default()
            .with_partition_index(*number)
            .with_partition_error_code(code)
    });
    let topic = AddPartitionsToTxnTopicResult::default()
        .with_name(topic())
        .with_results_by_partition(partitions.collect());
    AddPartitionsToTxnResponse::default().with_results_by_topic_v3_and_below(vec![topic])
}

fn create_topics(code: i16) -> CreateTopicsResponse {
    let created = create_topics_response::CreatableTopicResult::default();
    CreateTopicsResponse::default().with_topics(vec![created.with_name(topic()).with_error_code(code)])
}

fn delete_topics(code: i16) -> DeleteTopicsResponse {
    let deleted = delete_topics_response::DeletableTopicResult::default();
    let deleted = deleted.with_name(Some(topic())).with_error_code(code);
    DeleteTopicsResponse::default().with_responses(vec![deleted])
}
