//! What a partition knows of a producer, and the decisions over each batch it sends and each marker: kafka.md 2, after
//! `ProducerStateEntry` and `ProducerAppendInfo` of Kafka 3.8 and 4.
//!
//! One row of kafka.md's table has no place here: a transactional batch beyond the lowest sequence seen during
//! verification (KAFKA-14920). Kafka asks the transaction coordinator first and appends later; here both happen in one
//! coordinator transaction, so nothing comes in between. And a marker has no coordinator epoch to be compared: every
//! agent coordinates, and the transaction's mod revision fences.

use crate::batch::Header;
use crate::config::TransactionVersion;
use kafka_protocol::ResponseError;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Batches remembered per producer and partition; a retry of an older one is out of order.
const WINDOW: usize = 5;

/// A producer on a partition. Its open transaction, if any, is in the partition's head.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProducerEntry {
    pub(crate) epoch: i16,
    /// Kafka's epoch of the coordinator that wrote the last marker: 0 here, -1 as long as there was none.
    pub(crate) coordinator_epoch: i32,
    /// Largest timestamp of the last batch, by the producer's clock, or that of a later marker, in ms; -1 if there was
    /// neither.
    pub(crate) last_timestamp_ms: i64,
    /// When the last batch or marker was written, by the agent's wall clock, in ms. Expiry goes by it: a client's clock
    /// must not end its own window.
    pub(crate) updated_ms: i64,
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
        ProducerEntry {
            epoch,
            coordinator_epoch: -1,
            last_timestamp_ms: -1,
            updated_ms: 0,
            batches: VecDeque::new(),
        }
    }

    /// Remembers a batch appended at `now_ms`.
    pub(crate) fn append(&mut self, batch: &Header, base_offset: i64, now_ms: i64) {
        self.enter(batch.epoch);
        self.last_timestamp_ms = batch.max_timestamp_ms;
        self.updated_ms = now_ms;
        if self.batches.len() == WINDOW {
            self.batches.pop_front();
        }
        self.batches.push_back(Remembered {
            first_sequence: batch.base_sequence,
            last_sequence: batch.last_sequence(),
            base_offset,
        });
    }

    /// Remembers a marker written at `now_ms`. It moves the producer to its epoch, which fences batches of older ones.
    pub(crate) fn mark(&mut self, epoch: i16, now_ms: i64) {
        self.enter(epoch);
        self.coordinator_epoch = 0;
        self.last_timestamp_ms = now_ms;
        self.updated_ms = now_ms;
    }

    /// The sequence of the last record of this epoch; -1 if there is none.
    pub(crate) fn last_sequence(&self) -> i32 {
        self.batches.back().map_or(-1, |newest| newest.last_sequence)
    }

    /// Whether nothing was written for `expiration_ms`. Not asked while a transaction is open.
    pub(crate) fn is_expired(&self, now_ms: i64, expiration_ms: u64) -> bool {
        now_ms.saturating_sub(self.updated_ms) >= i64::try_from(expiration_ms).unwrap_or(i64::MAX)
    }

    /// Moves to `epoch`; a new epoch starts with an empty window.
    fn enter(&mut self, epoch: i16) {
        if self.epoch != epoch {
            self.epoch = epoch;
            self.batches.clear();
        }
    }
}

/// Decides over a marker of `epoch`, written by the rules of `version`: whether it is one for the producer's transaction here.
/// A stale one says nothing about a later transaction (KAFKA-19446).
pub(crate) fn takes_marker(
    version: TransactionVersion,
    entry: Option<&ProducerEntry>,
    in_transaction: bool,
    epoch: i16,
) -> bool {
    let Some(entry) = entry else { return true };
    match version {
        TransactionVersion::V1 => epoch >= entry.epoch,
        TransactionVersion::V2 => {
            epoch > entry.epoch || (epoch == entry.epoch && (!in_transaction || epoch == i16::MAX))
        }
    }
}

/// Decides over `batch` of an idempotent producer. `in_transaction` says whether the producer has an open transaction on
/// this partition; `rules` are those of a transactional batch's request.
pub(crate) fn check(
    rules: TransactionVersion,
    entry: Option<&ProducerEntry>,
    in_transaction: bool,
    batch: &Header,
) -> Verdict {
    let Some(entry) = entry else {
        return match rules {
            // Since KIP-360 an unknown producer may begin anywhere: its state may have expired.
            TransactionVersion::V1 => Verdict::Accept,
            // Sequences begin anew with every transaction (KAFKA-18202).
            TransactionVersion::V2 if batch.base_sequence == 0 => Verdict::Accept,
            TransactionVersion::V2 => Verdict::Refuse(ResponseError::OutOfOrderSequenceNumber),
        };
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
            entry.append(&batch(3, 2 * n, 2), i64::from(2 * n), 0);
        }
        entry
    }

    /// Every rule but the one for unknown producers is the same in both versions.
    fn check(entry: Option<&ProducerEntry>, in_transaction: bool, batch: &Header) -> Verdict {
        let verdict = super::check(TransactionVersion::V1, entry, in_transaction, batch);
        let new = super::check(TransactionVersion::V2, entry, in_transaction, batch);
        assert!(entry.is_none() || verdict == new);
        verdict
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
        let unknown = |rules, sequence| super::check(rules, None, false, &batch(3, sequence, 1));
        assert_eq!(unknown(TransactionVersion::V1, 99), Verdict::Accept, "unknown producers begin anywhere");
        assert_eq!(unknown(TransactionVersion::V1, 0), Verdict::Accept);
        assert_eq!(unknown(TransactionVersion::V2, 99), OUT_OF_ORDER, "but not in version 2 (KAFKA-18202)");
        assert_eq!(unknown(TransactionVersion::V2, 0), Verdict::Accept);
    }

    #[test]
    fn sequences_wrap_to_zero() {
        let mut entry = ProducerEntry::fresh(0);
        entry.append(&batch(0, i32::MAX, 1), 10, 0);
        assert_eq!(check(Some(&entry), true, &batch(0, 0, 1)), Verdict::Accept);
        entry.append(&batch(0, 0, i32::MAX), 11, 0);
        entry.append(&batch(0, i32::MAX, 2), i64::from(i32::MAX) + 11, 0);
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
        entry.mark(3, 0);
        assert_eq!(
            check(Some(&entry), true, &batch(3, 14, 1)),
            Verdict::Accept,
            "same epoch: nothing forgotten"
        );
        entry.mark(4, 0);
        assert_eq!(check(Some(&entry), false, &batch(3, 14, 1)), STALE);
        assert_eq!(check(Some(&entry), false, &batch(4, 0, 1)), Verdict::Accept);
        assert_eq!(check(Some(&entry), false, &batch(4, 1, 1)), OUT_OF_ORDER);
    }

    #[test]
    fn a_marker_is_taken_by_its_versions_rule() {
        use TransactionVersion::{V1, V2};
        let at = |epoch| ProducerEntry::fresh(epoch);
        let rows = [
            // version, marker, stored, transaction open, taken
            (V1, 3, 3, true, true),
            (V1, 3, 3, false, true),
            (V1, 4, 3, true, true),
            (V1, 2, 3, true, false),
            (V2, 4, 3, true, true),
            (V2, 4, 3, false, true),
            (V2, 3, 3, true, false),
            (V2, 3, 3, false, true),
            (V2, 2, 3, false, false),
            (V2, i16::MAX, i16::MAX, true, true),
        ];
        for (version, marker, stored, open, taken) in rows {
            let row = format!("{version:?}: {marker} over {stored}, open {open}");
            assert_eq!(takes_marker(version, Some(&at(stored)), open, marker), taken, "{row}");
        }
        assert!(takes_marker(V1, None, false, 0) && takes_marker(V2, None, false, 1), "unknown producers");
    }

    #[test]
    fn what_is_told_of_a_producer_follows_its_batches_and_markers() {
        let mut entry = ProducerEntry::fresh(3);
        assert_eq!((entry.last_sequence(), entry.last_timestamp_ms, entry.coordinator_epoch), (-1, -1, -1));
        entry.append(&Header { max_timestamp_ms: 17, ..batch(3, 0, 4) }, 100, 5_000);
        assert_eq!((entry.last_sequence(), entry.last_timestamp_ms, entry.coordinator_epoch), (3, 17, -1));
        entry.mark(3, 6_000);
        assert_eq!((entry.last_sequence(), entry.last_timestamp_ms, entry.coordinator_epoch), (3, 6_000, 0));
        entry.mark(4, 7_000);
        assert_eq!((entry.epoch, entry.last_sequence(), entry.coordinator_epoch), (4, -1, 0));
        entry.append(&batch(5, 0, 1), 104, 8_000);
        assert_eq!((entry.epoch, entry.last_sequence(), entry.coordinator_epoch), (5, 0, 0));
    }

    #[test]
    fn a_producer_expires_by_the_agents_clock() {
        let mut entry = ProducerEntry::fresh(3);
        entry.append(&Header { max_timestamp_ms: 0, ..batch(3, 0, 1) }, 0, 1_000);
        assert!(!entry.is_expired(1_099, 100));
        assert!(entry.is_expired(1_100, 100));
        assert!(!entry.is_expired(900, 100), "a clock that went back");
        entry.mark(3, 1_050);
        assert!(!entry.is_expired(1_149, 100), "a marker is a sign of life");
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
                        entry.as_mut().unwrap().append(&batch, log.len() as i64, 0);
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
