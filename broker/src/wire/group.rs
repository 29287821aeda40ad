//! Requests about groups and their offsets, in the order of Kafka's message definitions.

use super::field::Kind::{Blob, Int, Ints, Structs, Text, Texts};
use super::field::{Field, field};

pub(super) const FIND_COORDINATOR: &[Field] = &[
    field("key", Text).until(3),
    field("key_type", Int(1)).since(1),
    field("coordinator_keys", Texts).since(4),
];

pub(super) const OFFSET_COMMIT: &[Field] = &[
    field("group_id", Text),
    field("generation_id_or_member_epoch", Int(4)),
    field("member_id", Text),
    field("group_instance_id", Text).since(7).nullable(),
    field("retention_time_ms", Int(8)).until(4),
    field(
        "topics",
        Structs(&[
            field("name", Text).until(9),
            field("topic_id", Int(16)).since(10),
            field(
                "partitions",
                Structs(&[
                    field("partition_index", Int(4)),
                    field("committed_offset", Int(8)),
                    field("committed_leader_epoch", Int(4)).since(6),
                    field("committed_metadata", Text).nullable(),
                ]),
            ),
        ]),
    ),
];

pub(super) const OFFSET_FETCH: &[Field] = &[
    field("group_id", Text).until(7),
    field("topics", Structs(&[field("name", Text), field("partition_indexes", Ints(4))]))
        .until(7)
        .nullable_since(2),
    field(
        "groups",
        Structs(&[
            field("group_id", Text),
            field("member_id", Text).since(9).nullable(),
            field("member_epoch", Int(4)).since(9),
            field(
                "topics",
                Structs(&[
                    field("name", Text).until(9),
                    field("topic_id", Int(16)).since(10),
                    field("partition_indexes", Ints(4)),
                ]),
            )
            .nullable(),
        ]),
    )
    .since(8),
    field("require_stable", Int(1)).since(7),
];

pub(super) const OFFSET_DELETE: &[Field] = &[
    field("group_id", Text),
    field(
        "topics",
        Structs(&[field("name", Text), field("partitions", Structs(&[field("partition_index", Int(4))]))]),
    ),
];

pub(super) const JOIN_GROUP: &[Field] = &[
    field("group_id", Text),
    field("session_timeout_ms", Int(4)),
    field("rebalance_timeout_ms", Int(4)).since(1),
    field("member_id", Text),
    field("group_instance_id", Text).since(5).nullable(),
    field("protocol_type", Text),
    field("protocols", Structs(&[field("name", Text), field("metadata", Blob)])),
    field("reason", Text).since(8).nullable(),
];

pub(super) const SYNC_GROUP: &[Field] = &[
    field("group_id", Text),
    field("generation_id", Int(4)),
    field("member_id", Text),
    field("group_instance_id", Text).since(3).nullable(),
    field("protocol_type", Text).since(5).nullable(),
    field("protocol_name", Text).since(5).nullable(),
    field("assignments", Structs(&[field("member_id", Text), field("assignment", Blob)])),
];

pub(super) const HEARTBEAT: &[Field] = &[
    field("group_id", Text),
    field("generation_id", Int(4)),
    field("member_id", Text),
    field("group_instance_id", Text).since(3).nullable(),
];

pub(super) const LEAVE_GROUP: &[Field] = &[
    field("group_id", Text),
    field("member_id", Text).until(2),
    field(
        "members",
        Structs(&[
            field("member_id", Text),
            field("group_instance_id", Text).nullable(),
            field("reason", Text).since(5).nullable(),
        ]),
    )
    .since(3),
];

pub(super) const DESCRIBE_GROUPS: &[Field] =
    &[field("groups", Texts), field("include_authorized_operations", Int(1)).since(3)];

pub(super) const LIST_GROUPS: &[Field] =
    &[field("states_filter", Texts).since(4), field("types_filter", Texts).since(5)];

pub(super) const DELETE_GROUPS: &[Field] = &[field("groups_names", Texts)];

pub(super) const CONSUMER_GROUP_HEARTBEAT: &[Field] = &[
    field("group_id", Text),
    field("member_id", Text),
    field("member_epoch", Int(4)),
    field("instance_id", Text).nullable(),
    field("rack_id", Text).nullable(),
    field("rebalance_timeout_ms", Int(4)),
    field("subscribed_topic_names", Texts).nullable(),
    field("subscribed_topic_regex", Text).since(1).nullable(),
    field("server_assignor", Text).nullable(),
    field("topic_partitions", Structs(&[field("topic_id", Int(16)), field("partitions", Ints(4))]))
        .nullable(),
];

pub(super) const CONSUMER_GROUP_DESCRIBE: &[Field] =
    &[field("group_ids", Texts), field("include_authorized_operations", Int(1))];
