//! Error answers. Each is made here and nowhere else (a test reads the other files), with the values that stand for "none"
//! filled in: the schema's defaults are often legal values (offset 0, epoch 0, node 0), which clients take for them.

use super::join_group::protocol_name;
use super::text;
use crate::coordinator::CoordinatorError;
use crate::gate::Fault;
use bytes::Bytes;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::add_partitions_to_txn_response::AddPartitionsToTxnPartitionResult;
use kafka_protocol::messages::api_versions_response::ApiVersion;
use kafka_protocol::messages::consumer_group_describe_response::DescribedGroup as DescribedConsumerGroup;
use kafka_protocol::messages::create_partitions_response::CreatePartitionsTopicResult;
use kafka_protocol::messages::create_topics_response::CreatableTopicResult;
use kafka_protocol::messages::delete_groups_response::DeletableGroupResult;
use kafka_protocol::messages::delete_records_response::DeleteRecordsPartitionResult;
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::delete_topics_response::DeletableTopicResult;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::describe_configs_response::DescribeConfigsResult;
use kafka_protocol::messages::describe_groups_response::DescribedGroup;
use kafka_protocol::messages::describe_producers_response::PartitionResponse;
use kafka_protocol::messages::describe_transactions_response::TransactionState;
use kafka_protocol::messages::fetch_response::PartitionData;
use kafka_protocol::messages::find_coordinator_response::Coordinator;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::leave_group_response::MemberResponse;
use kafka_protocol::messages::list_offsets_response::ListOffsetsPartitionResponse;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::metadata_response::MetadataResponseTopic;
use kafka_protocol::messages::offset_commit_response::OffsetCommitResponsePartition;
use kafka_protocol::messages::offset_delete_response::OffsetDeleteResponsePartition;
use kafka_protocol::messages::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions,
};
use kafka_protocol::messages::offset_for_leader_epoch_response::EpochEndOffset;
use kafka_protocol::messages::produce_response::PartitionProduceResponse;
use kafka_protocol::messages::txn_offset_commit_response::TxnOffsetCommitResponsePartition;
use kafka_protocol::messages::{
    AddOffsetsToTxnResponse, ApiVersionsResponse, BrokerId, ConsumerGroupHeartbeatResponse,
    DescribeClusterResponse, EndTxnResponse, FetchResponse, FindCoordinatorResponse, GroupId,
    HeartbeatResponse, InitProducerIdResponse, JoinGroupResponse, LeaveGroupResponse, ListGroupsResponse,
    ListTransactionsResponse, OffsetDeleteResponse, OffsetFetchResponse, ProducerId, SyncGroupResponse,
    TopicName, TransactionalId,
};
use kafka_protocol::protocol::StrBytes;

/// What clients of the admin APIs are told of a fault.
pub(super) fn admin_error(fault: &Fault) -> ResponseError {
    match fault {
        Fault::Coordinator(CoordinatorError::Unavailable | CoordinatorError::Unknown) => {
            ResponseError::RequestTimedOut
        }
        _ => ResponseError::UnknownServerError,
    }
}

/// An error in words.
fn words(error: ResponseError) -> Option<StrBytes> {
    Some(text(error.to_string()))
}

/// Produce: the batch is nowhere.
pub(super) fn produced(index: i32, error: ResponseError) -> PartitionProduceResponse {
    PartitionProduceResponse::default()
        .with_index(index)
        .with_error_code(error.code())
        .with_base_offset(-1)
        .with_log_append_time_ms(-1)
        .with_log_start_offset(-1)
        .with_error_message(words(error))
}

/// Fetch, of the session.
pub(super) fn fetch_session(error: ResponseError) -> FetchResponse {
    FetchResponse::default().with_error_code(error.code())
}

/// Fetch, of a partition: no offsets and no records. An empty buffer rather than null, which librdkafka logs as an error.
pub(super) fn fetched(partition: i32, error: ResponseError) -> PartitionData {
    PartitionData::default()
        .with_partition_index(partition)
        .with_error_code(error.code())
        .with_high_watermark(-1)
        .with_last_stable_offset(-1)
        .with_log_start_offset(-1)
        .with_aborted_transactions(None)
        .with_preferred_read_replica(BrokerId(-1))
        .with_records(Some(Bytes::new()))
}

/// ListOffsets: no offset, no timestamp, no epoch.
pub(super) fn listed_offset(index: i32, error: ResponseError) -> ListOffsetsPartitionResponse {
    ListOffsetsPartitionResponse::default()
        .with_partition_index(index)
        .with_error_code(error.code())
        .with_offset(-1)
        .with_timestamp(-1)
        .with_leader_epoch(-1)
}

/// OffsetForLeaderEpoch: no epoch, and no end of it.
pub(super) fn epoch_end(partition: i32, error: ResponseError) -> EpochEndOffset {
    EpochEndOffset::default()
        .with_partition(partition)
        .with_error_code(error.code())
        .with_leader_epoch(-1)
        .with_end_offset(-1)
}

/// DeleteRecords: no low watermark.
pub(super) fn deleted_records(index: i32, error: ResponseError) -> DeleteRecordsPartitionResult {
    DeleteRecordsPartitionResult::default()
        .with_partition_index(index)
        .with_error_code(error.code())
        .with_low_watermark(-1)
}

/// Metadata: the topic as it was named, by name or by id, and no partitions.
pub(super) fn described_topic(asked: &MetadataRequestTopic, error: ResponseError) -> MetadataResponseTopic {
    let name = asked.name.clone().or_else(|| Some(TopicName::default()));
    MetadataResponseTopic::default()
        .with_error_code(error.code())
        .with_name(name)
        .with_topic_id(asked.topic_id)
}

/// FindCoordinator, of one of many keys: nobody.
pub(super) fn coordinator(key: StrBytes, error: ResponseError) -> Coordinator {
    Coordinator::default()
        .with_key(key)
        .with_node_id(BrokerId(-1))
        .with_port(-1)
        .with_error_code(error.code())
        .with_error_message(words(error))
}

/// FindCoordinator, of the one key that old versions ask for: nobody.
pub(super) fn only_coordinator(error: ResponseError) -> FindCoordinatorResponse {
    FindCoordinatorResponse::default()
        .with_node_id(BrokerId(-1))
        .with_port(-1)
        .with_error_code(error.code())
        .with_error_message(words(error))
}

/// ApiVersions: the versions of the API itself to choose from.
pub(super) fn api_versions(own: Vec<ApiVersion>, error: ResponseError) -> ApiVersionsResponse {
    ApiVersionsResponse::default().with_error_code(error.code()).with_api_keys(own)
}

/// CreateTopics: no numbers and no id.
pub(super) fn created_topic(name: TopicName, error: ResponseError) -> CreatableTopicResult {
    CreatableTopicResult::default()
        .with_name(name)
        .with_error_code(error.code())
        .with_error_message(words(error))
        .with_num_partitions(-1)
        .with_replication_factor(-1)
}

/// DeleteTopics: the topic as it was named, by name or by id.
pub(super) fn deleted_topic(asked: &DeleteTopicState, error: ResponseError) -> DeletableTopicResult {
    DeletableTopicResult::default()
        .with_name(asked.name.clone())
        .with_topic_id(asked.topic_id)
        .with_error_code(error.code())
        .with_error_message(words(error))
}

/// CreatePartitions.
pub(super) fn created_partitions(name: TopicName, error: ResponseError) -> CreatePartitionsTopicResult {
    CreatePartitionsTopicResult::default()
        .with_name(name)
        .with_error_code(error.code())
        .with_error_message(words(error))
}

/// DescribeConfigs: no settings.
pub(super) fn described_configs(
    asked: DescribeConfigsResource,
    error: ResponseError,
) -> DescribeConfigsResult {
    DescribeConfigsResult::default()
        .with_resource_type(asked.resource_type)
        .with_resource_name(asked.resource_name)
        .with_error_code(error.code())
        .with_error_message(words(error))
}

/// DescribeCluster: no controller, no agents.
pub(super) fn cluster(endpoint_type: i8, error: ResponseError) -> DescribeClusterResponse {
    DescribeClusterResponse::default()
        .with_error_code(error.code())
        .with_error_message(words(error))
        .with_endpoint_type(endpoint_type)
        .with_controller_id(BrokerId(-1))
        .with_cluster_authorized_operations(i32::MIN)
}

/// InitProducerId: nothing is granted.
pub(super) fn producer_id(error: ResponseError) -> InitProducerIdResponse {
    InitProducerIdResponse::default()
        .with_error_code(error.code())
        .with_producer_id(ProducerId(-1))
        .with_producer_epoch(-1)
}

/// AddPartitionsToTxn, up to version 3.
pub(super) fn added_partition(partition: i32, error: ResponseError) -> AddPartitionsToTxnPartitionResult {
    AddPartitionsToTxnPartitionResult::default()
        .with_partition_index(partition)
        .with_partition_error_code(error.code())
}

/// AddOffsetsToTxn.
pub(super) fn added_offsets(error: ResponseError) -> AddOffsetsToTxnResponse {
    AddOffsetsToTxnResponse::default().with_error_code(error.code())
}

/// EndTxn: nothing to go on with.
pub(super) fn ended(error: ResponseError) -> EndTxnResponse {
    EndTxnResponse::default()
        .with_error_code(error.code())
        .with_producer_id(ProducerId(-1))
        .with_producer_epoch(-1)
}

/// DescribeProducers: none.
pub(super) fn described_producers(partition: i32, error: ResponseError) -> PartitionResponse {
    PartitionResponse::default()
        .with_partition_index(partition)
        .with_error_code(error.code())
        .with_error_message(words(error))
}

/// DescribeTransactions: no state, and -1 for each number.
pub(super) fn described_transaction(id: TransactionalId, error: ResponseError) -> TransactionState {
    TransactionState::default()
        .with_error_code(error.code())
        .with_transactional_id(id)
        .with_transaction_timeout_ms(-1)
        .with_transaction_start_time_ms(-1)
        .with_producer_id(ProducerId(-1))
        .with_producer_epoch(-1)
}

/// ListTransactions: none.
pub(super) fn listed_transactions(error: ResponseError) -> ListTransactionsResponse {
    ListTransactionsResponse::default().with_error_code(error.code())
}

/// OffsetCommit.
pub(super) fn committed_offset(partition: i32, error: ResponseError) -> OffsetCommitResponsePartition {
    OffsetCommitResponsePartition::default().with_partition_index(partition).with_error_code(error.code())
}

/// TxnOffsetCommit.
pub(super) fn pending_offset(partition: i32, error: ResponseError) -> TxnOffsetCommitResponsePartition {
    TxnOffsetCommitResponsePartition::default().with_partition_index(partition).with_error_code(error.code())
}

/// OffsetFetch, of all that an old version asked for.
pub(super) fn fetched_offsets(error: ResponseError) -> OffsetFetchResponse {
    OffsetFetchResponse::default().with_error_code(error.code())
}

/// OffsetFetch, of one of many groups.
pub(super) fn fetched_group(group: GroupId, error: ResponseError) -> OffsetFetchResponseGroup {
    OffsetFetchResponseGroup::default().with_group_id(group).with_error_code(error.code())
}

/// OffsetFetch, of a partition: no offset, no epoch, no metadata.
pub(super) fn fetched_offset(partition: i32, error: ResponseError) -> OffsetFetchResponsePartition {
    OffsetFetchResponsePartition::default()
        .with_partition_index(partition)
        .with_error_code(error.code())
        .with_committed_offset(-1)
        .with_committed_leader_epoch(-1)
        .with_metadata(Some(StrBytes::default()))
}

/// The same, for one of many groups.
pub(super) fn fetched_group_offset(partition: i32, error: ResponseError) -> OffsetFetchResponsePartitions {
    OffsetFetchResponsePartitions::default()
        .with_partition_index(partition)
        .with_error_code(error.code())
        .with_committed_offset(-1)
        .with_committed_leader_epoch(-1)
        .with_metadata(Some(StrBytes::default()))
}

/// JoinGroup: no generation, no protocol, no leader.
pub(super) fn joined_group(version: i16, member_id: StrBytes, error: ResponseError) -> JoinGroupResponse {
    JoinGroupResponse::default()
        .with_error_code(error.code())
        .with_generation_id(-1)
        .with_protocol_name(protocol_name(version, None))
        .with_member_id(member_id)
}

/// SyncGroup: no assignment.
pub(super) fn synced_group(error: ResponseError) -> SyncGroupResponse {
    SyncGroupResponse::default().with_error_code(error.code())
}

/// Heartbeat.
pub(super) fn heartbeat(error: ResponseError) -> HeartbeatResponse {
    HeartbeatResponse::default().with_error_code(error.code())
}

/// LeaveGroup, of all members, or of the one that an old version names.
pub(super) fn left_group(error: ResponseError) -> LeaveGroupResponse {
    LeaveGroupResponse::default().with_error_code(error.code())
}

/// LeaveGroup, of one member as it was named.
pub(super) fn left_member(member: MemberIdentity, error: ResponseError) -> MemberResponse {
    MemberResponse::default()
        .with_member_id(member.member_id)
        .with_group_instance_id(member.group_instance_id)
        .with_error_code(error.code())
}

/// DescribeGroups: no state, and nobody in it. Versions up to 5 are not told why.
pub(super) fn described_group(group: GroupId, error: ResponseError) -> DescribedGroup {
    DescribedGroup::default()
        .with_group_id(group)
        .with_error_code(error.code())
        .with_error_message(words(error))
        .with_authorized_operations(i32::MIN)
}

/// DescribeGroups from version 6 on, of a group that is not there.
pub(super) fn described_no_group(group: GroupId) -> DescribedGroup {
    described_group(group, ResponseError::GroupIdNotFound).with_group_state(StrBytes::from_static_str("Dead"))
}

/// ConsumerGroupHeartbeat: no member, no assignment.
pub(super) fn beat(error: ResponseError) -> ConsumerGroupHeartbeatResponse {
    ConsumerGroupHeartbeatResponse::default().with_error_code(error.code()).with_error_message(words(error))
}

/// ConsumerGroupDescribe: no state, and nobody in it.
pub(super) fn described_consumer_group(group: GroupId, error: ResponseError) -> DescribedConsumerGroup {
    DescribedConsumerGroup::default()
        .with_group_id(group)
        .with_error_code(error.code())
        .with_error_message(words(error))
        .with_authorized_operations(i32::MIN)
}

/// ListGroups: none.
pub(super) fn listed_groups(error: ResponseError) -> ListGroupsResponse {
    ListGroupsResponse::default().with_error_code(error.code())
}

/// DeleteGroups, of one group.
pub(super) fn deleted_group(group: GroupId, error: ResponseError) -> DeletableGroupResult {
    DeletableGroupResult::default().with_group_id(group).with_error_code(error.code())
}

/// OffsetDelete, of all partitions.
pub(super) fn deleted_offsets(error: ResponseError) -> OffsetDeleteResponse {
    OffsetDeleteResponse::default().with_error_code(error.code())
}

/// OffsetDelete, of one partition.
pub(super) fn deleted_offset(partition: i32, error: ResponseError) -> OffsetDeleteResponsePartition {
    OffsetDeleteResponsePartition::default().with_partition_index(partition).with_error_code(error.code())
}

#[cfg(test)]
#[path = "refuse_tests.rs"]
mod tests;
