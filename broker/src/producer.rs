//! What a partition knows of a producer, and the decision over each batch it sends: kafka.md 2, after
//! `ProducerStateEntry` and `ProducerAppendInfo` of Kafka 3.8.

use crate::batch::Header;
use kafka_protocol::ResponseError;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Batches remembered per producer and partition; a retry of an older one is out of order.
const WINDOW: usize = 5;

/// A producer on a partition. Its open transaction, if any, is in the partition's head.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProducerEntry {
    pub(crate) epoch: i16,
    /// The last batches of this epoch, oldest first.
    batches: VecDeque<Remembered>,
}

/// A batch in the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Remembered {
    first_sequence: i32,
    last_sequence: i32,
    pub(crate) base_offset: i64,
}

/// What becomes of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Append it.
    Accept,
    /// It is in the log already, at this offset: answer success, append nothing.
    Duplicate { base_offset: i64 },
    /// Answer this error.
    Refuse(ResponseError),
}

impl ProducerEntry {
    /// A producer that has written nothing under `epoch`.
    pub(crate) fn fresh(epoch: i16) -> Self {
        ProducerEntry { epoch, batches: VecDeque::new() }
    }

    /// Remembers an appended batch.
    pub(crate) fn append(&mut self, batch: &Header, base_offset: i64) {
        self.enter(batch.epoch);
        if self.batches.len() == WINDOW {
            self.batches.pop_front();
        }
        self.batches.push_back(Remembered {
            first_sequence: batch.base_sequence,
            last_sequence: batch.last_sequence(),
            base_offset,
        });
    }

    /// Moves to `epoch`; a new epoch starts with an empty window.
    pub(crate) fn enter(&mut self, epoch: i16) {
        if self.epoch != epoch {
            *self = ProducerEntry::fresh(epoch);
        }
    }
}

/// Decides over `batch` of an idempotent producer. `in_transaction` says whether the producer has an open transaction on
/// this partition.
pub(crate) fn check(entry: Option<&ProducerEntry>, in_transaction: bool, batch: &Header) -> Verdict {
    let Some(entry) = entry else {
        // Since KIP-360 an unknown producer may begin anywhere: its state may have expired.
        return Verdict::Accept;
    };
    if batch.epoch < entry.epoch {
        return Verdict::Refuse(ResponseError::InvalidProducerEpoch);
    }
    let (first, last) = (batch.base_sequence, batch.last_sequence());
    if batch.epoch == entry.epoch {
        let same = |b: &&Remembered| b.first_sequence == first && b.last_sequence == last;
        if let Some(original) = entry.batches.iter().find(same) {
            return Verdict::Duplicate { base_offset: original.base_offset };
        }
    }
    if in_transaction && !batch.transactional {
        return Verdict::Refuse(ResponseError::InvalidTxnState);
    }
    let expected = match entry.batches.back() {
        Some(newest) if batch.epoch == entry.epoch => newest.last_sequence.wrapping_add(1) & i32::MAX,
        _ => 0,
    };
    if first == expected { Verdict::Accept } else { Verdict::Refuse(ResponseError::OutOfOrderSequenceNumber) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn batch(epoch: i16, base_sequence: i32, count: i32) -> Header {
        Header { count, max_timestamp_ms: 0, producer_id: 7, epoch, base_sequence, transactional: true }
    }

    /// Epoch 3; seven batches of two records at offsets 0, 2, .. 12: the window holds sequences 4..=13.
    fn entry() -> ProducerEntry {
        let mut entry = ProducerEntry::fresh(3);
        for n in 0..7 {
            entry.append(&batch(3, 2 * n, 2), i64::from(2 * n));
        }
        entry
    }

    const OUT_OF_ORDER: Verdict = Verdict::Refuse(ResponseError::OutOfOrderSequenceNumber);
    const STALE: Verdict = Verdict::Refuse(ResponseError::InvalidProducerEpoch);

    #[test]
    fn row_by_row() {
        let entry = entry();
        let rows = [
            ("the newest batch again", batch(3, 12, 2), Verdict::Duplicate { base_offset: 12 }),
            ("the oldest batch in the window", batch(3, 4, 2), Verdict::Duplicate { base_offset: 4 }),
            ("a batch that fell out of the window", batch(3, 2, 2), OUT_OF_ORDER),
            ("the first sequence of a known batch, another length", batch(3, 12, 1), OUT_OF_ORDER),
            ("the next in order", batch(3, 14, 5), Verdict::Accept),
            ("a gap", batch(3, 15, 1), OUT_OF_ORDER),
            ("from zero in the same epoch", batch(3, 0, 3), OUT_OF_ORDER),
            ("an older epoch", batch(2, 14, 1), STALE),
            ("an older epoch, sequences of a known batch", batch(2, 12, 2), STALE),
            ("a newer epoch from zero", batch(4, 0, 1), Verdict::Accept),
            ("a newer epoch from elsewhere", batch(4, 14, 1), OUT_OF_ORDER),
            ("a newer epoch, sequences of a known batch", batch(4, 12, 2), OUT_OF_ORDER),
        ];
        for (row, batch, verdict) in rows {
            assert_eq!(check(Some(&entry), true, &batch), verdict, "{row}");
        }
        assert_eq!(check(None, false, &batch(3, 99, 1)), Verdict::Accept, "unknown producers begin anywhere");
    }

    #[test]
    fn sequences_wrap_to_zero() {
        let mut entry = ProducerEntry::fresh(0);
        entry.append(&batch(0, i32::MAX, 1), 10);
        assert_eq!(check(Some(&entry), true, &batch(0, 0, 1)), Verdict::Accept);
        entry.append(&batch(0, 0, i32::MAX), 11);
        entry.append(&batch(0, i32::MAX, 2), i64::from(i32::MAX) + 11);
        assert_eq!(check(Some(&entry), true, &batch(0, 1, 1)), Verdict::Accept, "MAX and 0 were one batch");
    }

    #[test]
    fn a_plain_batch_waits_for_the_open_transaction() {
        let entry = entry();
        let plain = Header { transactional: false, ..batch(3, 14, 1) };
        assert_eq!(check(Some(&entry), true, &plain), Verdict::Refuse(ResponseError::InvalidTxnState));
        assert_eq!(check(Some(&entry), false, &plain), Verdict::Accept);
    }

    #[test]
    fn a_marker_of_a_new_epoch_empties_the_window() {
        let mut entry = entry();
        entry.enter(3);
        assert_eq!(
            check(Some(&entry), true, &batch(3, 14, 1)),
            Verdict::Accept,
            "same epoch: nothing forgotten"
        );
        entry.enter(4);
        assert_eq!(check(Some(&entry), false, &batch(3, 14, 1)), STALE);
        assert_eq!(check(Some(&entry), false, &batch(4, 0, 1)), Verdict::Accept);
        assert_eq!(check(Some(&entry), false, &batch(4, 1, 1)), OUT_OF_ORDER);
    }

    proptest! {
        /// Whatever is sent and however often, the log holds each sequence once and in order.
        #[test]
        fn the_log_holds_every_sequence_once_in_order(sends in proptest::collection::vec((0i32..40, 1i32..4), 1..60)) {
            let mut entry: Option<ProducerEntry> = Some(ProducerEntry::fresh(0));
            let mut log: Vec<i32> = Vec::new();
            for (base_sequence, count) in sends {
                let batch = batch(0, base_sequence, count);
                match check(entry.as_ref(), true, &batch) {
                    Verdict::Accept => {
                        entry.as_mut().unwrap().append(&batch, log.len() as i64);
                        log.extend(base_sequence..base_sequence + count);
                    }
                    Verdict::Duplicate { base_offset } => {
                        let at = base_offset as usize;
                        let expected: Vec<i32> = (base_sequence..base_sequence + count).collect();
                        prop_assert_eq!(&log[at..at + count as usize], &expected[..]);
                    }
                    Verdict::Refuse(_) => {}
                }
            }
            prop_assert!(log.iter().copied().eq(0..log.len() as i32));
        }
    }
}
