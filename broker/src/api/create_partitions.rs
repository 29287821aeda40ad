//! CreatePartitions (37), versions 0 to 3: kafka.md 1.3, after `ReplicationControlManager.createPartitions` of Kafka 4. New
//! partitions exist because the topic says so; assignments are checked and forgotten, as any agent leads.

use super::refuse;
use crate::agent::Context;
use crate::codec;
use crate::coordinator::{Compare, CoordinatorError, Op, Range};
use crate::gate::{Fault, Stored};
use crate::layout;
use crate::membership;
use crate::records::{AgentEntry, TopicEntry};
use crate::topics::PARTITIONS_MAX;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::create_partitions_response::CreatePartitionsTopicResult;
use kafka_protocol::messages::{CreatePartitionsRequest, CreatePartitionsResponse};
use std::collections::BTreeSet;

pub(super) async fn handle(
    context: &Context,
    _version: i16,
    request: CreatePartitionsRequest,
) -> CreatePartitionsResponse {
    let mut results = Vec::with_capacity(request.topics.len());
    for topic in &request.topics {
        let twice = request.topics.iter().filter(|other| other.name == topic.name).count() > 1;
        let grown = match twice {
            true => Err(ResponseError::InvalidRequest),
            false => grow(context, topic, request.validate_only).await,
        };
        results.push(match grown {
            Ok(()) => CreatePartitionsTopicResult::default().with_name(topic.name.clone()),
            Err(error) => refuse::created_partitions(topic.name.clone(), error),
        });
    }
    CreatePartitionsResponse::default().with_results(results)
}

async fn grow(
    context: &Context,
    asked: &CreatePartitionsTopic,
    validate_only: bool,
) -> Result<(), ResponseError> {
    let mut patience = context.patience();
    let mut tried = false;
    loop {
        match attempt(context, asked, validate_only, &mut tried).await {
            Ok(Some(answer)) => return answer,
            Ok(None) if patience.is_over() => return Err(ResponseError::RequestTimedOut),
            Ok(None) => {}
            Err(fault) if fault.passes() && patience.pause().await => {}
            Err(fault) => return Err(refuse::admin_error(&fault)),
        }
    }
}

/// One try; `None` if the topic changed under it.
async fn attempt(
    context: &Context,
    asked: &CreatePartitionsTopic,
    validate_only: bool,
    tried: &mut bool,
) -> Result<Option<Result<(), ResponseError>>, Fault> {
    let key = layout::topic(&asked.name);
    let agents = match &asked.assignments {
        Some(_) => membership::live_agents(context).await?,
        None => Vec::new(),
    };
    let stored: Stored<TopicEntry> = context.gate.read(vec![Range::key(key.clone())]).await?.one()?;
    let Some(entry) = stored.value() else {
        return Ok(Some(Err(ResponseError::UnknownTopicOrPartition)));
    };
    if *tried && entry.partitions == asked.count {
        // By the try whose answer was lost, or as good as.
        return Ok(Some(Ok(())));
    }
    if let Err(error) = check(entry, asked, &agents) {
        return Ok(Some(Err(error)));
    }
    if validate_only {
        return Ok(Some(Ok(())));
    }
    let grown = TopicEntry { partitions: asked.count, ..entry.clone() };
    rt::preempt("create-partitions.before-commit").await;
    let guard = vec![Compare::unchanged(key.clone(), stored.revision())];
    let answer = context.gate.commit(guard, vec![Op::put(key, codec::encode(&grown))]).await;
    if answer == Err(CoordinatorError::Unknown) {
        *tried = true;
    }
    Ok(answer?.map(|_| Ok(())))
}

/// Whether the topic may grow so.
fn check(
    topic: &TopicEntry,
    asked: &CreatePartitionsTopic,
    agents: &[AgentEntry],
) -> Result<(), ResponseError> {
    if asked.count <= topic.partitions || asked.count > PARTITIONS_MAX {
        return Err(ResponseError::InvalidPartitions);
    }
    let Some(assignments) = &asked.assignments else { return Ok(()) };
    let added = usize::try_from(asked.count - topic.partitions).unwrap_or_default();
    let replicas = usize::try_from(topic.replication_factor).unwrap_or_default();
    let legal = assignments.iter().all(|assignment| {
        let brokers: BTreeSet<i32> = assignment.broker_ids.iter().map(|id| id.0).collect();
        let distinct = brokers.len() == assignment.broker_ids.len();
        let live = brokers.iter().all(|id| agents.iter().any(|agent| agent.node_id == *id));
        distinct && live && brokers.len() == replicas
    });
    if assignments.len() == added && legal { Ok(()) } else { Err(ResponseError::InvalidReplicaAssignment) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kafka_protocol::messages::BrokerId;
    use kafka_protocol::messages::create_partitions_request::CreatePartitionsAssignment;

    fn asked(count: i32, assignments: Option<&[&[i32]]>) -> CreatePartitionsTopic {
        let assignment = |ids: &&[i32]| {
            let ids = ids.iter().map(|id| BrokerId(*id)).collect();
            CreatePartitionsAssignment::default().with_broker_ids(ids)
        };
        let assignments = assignments.map(|all| all.iter().map(assignment).collect());
        CreatePartitionsTopic::default().with_count(count).with_assignments(assignments)
    }

    #[test]
    fn a_topic_only_grows_and_only_onto_live_agents() {
        let topic = TopicEntry { partitions: 2, replication_factor: 2, configs: Default::default() };
        let agent = |node_id| AgentEntry { node_id, host: String::new(), port: 0 };
        let agents = [agent(1), agent(2)];
        /// Partitions asked for, their brokers, the code.
        type Row<'a> = (i32, Option<&'a [&'a [i32]]>, i16);
        let rows: [Row<'_>; 12] = [
            (3, None, 0),
            (10_000, None, 0),
            (10_001, None, 37),
            (2, None, 37),
            (1, None, 37),
            (-1, None, 37),
            (4, Some(&[&[1, 2], &[2, 1]]), 0),
            (4, Some(&[&[1, 2]]), 39),
            (3, Some(&[&[1]]), 39),
            (3, Some(&[&[1, 1]]), 39),
            (3, Some(&[&[1, 3]]), 39),
            (3, Some(&[]), 39),
        ];
        for (count, assignments, code) in rows {
            let told = check(&topic, &asked(count, assignments), &agents).map_or_else(|e| e.code(), |()| 0);
            assert_eq!(told, code, "{count} {assignments:?}");
        }
    }
}
