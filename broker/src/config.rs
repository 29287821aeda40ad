//! An agent's settings, as plain data that a plan or a file can carry. Times are in milliseconds unless the name says
//! otherwise; defaults are Kafka's where Kafka has the setting.

use crate::defects::Defects;
use serde::{Deserialize, Serialize};

/// Settings of one agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AgentConfig {
    /// Kafka's node id (`node.id`), unique in the cluster.
    pub node_id: i32,
    /// Host that clients are told to connect to.
    pub advertised_host: String,
    /// Port that clients are told to connect to.
    pub advertised_port: u16,
    /// The cluster's id, as Metadata reports it.
    pub cluster_id: String,
    /// Whom Metadata and FindCoordinator name as leader and coordinator.
    pub routing: Routing,
    /// How transactions are kept.
    pub transactions: TransactionConfig,
    /// How groups are kept.
    pub groups: GroupConfig,
    /// When producers and transactional ids that nobody uses are forgotten.
    pub expiration: ExpirationConfig,
    /// The longest wait for one answer of the coordinator. Shorter than a client's request time-out, so that the agent
    /// learns of trouble before its client gives up.
    pub coordinator_timeout_ms: u64,
    /// The longest wait for one answer of the object store.
    pub store_timeout_ms: u64,
    /// How long the agent works on a request (EndTxn excepted) before it answers a retriable error. No try begins that
    /// could outlast it by the coordinator's time-out.
    pub request_limit_ms: u64,
    /// How long the agent works on one EndTxn. Longer than a client waits: the loop ends what is current when it gets
    /// through, as findings.md ("The faces of finding 9") describes.
    pub end_txn_limit_ms: u64,
    /// Pause before the agent tries an operation again, doubled each time up to sixteen times this.
    pub retry_backoff_ms: u64,
    /// Time to live of the agent's registration, in seconds.
    pub lease_ttl_s: i64,
    /// Largest request accepted, in bytes (`socket.request.max.bytes`); a larger one closes the connection.
    pub request_max_bytes: usize,
    /// Most bytes of requests in memory at once, decoded forms included (`queued.max.request.bytes`, KIP-72). Beyond it
    /// the agent stops reading; a single request whose decoded form is larger closes its connection.
    pub queued_max_request_bytes: usize,
    /// Most connections at once (`max.connections`); one beyond is closed as soon as it is accepted.
    pub connections_max: usize,
    /// A connection without a request for so long is closed (`connections.max.idle.ms`).
    pub connections_max_idle_ms: u64,
    /// How long an agent that drains waits for the requests in flight.
    pub drain_limit_ms: u64,
    /// Largest batch accepted by topics without `max.message.bytes`, in bytes (`message.max.bytes`).
    pub message_max_bytes: usize,
    /// How old records of topics without `retention.ms` grow before they are deleted; -1 keeps them (`log.retention.ms`).
    pub log_retention_ms: i64,
    /// How large logs of topics without `retention.bytes` grow, in bytes; -1 sets no limit (`log.retention.bytes`).
    pub log_retention_bytes: i64,
    /// Period of the check for records to delete; 0 for none (`log.retention.check.interval.ms`).
    pub retention_interval_ms: u64,
    /// Period of compaction, which moves batches out of small chunks into larger ones; 0 for none. It moves what the collector
    /// has declared settled.
    pub compaction_interval_ms: u64,
    /// Chunks that neighbouring batches of a partition lie in before they are moved together; at least 2.
    pub compaction_min_chunks: usize,
    /// Period of the collector, which deletes chunks that nothing refers to; 0 for none. A chunk has about that long to be
    /// committed before it must be written again.
    pub collection_interval_ms: u64,
    /// Most record bytes in one Fetch answer (`fetch.max.bytes`), except that one batch is always returned whole.
    pub fetch_max_bytes: usize,
    /// Most bytes that batches of several requests fill a chunk with; larger batches have chunks of their own.
    pub chunk_max_bytes: usize,
    /// How long a chunk waits for batches of further requests. With 0 it waits for none, and holds what came in while the
    /// chunk before was written.
    pub chunk_linger_ms: u64,
    /// Most bytes of chunks kept in memory for readers; 0 keeps none.
    pub cache_max_bytes: usize,
    /// Planted bugs.
    pub defects: Defects,
}

impl Default for AgentConfig {
    fn default() -> Self {
        AgentConfig {
            node_id: 1,
            advertised_host: "127.0.0.1".into(),
            advertised_port: 9092,
            cluster_id: "wavetank".into(),
            routing: Routing::default(),
            transactions: TransactionConfig::default(),
            groups: GroupConfig::default(),
            expiration: ExpirationConfig::default(),
            coordinator_timeout_ms: 1_000,
            store_timeout_ms: 1_000,
            request_limit_ms: 2_500,
            end_txn_limit_ms: 10_000,
            retry_backoff_ms: 20,
            lease_ttl_s: 15,
            request_max_bytes: 104_857_600,
            queued_max_request_bytes: 256 << 20,
            connections_max: 10_000,
            connections_max_idle_ms: 600_000,
            drain_limit_ms: 30_000,
            message_max_bytes: 1_048_588,
            log_retention_ms: 604_800_000,
            log_retention_bytes: -1,
            retention_interval_ms: 300_000,
            compaction_interval_ms: 300_000,
            compaction_min_chunks: 8,
            collection_interval_ms: 300_000,
            fetch_max_bytes: 57_671_680,
            chunk_max_bytes: 4 << 20,
            chunk_linger_ms: 0,
            cache_max_bytes: 16 << 20,
            defects: Defects::default(),
        }
    }
}

/// Whom clients are sent to. Any agent serves any request; this only spreads the load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Routing {
    /// The answering agent names itself leader and coordinator, as cloud brokers do for zone affinity.
    #[default]
    AnsweringAgent,
    /// Rendezvous hashing of the partition or key over the agents that hold a lease.
    Rendezvous,
}

/// How transactions are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TransactionConfig {
    /// The protocol offered to clients (the feature `transaction.version`). A request meets the rules of its own version;
    /// a client of the old protocol keeps the old rules whatever is offered.
    pub version: TransactionVersion,
    /// What happens to a transactional batch outside a transaction.
    pub outside: Outside,
    /// What keeps requests that are older than the transaction they meet from it.
    #[serde(skip_serializing_if = "RevisionClock::is_off")]
    pub revision_clock: RevisionClock,
    /// When transactions that ran out of time are looked for.
    pub timeouts: Timeouts,
    /// Period of the scan that finds overdue transactions and those whose agent died after Prepare
    /// (`transaction.abort.timed.out.transaction.cleanup.interval.ms`).
    pub scan_interval_ms: u64,
    /// Largest transaction timeout that InitProducerId accepts (`transaction.max.timeout.ms`).
    pub max_timeout_ms: i32,
    /// Pause before a batch that met CONCURRENT_TRANSACTIONS is tried again on behalf of a client of version 2
    /// (`add.partitions.to.txn.retry.backoff.ms`).
    pub join_backoff_ms: u64,
    /// The longest time such a batch is tried before the client is told (`add.partitions.to.txn.retry.backoff.max.ms`).
    pub join_limit_ms: u64,
}

impl Default for TransactionConfig {
    fn default() -> Self {
        TransactionConfig {
            version: TransactionVersion::default(),
            outside: Outside::default(),
            revision_clock: RevisionClock::default(),
            timeouts: Timeouts::default(),
            scan_interval_ms: 10_000,
            max_timeout_ms: 900_000,
            join_backoff_ms: 20,
            join_limit_ms: 100,
        }
    }
}

/// How groups are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GroupConfig {
    /// How long the first join phase of an empty group waits for further members, again and again while some come
    /// (`group.initial.rebalance.delay.ms`).
    pub initial_rebalance_delay_ms: i32,
    /// Shortest session time-out that JoinGroup accepts (`group.min.session.timeout.ms`).
    pub min_session_timeout_ms: i32,
    /// Longest session time-out that JoinGroup accepts (`group.max.session.timeout.ms`).
    pub max_session_timeout_ms: i32,
    /// Most members of a group (`group.max.size`).
    pub max_size: usize,
    /// How long a member of the consumer protocol may be silent (`group.consumer.session.timeout.ms`).
    pub consumer_session_timeout_ms: i32,
    /// How often it is told to be heard (`group.consumer.heartbeat.interval.ms`).
    pub consumer_heartbeat_interval_ms: i32,
    /// Most members of a group of the consumer protocol (`group.consumer.max.size`).
    pub consumer_max_size: usize,
    /// How long committed offsets are kept that no member needs (`offsets.retention.minutes`).
    pub offsets_retention_ms: i64,
    /// Period of the check for such offsets; 0 for none (`offsets.retention.check.interval.ms`).
    pub offsets_retention_interval_ms: u64,
}

impl Default for GroupConfig {
    fn default() -> Self {
        GroupConfig {
            initial_rebalance_delay_ms: 3_000,
            min_session_timeout_ms: 6_000,
            max_session_timeout_ms: 1_800_000,
            max_size: i32::MAX as usize,
            consumer_session_timeout_ms: 45_000,
            consumer_heartbeat_interval_ms: 5_000,
            consumer_max_size: i32::MAX as usize,
            offsets_retention_ms: 604_800_000,
            offsets_retention_interval_ms: 600_000,
        }
    }
}

/// When what nobody uses any more is forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ExpirationConfig {
    /// How long a partition remembers a producer that writes nothing and has no open transaction
    /// (`producer.id.expiration.ms`).
    pub producer_id_ms: u64,
    /// Period of the scan for such producers (`producer.id.expiration.check.interval.ms`).
    pub producer_id_scan_ms: u64,
    /// How long a transactional id without a transaction is remembered (`transactional.id.expiration.ms`).
    pub transactional_id_ms: u64,
    /// Period of the scan for such ids (`transaction.remove.expired.transaction.cleanup.interval.ms`).
    pub transactional_id_scan_ms: u64,
}

impl Default for ExpirationConfig {
    fn default() -> Self {
        ExpirationConfig {
            producer_id_ms: 86_400_000,
            producer_id_scan_ms: 600_000,
            transactional_id_ms: 604_800_000,
            transactional_id_scan_ms: 3_600_000,
        }
    }
}

/// Kafka's transaction versions, by their number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "i16", into = "i16")]
pub enum TransactionVersion {
    /// The old protocol: one epoch for many transactions.
    #[default]
    V1,
    /// KIP-890 part 2: every end moves the epoch on.
    V2,
}

impl TransactionVersion {
    /// The rules that a request of `version` meets where this one is offered, for an API whose requests belong to version 2
    /// from `since` on.
    pub(crate) fn of_request(self, version: i16, since: i16) -> Self {
        if version >= since { self } else { TransactionVersion::V1 }
    }
}

impl From<TransactionVersion> for i16 {
    fn from(version: TransactionVersion) -> Self {
        match version {
            TransactionVersion::V1 => 1,
            TransactionVersion::V2 => 2,
        }
    }
}

impl TryFrom<i16> for TransactionVersion {
    type Error = String;

    fn try_from(number: i16) -> Result<Self, String> {
        match number {
            1 => Ok(TransactionVersion::V1),
            2 => Ok(TransactionVersion::V2),
            _ => Err(format!("transaction.version is 1 or 2, not {number}")),
        }
    }
}

/// What happens to a transactional batch when the transaction is not Ongoing or does not list the partition. While the
/// transaction is being ended every setting answers CONCURRENT_TRANSACTIONS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outside {
    /// Begin or join the transaction, in the same coordinator transaction as the append.
    #[default]
    Implicit,
    /// Accept; only the partition knows of the open transaction (Kafka without verification).
    Local,
    /// Reject (KIP-890 part 1).
    Verify,
}

/// The coordinator's revision as a logical clock: an EndTxn or a transactional batch is refused, in a way worth another try, if
/// the transaction it meets is newer than its stamp (Bufstream 0.1.3, as far as Jepsen's report tells).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RevisionClock {
    /// There is none.
    #[default]
    Off,
    /// The stamp is the coordinator's revision as the agent reads the request: it asks for it.
    Arrival,
    /// The stamp is the highest revision that the agent had been told when it read the request. After a pause that is one from
    /// before it.
    LastKnown,
}

impl RevisionClock {
    fn is_off(&self) -> bool {
        *self == RevisionClock::Off
    }
}

/// When a transaction that ran out of time is aborted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Timeouts {
    /// At the next periodic scan, as Kafka does.
    #[default]
    Scan,
    /// At its deadline, by the agent that saw it begin; the scan serves those whose agent is gone.
    Deadline,
}
