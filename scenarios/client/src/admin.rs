//! A small admin client: creates topics.

use crate::codes;
use crate::config::AdminConfig;
use crate::error::Error;
use crate::network::{Completion, Network};
use crate::node::NetworkConfig;
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::{CreateTopicsRequest, TopicName};
use kafka_protocol::protocol::StrBytes;
use rt::time::{Instant, sleep, sleep_until};
use std::time::Duration;

/// A Kafka admin client. Dropping it closes its connections.
pub struct Admin {
    config: AdminConfig,
    network: Network<()>,
}

impl Admin {
    /// An admin client without a connection yet.
    pub fn new(config: AdminConfig) -> Self {
        Admin { network: Network::new(network_config(&config)), config }
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
        let deadline = Instant::now() + Duration::from_millis(self.config.default_api_timeout_ms);
        let topic = CreatableTopic::default()
            .with_name(TopicName(StrBytes::from_string(name.to_string())))
            .with_num_partitions(partitions)
            .with_replication_factor(replication_factor);
        let request = CreateTopicsRequest::default()
            .with_topics(vec![topic])
            .with_timeout_ms(self.config.request_timeout_ms as i32);
        let mut attempt = 0;
        loop {
            let code = self.create(&request, name, deadline).await?;
            let retriable = codes::is_retriable(code) && attempt < self.config.retries;
            match code {
                codes::NONE => return Ok(()),
                code if !retriable => return Err(Error::Kafka(code)),
                codes::NOT_CONTROLLER | codes::NETWORK_EXCEPTION => self.network.metadata.request_update(),
                _ => {}
            }
            attempt += 1;
            sleep(Duration::from_millis(self.config.retry_backoff_ms)).await;
        }
    }

    /// One attempt; the topic's error code, `NETWORK_EXCEPTION` when there was no answer.
    async fn create(
        &mut self,
        request: &CreateTopicsRequest,
        name: &str,
        deadline: Instant,
    ) -> Result<i16, Error> {
        let mut sent = false;
        loop {
            let now = Instant::now();
            self.network.tick(now);
            if let Some(Completion { answer, .. }) = self.network.take_completions().pop() {
                let answer = answer.and_then(|answer| answer.decode::<CreateTopicsRequest>());
                let code = answer.ok().and_then(|response| Some(response.topics.first()?.error_code));
                return Ok(code.unwrap_or(codes::NETWORK_EXCEPTION));
            }
            let controller = self.network.metadata.controller;
            if !sent && self.network.metadata.version > 0 && self.network.ready(controller, now) {
                sent = true;
                self.network.send(controller, request, i16::MAX, (), || format!("CreateTopics {name}"), now);
                continue;
            }
            if now >= deadline {
                return Err(Error::Timeout("create_topic"));
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
