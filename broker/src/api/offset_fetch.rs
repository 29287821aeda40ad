//! OffsetFetch (9), versions 1 to 9, single and batched: kafka.md 1.7. What was never committed is no error: offset -1.

use super::{refuse, text};
use crate::agent::Context;
use crate::group::{self, CommittedOffset};
use crate::offsets::{self, GroupOffsets};
use kafka_protocol::ResponseError;
use kafka_protocol::messages::offset_fetch_request::OffsetFetchRequestGroup;
use kafka_protocol::messages::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic, OffsetFetchResponseTopics,
};
use kafka_protocol::messages::{OffsetFetchRequest, OffsetFetchResponse, TopicName};
use std::collections::BTreeSet;

/// First version that asks for many groups at once (KIP-709).
const BATCHED: i16 = 8;
/// First version with an error code beside those of the partitions.
const GROUP_ERROR_SINCE: i16 = 2;

/// Topics and partitions asked for; `None` for all.
type Asked = Option<Vec<(TopicName, Vec<i32>)>>;

/// What a partition is answered: what was committed, nothing, or an error.
type Answer = (i32, Result<Option<CommittedOffset>, ResponseError>);

pub(super) async fn handle(
    context: &Context,
    version: i16,
    request: OffsetFetchRequest,
) -> OffsetFetchResponse {
    let stable = request.require_stable;
    if version >= BATCHED {
        let mut groups = Vec::with_capacity(request.groups.len());
        for group in request.groups {
            groups.push(batched(context, stable, group).await);
        }
        return OffsetFetchResponse::default().with_groups(groups);
    }
    let asked: Asked =
        request.topics.map(|topics| topics.into_iter().map(|t| (t.name, t.partition_indexes)).collect());
    let nobody = (None, -1);
    let topics = match fetch(context, &request.group_id, nobody, asked.as_ref(), stable).await {
        Ok(topics) => topics,
        Err(error) if version < GROUP_ERROR_SINCE => refused(asked, error),
        Err(error) => return refuse::fetched_offsets(error),
    };
    let topic = |(name, answers): (TopicName, Vec<Answer>)| {
        let partition = |(partition, answer): Answer| match answer {
            Ok(committed) => {
                let (offset, leader_epoch, metadata) = told(committed);
                OffsetFetchResponsePartition::default()
                    .with_partition_index(partition)
                    .with_committed_offset(offset)
                    .with_committed_leader_epoch(leader_epoch)
                    .with_metadata(Some(text(metadata)))
            }
            Err(error) => refuse::fetched_offset(partition, error),
        };
        let partitions = answers.into_iter().map(partition).collect();
        OffsetFetchResponseTopic::default().with_name(name).with_partitions(partitions)
    };
    OffsetFetchResponse::default().with_topics(topics.into_iter().map(topic).collect())
}

async fn batched(
    context: &Context,
    stable: bool,
    group: OffsetFetchRequestGroup,
) -> OffsetFetchResponseGroup {
    let asked: Asked =
        group.topics.map(|topics| topics.into_iter().map(|t| (t.name, t.partition_indexes)).collect());
    let member = (group.member_id.as_deref(), group.member_epoch);
    let topics = match fetch(context, &group.group_id, member, asked.as_ref(), stable).await {
        Ok(topics) => topics,
        Err(error) => return refuse::fetched_group(group.group_id, error),
    };
    let topic = |(name, answers): (TopicName, Vec<Answer>)| {
        let partition = |(partition, answer): Answer| match answer {
            Ok(committed) => {
                let (offset, leader_epoch, metadata) = told(committed);
                OffsetFetchResponsePartitions::default()
                    .with_partition_index(partition)
                    .with_committed_offset(offset)
                    .with_committed_leader_epoch(leader_epoch)
                    .with_metadata(Some(text(metadata)))
            }
            Err(error) => refuse::fetched_group_offset(partition, error),
        };
        let partitions = answers.into_iter().map(partition).collect();
        OffsetFetchResponseTopics::default().with_name(name).with_partitions(partitions)
    };
    OffsetFetchResponseGroup::default()
        .with_group_id(group.group_id)
        .with_topics(topics.into_iter().map(topic).collect())
}

/// Offset, leader epoch and metadata; -1, -1 and none where nothing was committed.
fn told(committed: Option<CommittedOffset>) -> (i64, i32, String) {
    committed.map_or((-1, -1, String::new()), |offset| (offset.offset, offset.leader_epoch, offset.metadata))
}

/// Version 1 has no other place for an error than every partition.
fn refused(asked: Asked, error: ResponseError) -> Vec<(TopicName, Vec<Answer>)> {
    let refuse = |partition| (partition, Err(error));
    let topics = asked.into_iter().flatten();
    topics.map(|(name, partitions)| (name, partitions.into_iter().map(refuse).collect())).collect()
}

/// `member` is who asks, as far as it says: member id and epoch.
async fn fetch(
    context: &Context,
    group: &str,
    member: (Option<&str>, i32),
    asked: Option<&Vec<(TopicName, Vec<i32>)>>,
    stable: bool,
) -> Result<Vec<(TopicName, Vec<Answer>)>, ResponseError> {
    let names: Option<BTreeSet<&str>> =
        asked.map(|topics| topics.iter().map(|(name, _)| name.as_str()).collect());
    let mut patience = context.patience();
    loop {
        match offsets::read(context, group, names.as_ref()).await {
            Ok(offsets) => {
                group::may_fetch(offsets.state.as_ref(), member.0, member.1)?;
                return Ok(answers(&offsets, asked, stable));
            }
            Err(fault) if fault.passes() && patience.pause().await => {}
            Err(fault) => return Err(fault.coordinator_error()),
        }
    }
}

fn answers(
    offsets: &GroupOffsets,
    asked: Option<&Vec<(TopicName, Vec<i32>)>>,
    stable: bool,
) -> Vec<(TopicName, Vec<Answer>)> {
    let answer = |topic: &str, partition: i32| {
        let name = (topic.to_string(), partition);
        let unstable = stable && offsets.pending.contains(&name);
        let committed = offsets.committed.get(&name).cloned();
        (partition, if unstable { Err(ResponseError::UnstableOffsetCommit) } else { Ok(committed) })
    };
    let Some(asked) = asked else {
        let mut topics: Vec<(TopicName, Vec<Answer>)> = Vec::new();
        for (topic, partition) in offsets.committed.keys() {
            let answer = answer(topic, *partition);
            match topics.last_mut().filter(|(name, _)| name.as_str() == topic) {
                Some((_, answers)) => answers.push(answer),
                None => topics.push((text(topic.as_str()).into(), vec![answer])),
            }
        }
        return topics;
    };
    // Each partition once, however often it is asked for: an answer is bounded by what is stored.
    let mut told = BTreeSet::new();
    let mut topic = |(name, partitions): &(TopicName, Vec<i32>)| {
        let mut anew = |partition: &&i32| told.insert((name.clone(), **partition));
        let anew: Vec<_> =
            partitions.iter().filter(&mut anew).map(|partition| answer(name, *partition)).collect();
        (name.clone(), anew)
    };
    asked.iter().map(&mut topic).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// t-0 committed at 5; t-1 committed at 7 and pending; t-2 pending only; u-0 committed at 9.
    fn offsets() -> GroupOffsets {
        let committed = |topic: &str, partition, offset| {
            let metadata = format!("m{offset}");
            let value = CommittedOffset {
                offset,
                leader_epoch: 0,
                metadata,
                committed_ms: 1,
                topic_revision: 2,
                expires_ms: None,
                pending_revision: 0,
            };
            ((topic.to_string(), partition), value)
        };
        GroupOffsets {
            committed: [committed("t", 0, 5), committed("t", 1, 7), committed("u", 0, 9)].into(),
            pending: [("t".to_string(), 1), ("t".to_string(), 2)].into(),
            state: None,
        }
    }

    fn told(asked: Option<&Vec<(TopicName, Vec<i32>)>>, stable: bool) -> Vec<(String, i32, i64, i16)> {
        let mut all = Vec::new();
        for (name, answers) in answers(&offsets(), asked, stable) {
            all.extend(answers.into_iter().map(|(partition, answer)| match answer {
                Ok(committed) => (name.to_string(), partition, super::told(committed).0, 0),
                Err(error) => (name.to_string(), partition, -1, error.code()),
            }));
        }
        all
    }

    #[test]
    fn a_partition_with_pending_offsets_is_unstable_for_who_asks() {
        let t = || "t".to_string();
        let asked = vec![(text("t").into(), vec![3, 2, 1, 0])];
        let stable = [(t(), 3, -1, 0), (t(), 2, -1, 88), (t(), 1, -1, 88), (t(), 0, 5, 0)];
        assert_eq!(told(Some(&asked), true), stable);
        let any = [(t(), 3, -1, 0), (t(), 2, -1, 0), (t(), 1, 7, 0), (t(), 0, 5, 0)];
        assert_eq!(told(Some(&asked), false), any);
        let again = vec![(text("t").into(), vec![0, 0]), (text("t").into(), vec![0])];
        assert_eq!(told(Some(&again), false), [(t(), 0, 5, 0)], "once, however often it is asked for");
    }

    #[test]
    fn all_means_all_that_was_committed() {
        let (t, u) = ("t".to_string(), "u".to_string());
        assert_eq!(told(None, false), [(t.clone(), 0, 5, 0), (t.clone(), 1, 7, 0), (u.clone(), 0, 9, 0)]);
        assert_eq!(told(None, true), [(t.clone(), 0, 5, 0), (t, 1, -1, 88), (u, 0, 9, 0)]);
        assert!(told(Some(&Vec::new()), false).is_empty());
    }
}
