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

    /// Fails batches that were sent and never acknowledged: they may be in the log.
    pub(crate) fn fail_sent(&mut self) {
        for id in self.accumulator.all() {
            if self.accumulator.get(id).is_some_and(|batch| batch.attempts > 0) {
                self.fail_batch(id, Error::Unacknowledged, false);
            }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ProducerConfig;
    use crate::flaws::Variant;
    use crate::records::Stamp;
    use crate::types::{ProducerRecord, TopicPartition};
    use bytes::Bytes;

    /// An idempotent producer whose first batch was refused as out of order, after both had been sent without an answer.
    fn out_of_order(variant: Variant) -> Core {
        let mut core = Core::new(ProducerConfig::jepsen(), variant.model());
        let partition = TopicPartition::new("t", 0);
        (core.transactions.producer_id, core.transactions.epoch) = (4, 0);
        core.leaders.insert(partition.clone(), 1);
        let now = Instant::from_nanos(0);
        for value in [&b"a"[..], b"b"] {
            let value = Bytes::from_static(value);
            let record = ProducerRecord { partition: partition.clone(), key: None, value };
            assert!(core.append(&record, now).unwrap().is_some());
            core.drain(&partition).unwrap();
        }
        core.batch_refused(0, codes::NETWORK_EXCEPTION, -1, now);
        core.batch_refused(1, codes::NETWORK_EXCEPTION, -1, now);
        core.drain(&partition).unwrap();
        core.batch_refused(0, codes::OUT_OF_ORDER_SEQUENCE_NUMBER, -1, now);
        assert!(core.idempotent_bump_required);
        core.bump_idempotent_epoch();
        assert_eq!(core.transactions.epoch, 1);
        core
    }

    #[test]
    fn what_may_be_in_the_log_is_sent_again_under_a_new_epoch_by_java_and_not_by_the_strict_client() {
        let java = out_of_order(Variant::Java38);
        let stamps: Vec<_> =
            java.accumulator.all().iter().map(|id| java.accumulator.get(*id).unwrap().stamp).collect();
        let stamp = |base_sequence| Some(Stamp { producer_id: 4, epoch: 1, base_sequence });
        assert_eq!(stamps, [stamp(0), stamp(1)]);
        assert!(!out_of_order(Variant::Strict).accumulator.has_incomplete());
    }
}
