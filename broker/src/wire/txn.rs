//! Requests about transactions, in the order of Kafka's message definitions.

use super::field::Kind::{Int, Ints, Structs, Text, Texts};
use super::field::{Field, field};

pub(super) const INIT_PRODUCER_ID: &[Field] = &[
    field("transactional_id", Text).nullable(),
    field("transaction_timeout_ms", Int(4)),
    field("producer_id", Int(8)).since(3),
    field("producer_epoch", Int(2)).since(3),
];

pub(super) const ADD_PARTITIONS_TO_TXN: &[Field] = &[
    field(
        "transactions",
        Structs(&[
            field("transactional_id", Text),
            field("producer_id", Int(8)),
            field("producer_epoch", Int(2)),
            field("verify_only", Int(1)),
            field("topics", Structs(&[field("name", Text), field("partitions", Ints(4))])),
        ]),
    )
    .since(4),
    field("v3_and_below_transactional_id", Text).until(3),
    field("v3_and_below_producer_id", Int(8)).until(3),
    field("v3_and_below_producer_epoch", Int(2)).until(3),
    field("v3_and_below_topics", Structs(&[field("name", Text), field("partitions", Ints(4))])).until(3),
];

pub(super) const ADD_OFFSETS_TO_TXN: &[Field] = &[
    field("transactional_id", Text),
    field("producer_id", Int(8)),
    field("producer_epoch", Int(2)),
    field("group_id", Text),
];

pub(super) const TXN_OFFSET_COMMIT: &[Field] = &[
    field("transactional_id", Text),
    field("group_id", Text),
    field("producer_id", Int(8)),
    field("producer_epoch", Int(2)),
    field("generation_id", Int(4)).since(3),
    field("member_id", Text).since(3),
    field("group_instance_id", Text).since(3).nullable(),
    field(
        "topics",
        Structs(&[
            field("name", Text),
            field(
                "partitions",
                Structs(&[
                    field("partition_index", Int(4)),
                    field("committed_offset", Int(8)),
                    field("committed_leader_epoch", Int(4)).since(2),
                    field("committed_metadata", Text).nullable(),
                ]),
            ),
        ]),
    ),
];

pub(super) const END_TXN: &[Field] = &[
    field("transactional_id", Text),
    field("producer_id", Int(8)),
    field("producer_epoch", Int(2)),
    field("committed", Int(1)),
];

pub(super) const DESCRIBE_TRANSACTIONS: &[Field] = &[field("transactional_ids", Texts)];

pub(super) const LIST_TRANSACTIONS: &[Field] = &[
    field("state_filters", Texts),
    field("producer_id_filters", Ints(8)),
    field("duration_filter", Int(8)).since(1),
    field("transactional_id_pattern", Text).since(2).nullable(),
];
