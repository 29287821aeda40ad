//! Deleting a topic: first it is gone, then what was its own goes.
//!
//! [`begin`] is one coordinator transaction: the topic and its partitions' heads go, so nothing can be appended any more (all
//! that is compares one of them), and `deleting/<topic>` comes. [`purge`] then takes the rest in bounded steps, each under
//! that key's mod revision and none harmful if taken twice, and at last the key itself. While it stands, no topic of that
//! name can be created, so the bytes of the old one never appear in a new one. Any agent may purge: the one that
//! deleted, one that is asked to create the topic, one whose scan finds it left behind.
//!
//! A transaction that wrote to the topic finishes without it: a topic that is gone needs no marker. Groups keep the offsets
//! they committed; those name the topic by its create revision, so they do not apply to a topic created again.

use crate::agent::Context;
use crate::codec;
use crate::coordinator::{Compare, CoordinatorError, Op, Range};
use crate::gate::{Fault, Stored};
use crate::layout;
use crate::records::TopicEntry;
use bytes::Bytes;

/// Keys deleted by one step.
const STEP: i64 = 1_000;

/// What one try to delete did.
pub(crate) enum Begun {
    Gone,
    /// There is no such topic (any more).
    Unknown,
    /// The topic changed under it.
    Changed,
}

/// Deletes the topic, if it is still the one created at `create_revision`. One try; afterwards [`purge`] remains.
pub(crate) async fn begin(
    context: &Context,
    topic: &str,
    create_revision: i64,
    tried: &mut bool,
) -> Result<Begun, Fault> {
    let key = layout::topic(topic);
    let stored: Stored<TopicEntry> = context.gate.read(vec![Range::key(key.clone())]).await?.one()?;
    if stored.create_revision() != create_revision {
        // Perhaps by a try of ours whose answer was lost.
        return Ok(if *tried { Begun::Gone } else { Begun::Unknown });
    }
    let heads = layout::topic_heads(topic);
    let ops = vec![
        Op::delete(key.clone()),
        Op::Delete { range_end: layout::end_of(&heads), key: heads },
        Op::put(layout::deleting(topic), codec::encode(&create_revision)),
    ];
    rt::preempt("delete-topics.before-commit").await;
    let answer = context.gate.commit(vec![Compare::unchanged(key, stored.revision())], ops).await;
    if answer == Err(CoordinatorError::Unknown) {
        *tried = true;
    }
    if answer?.is_none() {
        return Ok(Begun::Changed);
    }
    rt::event!("topic.deleted", topic = topic, create_revision = create_revision);
    Ok(Begun::Gone)
}

/// Takes away what a deleted topic left behind; nothing if it left nothing.
pub(crate) async fn purge(context: &Context, topic: &str) -> Result<(), Fault> {
    let key = layout::deleting(topic);
    let stored: Stored<i64> = context.gate.read(vec![Range::key(key.clone())]).await?.one()?;
    if stored.value().is_none() {
        return Ok(());
    }
    let guard = Compare::unchanged(key.clone(), stored.revision());
    for prefix in layout::topic_remains(topic) {
        if !clear(context, &prefix, &guard).await? {
            return Ok(());
        }
    }
    rt::preempt("delete-topics.before-end").await;
    // A failed guard says that another agent was quicker.
    context.gate.commit(vec![guard], vec![Op::delete(key)]).await?;
    Ok(())
}

/// Deletes all keys under `prefix`; false if `guard` failed, so that there is nothing more to do.
async fn clear(context: &Context, prefix: &Bytes, guard: &Compare) -> Result<bool, Fault> {
    let end = layout::end_of(prefix);
    loop {
        let page = context.gate.range(Range::span(prefix.clone(), end.clone(), STEP)).await?;
        let Some(last) = page.kvs.last() else { return Ok(true) };
        let range_end = [&last.key[..], &[0]].concat().into();
        let delete = Op::Delete { key: prefix.clone(), range_end };
        rt::preempt("delete-topics.before-step").await;
        if context.gate.commit(vec![guard.clone()], vec![delete]).await?.is_none() {
            return Ok(false);
        }
        if !page.more {
            return Ok(true);
        }
    }
}

/// Purges what other agents left behind.
pub(crate) async fn sweep(context: &Context) -> Result<(), Fault> {
    let prefix = Bytes::from_static(layout::DELETING.as_bytes());
    let found = context.gate.range(Range::span(prefix.clone(), layout::end_of(&prefix), STEP)).await?;
    for kv in &found.kvs {
        if let Some(topic) = layout::deleting_of(&kv.key) {
            purge(context, topic).await?;
            rt::mark!(reachable, "a topic's deletion was finished by a scan");
        }
    }
    Ok(())
}
