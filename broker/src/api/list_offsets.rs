//! ListOffsets (2), versions 1 to 8: kafka.md 1.6.
//!
//! Limit: a lookup by time walks the index. Where a batch's records cannot be read it answers the batch's first offset,
//! which is at or before the record asked for.

use super::refuse;
use crate::agent::Context;
use crate::batch;
use crate::codec;
use crate::coordinator::Range;
use crate::gate::{Fault, Stored};
use crate::layout;
use crate::read::{self, Entry};
use crate::records::{Head, IndexEntry, TopicEntry};
use crate::topics;
use bytes::BytesMut;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::list_offsets_request::ListOffsetsPartition;
use kafka_protocol::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
};
use kafka_protocol::messages::{ListOffsetsRequest, ListOffsetsResponse};

const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
/// From version 7 (KIP-734).
const MAX_TIMESTAMP: i64 = -3;
/// From version 8 (KIP-405); all there is is local.
const EARLIEST_LOCAL: i64 = -4;
/// Index entries read at once.
const PAGE: i64 = 500;

/// What a partition is answered: an offset and, for lookups by time, the record's timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Found {
    offset: i64,
    timestamp_ms: i64,
}

impl Found {
    /// No record is that young.
    const NOTHING: Found = Found { offset: -1, timestamp_ms: -1 };

    fn offset(offset: i64) -> Self {
        Found { offset, timestamp_ms: -1 }
    }
}

pub(super) async fn handle(
    context: &Context,
    version: i16,
    request: ListOffsetsRequest,
) -> ListOffsetsResponse {
    let committed = request.isolation_level == 1;
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in request.topics {
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for asked in &topic.partitions {
            let index = asked.partition_index;
            partitions.push(match look_up(context, version, &topic.name, asked, committed).await {
                Ok(Ok(found)) => answer(version, index, found),
                Ok(Err(error)) => refuse::listed_offset(index, error),
                Err(fault) if fault.passes() => {
                    refuse::listed_offset(index, ResponseError::NotLeaderOrFollower)
                }
                Err(_) => refuse::listed_offset(index, ResponseError::UnknownServerError),
            });
        }
        topics.push(ListOffsetsTopicResponse::default().with_name(topic.name).with_partitions(partitions));
    }
    ListOffsetsResponse::default().with_topics(topics)
}

/// Versions before 4 have no leader epoch.
fn answer(version: i16, index: i32, found: Found) -> ListOffsetsPartitionResponse {
    ListOffsetsPartitionResponse::default()
        .with_partition_index(index)
        .with_offset(found.offset)
        .with_timestamp(found.timestamp_ms)
        .with_leader_epoch(if found.offset < 0 || version < 4 { -1 } else { 0 })
}

async fn look_up(
    context: &Context,
    version: i16,
    topic: &str,
    asked: &ListOffsetsPartition,
    committed: bool,
) -> Result<Result<Found, ResponseError>, Fault> {
    let partition = asked.partition_index;
    let ranges = vec![Range::key(layout::topic(topic)), Range::key(layout::head(topic, partition))];
    let mut now = context.gate.read(ranges).await?;
    let (entry, head): (Stored<TopicEntry>, Stored<Head>) = (now.one()?, now.one()?);
    if !topics::holds(&entry, partition) {
        return Ok(Err(ResponseError::UnknownTopicOrPartition));
    }
    if asked.current_leader_epoch > 0 {
        return Ok(Err(ResponseError::UnknownLeaderEpoch));
    }
    let head = head.into_value().unwrap_or_default();
    let bound = if committed { head.last_stable_offset() } else { head.high_watermark() };
    let log_start_offset = head.log_start_offset;
    let log = Log { context, topic, partition, revision: now.revision, log_start_offset, bound };
    match asked.timestamp {
        LATEST => Ok(Ok(Found::offset(bound))),
        EARLIEST => Ok(Ok(Found::offset(head.log_start_offset))),
        EARLIEST_LOCAL if version >= 8 => Ok(Ok(Found::offset(head.log_start_offset))),
        MAX_TIMESTAMP if version >= 7 => match log.youngest().await? {
            Some(entry) => log.within(&entry, entry.index.max_timestamp_ms).await,
            None => Ok(Ok(Found::NOTHING)),
        },
        timestamp_ms @ 0.. => match log.first_at(timestamp_ms).await? {
            Some(entry) => log.within(&entry, timestamp_ms).await,
            None => Ok(Ok(Found::NOTHING)),
        },
        _ => Ok(Err(ResponseError::InvalidRequest)),
    }
}

/// A partition's log at one revision, from its start to below `bound`.
struct Log<'a> {
    context: &'a Context,
    topic: &'a str,
    partition: i32,
    revision: i64,
    log_start_offset: i64,
    bound: i64,
}

impl Log<'_> {
    /// The first batch with a record at or after `timestamp_ms`.
    async fn first_at(&self, timestamp_ms: i64) -> Result<Option<Entry>, Fault> {
        self.find(|entry, _| entry.max_timestamp_ms >= timestamp_ms, true).await
    }

    /// The first batch with the largest timestamp.
    async fn youngest(&self) -> Result<Option<Entry>, Fault> {
        let younger = |entry: &IndexEntry, best: Option<&IndexEntry>| {
            best.is_none_or(|best| entry.max_timestamp_ms > best.max_timestamp_ms)
        };
        self.find(younger, false).await
    }

    /// Walks the index and keeps the last entry that `takes` prefers to the one kept; stops at the first if `once`.
    async fn find(
        &self,
        takes: impl Fn(&IndexEntry, Option<&IndexEntry>) -> bool,
        once: bool,
    ) -> Result<Option<Entry>, Fault> {
        let mut best: Option<Entry> = None;
        let mut from = layout::index(self.topic, self.partition, self.log_start_offset);
        let end = layout::index(self.topic, self.partition, i64::MAX);
        loop {
            let page = Range { revision: self.revision, ..Range::span(from, end.clone(), PAGE) };
            let page = self.context.gate.range(page).await?;
            for kv in &page.kvs {
                let index: IndexEntry = codec::decode(&kv.value)?;
                let last_offset = read::offset_of(kv);
                if last_offset >= self.bound {
                    return Ok(best);
                }
                if takes(&index, best.as_ref().map(|best| &best.index)) {
                    best = Some(Entry { last_offset, create_revision: kv.create_revision, index });
                    if once {
                        return Ok(best);
                    }
                }
            }
            match page.kvs.last() {
                Some(last) if page.more => from = [&last.key[..], &[0]].concat().into(),
                _ => return Ok(best),
            }
        }
    }

    /// The first record of the batch at or after `timestamp_ms`.
    async fn within(&self, entry: &Entry, timestamp_ms: i64) -> Result<Result<Found, ResponseError>, Fault> {
        let mut bytes = BytesMut::new();
        if read::load(self.context, self.topic, self.partition, entry, &mut bytes).await.is_err() {
            return Ok(Err(ResponseError::KafkaStorageError));
        }
        let IndexEntry { base_offset, max_timestamp_ms, .. } = entry.index;
        let from_delta = (self.log_start_offset - base_offset).max(0);
        let found = batch::find_timestamp(&bytes.freeze(), from_delta, timestamp_ms);
        let (delta, timestamp_ms) = found.unwrap_or((from_delta, max_timestamp_ms));
        Ok(Ok(Found { offset: base_offset + delta, timestamp_ms }))
    }
}
