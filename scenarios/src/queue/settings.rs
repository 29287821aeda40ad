//! Settings of the queue workload; the defaults are those of Jepsen's test of Bufstream.

use serde::{Deserialize, Serialize};

/// How the queue workload goes about it (jepsen.md A3, A4, A6; `facts/workload.json`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Queue {
    /// Operations are transactions.
    pub txn: bool,
    /// How consumers get their partitions.
    pub sub_via: SubVia,
    /// Consumers that subscribe know the cooperative rebalance protocol only; else they offer `range` too, and are eager.
    #[serde(skip_serializing_if = "is_false")]
    pub cooperative: bool,
    /// Workers: each is a producer, a consumer and an admin client.
    pub clients: u32,
    /// No operation begins later, but for those of the final phase; in milliseconds since the start.
    pub until_ms: u64,
    /// The longest pause between two operations of a worker, in milliseconds; each is drawn evenly from 0 on.
    pub think_ms_max: u64,
    /// Keys in use at the same time.
    pub active_keys: u32,
    /// A key that has so many writes is replaced by a new one.
    pub max_writes_per_key: u64,
    /// The most sends and polls of one transaction.
    pub length_max: u64,
    /// Chance that an operation is preceded by other partitions for the consumer.
    pub assign_chance: f64,
    /// Chance of a deliberate abort before each part of a transaction, and before its commit.
    pub abort_chance: f64,
    /// An operation that fails ends with its consumer where it began: the application seeks back (jepsen.md A4).
    #[serde(skip_serializing_if = "is_true")]
    pub seeks_back: bool,
    /// Anomaly types that Jepsen's checker finds and allows, since Kafka promises nothing of the kind, and that the
    /// application of this run takes for promised: they count.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub counts: Vec<String>,
    /// `max.poll.records`; Kafka's default if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_poll_records: Option<usize>,
    /// Time between two crashes of one worker's client, on average, in milliseconds; no crashes if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crash_every_ms: Option<u64>,
    /// How long each part of a client that is given up may take to close, in milliseconds.
    #[serde(skip_serializing_if = "is_zero")]
    pub close_ms: u64,
    /// Consumers beside the workers, outside transactions and groups: half of them read uncommitted records too.
    pub readers: u32,
    /// Pause between the end of all trouble and the final phase, in milliseconds.
    pub settle_ms: u64,
    /// The final phase gives up on what it has not read by then, in milliseconds since it began.
    pub final_limit_ms: u64,
}

/// How consumers get their partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SubVia {
    /// By hand.
    Assign,
    /// By their group.
    Subscribe,
}

impl Default for Queue {
    fn default() -> Self {
        Queue {
            txn: true,
            sub_via: SubVia::Assign,
            cooperative: false,
            clients: 15,
            until_ms: 100_000,
            think_ms_max: 60,
            active_keys: 10,
            max_writes_per_key: 1024,
            length_max: 4,
            assign_chance: 1.0 / 64.0,
            abort_chance: 0.1,
            seeks_back: true,
            counts: Vec::new(),
            max_poll_records: None,
            crash_every_ms: None,
            close_ms: 0,
            readers: 0,
            settle_ms: 10_000,
            final_limit_ms: 200_000,
        }
    }
}

fn is_true(flag: &bool) -> bool {
    *flag
}

fn is_false(flag: &bool) -> bool {
    !*flag
}

fn is_zero(ms: &u64) -> bool {
    *ms == 0
}

impl From<SubVia> for check::jepsen::SubVia {
    fn from(sub_via: SubVia) -> Self {
        match sub_via {
            SubVia::Assign => check::jepsen::SubVia::Assign,
            SubVia::Subscribe => check::jepsen::SubVia::Subscribe,
        }
    }
}
