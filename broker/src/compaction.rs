//! Compaction: batches that are neighbours in a partition, out of many small chunks into one.
//!
//! A partition's index is read in pages. In a page, a run of neighbours whose chunks are settled (see `floor`) is moved when it
//! lies in at least `compaction_min_chunks` chunks and fits into one of `chunk_max_bytes`: the bytes are copied as they are
//! into a new chunk, then the entries are rewritten, [`STEP`] in one coordinator transaction. The same offset has the same
//! bytes for ever; only where they lie changes. The old chunks are left to the collector.
//!
//! Guards: a rewrite compares the mod revisions of the entries it rewrites, in place of the head's. It moves no offset, so
//! appends need not stand in its way; whatever deletes an entry makes it fail. The new chunk has a floor to pass like
//! any other. A rewrite whose answer was lost has landed or not: the next turn sees which. Unsettled chunks are left
//! alone, because their writer may still look for them in the index.

use crate::agent::Context;
use crate::chores;
use crate::chunks::StoreAway;
use crate::codec;
use crate::coordinator::{Compare, KeyValue, Op, Range};
use crate::floor::{self, Floors};
use crate::gate::Fault;
use crate::layout;
use crate::records::{Body, ChunkId, IndexEntry};
use crate::topics;
use bytes::{Bytes, BytesMut};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Index entries read at once, and most batches of one new chunk.
const PAGE: i64 = 500;
/// Entries rewritten in one coordinator transaction: a compare and a write each, within etcd's 128.
const STEP: usize = 100;

/// Why a turn ended early.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error(transparent)]
    Coordinator(#[from] Fault),
    #[error(transparent)]
    Store(#[from] StoreAway),
}

/// A batch in a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    /// Which entry of the page.
    entry: usize,
    chunk: ChunkId,
    position: u32,
    length: u32,
}

/// Compacts for as long as the agent serves.
pub(crate) async fn run(context: Arc<Context>) {
    loop {
        chores::turn(&context, context.config.compaction_interval_ms).await;
        // Trouble is not the end: the next turn comes.
        let _ = compact_all(&context).await;
    }
}

async fn compact_all(context: &Context) -> Result<(), Trouble> {
    let floors = Floors::read(&context.gate).await?;
    for topic in topics::list(&context.gate).await? {
        for partition in 0..topic.entry.partitions {
            compact(context, &floors, &topic.name, partition).await?;
        }
    }
    Ok(())
}

async fn compact(context: &Context, floors: &Floors, topic: &str, partition: i32) -> Result<(), Trouble> {
    let mut from = layout::index(topic, partition, 0);
    let end = layout::index(topic, partition, i64::MAX);
    loop {
        let page = context.gate.range(Range::span(from, end.clone(), PAGE)).await.map_err(Fault::from)?;
        let entries: Result<Vec<IndexEntry>, _> =
            page.kvs.iter().map(|kv| codec::decode(&kv.value)).collect();
        let entries = entries.map_err(Fault::from)?;
        let config = &context.config;
        let settled = |chunk| floors.settled(chunk);
        for run in runs(&entries, settled, config.chunk_max_bytes, config.compaction_min_chunks) {
            let chunk = copy(context, &run).await?;
            if !rewrite(context, chunk, &run, &entries, &page.kvs).await? {
                // Another one was here, or this incarnation was retired while it wrote nothing. Nobody says which, and a new
                // incarnation does no harm.
                context.chunks.forget(chunk.incarnation).await;
                return Ok(());
            }
            rt::event!(
                "chunk.compacted",
                partition = &layout::partition_name(topic, partition),
                chunk = &chunk.path().to_string(),
                batches = run.len() as u64,
            );
        }
        match page.kvs.last() {
            Some(last) if page.more => from = [&last.key[..], &[0]].concat().into(),
            _ => return Ok(()),
        }
    }
}

/// The runs worth moving. Markers lie in no chunk and interrupt nothing.
fn runs(
    entries: &[IndexEntry],
    settled: impl Fn(ChunkId) -> bool,
    max_bytes: usize,
    min_chunks: usize,
) -> Vec<Vec<Piece>> {
    let mut found = Vec::new();
    let mut run: Vec<Piece> = Vec::new();
    let mut size_bytes = 0;
    let mut close = |run: Vec<Piece>| {
        let chunks: BTreeSet<ChunkId> = run.iter().map(|piece| piece.chunk).collect();
        if chunks.len() >= min_chunks.max(2) {
            found.push(run);
        }
    };
    for (entry, index) in entries.iter().enumerate() {
        let Body::Chunk { chunk, position, length } = index.body else { continue };
        if !settled(chunk) || size_bytes + length as usize > max_bytes {
            close(std::mem::take(&mut run));
            size_bytes = 0;
        }
        if settled(chunk) {
            size_bytes += length as usize;
            run.push(Piece { entry, chunk, position, length });
        }
    }
    close(run);
    found
}

/// Writes a chunk of these batches.
async fn copy(context: &Context, run: &[Piece]) -> Result<ChunkId, Trouble> {
    let mut bytes = BytesMut::new();
    let mut last: Option<(ChunkId, Bytes)> = None;
    for Piece { chunk, position, length, .. } in run {
        let source = match last.take() {
            Some((id, source)) if id == *chunk => source,
            _ => context.chunks.get(*chunk).await.map_err(|_| StoreAway)?,
        };
        let range = *position as usize..*position as usize + *length as usize;
        bytes.extend_from_slice(source.get(range).ok_or(StoreAway)?);
        last = Some((*chunk, source));
    }
    let chunk = context.chunks.name(&context.gate).await?;
    rt::preempt("compaction.before-put").await;
    context.chunks.put(chunk, bytes.freeze()).await?;
    Ok(chunk)
}

/// Points the entries of `run` to `chunk`. False, and no further, when they are not as they were read or the chunk is
/// settled.
async fn rewrite(
    context: &Context,
    chunk: ChunkId,
    run: &[Piece],
    entries: &[IndexEntry],
    stored: &[KeyValue],
) -> Result<bool, Fault> {
    let mut position = 0;
    for step in run.chunks(STEP) {
        let mut compares = Vec::with_capacity(step.len() + 1);
        let mut ops = Vec::with_capacity(step.len());
        for piece in step {
            let (kv, entry) = (&stored[piece.entry], &entries[piece.entry]);
            let body = Body::Chunk { chunk, position, length: piece.length };
            compares.push(Compare::unchanged(kv.key.clone(), kv.mod_revision));
            ops.push(Op::put(kv.key.clone(), codec::encode(&IndexEntry { body, ..entry.clone() })));
            position += piece.length;
        }
        compares.push(floor::guard(chunk));
        rt::preempt("compaction.before-commit").await;
        if context.gate.commit(compares, ops).await?.is_none() {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARKER: Body = Body::Marker { producer_id: 7, epoch: 0, committed: true };

    fn body(number: u64, position: u32, length: u32) -> Body {
        Body::Chunk { chunk: ChunkId { incarnation: 1, number }, position, length }
    }

    /// Entries of each run, where chunks from number 10 on are not settled.
    fn found(bodies: &[Body], max_bytes: usize, min_chunks: usize) -> Vec<Vec<usize>> {
        let entry = |body: &Body| IndexEntry { base_offset: 0, max_timestamp_ms: 0, body: body.clone() };
        let entries: Vec<_> = bodies.iter().map(entry).collect();
        let runs = runs(&entries, |chunk| chunk.number < 10, max_bytes, min_chunks);
        runs.iter().map(|run| run.iter().map(|piece| piece.entry).collect()).collect()
    }

    #[test]
    fn rule_by_rule() {
        let small: Vec<Body> = (0..5).map(|number| body(number, 0, 10)).collect();
        assert_eq!(found(&small, 100, 3), [[0, 1, 2, 3, 4]]);
        assert_eq!(found(&small, 30, 3), [[0, 1, 2]], "full at 30; the last two are too few");
        assert_eq!(found(&small, 100, 6), [[0; 0]; 0], "too few chunks");
        let of_two = [body(0, 0, 10), body(0, 10, 10), body(1, 0, 10), body(0, 20, 10)];
        assert_eq!(found(&of_two, 100, 3), [[0; 0]; 0], "four batches of two chunks");
        let marked = [body(0, 0, 10), MARKER, body(1, 0, 10), body(2, 0, 10)];
        assert_eq!(found(&marked, 100, 3), [[0, 2, 3]], "a marker interrupts nothing");
        let unsettled = [body(0, 0, 1), body(1, 0, 1), body(10, 0, 1), body(2, 0, 1), body(3, 0, 1)];
        assert_eq!(found(&unsettled, 100, 2), [[0, 1], [3, 4]], "an unsettled chunk does");
        let one_chunk = [body(0, 0, 10), body(0, 10, 10)];
        assert_eq!(found(&one_chunk, 100, 0), [[0; 0]; 0], "one chunk gains nothing");
        assert_eq!(
            found(&[body(0, 0, 200), body(1, 0, 10), body(2, 0, 10)], 100, 2),
            [[1, 2]],
            "a large one stays"
        );
    }
}
