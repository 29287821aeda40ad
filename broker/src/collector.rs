//! Deletion of chunks that nothing refers to: never committed, or all their batches deleted or moved.
//!
//! A chunk may go once it is settled (no commit of it can land any more: see `floor`) and no index entry names it. An entry
//! that names a settled chunk is never made again, neither by appends (their guard fails) nor by compaction (which
//! moves batches to chunks of its own); and entries keep their keys. So a walk over the index, page by page and at
//! whatever revisions, meets every entry that names the chunk and lasts longer than the walk: no snapshot is needed, and
//! whatever else goes on meanwhile cannot make the chunk wanted again. Age and clocks only decide when, never whether:
//! an agent that was paused for a week finds its commit refused.
//!
//! A round raises each incarnation's floor above what the round before saw in the store, which gives a chunk an interval to
//! be committed; deletes the keys of incarnations that wrote nothing since; lists the store; and walks the index
//! for the settled chunks it found. Readers that hold an entry older than a compaction look it up again (`read::load`).
//!
//! Limits: a walk reads the whole index, once for up to [`CANDIDATES_MAX`] chunks; an incarnation that writes less than a
//! chunk an interval is retired and takes a new number, which costs its next request a second upload.

use crate::agent::Context;
use crate::chores;
use crate::chunks::StoreAway;
use crate::codec;
use crate::coordinator::{Compare, Op, Range};
use crate::floor::{self, Floors};
use crate::gate::Fault;
use crate::layout;
use crate::records::{Body, ChunkId, IndexEntry};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Chunks looked for in one walk over the index.
const CANDIDATES_MAX: usize = 10_000;
/// Index entries read at once.
const PAGE: i64 = 500;
/// A store that takes 50 ms for a delete loses a thousand chunks in three seconds, which is faster than agents write them.
const DELETES_AT_ONCE: usize = 16;

/// What a round saw in the store: by incarnation that has a floor, the highest chunk number, if it had any chunk.
type Seen = BTreeMap<i64, Option<u64>>;

/// Why a round ended early.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error(transparent)]
    Coordinator(#[from] Fault),
    #[error(transparent)]
    Store(#[from] StoreAway),
}

/// Collects for as long as the agent serves.
pub(crate) async fn run(context: Arc<Context>) {
    let mut seen = Seen::new();
    loop {
        chores::turn(&context, context.config.collection_interval_ms).await;
        // Trouble is not the end: the next turn comes.
        if let Ok(now) = round(&context, &seen).await {
            seen = now;
        }
    }
}

async fn round(context: &Context, before: &Seen) -> Result<Seen, Trouble> {
    raise(context, before).await?;
    let floors = Floors::read(&context.gate).await?;
    let mut seen: Seen = floors.iter().map(|(incarnation, _)| (incarnation, None)).collect();
    let mut candidates = BTreeSet::new();
    let mut after = None;
    loop {
        let page = context.chunks.list(after).await?;
        for chunk in &page {
            if let Some(highest) = seen.get_mut(&chunk.incarnation) {
                *highest = (*highest).max(Some(chunk.number));
            }
        }
        candidates.extend(page.iter().copied().filter(|chunk| floors.settled(*chunk)));
        after = page.last().copied();
        if after.is_none() || candidates.len() >= CANDIDATES_MAX {
            delete_unnamed(context, std::mem::take(&mut candidates)).await?;
        }
        if after.is_none() {
            break;
        }
    }
    retire(context, &floors, before, &seen).await?;
    Ok(seen)
}

/// Raises the floors above what the round before saw.
async fn raise(context: &Context, before: &Seen) -> Result<(), Fault> {
    for (incarnation, floor) in Floors::read(&context.gate).await?.iter() {
        let Some(Some(highest)) = before.get(&incarnation) else { continue };
        if *highest >= floor.number {
            let key = layout::writer(incarnation);
            let guard = vec![Compare::unchanged(key.clone(), floor.revision)];
            rt::preempt("collector.before-raise").await;
            context.gate.commit(guard, vec![Op::put(key, floor::encode(highest + 1))]).await?;
        }
    }
    Ok(())
}

/// Deletes the floors of incarnations that wrote nothing between two rounds, and of which nothing is unsettled.
async fn retire(context: &Context, floors: &Floors, before: &Seen, now: &Seen) -> Result<(), Fault> {
    for (incarnation, floor) in floors.iter() {
        let idle = before.get(&incarnation) == now.get(&incarnation);
        let highest = now.get(&incarnation).copied().flatten();
        if idle && highest.is_none_or(|highest| highest < floor.number) {
            let key = layout::writer(incarnation);
            let guard = vec![Compare::unchanged(key.clone(), floor.revision)];
            context.gate.commit(guard, vec![Op::delete(key)]).await?;
        }
    }
    Ok(())
}

/// Deletes those of the settled `candidates` that no index entry names.
async fn delete_unnamed(context: &Context, mut candidates: BTreeSet<ChunkId>) -> Result<(), Trouble> {
    let end = layout::end_of(layout::INDEX.as_bytes());
    let mut from = bytes::Bytes::from_static(layout::INDEX.as_bytes());
    while !candidates.is_empty() {
        let page = context.gate.range(Range::span(from, end.clone(), PAGE)).await.map_err(Fault::from)?;
        for kv in &page.kvs {
            let entry: IndexEntry = codec::decode(&kv.value).map_err(Fault::from)?;
            if let Body::Chunk { chunk, .. } = entry.body {
                candidates.remove(&chunk);
            }
        }
        match page.kvs.last() {
            Some(last) if page.more => from = [&last.key[..], &[0]].concat().into(),
            _ => break,
        }
    }
    let deletes = stream::iter(candidates).map(async |chunk| {
        rt::preempt("collector.before-delete").await;
        context.chunks.delete(chunk).await?;
        rt::event!("chunk.deleted", chunk = &chunk.path().to_string());
        Ok(())
    });
    deletes.buffer_unordered(DELETES_AT_ONCE).try_collect().await
}
