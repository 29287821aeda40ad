//! Kafka's error codes that a client treats specially, by their names in the protocol guide.

pub(crate) const UNKNOWN: i16 = -1;
pub(crate) const NONE: i16 = 0;
pub(crate) const OFFSET_OUT_OF_RANGE: i16 = 1;
pub(crate) const CORRUPT_MESSAGE: i16 = 2;
pub(crate) const UNKNOWN_TOPIC_OR_PARTITION: i16 = 3;
pub(crate) const LEADER_NOT_AVAILABLE: i16 = 5;
pub(crate) const NOT_LEADER_OR_FOLLOWER: i16 = 6;
pub(crate) const REQUEST_TIMED_OUT: i16 = 7;
pub(crate) const REPLICA_NOT_AVAILABLE: i16 = 9;
pub(crate) const NETWORK_EXCEPTION: i16 = 13;
pub(crate) const COORDINATOR_LOAD_IN_PROGRESS: i16 = 14;
pub(crate) const COORDINATOR_NOT_AVAILABLE: i16 = 15;
pub(crate) const NOT_COORDINATOR: i16 = 16;
pub(crate) const NOT_ENOUGH_REPLICAS_AFTER_APPEND: i16 = 20;
pub(crate) const ILLEGAL_GENERATION: i16 = 22;
pub(crate) const INCONSISTENT_GROUP_PROTOCOL: i16 = 23;
pub(crate) const UNKNOWN_MEMBER_ID: i16 = 25;
pub(crate) const REBALANCE_IN_PROGRESS: i16 = 27;
pub(crate) const GROUP_AUTHORIZATION_FAILED: i16 = 30;
pub(crate) const CLUSTER_AUTHORIZATION_FAILED: i16 = 31;
pub(crate) const UNSUPPORTED_VERSION: i16 = 35;
pub(crate) const NOT_CONTROLLER: i16 = 41;
pub(crate) const OUT_OF_ORDER_SEQUENCE_NUMBER: i16 = 45;
pub(crate) const DUPLICATE_SEQUENCE_NUMBER: i16 = 46;
pub(crate) const INVALID_PRODUCER_EPOCH: i16 = 47;
pub(crate) const INVALID_TXN_STATE: i16 = 48;
pub(crate) const INVALID_PRODUCER_ID_MAPPING: i16 = 49;
pub(crate) const CONCURRENT_TRANSACTIONS: i16 = 51;
pub(crate) const TRANSACTIONAL_ID_AUTHORIZATION_FAILED: i16 = 53;
pub(crate) const KAFKA_STORAGE_ERROR: i16 = 56;
pub(crate) const UNKNOWN_PRODUCER_ID: i16 = 59;
pub(crate) const FENCED_LEADER_EPOCH: i16 = 74;
pub(crate) const UNKNOWN_LEADER_EPOCH: i16 = 75;
pub(crate) const OFFSET_NOT_AVAILABLE: i16 = 78;
pub(crate) const MEMBER_ID_REQUIRED: i16 = 79;
pub(crate) const FENCED_INSTANCE_ID: i16 = 82;
pub(crate) const UNSTABLE_OFFSET_COMMIT: i16 = 88;
pub(crate) const PRODUCER_FENCED: i16 = 90;
pub(crate) const UNKNOWN_TOPIC_ID: i16 = 100;
pub(crate) const INCONSISTENT_TOPIC_ID: i16 = 103;
pub(crate) const TRANSACTION_ABORTABLE: i16 = 120;

/// Whether Java 3.8 has a `RetriableException` for it (`org.apache.kafka.common.errors`).
pub(crate) fn is_retriable(code: i16) -> bool {
    matches!(
        code,
        2 | 3 | 5 | 6 | 7 | 9 | 13
            ..=16 | 19 | 20 | 41 | 51 | 56 | 70 | 71 | 74 | 75 | 78 | 88 | 89 | 100 | 103 | 106
    )
}

/// Whether the client's view of the cluster is to blame (Java's `InvalidMetadataException`).
pub(crate) fn blames_metadata(code: i16) -> bool {
    matches!(
        code,
        UNKNOWN_TOPIC_OR_PARTITION
            | LEADER_NOT_AVAILABLE
            | NOT_LEADER_OR_FOLLOWER
            | REPLICA_NOT_AVAILABLE
            | NETWORK_EXCEPTION
            | KAFKA_STORAGE_ERROR
            | FENCED_LEADER_EPOCH
            | UNKNOWN_LEADER_EPOCH
            | UNKNOWN_TOPIC_ID
            | INCONSISTENT_TOPIC_ID
    )
}
