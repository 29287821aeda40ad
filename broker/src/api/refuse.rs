//! Error answers. Each is made here and nowhere else, with the values that stand for "none" filled in: the schema's
//! defaults are often legal values (offset 0, epoch 0, node 0), which clients take for them.

use super::text;
use crate::coordinator::CoordinatorError;
use crate::gate::Fault;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::create_partitions_response::CreatePartitionsTopicResult;
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::delete_topics_response::DeletableTopicResult;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::describe_configs_response::DescribeConfigsResult;
use kafka_protocol::messages::offset_for_leader_epoch_response::EpochEndOffset;
use kafka_protocol::messages::{BrokerId, DescribeClusterResponse, TopicName};

/// What clients of the admin APIs are told of a fault.
pub(super) fn admin_error(fault: &Fault) -> ResponseError {
    match fault {
        Fault::Coordinator(CoordinatorError::Unavailable | CoordinatorError::Unknown) => {
            ResponseError::RequestTimedOut
        }
        _ => ResponseError::UnknownServerError,
    }
}

/// DeleteTopics: the topic as it was named, by name or by id.
pub(super) fn deleted_topic(asked: &DeleteTopicState, error: ResponseError) -> DeletableTopicResult {
    DeletableTopicResult::default()
        .with_name(asked.name.clone())
        .with_topic_id(asked.topic_id)
        .with_error_code(error.code())
        .with_error_message(Some(text(error.to_string())))
}

/// CreatePartitions.
pub(super) fn created_partitions(name: TopicName, error: ResponseError) -> CreatePartitionsTopicResult {
    CreatePartitionsTopicResult::default()
        .with_name(name)
        .with_error_code(error.code())
        .with_error_message(Some(text(error.to_string())))
}

/// OffsetForLeaderEpoch: no epoch, and no end of it.
pub(super) fn epoch_end(partition: i32, error: ResponseError) -> EpochEndOffset {
    EpochEndOffset::default()
        .with_partition(partition)
        .with_error_code(error.code())
        .with_leader_epoch(-1)
        .with_end_offset(-1)
}

/// DescribeCluster: no controller, no agents.
pub(super) fn cluster(endpoint_type: i8, error: ResponseError) -> DescribeClusterResponse {
    DescribeClusterResponse::default()
        .with_error_code(error.code())
        .with_error_message(Some(text(error.to_string())))
        .with_endpoint_type(endpoint_type)
        .with_controller_id(BrokerId(-1))
        .with_cluster_authorized_operations(i32::MIN)
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
        .with_error_message(Some(text(error.to_string())))
}
