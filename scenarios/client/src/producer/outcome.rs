//! What becomes of a batch when its request ends: Java's `Sender.completeBatch` and `failBatch`.
//!
//! A batch too large for the broker is failed, not split: `batch.size` is far below any broker's limit.

use super::core::Core;
use super::transaction::State;
use crate::codes::{self, is_retriable};
use crate::error::Error;
use rt::time::Instant;

impl Core {
    /// The broker has appended batch `id` at `base_offset` (-1 if it does not say).
    pub(crate) fn batch_acknowledged(&mut self, id: u64, base_offset: i64) {
        // A batch that has expired meanwhile is gone.
        let Some(batch) = self.accumulator.remove(id) else { return };
        self.sequences.acknowledged(&batch.partition, id, batch.count());
        if rt::observe::listens() {
            let partition = batch.partition.to_string();
            for (i, record) in (0i64..).zip(&batch.records) {
                let offset = if base_offset < 0 { base_offset } else { base_offset + i };
                rt::event!(
                    "producer.delivered",
                    id = self.id(),
                    txn = batch.txn,
                    partition = &partition,
                    offset = offset,
                    value = &record.value[..]
                );
            }
        }
        batch.finish(Ok(base_offset));
    }

    /// The broker refused batch `id`, or did not answer (`REQUEST_TIMED_OUT`, `NETWORK_EXCEPTION`).
    pub(crate) fn batch_refused(&mut self, id: u64, code: i16, base_offset: i64, now: Instant) {
        let Some(attempts) = self.accumulator.get(id).map(|batch| batch.attempts) else { return };
        let retries_left = attempts <= self.config.retries;
        if retries_left && !self.accumulator.is_expired(id, now) && self.is_worth_retrying(id, code) {
            self.accumulator.requeue(id, now);
        } else if code == codes::DUPLICATE_SEQUENCE_NUMBER {
            self.batch_acknowledged(id, base_offset);
        } else {
            // Java gives the sequence back whenever attempts are left, even if it was time that ran out.
            self.fail_batch(id, Error::Kafka(code), retries_left);
        }
    }

    fn is_worth_retrying(&mut self, id: u64, code: i16) -> bool {
        let Some(batch) = self.accumulator.get(id) else { return false };
        match code {
            codes::OUT_OF_ORDER_SEQUENCE_NUMBER if self.is_idempotent() => {
                let partition = &batch.partition;
                let earlier_missing = !self.sequences.is_unresolved(partition)
                    && (batch.renumbered || !self.sequences.is_next(partition, id));
                earlier_missing || self.retry_with_new_epoch()
            }
            codes::UNKNOWN_PRODUCER_ID if self.is_idempotent() => self.retry_with_new_epoch(),
            _ => is_retriable(code),
        }
    }

    fn retry_with_new_epoch(&mut self) -> bool {
        self.idempotent_bump_required |= !self.transactions.is_transactional();
        self.idempotent_bump_required
    }

    fn fail_batch(&mut self, id: u64, error: Error, adjust: bool) {
        let Some(batch) = self.accumulator.remove(id) else { return };
        if batch.attempts > 0 && (batch.retried || !error.is_definite()) {
            self.transactions.suspect_batch();
        }
        self.transactions.batch_failed(&error);
        let transactional = self.transactions.is_transactional();
        let adjust = adjust && batch.stamp.is_some() && self.transactions.state != State::FatalError;
        self.idempotent_bump_required |= adjust && !transactional;
        let moved = self.sequences.failed(&batch.partition, id, batch.count(), adjust && transactional);
        for (later, base_sequence) in moved {
            if let Some(later) = self.accumulator.get_mut(later) {
                later.stamp = later.stamp.map(|stamp| crate::records::Stamp { base_sequence, ..stamp });
                later.renumbered = true;
            }
        }
        batch.finish(Err(error));
    }

    /// Fails batches older than `delivery.timeout.ms`. The sequence of one that was sent before stays used: whether
    /// the broker saw it is settled when nothing of its partition is in flight any more.
    pub(crate) fn expire_batches(&mut self, now: Instant) {
        for id in self.accumulator.expired(now) {
            let Some(batch) = self.accumulator.get(id) else { continue };
            if batch.retried && self.is_idempotent() {
                let partition = batch.partition.clone();
                self.sequences.mark_unresolved(&partition);
            }
            self.fail_batch(id, Error::Timeout("delivery"), false);
        }
    }

    /// Drops batches of an aborted transaction that were never sent.
    pub(crate) fn drop_undrained(&mut self) {
        let error = self.transactions.last_error().cloned().unwrap_or(Error::TransactionAborted);
        for id in self.accumulator.undrained() {
            if let Some(batch) = self.accumulator.remove(id) {
                batch.finish(Err(error.clone()));
            }
        }
    }

    /// Fails everything, as a fatal error or a forced close does.
    pub(crate) fn fail_all(&mut self, error: &Error) {
        for id in self.accumulator.all() {
            if let Some(batch) = self.accumulator.remove(id) {
                batch.finish(Err(error.clone()));
            }
        }
        self.sequences.reset();
    }
}
