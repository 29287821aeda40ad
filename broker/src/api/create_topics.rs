//! CreateTopics (19): kafka.md 1.3. A topic is one key; partitions exist because the topic says so.

use super::refuse;
use crate::agent::Context;
use crate::codec;
use crate::coordinator::{Compare, Op, Range};
use crate::deletion;
use crate::gate::Fault;
use crate::layout;
use crate::records::TopicEntry;
use crate::topic_config;
use crate::topics::{self, NO_ID, PARTITIONS_MAX, TopicId};
use kafka_protocol::ResponseError;
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::create_topics_response::CreatableTopicResult;
use kafka_protocol::messages::{CreateTopicsRequest, CreateTopicsResponse, TopicName};
use std::collections::BTreeMap;

/// Partitions of a topic that leaves the number to the broker (`num.partitions`).
const DEFAULT_PARTITIONS: i32 = 1;

pub(super) async fn handle(
    context: &Context,
    version: i16,
    request: CreateTopicsRequest,
) -> CreateTopicsResponse {
    let mut results = Vec::with_capacity(request.topics.len());
    let mut named: BTreeMap<&str, usize> = BTreeMap::new();
    for topic in &request.topics {
        *named.entry(&topic.name).or_default() += 1;
    }
    for topic in &request.topics {
        let twice = named[topic.name.as_str()] > 1;
        let outcome = match entry(topic, version) {
            Ok(_) if twice => Err(ResponseError::InvalidRequest),
            Ok(entry) if request.validate_only => validate(context, &topic.name, entry).await,
            Ok(entry) => create(context, &topic.name, entry).await,
            Err(error) => Err(error),
        };
        results.push(match outcome {
            Ok((entry, id)) => created(topic.name.clone(), &entry, id),
            Err(error) => refuse::created_topic(topic.name.clone(), error),
        });
    }
    CreateTopicsResponse::default().with_topics(results)
}

/// The topic asked for, if it may exist.
fn entry(topic: &CreatableTopic, version: i16) -> Result<TopicEntry, ResponseError> {
    if !topics::is_legal(&topic.name) {
        return Err(ResponseError::InvalidTopicException);
    }
    // -1 leaves a number to the broker, from version 4 on (KIP-464) or with a manual assignment.
    let assigned = i32::try_from(topic.assignments.len()).unwrap_or(i32::MAX);
    let partitions = match topic.num_partitions {
        -1 if assigned > 0 => assigned,
        -1 if version >= 4 => DEFAULT_PARTITIONS,
        partitions => partitions,
    };
    if !(1..=PARTITIONS_MAX).contains(&partitions) {
        return Err(ResponseError::InvalidPartitions);
    }
    let replication_factor = match topic.replication_factor {
        -1 if assigned > 0 || version >= 4 => 1,
        replicas @ 1.. => replicas,
        _ => return Err(ResponseError::InvalidReplicationFactor),
    };
    let config = |c: &kafka_protocol::messages::create_topics_request::CreatableTopicConfig| {
        (c.name.to_string(), c.value.as_ref().map(ToString::to_string))
    };
    let configs = topic.configs.iter().map(config).collect();
    if !topic_config::is_valid(&configs) {
        return Err(ResponseError::InvalidConfig);
    }
    Ok(TopicEntry { partitions, replication_factor, configs })
}

type Created = Result<(TopicEntry, TopicId), ResponseError>;

async fn validate(context: &Context, name: &str, entry: TopicEntry) -> Created {
    match exists(context, name).await {
        Ok(false) => Ok((entry, NO_ID)),
        Ok(true) => Err(ResponseError::TopicAlreadyExists),
        Err(fault) => Err(refuse::admin_error(&fault)),
    }
}

async fn exists(context: &Context, name: &str) -> Result<bool, Fault> {
    Ok(!context.gate.range(Range::key(layout::topic(name))).await?.kvs.is_empty())
}

/// Creates the topic. A create whose answer was lost is answered REQUEST_TIMED_OUT, as Kafka's is; the client's next try
/// then learns that the topic exists.
async fn create(context: &Context, name: &str, entry: TopicEntry) -> Created {
    match attempt(context, name, &entry).await {
        Ok(Some(revision)) => {
            rt::event!("topic.created", topic = name, partitions = entry.partitions);
            Ok((entry, topics::id_of(name, revision)))
        }
        Ok(None) => Err(ResponseError::TopicAlreadyExists),
        Err(fault) => Err(refuse::admin_error(&fault)),
    }
}

/// The new topic's revision; `None` if there is one already. What is left of a deleted one of that name goes first.
async fn attempt(context: &Context, name: &str, entry: &TopicEntry) -> Result<Option<i64>, Fault> {
    let key = layout::topic(name);
    let guards = || vec![Compare::unchanged(key.clone(), 0), Compare::unchanged(layout::deleting(name), 0)];
    let put = || vec![Op::put(key.clone(), codec::encode(entry))];
    if let Some(answer) = context.gate.commit(guards(), put()).await? {
        return Ok(Some(answer.revision));
    }
    if exists(context, name).await? {
        return Ok(None);
    }
    deletion::purge(context, name).await?;
    Ok(context.gate.commit(guards(), put()).await?.map(|answer| answer.revision))
}

fn created(name: TopicName, entry: &TopicEntry, id: TopicId) -> CreatableTopicResult {
    CreatableTopicResult::default()
        .with_name(name)
        .with_topic_id(id.to_vec().try_into().unwrap_or_default())
        .with_num_partitions(entry.partitions)
        .with_replication_factor(entry.replication_factor)
}

#[cfg(test)]
mod tests {
    use super::super::text;
    use super::*;
    use kafka_protocol::messages::create_topics_request::CreatableTopicConfig;

    fn asked(name: &'static str, partitions: i32, replicas: i16) -> CreatableTopic {
        CreatableTopic::default()
            .with_name(text(name).into())
            .with_num_partitions(partitions)
            .with_replication_factor(replicas)
    }

    #[test]
    fn what_may_not_exist_is_refused_with_kafkas_code() {
        let error = |topic: CreatableTopic| entry(&topic, 7).unwrap_err().code();
        assert_eq!(error(asked("a/b", 1, 1)), 17);
        assert_eq!(error(asked("t", 0, 1)), 37);
        assert_eq!(error(asked("t", 10_001, 1)), 37);
        assert_eq!(error(asked("t", 1, 0)), 38);
        assert_eq!(entry(&asked("t", -1, -1), 3).unwrap_err().code(), 37, "no defaults before version 4");
        let config =
            |value| CreatableTopicConfig::default().with_name(text("retention.ms")).with_value(value);
        let with = |value| asked("t", 1, 1).with_configs(vec![config(value)]);
        assert_eq!(error(with(Some(text("soon")))), 40);
        assert_eq!(error(with(None)), 40, "a null is no value");
        assert!(entry(&with(Some(text("5"))), 7).is_ok());
        let defaults = entry(&asked("t", -1, -1), 4).unwrap();
        assert_eq!((defaults.partitions, defaults.replication_factor), (1, 1));
    }
}
