//! One partition's log, with the rules for sequences of idempotent producers (kafka.md 2).

use bytes::{Bytes, BytesMut};

/// Batches that a leader remembers of a producer.
const WINDOW: usize = 5;

#[derive(Default)]
pub(crate) struct Log {
    /// Batches with their base offsets patched in.
    batches: Vec<(i64, Bytes)>,
    /// The offset of the first record.
    pub(crate) start: i64,
    pub(crate) next_offset: i64,
    /// Where reading stops: the last stable offset, if it is below the end.
    pub(crate) stable: Option<i64>,
    /// Aborted transactions: producer id and first offset.
    pub(crate) aborted: Vec<(i64, i64)>,
    epoch: i16,
    /// First and last sequence, and base offset, of the producer's last batches.
    window: Vec<(i32, i32, i64)>,
}

fn i32_at(batch: &[u8], at: usize) -> i32 {
    i32::from_be_bytes(batch[at..at + 4].try_into().unwrap())
}

/// Producer epoch, base sequence and number of records of a batch.
pub(crate) fn stamp(batch: &[u8]) -> (i16, i32, i32) {
    (i16::from_be_bytes(batch[51..53].try_into().unwrap()), i32_at(batch, 53), i32_at(batch, 57))
}

impl Log {
    /// Appends a batch, unless it is known already: its error code and base offset.
    pub(crate) fn append(&mut self, batch: &Bytes) -> (i16, i64) {
        let (epoch, first, count) = stamp(batch);
        let last = first + count - 1;
        if first >= 0 {
            if epoch != self.epoch {
                self.epoch = epoch;
                self.window.clear();
            }
            if let Some((_, _, offset)) = self.window.iter().find(|known| (known.0, known.1) == (first, last))
            {
                return (0, *offset);
            }
            if self.window.last().is_some_and(|known| known.1 + 1 != first) {
                return (45, -1);
            }
        }
        let offset = self.next_offset;
        let mut bytes = BytesMut::from(&batch[..]);
        bytes[..8].copy_from_slice(&offset.to_be_bytes());
        self.batches.push((offset, bytes.freeze()));
        self.next_offset += i64::from(count);
        self.window.push((first, last, offset));
        let excess = self.window.len().saturating_sub(WINDOW);
        self.window.drain(..excess);
        (0, offset)
    }

    /// The leader knows the producer, and expects `sequence` next, under `epoch`.
    pub(crate) fn expect_from(&mut self, epoch: i16, sequence: i32) {
        self.epoch = epoch;
        self.window = vec![(sequence - 1, sequence - 1, -1)];
    }

    /// What is there from `offset` on, in whole batches.
    pub(crate) fn read(&self, offset: i64) -> Bytes {
        let end = self.stable.unwrap_or(self.next_offset);
        let wanted = |(base, batch): &&(i64, Bytes)| *base < end && base + i64::from(stamp(batch).2) > offset;
        self.batches.iter().filter(wanted).map(|(_, batch)| &batch[..]).collect::<Vec<_>>().concat().into()
    }
}
