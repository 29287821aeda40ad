//! A small admin client: creates and deletes topics, and says where logs begin and end.

use crate::codes;
use crate::config::{AdminConfig, IsolationLevel};
use crate::error::Error;
use crate::network::{Answer, Completion, Network};
use crate::node::{Failure, NetworkConfig};
use crate::types::TopicPartition;
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::{
    ApiKey, CreateTopicsRequest, DeleteTopicsRequest, ListOffsetsRequest, TopicName,
};
use kafka_protocol::protocol::{Request, StrBytes};
use rt::time::{Instant, sleep, sleep_until};
use std::collections::BTreeMap;
use std::time::Duration;

/// The first version of `DeleteTopics` that can name topics by id.
const DELETE_BY_STATE: i16 = 6;

/// Which offset of a partition is asked for (Java's `OffsetSpec`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffsetSpec {
    /// The start of the log.
    Earliest,
    /// Its end: the last stable offset under `read_committed`, the high watermark otherwise.
    Latest,
}

/// What a broker says of an offset asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedOffset {
    /// The offset.
    pub offset: i64,
    /// Milliseconds since the Unix epoch of the record there; -1 for the ends of a log.
    pub timestamp_ms: i64,
    /// The epoch of the leader that wrote it; -1 if unknown.
    pub leader_epoch: i32,
}

/// To whom a request goes.
enum To<'a> {
    Controller,
    Leader(&'a TopicPartition),
}

/// A Kafka admin client. Dropping it closes its connections.
pub struct Admin {
    config: AdminConfig,
    network: Network<u64>,
    asked: u64,
}

impl Admin {
    /// An admin client without a connection yet.
    pub fn new(config: AdminConfig) -> Self {
        Admin { network: Network::new(network_config(&config)), config, asked: 0 }
    }

    /// Creates a topic, at the controller. Retries what is worth it, up to `retries` and `default.api.timeout.ms`.
    ///
    /// # Errors
    /// [`Error::Timeout`], after which the topic may exist; [`Error::Kafka`], where 36 is `TOPIC_ALREADY_EXISTS`.
    pub async fn create_topic(
        &mut self,
        name: &str,
        partitions: i32,
        replication_factor: i16,
    ) -> Result<(), Error> {
        let topic = CreatableTopic::default()
            .with_name(topic_name(name))
            .with_num_partitions(partitions)
            .with_replication_factor(replication_factor);
        let request = CreateTopicsRequest::default()
            .with_topics(vec![topic])
            .with_timeout_ms(self.config.request_timeout_ms as i32);
        let code = |response: <CreateTopicsRequest as Request>::Response| {
            Some((response.topics.first()?.error_code, ()))
        };
        let label = format!("CreateTopics {name}");
        self.call(&To::Controller, |_| request.clone(), &label, "create_topic", code).await
    }

    /// Deletes a topic, at the controller, as [`Admin::create_topic`] creates one.
    ///
    /// # Errors
    /// [`Error::Timeout`], after which the topic may be gone; [`Error::Kafka`], where 3 is `UNKNOWN_TOPIC_OR_PARTITION`.
    pub async fn delete_topic(&mut self, name: &str) -> Result<(), Error> {
        let request = DeleteTopicsRequest::default().with_timeout_ms(self.config.request_timeout_ms as i32);
        // Until version 5 a list of names, then of names or ids.
        let named = |version: i16| match version {
            ..DELETE_BY_STATE => request.clone().with_topic_names(vec![topic_name(name)]),
            _ => {
                let state = DeleteTopicState::default().with_name(Some(topic_name(name)));
                request.clone().with_topics(vec![state])
            }
        };
        let code = |response: <DeleteTopicsRequest as Request>::Response| {
            Some((response.responses.first()?.error_code, ()))
        };
        let label = format!("DeleteTopics {name}");
        self.call(&To::Controller, named, &label, "delete_topic", code).await
    }

    /// The start or end of each partition's log, asked of its leader, one after the other.
    ///
    /// # Errors
    /// [`Error::Timeout`], also while the leader is unknown; [`Error::Kafka`]. The first error ends it.
    pub async fn list_offsets(
        &mut self,
        partitions: &[TopicPartition],
        spec: OffsetSpec,
        isolation: IsolationLevel,
    ) -> Result<BTreeMap<TopicPartition, ListedOffset>, Error> {
        let mut found = BTreeMap::new();
        for partition in partitions {
            self.network.metadata.want(&partition.topic);
            let request = list_offsets(partition, spec, isolation);
            let listed = |response: <ListOffsetsRequest as Request>::Response| {
                let part = response.topics.first()?.partitions.first()?;
                let (offset, timestamp_ms) = (part.offset, part.timestamp);
                let listed = ListedOffset { offset, timestamp_ms, leader_epoch: part.leader_epoch };
                Some((part.error_code, listed))
            };
            let label = format!("ListOffsets {partition}");
            let to = To::Leader(partition);
            let listed = self.call(&to, |_| request.clone(), &label, "list_offsets", listed).await?;
            found.insert(partition.clone(), listed);
        }
        Ok(found)
    }

    /// Asks until there is an answer that no retry mends. `request` is made for the version spoken; `read` takes error code
    /// and content out of an answer.
    async fn call<R: Request, T>(
        &mut self,
        to: &To<'_>,
        request: impl Fn(i16) -> R,
        label: &str,
        what: &'static str,
        read: impl Fn(R::Response) -> Option<(i16, T)>,
    ) -> Result<T, Error> {
        let deadline = Instant::now() + Duration::from_millis(self.config.default_api_timeout_ms);
        let mut attempt = 0;
        loop {
            let answer = self.ask(to, &request, label, deadline).await.ok_or(Error::Timeout(what))?;
            let answer = answer.and_then(Answer::decode::<R>).ok().and_then(&read);
            let code = match answer {
                Some((codes::NONE, content)) => return Ok(content),
                Some((code, _)) => code,
                None => codes::NETWORK_EXCEPTION,
            };
            // The controller knows all topics.
            let is_final = matches!(to, To::Controller) && code == codes::UNKNOWN_TOPIC_OR_PARTITION;
            if is_final || !codes::is_retriable(code) || attempt >= self.config.retries {
                return Err(Error::Kafka(code));
            }
            if code == codes::NOT_CONTROLLER || codes::blames_metadata(code) {
                self.network.metadata.request_update();
            }
            attempt += 1;
            sleep(Duration::from_millis(self.config.retry_backoff_ms)).await;
        }
    }

    /// One attempt; nothing when `deadline` passes first.
    async fn ask<R: Request>(
        &mut self,
        to: &To<'_>,
        request: &impl Fn(i16) -> R,
        label: &str,
        deadline: Instant,
    ) -> Option<Result<Answer, Failure>> {
        self.asked += 1;
        let number = self.asked;
        let mut sent = false;
        loop {
            let now = Instant::now();
            self.network.tick(now);
            // An answer to what was given up earlier is nobody's.
            let ended = self.network.take_completions().into_iter().find(|end| end.tag == number);
            if let Some(Completion { answer, .. }) = ended {
                return Some(answer);
            }
            if !sent && let Some(node) = self.node(to).filter(|node| self.network.ready(*node, now)) {
                sent = true;
                let version = self.network.serves(node, api::<R>()).unwrap_or_default();
                self.network.send(node, &request(version), i16::MAX, number, || label.to_string(), now);
                continue;
            }
            if now >= deadline {
                return None;
            }
            let due = self.network.next_tick(now).map_or(deadline, |due| due.min(deadline));
            let event = tokio::select! {
                biased;
                event = self.network.signal() => Some(event),
                () = sleep_until(due) => None,
            };
            if let Some(event) = event {
                self.network.accept(event, Instant::now());
            }
        }
    }

    fn node(&mut self, to: &To<'_>) -> Option<i32> {
        let metadata = &mut self.network.metadata;
        match to {
            To::Controller => (metadata.version > 0).then_some(metadata.controller),
            To::Leader(partition) => metadata.leader(partition).map(|leader| leader.node),
        }
    }
}

fn topic_name(name: &str) -> TopicName {
    TopicName(StrBytes::from_string(name.to_string()))
}

fn list_offsets(
    partition: &TopicPartition,
    spec: OffsetSpec,
    isolation: IsolationLevel,
) -> ListOffsetsRequest {
    let timestamp = match spec {
        OffsetSpec::Latest => -1,
        OffsetSpec::Earliest => -2,
    };
    let wanted = ListOffsetsPartition::default()
        .with_partition_index(partition.partition)
        .with_timestamp(timestamp)
        .with_current_leader_epoch(-1);
    let topic =
        ListOffsetsTopic::default().with_name(topic_name(&partition.topic)).with_partitions(vec![wanted]);
    ListOffsetsRequest::default()
        .with_replica_id((-1).into())
        .with_isolation_level(isolation.wire())
        .with_topics(vec![topic])
}

fn api<R: Request>() -> ApiKey {
    ApiKey::try_from(R::KEY).expect("every request has a key")
}
fn network_config(config: &AdminConfig) -> NetworkConfig {
    NetworkConfig {
        client_id: config.client_id.clone(),
        bootstrap_servers: config.bootstrap_servers.clone(),
        request_timeout: Duration::from_millis(config.request_timeout_ms),
        reconnect_backoff: Duration::from_millis(config.reconnect_backoff_ms),
        reconnect_backoff_max: Duration::from_millis(config.reconnect_backoff_max_ms),
        setup_timeout: Duration::from_millis(config.socket_connection_setup_timeout_ms),
        setup_timeout_max: Duration::from_millis(config.socket_connection_setup_timeout_max_ms),
        metadata_max_age: Duration::from_millis(config.metadata_max_age_ms),
        retry_backoff: Duration::from_millis(config.retry_backoff_ms),
        max_in_flight: 1,
    }
}
