//! OffsetForLeaderEpoch (23), versions 2 to 4 (KIP-320). The leader epoch is 0 for ever (see Metadata), so it ends at the
//! high watermark, and nothing was ever truncated.

use super::refuse;
use crate::agent::Context;
use crate::coordinator::{Range, TXN_OPS_MAX};
use crate::gate::{Fault, Stored};
use crate::layout;
use crate::records::{Head, TopicEntry};
use crate::topics;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::offset_for_leader_epoch_request::OffsetForLeaderPartition;
use kafka_protocol::messages::offset_for_leader_epoch_response::{
    EpochEndOffset, OffsetForLeaderTopicResult,
};
use kafka_protocol::messages::{OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse};

/// Every partition's leader epoch.
const LEADER_EPOCH: i32 = 0;
/// The client does not know the current leader epoch, or the broker none that is asked for.
const NO_EPOCH: i32 = -1;
/// Partitions looked up by one read.
const GROUP: usize = TXN_OPS_MAX / 2;

pub(super) async fn handle(
    context: &Context,
    _version: i16,
    request: OffsetForLeaderEpochRequest,
) -> OffsetForLeaderEpochResponse {
    let asked: Vec<(&str, &OffsetForLeaderPartition)> = request
        .topics
        .iter()
        .flat_map(|topic| topic.partitions.iter().map(|partition| (topic.topic.as_str(), partition)))
        .collect();
    let mut answers = Vec::with_capacity(asked.len());
    for group in asked.chunks(GROUP) {
        match look_up(context, group).await {
            Ok(found) => answers.extend(found),
            Err(fault) => {
                // Clients refresh their metadata and ask again, perhaps another agent.
                let error = match fault.passes() {
                    true => ResponseError::NotLeaderOrFollower,
                    false => ResponseError::UnknownServerError,
                };
                answers.extend(group.iter().map(|(_, asked)| refuse::epoch_end(asked.partition, error)));
            }
        }
    }
    let mut answers = answers.into_iter();
    let topics = request.topics.iter().map(|topic| {
        let partitions = answers.by_ref().take(topic.partitions.len()).collect();
        OffsetForLeaderTopicResult::default().with_topic(topic.topic.clone()).with_partitions(partitions)
    });
    OffsetForLeaderEpochResponse::default().with_topics(topics.collect())
}

async fn look_up(
    context: &Context,
    asked: &[(&str, &OffsetForLeaderPartition)],
) -> Result<Vec<EpochEndOffset>, Fault> {
    let ranges = asked.iter().flat_map(|(topic, asked)| {
        [Range::key(layout::topic(topic)), Range::key(layout::head(topic, asked.partition))]
    });
    let mut now = context.gate.read(ranges.collect()).await?;
    let mut answers = Vec::with_capacity(asked.len());
    for (_, asked) in asked {
        let (topic, head): (Stored<TopicEntry>, Stored<Head>) = (now.one()?, now.one()?);
        let end = match topics::holds(&topic, asked.partition) {
            true => end_of(asked, &head.into_value().unwrap_or_default()),
            false => Err(ResponseError::UnknownTopicOrPartition),
        };
        answers.push(match end {
            Ok((epoch, offset)) => EpochEndOffset::default()
                .with_partition(asked.partition)
                .with_leader_epoch(epoch)
                .with_end_offset(offset),
            Err(error) => refuse::epoch_end(asked.partition, error),
        });
    }
    Ok(answers)
}

/// The epoch asked for and where it ends; -1 for both if it never was.
fn end_of(asked: &OffsetForLeaderPartition, head: &Head) -> Result<(i32, i64), ResponseError> {
    match asked.current_leader_epoch {
        NO_EPOCH | LEADER_EPOCH => {}
        older if older < LEADER_EPOCH => return Err(ResponseError::FencedLeaderEpoch),
        _ => return Err(ResponseError::UnknownLeaderEpoch),
    }
    match asked.leader_epoch {
        LEADER_EPOCH => Ok((LEADER_EPOCH, head.high_watermark())),
        _ => Ok((NO_EPOCH, -1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_epoch_0_ends_anywhere() {
        let head = Head { next_offset: 42, ..Head::default() };
        let rows = [
            // the client's current epoch, the epoch asked for, answer
            (-1, 0, Ok((0, 42))),
            (0, 0, Ok((0, 42))),
            (0, -1, Ok((-1, -1))),
            (0, 1, Ok((-1, -1))),
            (1, 0, Err(75)),
            (-2, 0, Err(74)),
        ];
        for (current, epoch, expected) in rows {
            let asked = OffsetForLeaderPartition::default()
                .with_current_leader_epoch(current)
                .with_leader_epoch(epoch);
            assert_eq!(end_of(&asked, &head).map_err(|error| error.code()), expected, "{current} {epoch}");
        }
    }
}
