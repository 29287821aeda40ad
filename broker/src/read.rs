//! Reading a partition: head, index and aborted ranges in one snapshot, bytes from the store.

use crate::agent::Context;
use crate::batch;
use crate::chunks::{StoreAway, Unread};
use crate::codec;
use crate::coordinator::{KeyValue, Range, RangeResponse};
use crate::gate::{Fault, Stored};
use crate::layout;
use crate::records::{AbortedRange, Body, Head, IndexEntry, TopicEntry};
use crate::topics;
use crate::watermarks::Marks;
use bytes::BytesMut;
use kafka_protocol::ResponseError;

/// Index entries read per partition and Fetch; a reader that could take more asks again.
const PAGE: i64 = 64;
/// Partitions read in one snapshot: four ranges each, within etcd's 128.
const GROUP: usize = 32;
/// Leader epoch of every batch: see Metadata.
const LEADER_EPOCH: i32 = 0;

/// What is to be read of one partition.
pub(crate) struct Wanted {
    pub(crate) topic: String,
    pub(crate) partition: i32,
    pub(crate) offset: i64,
}

/// A batch and the offset of its last record.
pub(crate) struct Entry {
    pub(crate) last_offset: i64,
    /// Revision that made its index entry; compaction rewrites an entry and keeps it.
    pub(crate) create_revision: i64,
    pub(crate) index: IndexEntry,
}

/// A partition as of one revision, from the wanted offset on.
pub(crate) struct View {
    pub(crate) head: Head,
    /// How far the reader is told that it can be read.
    pub(crate) marks: Marks,
    pub(crate) create_revision: i64,
    /// Batches that the reader may see, in order; the first one contains the wanted offset.
    pub(crate) entries: Vec<Entry>,
    /// Whether there are more of them.
    pub(crate) more: bool,
    aborted: RangeResponse,
    revision: i64,
}

/// Views of the wanted partitions, and the oldest revision among them. `committed` hides what lies above the last stable
/// offset and brings the aborted ranges.
pub(crate) async fn views(
    context: &Context,
    wanted: &[&Wanted],
    committed: bool,
) -> Result<(Vec<Result<View, ResponseError>>, i64), Fault> {
    let mut views = Vec::with_capacity(wanted.len());
    let mut oldest = i64::MAX;
    let only_stable = only_stable(context, committed);
    for group in wanted.chunks(GROUP) {
        let ranges = group.iter().flat_map(|wanted| ranges(wanted, committed)).collect();
        let mut now = context.gate.read(ranges).await?;
        let revision = now.revision;
        oldest = oldest.min(revision);
        for wanted in group {
            let (topic, head) = (now.one()?, now.one::<Head>()?);
            let index = now.next();
            let aborted = if committed { now.next() } else { RangeResponse::default() };
            let head = head.into_value().unwrap_or_default();
            let marks = match &context.watermarks {
                Some(kept) => kept.serve(&layout::head(&wanted.topic, wanted.partition), &head, revision),
                None => Marks::of(&head),
            };
            views.push(view(wanted, only_stable, &topic, (head, marks), index, aborted, revision)?);
        }
    }
    Ok((views, oldest))
}

/// Whether what lies above the last stable offset is hidden from a reader.
pub(crate) fn only_stable(context: &Context, committed: bool) -> bool {
    committed && !context.config.defects.early_stable_offset
}

/// The first offset that a reader may not see.
pub(crate) fn bound(marks: Marks, only_stable: bool) -> i64 {
    if only_stable { marks.last_stable_offset } else { marks.high_watermark }
}

fn ranges(wanted: &Wanted, committed: bool) -> Vec<Range> {
    let Wanted { topic, partition, offset } = wanted;
    let from = (*offset).max(0);
    let mut ranges = vec![
        Range::key(layout::topic(topic)),
        Range::key(layout::head(topic, *partition)),
        Range::span(layout::index(topic, *partition, from), index_end(topic, *partition), PAGE),
    ];
    if committed {
        ranges.push(Range::span(
            layout::aborted(topic, *partition, from),
            aborted_end(topic, *partition),
            PAGE,
        ));
    }
    ranges
}

/// The end of a partition's index: no record has the largest offset.
fn index_end(topic: &str, partition: i32) -> bytes::Bytes {
    layout::index(topic, partition, i64::MAX)
}

fn aborted_end(topic: &str, partition: i32) -> bytes::Bytes {
    layout::aborted(topic, partition, i64::MAX)
}

fn view(
    wanted: &Wanted,
    only_stable: bool,
    topic: &Stored<TopicEntry>,
    (head, marks): (Head, Marks),
    index: RangeResponse,
    aborted: RangeResponse,
    revision: i64,
) -> Result<Result<View, ResponseError>, Fault> {
    if !topics::holds(topic, wanted.partition) {
        return Ok(Err(ResponseError::UnknownTopicOrPartition));
    }
    rt::mark!(always, "lso <= high watermark", marks.last_stable_offset <= marks.high_watermark);
    if !(head.log_start_offset..=head.next_offset).contains(&wanted.offset) {
        return Ok(Err(ResponseError::OffsetOutOfRange));
    }
    let bound = bound(marks, only_stable);
    let mut entries = Vec::with_capacity(index.kvs.len());
    let mut more = index.more;
    for kv in &index.kvs {
        let index: IndexEntry = codec::decode(&kv.value)?;
        let last_offset = offset_of(kv);
        // By its last offset: DeleteRecords may have moved the log start, and the bound with it, into an open batch.
        if last_offset >= bound {
            more = false;
            break;
        }
        entries.push(Entry { last_offset, create_revision: kv.create_revision, index });
    }
    let create_revision = topic.create_revision();
    Ok(Ok(View { head, marks, create_revision, entries, more, aborted, revision }))
}

/// The offset that ends an index or aborted key.
pub(crate) fn offset_of(kv: &KeyValue) -> i64 {
    let digits = kv.key.len().saturating_sub(20);
    std::str::from_utf8(&kv.key[digits..]).ok().and_then(|digits| digits.parse().ok()).unwrap_or(i64::MAX)
}

impl View {
    /// Aborted transactions that overlap the data from the wanted offset to `last_offset` (both included): producer id and
    /// first offset. Complete, by the snapshot's revision: readers keep no state of their own across answers.
    pub(crate) async fn aborted(
        &mut self,
        context: &Context,
        wanted: &Wanted,
        last_offset: i64,
    ) -> Result<Vec<(i64, i64)>, Fault> {
        let mut found = Vec::new();
        loop {
            let ranges: Result<Vec<AbortedRange>, _> =
                self.aborted.kvs.iter().map(|kv| codec::decode(&kv.value)).collect();
            if !overlapping(&ranges?, last_offset, &mut found) {
                return Ok(found);
            }
            let Some(last) = self.aborted.kvs.last().filter(|_| self.aborted.more) else {
                return Ok(found);
            };
            let from = [&last.key[..], &[0]].concat().into();
            let end = aborted_end(&wanted.topic, wanted.partition);
            let page = Range { revision: self.revision, ..Range::span(from, end, PAGE) };
            self.aborted = context.gate.range(page).await?;
        }
    }
}

/// Adds the aborted transactions that begin at or before `last_offset`, of `ranges` in the order of their markers. False
/// when none that comes later can: see [`AbortedRange::last_stable_offset`].
fn overlapping(ranges: &[AbortedRange], last_offset: i64, found: &mut Vec<(i64, i64)>) -> bool {
    for range in ranges {
        if range.first_offset <= last_offset {
            found.push((range.producer_id, range.first_offset));
        }
        if range.last_stable_offset > last_offset {
            return false;
        }
    }
    true
}

/// Appends a batch's bytes, with offset and leader epoch as readers see them. If its chunk is gone, the batch was moved
/// to another one since the entry was read, and is looked up there.
pub(crate) async fn load(
    context: &Context,
    topic: &str,
    partition: i32,
    entry: &Entry,
    out: &mut BytesMut,
) -> Result<(), StoreAway> {
    let mut index = entry.index.clone();
    loop {
        match append_bytes(context, &index, out).await {
            Ok(()) => return Ok(()),
            Err(Unread::Away) => return Err(StoreAway),
            Err(Unread::Missing) => index = moved(context, topic, partition, entry, index).await?,
        }
    }
}

/// The entry of a batch whose chunk is not there. One that was deleted meanwhile is refused: the reader asks again, and is
/// told what the log start is then.
async fn moved(
    context: &Context,
    topic: &str,
    partition: i32,
    entry: &Entry,
    before: IndexEntry,
) -> Result<IndexEntry, StoreAway> {
    let key = layout::index(topic, partition, entry.last_offset);
    let mut found = context.gate.range(Range::key(key)).await.map_err(|_| StoreAway)?;
    let now: IndexEntry = match found.kvs.pop() {
        Some(kv) if kv.create_revision == entry.create_revision => {
            codec::decode(&kv.value).map_err(|_| StoreAway)?
        }
        // Deleted; perhaps another topic of this name has a batch there now.
        _ => return Err(StoreAway),
    };
    rt::mark!(always, "a committed chunk is in the store", now != before);
    if now == before || now.base_offset != before.base_offset {
        return Err(StoreAway);
    }
    rt::mark!(reachable, "a reader followed a batch to another chunk");
    Ok(now)
}

async fn append_bytes(context: &Context, entry: &IndexEntry, out: &mut BytesMut) -> Result<(), Unread> {
    let IndexEntry { base_offset, max_timestamp_ms, body } = entry;
    match *body {
        Body::Chunk { chunk, position, length } => {
            let bytes = context.chunks.get(chunk).await?;
            let start = out.len();
            let range = position as usize..position as usize + length as usize;
            out.extend_from_slice(bytes.get(range).ok_or(Unread::Away)?);
            batch::patch(&mut out[start..], *base_offset, LEADER_EPOCH);
        }
        Body::Marker { producer_id, epoch, committed } => {
            batch::marker(out, *base_offset, producer_id, epoch, committed, *max_timestamp_ms);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Transactions of producers 1, 2, 3: 1 from 0 to its marker at 6, 2 from 2 to 4, 3 from 7 to 9. By marker: 2, 1, 3. When
    /// 2 ends 1 is still open, so the last stable offset stays 0; then it is 7, then 10.
    const RANGES: [AbortedRange; 3] = [
        AbortedRange { producer_id: 2, first_offset: 2, last_stable_offset: 0 },
        AbortedRange { producer_id: 1, first_offset: 0, last_stable_offset: 7 },
        AbortedRange { producer_id: 3, first_offset: 7, last_stable_offset: 10 },
    ];

    fn found(last_offset: i64) -> (Vec<(i64, i64)>, bool) {
        let mut found = Vec::new();
        let more = overlapping(&RANGES, last_offset, &mut found);
        (found, more)
    }

    #[test]
    fn an_aborted_transaction_is_told_to_whoever_reads_any_of_it() {
        assert_eq!(found(1), (vec![(1, 0)], false), "2 begins after the data, and 1 ends after 2 does");
        assert_eq!(found(2), (vec![(2, 2), (1, 0)], false));
        assert_eq!(found(6), (vec![(2, 2), (1, 0)], false), "what ends later begins at 7 or after");
        assert_eq!(found(7), (vec![(2, 2), (1, 0), (3, 7)], false));
        assert_eq!(found(10), (vec![(2, 2), (1, 0), (3, 7)], true), "a later one may begin at 10");
    }
}
