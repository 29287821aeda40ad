//! Metadata (3): kafka.md 1.2. Topics are never created by asking for them.

use super::{refuse, text};
use crate::agent::Context;
use crate::gate::Fault;
use crate::membership;
use crate::records::AgentEntry;
use crate::routing;
use crate::topics::{self, Listed, NO_ID};
use kafka_protocol::ResponseError;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use kafka_protocol::messages::{BrokerId, MetadataRequest, MetadataResponse};

pub(super) async fn handle(context: &Context, version: i16, request: MetadataRequest) -> MetadataResponse {
    // Version 0 knows no null: there, an empty list asks for all topics.
    let asked = request.topics.filter(|topics| version > 0 || !topics.is_empty());
    let (agents, topics) = match look(context, asked.as_deref()).await {
        Ok((agents, known)) => {
            let topics = match asked {
                None => known.iter().map(|topic| describe(context, &agents, topic)).collect(),
                Some(asked) => asked.iter().map(|topic| find(context, &agents, &known, topic)).collect(),
            };
            (agents, topics)
        }
        Err(_) => {
            // Retriable for every client, and they still learn of one agent.
            let away = |topic: &MetadataRequestTopic| {
                refuse::described_topic(topic, ResponseError::LeaderNotAvailable)
            };
            (vec![context.myself()], asked.unwrap_or_default().iter().map(away).collect())
        }
    };
    MetadataResponse::default()
        .with_brokers(agents.iter().map(broker).collect())
        .with_cluster_id(Some(text(context.config.cluster_id.as_str())))
        .with_controller_id(BrokerId(context.config.node_id))
        .with_topics(topics)
}

async fn look(
    context: &Context,
    asked: Option<&[MetadataRequestTopic]>,
) -> Result<(Vec<AgentEntry>, Vec<Listed>), Fault> {
    let agents = membership::live_agents(context).await?;
    let nothing_asked = asked.is_some_and(<[_]>::is_empty);
    let known = if nothing_asked { Vec::new() } else { topics::list(&context.gate).await? };
    Ok((agents, known))
}

fn broker(agent: &AgentEntry) -> MetadataResponseBroker {
    MetadataResponseBroker::default()
        .with_node_id(BrokerId(agent.node_id))
        .with_host(text(agent.host.as_str()))
        .with_port(agent.port.into())
}

fn find(
    context: &Context,
    agents: &[AgentEntry],
    known: &[Listed],
    asked: &MetadataRequestTopic,
) -> MetadataResponseTopic {
    let found = match &asked.name {
        Some(name) => known.iter().find(|topic| topic.name == name.0.as_str()),
        None => known.iter().find(|topic| topic.id == asked.topic_id.into_bytes()),
    };
    match (found, &asked.name) {
        (Some(topic), _) => describe(context, agents, topic),
        (None, Some(name)) if !topics::is_legal(name) => {
            refuse::described_topic(asked, ResponseError::InvalidTopicException)
        }
        (None, Some(_)) => refuse::described_topic(asked, ResponseError::UnknownTopicOrPartition),
        (None, None) => refuse::described_topic(asked, ResponseError::UnknownTopicId),
    }
}

fn describe(context: &Context, agents: &[AgentEntry], topic: &Listed) -> MetadataResponseTopic {
    debug_assert_ne!(topic.id, NO_ID);
    let partitions = (0..topic.entry.partitions).map(|partition| {
        let leader = BrokerId(routing::leader(context, agents, &topic.name, partition).node_id);
        // Leader epoch 0 for ever: any agent leads, and none can be stale (KIP-320 finds nothing to truncate).
        MetadataResponsePartition::default()
            .with_partition_index(partition)
            .with_leader_id(leader)
            .with_leader_epoch(0)
            .with_replica_nodes(vec![leader])
            .with_isr_nodes(vec![leader])
    });
    MetadataResponseTopic::default()
        .with_name(Some(text(topic.name.as_str()).into()))
        .with_topic_id(topic.id.to_vec().try_into().unwrap_or_default())
        .with_partitions(partitions.collect())
}
