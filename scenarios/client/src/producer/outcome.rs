//! What becomes of a batch when its request ends: Java's `Sender.completeBatch` and `failBatch`.
//!
//! A batch too large for the broker is failed, not split: `batch.size` is far below any broker's limit.

use super::core::Core;
use super::transaction::State;
use crate::codes::{self, is_retriable};
use crate::error::Error;
use crate::types::TopicPartition;
use rt::time::Instant;

/// What an answer says about a batch that was not appended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refused {
    pub(crate) code: i16,
    pub(crate) base_offset: i64,
    /// -1 if the broker does not say.
    pub(crate) log_start_offset: i64,
}

impl Refused {
    /// With a code alone.
    pub(crate) fn with(code: i16) -> Self {
        Refused { code, base_offset: -1, log_start_offset: -1 }
    }
}

impl Core {
    /// The broker has appended batch `id` at `base_offset` (-1 if it does not say).
    pub(crate) fn batch_acknowledged(&mut self, id: u64, base_offset: i64) {
        // A batch that has expired meanwhile is gone.
        let Some(batch) = self.accumulator.remove(id) else { return };
        self.sequences.acknowledged(&batch.partition, id, batch.count(), base_offset);
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
    pub(crate) fn batch_refused(&mut self, id: u64, refused: Refused, now: Instant) {
        let Refused { code, base_offset, .. } = refused;
        let Some(attempts) = self.accumulator.get(id).map(|batch| batch.attempts) else { return };
        let retries_left = attempts <= self.config.retries;
        if retries_left && !self.accumulator.is_expired(id, now) && self.is_worth_retrying(id, refused) {
            self.accumulator.requeue(id, now);
        } else if code == codes::DUPLICATE_SEQUENCE_NUMBER {
            self.batch_acknowledged(id, base_offset);
        } else {
            // Java gives the sequence back whenever attempts are left, even if it was time that ran out.
            self.fail_batch(id, Error::Kafka(code), retries_left, false);
        }
    }

    fn is_worth_retrying(&mut self, id: u64, refused: Refused) -> bool {
        let Some(batch) = self.accumulator.get(id) else { return false };
        match refused.code {
            codes::OUT_OF_ORDER_SEQUENCE_NUMBER if self.is_idempotent() => {
                let partition = &batch.partition;
                let earlier_missing = !self.sequences.is_unresolved(partition)
                    && (batch.renumbered || !self.sequences.is_next(partition, id));
                earlier_missing || self.retry_with_new_epoch()
            }
            codes::UNKNOWN_PRODUCER_ID if self.is_idempotent() => {
                // Without a start of the log it cannot tell why; after a restart the others meet the same.
                let wait = refused.log_start_offset < 0 || batch.renumbered;
                let partition = batch.partition.clone();
                wait || self.restart_after_deletion(&partition, refused.log_start_offset)
                    || self.retry_with_new_epoch()
            }
            code => is_retriable(code),
        }
    }

    /// All that this producer wrote to `partition` may have been deleted, and with it what the broker knew of the producer:
    /// a transaction goes on, under sequences from 0.
    fn restart_after_deletion(&mut self, partition: &TopicPartition, log_start_offset: i64) -> bool {
        let deleted = self.sequences.last_acked_offset(partition) < log_start_offset;
        if deleted && self.transactions.is_transactional() {
            self.renumber_one(partition);
        }
        deleted && self.transactions.is_transactional()
    }

    fn retry_with_new_epoch(&mut self) -> bool {
        self.idempotent_bump_required |= !self.transactions.is_transactional();
        self.idempotent_bump_required
    }

    /// `adjust`: its sequence is given back. `unresolved`: whether the broker has seen its sequence is to be settled.
    fn fail_batch(&mut self, id: u64, error: Error, adjust: bool, unresolved: bool) {
        let Some(batch) = self.accumulator.remove(id) else { return };
        let unknown = batch.attempts > 0 && (batch.retried || !error.is_definite());
        let careless = unknown && self.transactions.flaws().keep_epoch_after_unknown_produce;
        if unknown && !careless {
            self.transactions.suspect_batch();
        }
        if unresolved && !careless {
            self.sequences.mark_unresolved(&batch.partition);
        }
        self.transactions.batch_failed(&error, careless);
        let transactional = self.transactions.is_transactional();
        let adjust =
            adjust && !careless && batch.stamp.is_some() && self.transactions.state != State::FatalError;
        self.idempotent_bump_required |= adjust && !transactional;
        let moved = self.sequences.failed(&batch.partition, id, batch.count(), adjust && transactional);
        if error == Error::Kafka(codes::UNKNOWN_PRODUCER_ID) {
            // The broker takes 0 from a producer that it does not know.
            self.sequences.forget(&batch.partition);
        }
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
            let retried = self.accumulator.get(id).is_some_and(|batch| batch.retried);
            let unresolved = retried && self.is_idempotent();
            self.fail_batch(id, Error::Timeout("delivery"), false, unresolved);
        }
    }

    /// Fails batches that were sent and never acknowledged: they may be in the log.
    pub(crate) fn fail_sent(&mut self) {
        for id in self.accumulator.all() {
            if self.accumulator.get(id).is_some_and(|batch| batch.attempts > 0) {
                self.fail_batch(id, Error::Unacknowledged, false, false);
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
    use crate::types::ProducerRecord;
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
            let record = ProducerRecord::new(partition.clone(), value);
            assert!(core.append(&record, now).unwrap().is_some());
            core.drain(&partition).unwrap();
        }
        core.batch_refused(0, Refused::with(codes::NETWORK_EXCEPTION), now);
        core.batch_refused(1, Refused::with(codes::NETWORK_EXCEPTION), now);
        core.drain(&partition).unwrap();
        core.batch_refused(0, Refused::with(codes::OUT_OF_ORDER_SEQUENCE_NUMBER), now);
        assert!(core.idempotent_bump_required);
        core.bump_idempotent_epoch();
        assert_eq!(core.transactions.epoch, 1);
        core
    }

    #[test]
    fn what_may_be_in_the_log_is_sent_again_under_a_new_epoch_by_java_and_not_by_the_strict_client() {
        for variant in [Variant::Java38, Variant::Java4] {
            let java = out_of_order(variant);
            let stamps: Vec<_> =
                java.accumulator.all().iter().map(|id| java.accumulator.get(*id).unwrap().stamp).collect();
            let stamp = |base_sequence| Some(Stamp { producer_id: 4, epoch: 1, base_sequence });
            assert_eq!(stamps, [stamp(0), stamp(1)], "{variant:?}");
        }
        assert!(!out_of_order(Variant::Strict).accumulator.has_incomplete());
    }

    /// 5.6: UNKNOWN_PRODUCER_ID in a transaction. The log begins behind all that was acknowledged: sequences start anew and
    /// the batch goes out again. It does not: the batch fails, the transaction must be aborted, and the next sequence is 0.
    #[test]
    fn a_producer_that_the_broker_has_forgotten_starts_anew_or_aborts() {
        for (log_start_offset, left, next) in [(-1, true, 6), (9, true, 1), (8, false, 0)] {
            let config =
                ProducerConfig { transactional_id: Some("jt1".to_string()), ..ProducerConfig::jepsen() };
            let mut core = Core::new(config, Variant::Java38.model());
            let partition = TopicPartition::new("t", 0);
            (core.transactions.producer_id, core.transactions.state) = (4, State::InTransaction);
            core.leaders.insert(partition.clone(), 1);
            // Five records were acknowledged, the last of them at offset 8.
            core.sequences.assign(&partition, 99, 5);
            core.sequences.acknowledged(&partition, 99, 5, 4);
            let now = Instant::from_nanos(0);
            core.append(&ProducerRecord::new(partition.clone(), "a"), now).unwrap();
            core.drain(&partition).unwrap();
            let refused = Refused { log_start_offset, ..Refused::with(codes::UNKNOWN_PRODUCER_ID) };
            core.batch_refused(0, refused, now);
            assert_eq!(core.accumulator.has_incomplete(), left, "{log_start_offset}");
            assert_eq!(core.sequences.assign(&partition, 100, 1), next, "{log_start_offset}");
            let aborts = core.transactions.state == State::AbortableError;
            assert_eq!(aborts, !left);
        }
    }
}
