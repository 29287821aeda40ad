//! Plans of Kafka scenarios: what workers do.

use crate::config::Config;
use serde::{Deserialize, Serialize};

/// A plan of a Kafka scenario.
pub type Plan = sim::plan::Plan<Config, Op>;
/// A recording of one.
pub type Recording = sim::plan::Recording<Config, Op>;
/// One operation of a worker, with its id and think time.
pub type Operation = sim::plan::Operation<Op>;

/// What a worker does in one operation. A worker is a client process on a machine of its own, named in the plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Op {
    /// A transaction of a transactional producer, whose id is the worker's name unless the configuration gives it one.
    Txn {
        /// Its records, sent one after the other, each awaited.
        sends: Vec<Send>,
        /// How the application ends it.
        end: Decision,
    },
    /// Records of an idempotent producer without transactions: sent without waiting, then all awaited.
    Send {
        /// The records.
        sends: Vec<Send>,
    },
    /// Polls all partitions from the earliest offset, by a consumer of its own, for a while.
    Consume {
        /// For how long, in milliseconds.
        for_ms: u64,
        /// How long the application works on what a poll returned, in milliseconds.
        #[serde(default, skip_serializing_if = "is_zero")]
        think_ms: u64,
        /// read_uncommitted; read_committed if absent.
        #[serde(default, skip_serializing_if = "is_false")]
        uncommitted: bool,
    },
    /// Reads the whole log by raw Fetch requests, again and again, for a while.
    Look {
        /// For how long, in milliseconds.
        for_ms: u64,
        /// How long it waits between two readings, in milliseconds.
        every_ms: u64,
    },
}

/// One record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Send {
    /// The partition.
    pub key: u32,
    /// The value, unique per key.
    pub value: u64,
    /// How long the application waits before it sends, in milliseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub think_ms: u64,
}

/// How an application ends a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// With a commit.
    Commit,
    /// With an abort.
    Abort,
}

fn is_zero(ms: &u64) -> bool {
    *ms == 0
}

fn is_false(flag: &bool) -> bool {
    !*flag
}
