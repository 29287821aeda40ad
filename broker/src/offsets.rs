//! A group's committed offsets: checking what a client commits, writing it, reading it back.
//!
//! A write goes to at most [`STEP`] partitions at once, under the head's mod revision. When its answer is lost it is tried
//! again under the same guard only, so that it lands once: once the head has moved on, the group holds these offsets or
//! the client is told to decide.

use crate::agent::Context;
use crate::codec;
use crate::coordinator::{Compare, CoordinatorError, KeyValue, Op, Range, TXN_OPS_MAX};
use crate::gate::{Fault, Snapshot, Stored};
use crate::group::{self, Claim, CommittedOffset, GroupHead, GroupState};
use crate::layout;
use crate::records::TopicEntry;
use crate::topics::{self, TopicId};
use bytes::Bytes;
use kafka_protocol::ResponseError;
use rt::time::wall_ms;
use std::collections::{BTreeMap, BTreeSet};

/// Partitions written by one coordinator transaction, beside the head and what a transaction needs: within etcd's 128
/// operations, and within its 1.5 MiB with the longest ids and metadata.
pub(crate) const STEP: usize = 50;
/// Keys read at once.
const PAGE: i64 = 500;

/// An offset as a client asks to commit it.
pub(crate) struct Asked<'a> {
    pub(crate) topic: &'a str,
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    pub(crate) leader_epoch: i32,
    pub(crate) metadata: &'a str,
    /// How long it is to be kept, in ms; -1 as long as others.
    pub(crate) retention_ms: i64,
}

/// An offset that passed its own checks.
pub(crate) struct Row<'a> {
    pub(crate) topic: &'a str,
    pub(crate) partition: i32,
    pub(crate) value: CommittedOffset,
}

/// An outcome for each offset asked for: a row to be written, or why it is none.
pub(crate) type Checked<'a> = Vec<Result<Row<'a>, ResponseError>>;

/// Checks each offset by itself: there must be such a partition, and its metadata must be short. What is read beside, for
/// the write that follows, comes with it, if there is room in one read.
pub(crate) async fn check<'a>(
    context: &Context,
    asked: &[Asked<'a>],
    beside: Vec<Range>,
) -> Result<(Checked<'a>, Option<Snapshot>), Fault> {
    let names: BTreeSet<&str> = asked.iter().map(|asked| asked.topic).collect();
    let mut found = None;
    let topics: BTreeMap<&str, Stored<TopicEntry>> = match names.len() {
        few @ 1.. if few + beside.len() <= TXN_OPS_MAX => {
            let ranges = names.iter().map(|name| Range::key(layout::topic(name))).chain(beside);
            let now = found.insert(context.gate.read(ranges.collect()).await?);
            names.iter().map(|name| Ok((*name, now.one()?))).collect::<Result<_, Fault>>()?
        }
        _ => topics_of(context, &names, 0).await?,
    };
    let committed_ms = wall_ms();
    let row = |asked: &Asked<'a>| {
        let topic = topics.get(asked.topic).filter(|topic| topics::holds(topic, asked.partition));
        let topic = topic.ok_or(ResponseError::UnknownTopicOrPartition)?;
        if !group::fits(asked.metadata) {
            return Err(ResponseError::OffsetMetadataTooLarge);
        }
        let value = CommittedOffset {
            offset: asked.offset,
            leader_epoch: asked.leader_epoch,
            metadata: asked.metadata.to_string(),
            committed_ms,
            topic_revision: topic.create_revision(),
            expires_ms: (asked.retention_ms != -1).then(|| committed_ms.saturating_add(asked.retention_ms)),
            pending_revision: 0,
        };
        Ok(Row { topic: asked.topic, partition: asked.partition, value })
    };
    Ok((asked.iter().map(row).collect(), found))
}

/// The partitions of rows, as groups of the consumer protocol know them.
pub(crate) fn partitions(rows: &[&Row<'_>]) -> impl Iterator<Item = (TopicId, i32)> {
    rows.iter().map(|row| (topics::id_of(row.topic, row.value.topic_revision), row.partition))
}

/// The topics named, as of `revision` (0: now).
async fn topics_of<'a>(
    context: &Context,
    names: &BTreeSet<&'a str>,
    revision: i64,
) -> Result<BTreeMap<&'a str, Stored<TopicEntry>>, Fault> {
    let mut topics = BTreeMap::new();
    let names: Vec<&str> = names.iter().copied().collect();
    for names in names.chunks(TXN_OPS_MAX) {
        let range = |name: &&str| Range { revision, ..Range::key(layout::topic(name)) };
        let mut now = context.gate.read(names.iter().map(range).collect()).await?;
        for name in names {
            topics.insert(*name, now.one()?);
        }
    }
    Ok(topics)
}

/// One per offset asked for: nothing, or why it was not committed. An error of the group replaces all but that there is no
/// such partition, as in Kafka.
pub(crate) fn outcomes(
    checked: &[Result<Row<'_>, ResponseError>],
    group: Result<(), ResponseError>,
) -> Vec<Result<(), ResponseError>> {
    let outcome = |row: &Result<Row<'_>, ResponseError>| match row {
        Err(ResponseError::UnknownTopicOrPartition) => Err(ResponseError::UnknownTopicOrPartition),
        Err(error) => group.and(Err(*error)),
        Ok(_) => group,
    };
    checked.iter().map(outcome).collect()
}

/// A write whose answer was lost: the head's revision that guarded it.
pub(crate) type Tried = Option<i64>;

/// What one try did.
pub(crate) enum Attempt {
    Done,
    Refused(ResponseError),
    /// The group or the transaction changed under it.
    Changed,
}

/// What [`commit`] reads of a group.
pub(crate) fn ranges(group: &str) -> Vec<Range> {
    vec![Range::key(layout::group(group)), Range::key(layout::group_state(group))]
}

/// Commits offsets of a group outside transactions. `found` are the answers to [`ranges`], if they were read already.
pub(crate) async fn commit(
    context: &Context,
    group: &str,
    claim: &Claim<'_>,
    rows: &[&Row<'_>],
    mut found: Option<Snapshot>,
) -> Result<(), ResponseError> {
    let mut patience = context.patience();
    for rows in rows.chunks(STEP) {
        let mut tried = None;
        loop {
            match attempt(context, group, claim, rows, found.take(), &mut tried).await {
                Ok(Attempt::Done) => break,
                Ok(Attempt::Refused(error)) => return Err(error),
                Ok(Attempt::Changed) if patience.is_over() => {
                    return Err(ResponseError::CoordinatorLoadInProgress);
                }
                Ok(Attempt::Changed) => {}
                Err(fault) if fault.passes() && patience.pause().await => {}
                Err(fault) => return Err(fault.coordinator_error()),
            }
        }
    }
    Ok(())
}

async fn attempt(
    context: &Context,
    group: &str,
    claim: &Claim<'_>,
    rows: &[&Row<'_>],
    found: Option<Snapshot>,
    tried: &mut Tried,
) -> Result<Attempt, Fault> {
    let (head_key, state_key) = (layout::group(group), layout::group_state(group));
    let puts: Vec<(Bytes, Bytes)> = rows
        .iter()
        .map(|row| (layout::group_offset(group, row.topic, row.partition), codec::encode(&row.value)))
        .collect();
    let mut now = match found {
        Some(found) => found,
        None => {
            let tried = tried.iter().flat_map(|_| puts.iter().map(|(key, _)| Range::key(key.clone())));
            context.gate.read(ranges(group).into_iter().chain(tried).collect()).await?
        }
    };
    let (head, state): (Stored<GroupHead>, Stored<GroupState>) = (now.one()?, now.one()?);
    if let Some(settled) = settle_tried(*tried, head.revision(), &puts, &mut now) {
        return Ok(settled);
    }
    let is_stale = |error: &ResponseError| {
        matches!(error, ResponseError::IllegalGeneration | ResponseError::UnknownMemberId)
    };
    let refused = group::may_commit(head.value(), state.value(), claim, partitions(rows)).err();
    if let Some(error) = refused.filter(|error| !(context.config.defects.stale_commits && is_stale(error))) {
        return Ok(Attempt::Refused(error));
    }
    let guard = head.revision();
    let mut ops: Vec<Op> = puts.into_iter().map(|(key, value)| Op::put(key, value)).collect();
    let head = GroupHead { deleted: false, ..head.into_value().unwrap_or_default() };
    ops.push(Op::put(head_key.clone(), codec::encode(&head)));
    rt::preempt("offset-commit.before-commit").await;
    let compares = vec![Compare::unchanged(head_key, guard), Compare::unchanged(state_key, state.revision())];
    let landed = write(context, compares, ops, guard, tried).await?;
    Ok(landed.map_or(Attempt::Changed, |_| Attempt::Done))
}

/// Sends a write to a group guarded by its head's revision `guard`, and remembers it when its answer is lost. Its revision,
/// or `None` if a guard failed.
pub(crate) async fn write(
    context: &Context,
    compares: Vec<Compare>,
    ops: Vec<Op>,
    guard: i64,
    tried: &mut Tried,
) -> Result<Option<i64>, Fault> {
    let answer = context.gate.commit(compares, ops).await;
    if answer == Err(CoordinatorError::Unknown) {
        *tried = Some(guard);
    }
    Ok(answer?.map(|answer| answer.revision))
}

/// What is known of a write whose answer was lost, from the keys read anew: `None` says that it may still land, under the
/// guard that the next try has too.
pub(crate) fn settle_tried(
    tried: Tried,
    head_revision: i64,
    puts: &[(Bytes, Bytes)],
    now: &mut Snapshot,
) -> Option<Attempt> {
    let guard = tried?;
    let stored: Vec<Option<KeyValue>> = puts.iter().map(|_| now.next().kvs.pop()).collect();
    if guard == head_revision {
        return None;
    }
    let holds = |(put, stored): (&(Bytes, Bytes), &Option<KeyValue>)| {
        stored.as_ref().is_some_and(|stored| stored.value == put.1)
    };
    if puts.iter().zip(&stored).all(holds) {
        rt::mark!(reachable, "offsets whose commit was not answered had landed");
        return Some(Attempt::Done);
    }
    // It landed and was overwritten, or it never can: the client knows whether it still wants it.
    Some(Attempt::Refused(ResponseError::CoordinatorNotAvailable))
}

/// A group's offsets as of one revision.
pub(crate) struct GroupOffsets {
    /// By topic and partition; those of topics that are gone left out.
    pub(crate) committed: BTreeMap<(String, i32), CommittedOffset>,
    /// Partitions for which some transaction has offsets pending.
    pub(crate) pending: BTreeSet<(String, i32)>,
    /// The group's members, if it has any.
    pub(crate) state: Option<GroupState>,
}

/// Reads a group's offsets: of `topics`, or all.
pub(crate) async fn read(
    context: &Context,
    group: &str,
    topics: Option<&BTreeSet<&str>>,
) -> Result<GroupOffsets, Fault> {
    let keys = [layout::group(group), layout::group_state(group)];
    let mut now = context.gate.read(keys.map(Range::key).to_vec()).await?;
    let revision = now.revision;
    let dead_through = now.one::<GroupHead>()?.value().map_or(0, |head| head.dead_through);
    let state = now.one::<GroupState>()?.into_value();
    let (pending, _) = scan(context, layout::group_pending(group), revision).await?;
    let prefixes: Vec<Bytes> = match topics {
        Some(topics) => topics.iter().map(|topic| layout::group_topic_offsets(group, topic)).collect(),
        None => vec![layout::group_offsets(group)],
    };
    let mut stored = Vec::new();
    for prefix in prefixes {
        stored.extend(scan(context, prefix, revision).await?.0);
    }
    let name = |kv: &KeyValue| layout::partition_of(&kv.key).map(|(topic, n)| (topic.to_string(), n));
    let lives = |kv: &&KeyValue| kv.mod_revision > dead_through;
    let pending = pending.iter().filter(lives).filter_map(name).collect();
    let mut committed = BTreeMap::new();
    for kv in stored.iter().filter(lives) {
        if let Some(name) = name(kv) {
            committed.insert(name, codec::decode::<CommittedOffset>(&kv.value)?);
        }
    }
    let names: BTreeSet<String> = committed.keys().map(|(topic, _)| topic.clone()).collect();
    let names: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    let topics = topics_of(context, &names, revision).await?;
    committed.retain(|(topic, _), offset: &mut CommittedOffset| {
        topics.get(topic.as_str()).is_some_and(|topic| topic.create_revision() == offset.topic_revision)
    });
    Ok(GroupOffsets { committed, pending, state })
}

/// Everything under `prefix` as of `revision` (0: now), and the revision it is of.
pub(crate) async fn scan(
    context: &Context,
    prefix: Bytes,
    revision: i64,
) -> Result<(Vec<KeyValue>, i64), Fault> {
    let (end, mut from, mut revision) = (layout::end_of(&prefix), prefix, revision);
    let mut all = Vec::new();
    loop {
        let page = Range { revision, ..Range::span(from, end.clone(), PAGE) };
        let page = context.gate.range(page).await?;
        if revision == 0 {
            revision = page.revision;
        }
        let more = page.more;
        all.extend(page.kvs);
        match all.last() {
            Some(last) if more => from = [&last.key[..], &[0]].concat().into(),
            _ => return Ok((all, revision)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(topic: &str) -> Row<'_> {
        let value = CommittedOffset {
            offset: 1,
            leader_epoch: -1,
            metadata: String::new(),
            committed_ms: 0,
            topic_revision: 2,
            expires_ms: None,
            pending_revision: 0,
        };
        Row { topic, partition: 0, value }
    }

    #[test]
    fn an_error_of_the_group_replaces_all_but_unknown_partitions() {
        let checked = [
            Ok(row("t")),
            Err(ResponseError::UnknownTopicOrPartition),
            Err(ResponseError::OffsetMetadataTooLarge),
        ];
        let codes = |group| {
            let told = outcomes(&checked, group);
            told.iter().map(|told| told.map_or_else(|error| error.code(), |()| 0)).collect::<Vec<_>>()
        };
        assert_eq!(codes(Ok(())), [0, 3, 12]);
        assert_eq!(codes(Err(ResponseError::IllegalGeneration)), [22, 3, 22]);
    }
}
