//! The end of offsets that nobody needs any more, and of groups that have none left, after
//! `OffsetMetadataManager.cleanupExpiredOffsets` of Kafka 4.
//!
//! Done now and then by one agent, as what `chores` does. Each group is walked in bounded steps; a step compares the head
//! and the members' state, so an offset that is committed meanwhile, or a member that comes, saves what it needs. Age
//! is by wall clock, which is good enough for days.

use super::classic::GroupPhase;
use super::commit::{CommittedOffset, GroupHead};
use super::deletion::sweep;
use super::listing;
use super::state::GroupState;
use super::subscription::CONSUMER;
use crate::agent::Context;
use crate::chores;
use crate::codec;
use crate::coordinator::{Compare, KeyValue, Op, Range};
use crate::gate::{Fault, Stored};
use crate::{layout, topics};
use bytes::Bytes;
use rt::time::wall_ms;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Offsets looked at, and at most deleted, by one step.
const STEP: i64 = 100;

/// Looks for expired offsets for as long as the agent serves.
pub(crate) async fn retain(context: Arc<Context>) {
    loop {
        chores::turn(&context, context.config.groups.offsets_retention_interval_ms).await;
        // Trouble is not the end: the next turn comes.
        let _ = retain_all(&context).await;
    }
}

async fn retain_all(context: &Context) -> Result<(), Fault> {
    let topics = topics::list(&context.gate).await?.into_iter();
    let topics: BTreeMap<String, i64> = topics.map(|topic| (topic.name, topic.create_revision)).collect();
    for (name, group) in listing::list(context).await? {
        if group.head.is_some_and(|head| head.dead_through > 0) {
            sweep(context, &name).await?;
        }
        expire(context, &name, &topics).await?;
    }
    Ok(())
}

/// Since when an offset grows old, by wall clock in ms; `None` while it is needed whatever its age. In a group without
/// members that is since it has none, of offsets outside any group since they were committed.
fn old_since_ms(state: Option<&GroupState>, topic: &str, offset: &CommittedOffset) -> Option<i64> {
    let group = match state {
        None => return Some(offset.committed_ms),
        Some(GroupState::Consumer(group)) => {
            return (!group.is_subscribed(topic)).then_some(offset.committed_ms);
        }
        Some(GroupState::Classic(group)) => group,
    };
    match (group.protocol_type.as_deref(), group.phase) {
        (None, _) => Some(offset.committed_ms),
        (Some(_), GroupPhase::Empty) => Some(group.empty_since_ms),
        (Some(CONSUMER), GroupPhase::Stable) if !group.is_subscribed(topic) => Some(offset.committed_ms),
        _ => None,
    }
}

fn is_expired(state: Option<&GroupState>, topic: &str, offset: &CommittedOffset, retention_ms: i64) -> bool {
    old_since_ms(state, topic, offset).is_some_and(|since_ms| match offset.expires_ms {
        // The client of an old version said so.
        Some(expires_ms) => wall_ms() >= expires_ms,
        None => wall_ms().saturating_sub(since_ms) >= retention_ms,
    })
}

/// Deletes what is expired in one group, and the group if it has nothing left.
async fn expire(context: &Context, group: &str, topics: &BTreeMap<String, i64>) -> Result<(), Fault> {
    let retention_ms = context.config.groups.offsets_retention_ms;
    let prefix = layout::group_offsets(group);
    let (mut from, end) = (prefix.clone(), layout::end_of(&prefix));
    let mut left = 0;
    loop {
        let mut now = Now::read(context, group, Range::span(from.clone(), end.clone(), STEP)).await?;
        let pending = now.pending(context, group).await?;
        let mut ops = Vec::new();
        for kv in &now.offsets {
            let Some((topic, partition)) = layout::partition_of(&kv.key) else { continue };
            let offset: CommittedOffset = codec::decode(&kv.value)?;
            let of_a_topic = topics.get(topic) == Some(&offset.topic_revision);
            let expired = !of_a_topic || is_expired(now.state.value(), topic, &offset, retention_ms);
            if expired && !pending.contains(&(topic.to_string(), partition)) {
                ops.push(Op::delete(kv.key.clone()));
            }
        }
        left += now.offsets.len() - ops.len();
        if !ops.is_empty() {
            let expired = ops.len();
            ops.push(Op::put(layout::group(group), now.head.bytes()));
            if !now.commit(context, group, ops).await? {
                // Somebody is at work in it: the next turn looks again.
                return Ok(());
            }
            rt::event!("offsets.expired", group = group, count = expired);
        }
        match now.offsets.pop() {
            Some(last) if now.more => from = [&last.key[..], &[0]].concat().into(),
            _ => break,
        }
    }
    if left > 0 { Ok(()) } else { end_if_unused(context, group, prefix, end).await }
}

/// Ends a group without members, offsets and transactions.
async fn end_if_unused(context: &Context, group: &str, from: Bytes, end: Bytes) -> Result<(), Fault> {
    let now = Now::read(context, group, Range::span(from, end, 1)).await?;
    let is_empty =
        |state: &GroupState| state.is_empty() && state.classic().is_none_or(|group| group.pending.is_empty());
    let unused = now.offsets.is_empty()
        && now.head.value().is_none_or(|head| head.pending.is_empty() && head.dead_through == 0)
        && now.state.value().is_none_or(is_empty);
    if unused {
        let ops = vec![Op::delete(layout::group(group)), Op::delete(layout::group_state(group))];
        if now.commit(context, group, ops).await? {
            rt::event!("group.expired", group = group);
        }
    }
    Ok(())
}

/// A group and some of its offsets, as read at one revision.
struct Now {
    head: Stored<GroupHead>,
    state: Stored<GroupState>,
    offsets: Vec<KeyValue>,
    more: bool,
    revision: i64,
}

impl Now {
    async fn read(context: &Context, group: &str, offsets: Range) -> Result<Self, Fault> {
        let (head, state) = (Range::key(layout::group(group)), Range::key(layout::group_state(group)));
        let mut now = context.gate.read(vec![head, state, offsets]).await?;
        let (head, state, offsets) = (now.one()?, now.one()?, now.next());
        Ok(Now { head, state, offsets: offsets.kvs, more: offsets.more, revision: now.revision })
    }

    /// Partitions whose offsets a transaction is about to commit.
    async fn pending(&self, context: &Context, group: &str) -> Result<BTreeSet<(String, i32)>, Fault> {
        if self.head.value().is_none_or(|head| head.pending.is_empty()) {
            return Ok(BTreeSet::new());
        }
        let prefix = layout::group_pending(group);
        let (pending, _) = crate::offsets::scan(context, prefix, self.revision).await?;
        let name = |kv: &KeyValue| layout::partition_of(&kv.key).map(|(topic, n)| (topic.to_string(), n));
        Ok(pending.iter().filter_map(name).collect())
    }

    /// Writes if neither head nor state changed since.
    async fn commit(&self, context: &Context, group: &str, ops: Vec<Op>) -> Result<bool, Fault> {
        let compares = vec![
            Compare::unchanged(layout::group(group), self.head.revision()),
            Compare::unchanged(layout::group_state(group), self.state.revision()),
        ];
        rt::preempt("group-retention.before-commit").await;
        Ok(context.gate.commit(compares, ops).await?.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::super::classic::ClassicGroup;
    use super::*;

    #[test]
    fn offsets_grow_old_from_when_nobody_needs_them() {
        let offset = CommittedOffset {
            offset: 3,
            leader_epoch: -1,
            metadata: String::new(),
            committed_ms: 1_000,
            topic_revision: 2,
            pending_revision: 0,
            expires_ms: None,
        };
        let since = |group: ClassicGroup| old_since_ms(Some(&GroupState::Classic(group)), "t", &offset);
        let typed = |phase, protocol_type: &str| ClassicGroup {
            phase,
            protocol_type: Some(protocol_type.to_string()),
            empty_since_ms: 5_000,
            ..ClassicGroup::default()
        };
        assert_eq!(old_since_ms(None, "t", &offset), Some(1_000));
        assert_eq!(since(ClassicGroup::default()), Some(1_000));
        assert_eq!(since(typed(GroupPhase::Empty, "consumer")), Some(5_000));
        assert_eq!(since(typed(GroupPhase::Empty, "connect")), Some(5_000));
        assert_eq!(since(typed(GroupPhase::Stable, "consumer")), Some(1_000), "a topic it does not read");
        assert_eq!(since(typed(GroupPhase::Stable, "connect")), None);
        assert_eq!(since(typed(GroupPhase::PreparingRebalance, "consumer")), None);
    }
}
