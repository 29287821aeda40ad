//! Requests about the cluster and its topics, in the order of Kafka's message definitions.

use super::field::Kind::{Int, Ints, Structs, Text, Texts};
use super::field::{Field, field};

pub(super) const API_VERSIONS: &[Field] =
    &[field("client_software_name", Text).since(3), field("client_software_version", Text).since(3)];

pub(super) const METADATA: &[Field] = &[
    field("topics", Structs(&[field("topic_id", Int(16)).since(10), field("name", Text).nullable_since(10)]))
        .nullable_since(1),
    field("allow_auto_topic_creation", Int(1)).since(4),
    field("include_cluster_authorized_operations", Int(1)).since(8).until(10),
    field("include_topic_authorized_operations", Int(1)).since(8),
];

pub(super) const CREATE_TOPICS: &[Field] = &[
    field(
        "topics",
        Structs(&[
            field("name", Text),
            field("num_partitions", Int(4)),
            field("replication_factor", Int(2)),
            field("assignments", Structs(&[field("partition_index", Int(4)), field("broker_ids", Ints(4))])),
            field("configs", Structs(&[field("name", Text), field("value", Text).nullable()])),
        ]),
    ),
    field("timeout_ms", Int(4)),
    field("validate_only", Int(1)),
];

pub(super) const DELETE_TOPICS: &[Field] = &[
    field("topics", Structs(&[field("name", Text).nullable(), field("topic_id", Int(16))])).since(6),
    field("topic_names", Texts).until(5),
    field("timeout_ms", Int(4)),
];

pub(super) const CREATE_PARTITIONS: &[Field] = &[
    field(
        "topics",
        Structs(&[
            field("name", Text),
            field("count", Int(4)),
            field("assignments", Structs(&[field("broker_ids", Ints(4))])).nullable(),
        ]),
    ),
    field("timeout_ms", Int(4)),
    field("validate_only", Int(1)),
];

pub(super) const DESCRIBE_CONFIGS: &[Field] = &[
    field(
        "resources",
        Structs(&[
            field("resource_type", Int(1)),
            field("resource_name", Text),
            field("configuration_keys", Texts).nullable(),
        ]),
    ),
    field("include_synonyms", Int(1)),
    field("include_documentation", Int(1)).since(3),
];

pub(super) const DESCRIBE_CLUSTER: &[Field] = &[
    field("include_cluster_authorized_operations", Int(1)),
    field("endpoint_type", Int(1)).since(1),
    field("include_fenced_brokers", Int(1)).since(2),
];
