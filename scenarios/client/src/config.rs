//! Configuration with Kafka's own keys, and two profiles of it.
//!
//! `Default` holds Kafka 3.8's defaults. `jepsen` holds what Jepsen set when it tested Bufstream: with its tight
//! timeouts the interleavings that matter need seconds of delay rather than half a minute.

use crate::group::Assignor;
use serde::{Deserialize, Serialize};

/// Settings of a producer (Kafka documentation, "Producer Configs").
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProducerConfig {
    /// `bootstrap.servers`: `host:port` of agents to start with.
    pub bootstrap_servers: Vec<String>,
    /// `client.id`.
    pub client_id: String,
    /// `transactional.id`; none for a producer without transactions.
    pub transactional_id: Option<String>,
    /// `transaction.timeout.ms`: the coordinator aborts a transaction that is older.
    pub transaction_timeout_ms: i32,
    /// `enable.idempotence`. Transactions imply it.
    pub enable_idempotence: bool,
    /// `acks`: -1 for `all`, 1, or 0.
    pub acks: i16,
    /// `retries`: attempts of a batch beyond the first.
    pub retries: u32,
    /// `max.in.flight.requests.per.connection`.
    pub max_in_flight_requests_per_connection: usize,
    /// `delivery.timeout.ms`: from `send` to success or failure of a record.
    pub delivery_timeout_ms: u64,
    /// `max.block.ms`: how long calls of the application wait.
    pub max_block_ms: u64,
    /// `linger.ms`: how long a batch waits for company.
    pub linger_ms: u64,
    /// `batch.size`: a batch is closed when it reaches this many bytes.
    pub batch_size: usize,
    /// `max.request.size`: the largest record, in bytes.
    pub max_request_size: usize,
    /// `retry.backoff.ms`.
    pub retry_backoff_ms: u64,
    /// `retry.backoff.max.ms`.
    pub retry_backoff_max_ms: u64,
    /// `request.timeout.ms`: an unanswered request closes its connection after this long.
    pub request_timeout_ms: u64,
    /// `reconnect.backoff.ms`.
    pub reconnect_backoff_ms: u64,
    /// `reconnect.backoff.max.ms`.
    pub reconnect_backoff_max_ms: u64,
    /// `socket.connection.setup.timeout.ms`.
    pub socket_connection_setup_timeout_ms: u64,
    /// `socket.connection.setup.timeout.max.ms`.
    pub socket_connection_setup_timeout_max_ms: u64,
    /// `metadata.max.age.ms`.
    pub metadata_max_age_ms: u64,
}

impl Default for ProducerConfig {
    fn default() -> Self {
        ProducerConfig {
            bootstrap_servers: Vec::new(),
            client_id: "producer-1".to_string(),
            transactional_id: None,
            transaction_timeout_ms: 60_000,
            enable_idempotence: true,
            acks: -1,
            retries: i32::MAX as u32,
            max_in_flight_requests_per_connection: 5,
            delivery_timeout_ms: 120_000,
            max_block_ms: 60_000,
            linger_ms: 0,
            batch_size: 16_384,
            max_request_size: 1_048_576,
            retry_backoff_ms: 100,
            retry_backoff_max_ms: 1_000,
            request_timeout_ms: 30_000,
            reconnect_backoff_ms: 50,
            reconnect_backoff_max_ms: 1_000,
            socket_connection_setup_timeout_ms: 10_000,
            socket_connection_setup_timeout_max_ms: 30_000,
            metadata_max_age_ms: 300_000,
        }
    }
}

impl ProducerConfig {
    /// Jepsen's settings for Bufstream 0.1.
    pub fn jepsen() -> Self {
        ProducerConfig {
            transaction_timeout_ms: 1_000,
            retries: 1_000,
            delivery_timeout_ms: 10_000,
            max_block_ms: 10_000,
            request_timeout_ms: 3_000,
            socket_connection_setup_timeout_ms: 500,
            socket_connection_setup_timeout_max_ms: 1_000,
            ..ProducerConfig::default()
        }
    }

    /// What franz-go does where its defaults differ (`kgo`'s `defaultCfg`): requests time out after 10 s, a batch is repeated
    /// without end, 250 ms to 2.5 s apart. Here a batch has 24 days. `max.block.ms` stands for the context of a call.
    pub fn franz_go() -> Self {
        ProducerConfig {
            transaction_timeout_ms: 40_000,
            delivery_timeout_ms: i32::MAX as u64,
            linger_ms: 10,
            batch_size: 1_000_012,
            retry_backoff_ms: 250,
            retry_backoff_max_ms: 2_500,
            request_timeout_ms: 10_000,
            reconnect_backoff_ms: 250,
            reconnect_backoff_max_ms: 2_500,
            socket_connection_setup_timeout_max_ms: 10_000,
            ..ProducerConfig::default()
        }
    }
}

/// `isolation.level`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IsolationLevel {
    /// Everything below the high watermark.
    ReadUncommitted,
    /// Records of committed transactions below the last stable offset.
    ReadCommitted,
}

impl IsolationLevel {
    /// Its value on the wire.
    pub(crate) fn wire(self) -> i8 {
        match self {
            IsolationLevel::ReadUncommitted => 0,
            IsolationLevel::ReadCommitted => 1,
        }
    }
}

/// `auto.offset.reset`: where to start without a position, or when it is out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OffsetReset {
    /// At the start of the log.
    Earliest,
    /// At the end: the last stable offset under `read_committed`, the high watermark otherwise.
    Latest,
    /// Nowhere: an error to the application.
    None,
}

/// Settings of a consumer (Kafka documentation, "Consumer Configs").
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ConsumerConfig {
    /// `bootstrap.servers`.
    pub bootstrap_servers: Vec<String>,
    /// `client.id`.
    pub client_id: String,
    /// `isolation.level`.
    pub isolation_level: IsolationLevel,
    /// `auto.offset.reset`.
    pub auto_offset_reset: OffsetReset,
    /// `max.poll.records`.
    pub max_poll_records: usize,
    /// `fetch.min.bytes`.
    pub fetch_min_bytes: i32,
    /// `fetch.max.wait.ms`.
    pub fetch_max_wait_ms: i32,
    /// `fetch.max.bytes`.
    pub fetch_max_bytes: i32,
    /// `max.partition.fetch.bytes`.
    pub max_partition_fetch_bytes: i32,
    /// `retry.backoff.ms`.
    pub retry_backoff_ms: u64,
    /// `request.timeout.ms`.
    pub request_timeout_ms: u64,
    /// `reconnect.backoff.ms`.
    pub reconnect_backoff_ms: u64,
    /// `reconnect.backoff.max.ms`.
    pub reconnect_backoff_max_ms: u64,
    /// `socket.connection.setup.timeout.ms`.
    pub socket_connection_setup_timeout_ms: u64,
    /// `socket.connection.setup.timeout.max.ms`.
    pub socket_connection_setup_timeout_max_ms: u64,
    /// `metadata.max.age.ms`.
    pub metadata_max_age_ms: u64,
    /// `group.id`; a [`crate::Member`] needs one.
    pub group_id: Option<String>,
    /// `group.instance.id`: makes a static member (KIP-345).
    pub group_instance_id: Option<String>,
    /// `session.timeout.ms`: a member that was not heard for so long is out of the group.
    pub session_timeout_ms: u64,
    /// `heartbeat.interval.ms`.
    pub heartbeat_interval_ms: u64,
    /// `max.poll.interval.ms`: a member that does not poll for so long leaves; also the rebalance timeout.
    pub max_poll_interval_ms: u64,
    /// `partition.assignment.strategy`, most wanted first. The rebalance protocol is cooperative if all of them know it.
    pub partition_assignment_strategy: Vec<Assignor>,
    /// `enable.auto.commit`.
    pub enable_auto_commit: bool,
    /// `auto.commit.interval.ms`.
    pub auto_commit_interval_ms: u64,
    /// `default.api.timeout.ms`: how long a commit may take, retries included.
    pub default_api_timeout_ms: u64,
}

impl Default for ConsumerConfig {
    fn default() -> Self {
        ConsumerConfig {
            bootstrap_servers: Vec::new(),
            client_id: "consumer-1".to_string(),
            isolation_level: IsolationLevel::ReadUncommitted,
            auto_offset_reset: OffsetReset::Latest,
            max_poll_records: 500,
            fetch_min_bytes: 1,
            fetch_max_wait_ms: 500,
            fetch_max_bytes: 52_428_800,
            max_partition_fetch_bytes: 1_048_576,
            retry_backoff_ms: 100,
            request_timeout_ms: 30_000,
            reconnect_backoff_ms: 50,
            reconnect_backoff_max_ms: 1_000,
            socket_connection_setup_timeout_ms: 10_000,
            socket_connection_setup_timeout_max_ms: 30_000,
            metadata_max_age_ms: 300_000,
            group_id: None,
            group_instance_id: None,
            session_timeout_ms: 45_000,
            heartbeat_interval_ms: 3_000,
            max_poll_interval_ms: 300_000,
            partition_assignment_strategy: vec![Assignor::Range, Assignor::CooperativeSticky],
            enable_auto_commit: true,
            auto_commit_interval_ms: 5_000,
            default_api_timeout_ms: 60_000,
        }
    }
}

impl ConsumerConfig {
    /// Jepsen's settings for Bufstream 0.1, with its `--safe` flags.
    pub fn jepsen() -> Self {
        ConsumerConfig {
            isolation_level: IsolationLevel::ReadCommitted,
            auto_offset_reset: OffsetReset::Earliest,
            request_timeout_ms: 10_000,
            socket_connection_setup_timeout_ms: 500,
            socket_connection_setup_timeout_max_ms: 1_000,
            metadata_max_age_ms: 60_000,
            session_timeout_ms: 6_000,
            heartbeat_interval_ms: 300,
            default_api_timeout_ms: 10_000,
            enable_auto_commit: false,
            ..ConsumerConfig::default()
        }
    }
}

/// Settings of an admin client (Kafka documentation, "Admin Configs").
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AdminConfig {
    /// `bootstrap.servers`.
    pub bootstrap_servers: Vec<String>,
    /// `client.id`.
    pub client_id: String,
    /// `default.api.timeout.ms`: how long a call may take, retries included.
    pub default_api_timeout_ms: u64,
    /// `retries`.
    pub retries: u32,
    /// `retry.backoff.ms`.
    pub retry_backoff_ms: u64,
    /// `request.timeout.ms`.
    pub request_timeout_ms: u64,
    /// `reconnect.backoff.ms`.
    pub reconnect_backoff_ms: u64,
    /// `reconnect.backoff.max.ms`.
    pub reconnect_backoff_max_ms: u64,
    /// `socket.connection.setup.timeout.ms`.
    pub socket_connection_setup_timeout_ms: u64,
    /// `socket.connection.setup.timeout.max.ms`.
    pub socket_connection_setup_timeout_max_ms: u64,
    /// `metadata.max.age.ms`.
    pub metadata_max_age_ms: u64,
}

impl Default for AdminConfig {
    fn default() -> Self {
        AdminConfig {
            bootstrap_servers: Vec::new(),
            client_id: "adminclient-1".to_string(),
            default_api_timeout_ms: 60_000,
            retries: i32::MAX as u32,
            retry_backoff_ms: 100,
            request_timeout_ms: 30_000,
            reconnect_backoff_ms: 50,
            reconnect_backoff_max_ms: 1_000,
            socket_connection_setup_timeout_ms: 10_000,
            socket_connection_setup_timeout_max_ms: 30_000,
            metadata_max_age_ms: 300_000,
        }
    }
}

impl AdminConfig {
    /// Jepsen's settings for Bufstream 0.1.
    pub fn jepsen() -> Self {
        AdminConfig {
            default_api_timeout_ms: 3_000,
            retries: 0,
            request_timeout_ms: 3_000,
            socket_connection_setup_timeout_ms: 500,
            socket_connection_setup_timeout_max_ms: 1_000,
            ..AdminConfig::default()
        }
    }
}
