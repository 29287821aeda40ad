//! A scenario's configuration, as it stands in plans and recordings.

use crate::plan::{Commits, Life};
use crate::queue::Queue;
use client::{
    Assignor, ConsumerConfig, IsolationLevel, OffsetReset, ProducerConfig, TopicPartition, Variant,
};
use serde::{Deserialize, Serialize};
use sim::net::NetConfig;
use sim::node::Supervisor;
use sim::run::Preempt;
use std::collections::BTreeMap;

/// Everything about a run that is neither load nor trouble.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Number of broker agents, `agent-1` and up.
    pub agents: u32,
    /// Agents beside them, numbered on from there, that a fault may start (`start`): they join a cluster at work.
    #[serde(skip_serializing_if = "is_zero")]
    pub spare_agents: u32,
    /// What starts an agent again that ended by itself: Jepsen's watchdog, unless it says otherwise.
    #[serde(skip_serializing_if = "is_watchdog")]
    pub supervisor: Option<Supervisor>,
    /// Partitions of the topic `orders`; a key is a partition.
    pub partitions: u32,
    /// Which client is modelled.
    pub client: Variant,
    /// Which of its configurations.
    pub profile: Profile,
    /// `transaction.timeout.ms`.
    pub transaction_timeout_ms: i32,
    /// `acks` of producers without transactions. Other than -1, `all`, it leaves them without idempotence.
    #[serde(skip_serializing_if = "is_all")]
    pub acks: i16,
    /// Transactional ids, by worker, that are kept when a producer is given up, and that workers may share. A worker
    /// without one takes its own name, and a fresh one after every producer given up.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub transactional_ids: BTreeMap<String, String>,
    /// The coordinator. Its commits take as long as those of a replicated etcd on cloud disks.
    pub coordinator: fake_etcd::ServerConfig,
    /// The object store.
    pub storage: fake_s3::ServerConfig,
    /// Planted bugs of the broker.
    pub defects: broker::Defects,
    /// What producers get wrong beside what their client does.
    #[serde(skip_serializing_if = "is_faultless")]
    pub producer_flaws: client::Flaws,
    /// `delivery.timeout.ms`; the profile's if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivery_timeout_ms: Option<u64>,
    /// What group members get wrong.
    #[serde(skip_serializing_if = "is_faultless")]
    pub member_flaws: client::Flaws,
    /// Settings of group members.
    #[serde(skip_serializing_if = "are_defaults")]
    pub members: Members,
    /// Settings of every agent, but for what its seat says (node id, host, port) and for `defects`.
    #[serde(skip_serializing_if = "is_default")]
    pub agent: broker::AgentConfig,
    /// The queue workload; without it, workers do what their operations say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<Queue>,
    /// Chance at preemption points.
    pub preempt: Preempt,
    /// The network.
    pub net: NetConfig,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            agents: 3,
            spare_agents: 0,
            supervisor: WATCHDOG,
            partitions: 2,
            client: Variant::Java38,
            profile: Profile::Jepsen,
            transaction_timeout_ms: 60_000,
            acks: ALL,
            transactional_ids: BTreeMap::new(),
            coordinator: fake_etcd::ServerConfig {
                fsync_min_us: 2_000,
                fsync_max_us: 10_000,
                ..Default::default()
            },
            storage: fake_s3::ServerConfig::default(),
            defects: broker::Defects::default(),
            producer_flaws: client::Flaws::default(),
            delivery_timeout_ms: None,
            member_flaws: client::Flaws::default(),
            members: Members::default(),
            agent: broker::AgentConfig::default(),
            queue: None,
            preempt: Preempt { chance: 0.02, hold_us_max: 2_000 },
            net: NetConfig::default(),
        }
    }
}

/// Jepsen's watchdog: it looks every second for an agent that is gone and that nobody killed, and starts it.
const WATCHDOG: Option<Supervisor> = Some(Supervisor { restart_after_ms: 1_000, give_up_after: u32::MAX });

/// Settings that all group members share; the others are those of their lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Members {
    /// `auto.commit.interval.ms`.
    pub auto_commit_interval_ms: u64,
    /// `max.poll.records`.
    pub max_poll_records: usize,
    /// `enable.auto.commit`; if absent, by who commits in no other way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable_auto_commit: Option<bool>,
    /// `auto.offset.reset`.
    #[serde(skip_serializing_if = "is_earliest")]
    pub auto_offset_reset: OffsetReset,
    /// The work of a worker's first member on its n-th record fails, counted from 1; its application then closes that member,
    /// and goes on with another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fails_on: Option<u64>,
    /// Those that commit by themselves work beside their polls: on what a poll returned while they poll again.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub work_beside: bool,
}

impl Default for Members {
    fn default() -> Self {
        Members {
            auto_commit_interval_ms: 500,
            max_poll_records: 8,
            enable_auto_commit: None,
            auto_offset_reset: OffsetReset::Earliest,
            fails_on: None,
            work_beside: false,
        }
    }
}

/// A bundle of client settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// Kafka's own defaults: a request times out after 30 s.
    Default,
    /// What Jepsen set for Bufstream 0.1: a request times out after 3 s.
    Jepsen,
}

/// The topic of every workload.
pub(crate) const TOPIC: &str = "orders";
/// The topic into which group members write what they made of `orders`.
pub(crate) const RESULTS: &str = "results";
/// The consumer group of every workload that has members.
pub(crate) const GROUP: &str = "readers";

impl Config {
    /// Names of the agents' nodes.
    pub fn agent_names(&self) -> Vec<String> {
        (1..=self.agents).map(|n| format!("agent-{n}")).collect()
    }

    /// Names of the spare agents' nodes.
    pub fn spare_names(&self) -> Vec<String> {
        (1..=self.spare_agents).map(|n| format!("agent-{}", self.agents + n)).collect()
    }

    /// Whether brokers and clients speak the second transaction protocol with each other.
    pub(crate) fn is_second_protocol(&self) -> bool {
        let client_speaks_it = self.client.model().transaction_version >= 2;
        client_speaks_it && self.agent.transactions.version == broker::TransactionVersion::V2
    }

    /// How its producers behave.
    pub(crate) fn model(&self) -> client::Model {
        self.client.model().with(self.producer_flaws)
    }

    /// Where clients find the cluster.
    pub(crate) fn bootstrap_servers(&self) -> Vec<String> {
        self.agent_names().iter().map(|name| format!("{name}:{KAFKA_PORT}")).collect()
    }

    /// The configuration of a producer called `name`, transactional if it has an id for that.
    pub(crate) fn producer(&self, name: &str, transactional_id: Option<&str>) -> ProducerConfig {
        let profile = match self.profile {
            Profile::Default => ProducerConfig::default(),
            Profile::Jepsen => ProducerConfig::jepsen(),
        };
        let acks = if transactional_id.is_some() { ALL } else { self.acks };
        ProducerConfig {
            acks,
            enable_idempotence: acks == ALL,
            bootstrap_servers: self.bootstrap_servers(),
            client_id: name.to_string(),
            transactional_id: transactional_id.map(str::to_string),
            transaction_timeout_ms: self.transaction_timeout_ms,
            delivery_timeout_ms: self.delivery_timeout_ms.unwrap_or(profile.delivery_timeout_ms),
            ..profile
        }
    }

    /// The configuration of a consumer called `id`.
    pub(crate) fn consumer(&self, id: &str, isolation_level: IsolationLevel) -> ConsumerConfig {
        let profile = match self.profile {
            Profile::Default => ConsumerConfig::default(),
            Profile::Jepsen => ConsumerConfig::jepsen(),
        };
        ConsumerConfig {
            bootstrap_servers: self.bootstrap_servers(),
            client_id: id.to_string(),
            isolation_level,
            auto_offset_reset: OffsetReset::Earliest,
            ..profile
        }
    }
}

impl Config {
    /// The configuration of a group member called `name`, of the worker `worker`.
    pub(crate) fn member(&self, name: &str, worker: &str, life: &Life) -> ConsumerConfig {
        let all = vec![Assignor::Range, Assignor::CooperativeSticky];
        let assignors = if life.cooperative { vec![Assignor::CooperativeSticky] } else { all };
        ConsumerConfig {
            group_id: Some(GROUP.to_string()),
            group_instance_id: life.is_static.then(|| worker.to_string()),
            partition_assignment_strategy: assignors,
            enable_auto_commit: self.members.enable_auto_commit.unwrap_or(life.commits == Commits::Auto),
            auto_offset_reset: self.members.auto_offset_reset,
            auto_commit_interval_ms: self.members.auto_commit_interval_ms,
            session_timeout_ms: life.session_timeout_ms,
            max_poll_interval_ms: life.max_poll_interval_ms,
            max_poll_records: self.members.max_poll_records,
            ..self.consumer(name, IsolationLevel::ReadCommitted)
        }
    }
}

/// The topic-partition of a key: partition `key` of `orders`, or in the queue workload, which has two partitions to a
/// topic, partition `key mod 2` of `t<key div 2>` (jepsen.md A1).
pub(crate) fn partition_of(key: u32, queue: bool) -> TopicPartition {
    match queue {
        true => TopicPartition::new(format!("t{}", key / 2), (key % 2) as i32),
        false => TopicPartition::new(TOPIC, key as i32),
    }
}

/// The key of a partition as Kafka writes it: `orders-1`, `t2-1`.
pub(crate) fn key_of(partition: &str) -> Option<i64> {
    let (topic, number) = partition.rsplit_once('-')?;
    let number: i64 = number.parse().ok()?;
    let of_queue = topic.strip_prefix('t').and_then(|topic| topic.parse::<i64>().ok());
    Some(of_queue.map_or(number, |topic| topic * 2 + number))
}

/// The port on which agents serve Kafka.
pub const KAFKA_PORT: u16 = 9092;
/// The port of the coordinator.
pub const ETCD_PORT: u16 = 2379;
/// The port of the object store.
pub const S3_PORT: u16 = 9000;

fn is_faultless(flaws: &client::Flaws) -> bool {
    *flaws == client::Flaws::default()
}

fn are_defaults(members: &Members) -> bool {
    *members == Members::default()
}

fn is_default(agent: &broker::AgentConfig) -> bool {
    *agent == broker::AgentConfig::default()
}

fn is_watchdog(supervisor: &Option<Supervisor>) -> bool {
    *supervisor == WATCHDOG
}

/// `acks=all`.
const ALL: i16 = -1;

fn is_all(acks: &i16) -> bool {
    *acks == ALL
}

fn is_earliest(reset: &OffsetReset) -> bool {
    *reset == OffsetReset::Earliest
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}
