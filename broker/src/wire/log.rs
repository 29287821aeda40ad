//! Requests about the log: records in, records out, offsets of a partition, in the order of Kafka's message definitions.

use super::field::Kind::{Blob, Int, Ints, Struct, Structs, Text};
use super::field::{Field, field};

pub(super) const PRODUCE: &[Field] = &[
    field("transactional_id", Text).nullable(),
    field("acks", Int(2)),
    field("timeout_ms", Int(4)),
    field(
        "topic_data",
        Structs(&[
            field("name", Text).until(12),
            field("topic_id", Int(16)).since(13),
            field("partition_data", Structs(&[field("index", Int(4)), field("records", Blob).nullable()])),
        ]),
    ),
];

pub(super) const FETCH: &[Field] = &[
    field("cluster_id", Text).since(12).nullable().tag(0),
    field("replica_id", Int(4)).until(14),
    field("replica_state", Struct(&[field("replica_id", Int(4)), field("replica_epoch", Int(8))]))
        .since(15)
        .tag(1),
    field("max_wait_ms", Int(4)),
    field("min_bytes", Int(4)),
    field("max_bytes", Int(4)),
    field("isolation_level", Int(1)),
    field("session_id", Int(4)).since(7),
    field("session_epoch", Int(4)).since(7),
    field(
        "topics",
        Structs(&[
            field("topic", Text).until(12),
            field("topic_id", Int(16)).since(13),
            field(
                "partitions",
                Structs(&[
                    field("partition", Int(4)),
                    field("current_leader_epoch", Int(4)).since(9),
                    field("fetch_offset", Int(8)),
                    field("last_fetched_epoch", Int(4)).since(12),
                    field("log_start_offset", Int(8)).since(5),
                    field("partition_max_bytes", Int(4)),
                    field("replica_directory_id", Int(16)).since(17).tag(0),
                    field("high_watermark", Int(8)).since(18).tag(1),
                ]),
            ),
        ]),
    ),
    field(
        "forgotten_topics_data",
        Structs(&[
            field("topic", Text).until(12),
            field("topic_id", Int(16)).since(13),
            field("partitions", Ints(4)),
        ]),
    )
    .since(7),
    field("rack_id", Text).since(11),
];

pub(super) const LIST_OFFSETS: &[Field] = &[
    field("replica_id", Int(4)),
    field("isolation_level", Int(1)).since(2),
    field(
        "topics",
        Structs(&[
            field("name", Text),
            field(
                "partitions",
                Structs(&[
                    field("partition_index", Int(4)),
                    field("current_leader_epoch", Int(4)).since(4),
                    field("timestamp", Int(8)),
                ]),
            ),
        ]),
    ),
    field("timeout_ms", Int(4)).since(10),
];

pub(super) const OFFSET_FOR_LEADER_EPOCH: &[Field] = &[
    field("replica_id", Int(4)).since(3),
    field(
        "topics",
        Structs(&[
            field("topic", Text),
            field(
                "partitions",
                Structs(&[
                    field("partition", Int(4)),
                    field("current_leader_epoch", Int(4)),
                    field("leader_epoch", Int(4)),
                ]),
            ),
        ]),
    ),
];

pub(super) const DELETE_RECORDS: &[Field] = &[
    field(
        "topics",
        Structs(&[
            field("name", Text),
            field("partitions", Structs(&[field("partition_index", Int(4)), field("offset", Int(8))])),
        ]),
    ),
    field("timeout_ms", Int(4)),
];

pub(super) const DESCRIBE_PRODUCERS: &[Field] =
    &[field("topics", Structs(&[field("name", Text), field("partition_indexes", Ints(4))]))];
