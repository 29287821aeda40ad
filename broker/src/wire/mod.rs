//! Hostile input stops here: every length in a request is held against the bytes left in its frame, and the memory that
//! its decoded form would take is added up, before `kafka-protocol` sees it. That crate allocates what a length
//! field says, so that a frame of twenty bytes could ask for gigabytes and abort the process.
//!
//! Method: the layout of every served request is data ([`fields`], one table per API, after Kafka's message
//! definitions up to 4.1), and one walker ([`check`]) goes through a frame by it. That the tables are right is proved
//! by the tests: what they generate, `kafka-protocol` decodes to the last byte and encodes to the same bytes again.
//!
//! Limits. Texts need not be UTF-8 here; the decoder refuses those that are not. Record batches are one opaque
//! blob: `batch` checks them. The estimate of memory leaves out what the allocator adds.

mod admin;
mod check;
mod field;
mod group;
mod log;
mod txn;

#[cfg(test)]
mod counting;
#[cfg(test)]
mod generate;
#[cfg(test)]
mod tests;

pub(crate) use check::{Malformed, check, check_header};

use field::Field;
use kafka_protocol::messages::ApiKey;

/// The layout of an API's requests; `None` where there is no table, which no served API may lack.
fn fields(api: ApiKey) -> Option<&'static [Field]> {
    Some(match api {
        ApiKey::Produce => log::PRODUCE,
        ApiKey::Fetch => log::FETCH,
        ApiKey::ListOffsets => log::LIST_OFFSETS,
        ApiKey::OffsetForLeaderEpoch => log::OFFSET_FOR_LEADER_EPOCH,
        ApiKey::DeleteRecords => log::DELETE_RECORDS,
        ApiKey::DescribeProducers => log::DESCRIBE_PRODUCERS,
        ApiKey::FindCoordinator => group::FIND_COORDINATOR,
        ApiKey::OffsetCommit => group::OFFSET_COMMIT,
        ApiKey::OffsetFetch => group::OFFSET_FETCH,
        ApiKey::OffsetDelete => group::OFFSET_DELETE,
        ApiKey::JoinGroup => group::JOIN_GROUP,
        ApiKey::SyncGroup => group::SYNC_GROUP,
        ApiKey::Heartbeat => group::HEARTBEAT,
        ApiKey::LeaveGroup => group::LEAVE_GROUP,
        ApiKey::DescribeGroups => group::DESCRIBE_GROUPS,
        ApiKey::ListGroups => group::LIST_GROUPS,
        ApiKey::DeleteGroups => group::DELETE_GROUPS,
        ApiKey::ConsumerGroupHeartbeat => group::CONSUMER_GROUP_HEARTBEAT,
        ApiKey::ConsumerGroupDescribe => group::CONSUMER_GROUP_DESCRIBE,
        ApiKey::InitProducerId => txn::INIT_PRODUCER_ID,
        ApiKey::AddPartitionsToTxn => txn::ADD_PARTITIONS_TO_TXN,
        ApiKey::AddOffsetsToTxn => txn::ADD_OFFSETS_TO_TXN,
        ApiKey::TxnOffsetCommit => txn::TXN_OFFSET_COMMIT,
        ApiKey::EndTxn => txn::END_TXN,
        ApiKey::DescribeTransactions => txn::DESCRIBE_TRANSACTIONS,
        ApiKey::ListTransactions => txn::LIST_TRANSACTIONS,
        ApiKey::ApiVersions => admin::API_VERSIONS,
        ApiKey::Metadata => admin::METADATA,
        ApiKey::CreateTopics => admin::CREATE_TOPICS,
        ApiKey::DeleteTopics => admin::DELETE_TOPICS,
        ApiKey::CreatePartitions => admin::CREATE_PARTITIONS,
        ApiKey::DescribeConfigs => admin::DESCRIBE_CONFIGS,
        ApiKey::DescribeCluster => admin::DESCRIBE_CLUSTER,
        _ => return None,
    })
}

#[cfg(test)]
pub(crate) fn is_known(api: ApiKey) -> bool {
    fields(api).is_some()
}

/// Whether requests of this version have compact lengths and tagged fields (KIP-482); their header then is of version 2.
fn is_flexible(api: ApiKey, version: i16) -> bool {
    api.request_header_version(version) >= 2
}
