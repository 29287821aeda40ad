//! What is stored about agents, topics and logs. Layout and guards: `layout`.

use crate::batch;
use object_store::path::Path;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A live agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AgentEntry {
    pub(crate) node_id: i32,
    pub(crate) host: String,
    pub(crate) port: u16,
}

/// A topic. Its id is derived: see `topics`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TopicEntry {
    pub(crate) partitions: i32,
    /// Told back to admin tools; the object store replicates.
    pub(crate) replication_factor: i16,
    /// Topic settings as given, kept for DescribeConfigs.
    pub(crate) configs: BTreeMap<String, Option<String>>,
}

/// The head of a partition's log: every number a reader needs from one snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Head {
    /// First offset still there.
    pub(crate) log_start_offset: i64,
    /// Offset of the next record. What is in the log is durable, so it is also the high watermark.
    pub(crate) next_offset: i64,
    /// Size of the batches in the index, in bytes.
    pub(crate) size_bytes: u64,
    /// Open transactions: producer id to the first offset written in it.
    pub(crate) open: BTreeMap<i64, i64>,
}

impl Head {
    pub(crate) fn high_watermark(&self) -> i64 {
        self.next_offset
    }

    /// The last stable offset: the first offset still there of the oldest open transaction, else the high watermark.
    pub(crate) fn last_stable_offset(&self) -> i64 {
        let oldest = self.open.values().copied().min();
        oldest.map_or(self.next_offset, |first_offset| first_offset.max(self.log_start_offset))
    }
}

/// A batch of the log. Its last offset is in its key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct IndexEntry {
    pub(crate) base_offset: i64,
    /// Largest timestamp in the batch, in ms.
    pub(crate) max_timestamp_ms: i64,
    pub(crate) body: Body,
}

/// Where a batch's bytes are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Body {
    /// In a chunk of the object store.
    Chunk { chunk: ChunkId, position: u32, length: u32 },
    /// A control batch, small enough to be built from the index: see `batch::marker`.
    Marker { producer_id: i64, epoch: i16, committed: bool },
}

impl IndexEntry {
    /// Size of the batch on the wire, in bytes.
    pub(crate) fn size_bytes(&self) -> usize {
        match self.body {
            Body::Chunk { length, .. } => length as usize,
            Body::Marker { .. } => batch::MARKER_BYTES,
        }
    }
}

/// Where chunks are in the store.
pub(crate) const CHUNKS: &str = "chunks";

/// A chunk's name: the agent incarnation that wrote it, and a number within that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct ChunkId {
    pub(crate) incarnation: i64,
    pub(crate) number: u64,
}

impl ChunkId {
    pub(crate) fn path(self) -> Path {
        Path::from(format!("{CHUNKS}/{:016x}/{:016x}", self.incarnation, self.number))
    }

    /// The chunk at `path`, if it is one.
    pub(crate) fn at(path: &Path) -> Option<Self> {
        let (incarnation, number) = path.as_ref().strip_prefix(CHUNKS)?.strip_prefix('/')?.split_once('/')?;
        let incarnation = i64::from_str_radix(incarnation, 16).ok()?;
        Some(ChunkId { incarnation, number: u64::from_str_radix(number, 16).ok()? })
    }
}

/// An aborted transaction on one partition. Its marker's offset is in its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AbortedRange {
    pub(crate) producer_id: i64,
    pub(crate) first_offset: i64,
    /// The last stable offset once this transaction was closed: every transaction that ends later begins at or after
    /// it, so a reader whose data ends below it need not look further.
    pub(crate) last_stable_offset: i64,
}

/// A partition of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TxnPart {
    /// When it joined, by the agent's wall clock, in ms.
    pub(crate) added_ms: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_open_transaction_holds_the_last_stable_offset() {
        let mut head = Head { next_offset: 9, open: BTreeMap::from([(1, 5), (2, 3)]), ..Head::default() };
        assert_eq!((head.last_stable_offset(), head.high_watermark()), (3, 9));
        head.log_start_offset = 4;
        assert_eq!(head.last_stable_offset(), 4, "what lies below the log start is gone");
        head.open.remove(&2);
        assert_eq!(head.last_stable_offset(), 5);
        head.open.remove(&1);
        assert_eq!(head.last_stable_offset(), 9);
    }

    #[test]
    fn a_chunk_has_one_name() {
        let chunk = ChunkId { incarnation: 26, number: 255 };
        assert_eq!(chunk.path().as_ref(), "chunks/000000000000001a/00000000000000ff");
        assert_eq!(ChunkId::at(&chunk.path()), Some(chunk));
        for foreign in ["chunks", "chunks/1", "chunks/1/x", "other/1/1"] {
            assert_eq!(ChunkId::at(&Path::from(foreign)), None, "{foreign}");
        }
    }
}
