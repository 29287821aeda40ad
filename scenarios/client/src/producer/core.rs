//! What the application and the sender task share: plain data that never waits.

use super::accumulator::{Accumulator, Limits};
use super::sequences::Sequences;
use super::transaction::{State, TransactionManager};
use crate::config::ProducerConfig;
use crate::error::Error;
use crate::flaws::Model;
use crate::records::{Buffered, Stamp};
use crate::types::{ProducerRecord, RecordMetadata, TopicPartition};
use bytes::Bytes;
use rt::time::{Instant, wall_ms};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::sync::oneshot;

/// How the producer is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closing {
    /// After everything is acknowledged and an open transaction aborted.
    Soon,
    /// At once.
    Now,
}

/// The state of a producer.
pub(crate) struct Core {
    pub(crate) config: ProducerConfig,
    pub(crate) transactions: TransactionManager,
    pub(crate) accumulator: Accumulator,
    pub(crate) sequences: Sequences,
    /// The leader of every known partition.
    pub(crate) leaders: BTreeMap<TopicPartition, i32>,
    /// Topics whose partitions somebody waits for.
    pub(crate) wanted: BTreeSet<String>,
    pub(crate) closing: Option<Closing>,
    /// A producer without transactions needs a new epoch, once nothing is on the wire.
    pub(crate) idempotent_bump_required: bool,
}

impl Core {
    pub(crate) fn new(config: ProducerConfig, model: Model) -> Self {
        let limits = Limits {
            owner: config.client_id.clone(),
            batch_bytes: config.batch_size,
            linger: Duration::from_millis(config.linger_ms),
            delivery_timeout: Duration::from_millis(config.delivery_timeout_ms),
            retry_backoff: Duration::from_millis(config.retry_backoff_ms),
            retry_backoff_max: Duration::from_millis(config.retry_backoff_max_ms),
        };
        Core {
            transactions: TransactionManager::new(&config, model),
            accumulator: Accumulator::new(limits),
            sequences: Sequences::default(),
            leaders: BTreeMap::new(),
            wanted: BTreeSet::new(),
            closing: None,
            idempotent_bump_required: false,
            config,
        }
    }

    /// Whether batches carry a producer id. Transactions imply it.
    pub(crate) fn is_idempotent(&self) -> bool {
        self.config.enable_idempotence || self.transactions.is_transactional()
    }

    /// The name by which events and labels know this producer: two with one transactional id have names of their own.
    pub(crate) fn id(&self) -> &str {
        &self.config.client_id
    }

    /// Appends a record; `None` when its partition is not known yet.
    pub(crate) fn append(
        &mut self,
        record: &ProducerRecord,
        now: Instant,
    ) -> Result<Option<oneshot::Receiver<Result<RecordMetadata, Error>>>, Error> {
        if self.closing.is_some() {
            return Err(Error::Closed);
        }
        self.transactions.may_send()?;
        let buffered = Buffered {
            timestamp_ms: record.timestamp_ms.unwrap_or_else(wall_ms),
            key: record.key.clone(),
            value: record.value.clone(),
            headers: record.headers.clone(),
        };
        let size_bytes = buffered.size_bytes();
        if size_bytes > self.config.max_request_size {
            return Err(Error::RecordTooLarge { size_bytes });
        }
        if !self.leaders.contains_key(&record.partition) {
            self.wanted.insert(record.partition.topic.clone());
            return Ok(None);
        }
        self.transactions.register(&record.partition);
        let txn = self.transactions.is_transactional().then(|| self.transactions.number());
        if let Some(txn) = txn {
            rt::observe::intent(self.id(), txn, &record.partition.to_string(), &record.value);
        }
        Ok(Some(self.accumulator.append(&record.partition, buffered, txn, now)))
    }

    /// Whether batches go out without waiting for company.
    pub(crate) fn is_flushing(&self) -> bool {
        self.transactions.is_completing() || self.closing.is_some()
    }

    /// Whether the first batch of `partition` may be sent now.
    pub(crate) fn may_drain(&self, partition: &TopicPartition, now: Instant) -> bool {
        let Some(first) = self.accumulator.first(partition) else { return false };
        if self.accumulator.sendable_at(partition, self.is_flushing()).is_none_or(|due| due > now) {
            return false;
        }
        if !self.is_idempotent() {
            return true;
        }
        if !self.transactions.may_drain(partition) || self.idempotent_bump_required {
            return false;
        }
        let numbered = self.accumulator.get(first).is_some_and(|batch| batch.stamp.is_some());
        match self.sequences.first_in_flight(partition) {
            // While a batch waits to be retried, only the lowest sequence goes out.
            Some(lowest) if numbered => lowest == first,
            _ => numbered || !self.sequences.is_unresolved(partition),
        }
    }

    /// Takes the first batch of `partition` out to be sent, with its sequence. A retry keeps the one it has.
    pub(crate) fn drain(&mut self, partition: &TopicPartition) -> Option<(u64, Bytes)> {
        let id = self.accumulator.drain(partition)?;
        let idempotent = self.is_idempotent();
        let batch = self.accumulator.get_mut(id)?;
        if idempotent && batch.stamp.is_none() {
            batch.stamp = Some(Stamp {
                producer_id: self.transactions.producer_id,
                epoch: self.transactions.epoch,
                base_sequence: self.sequences.assign(partition, id, batch.count()),
            });
        }
        Some((id, batch.encode()))
    }

    /// Settles sequences that an expired batch left open.
    pub(crate) fn resolve_sequences(&mut self) {
        if self.sequences.resolve() {
            if self.transactions.is_transactional() {
                self.transactions.sequence_gap();
            } else {
                self.idempotent_bump_required = true;
            }
        }
    }

    /// Gives a producer without transactions the epoch it needs. KIP-360: it does so by itself, without a request.
    pub(crate) fn bump_idempotent_epoch(&mut self) {
        if !self.idempotent_bump_required || !self.accumulator.is_quiet() {
            return;
        }
        self.idempotent_bump_required = false;
        if !self.transactions.flaws().resend_under_new_epoch {
            self.fail_sent();
        }
        if self.transactions.epoch == i16::MAX {
            self.transactions.state = State::Uninitialized;
            self.transactions.producer_id = -1;
            self.transactions.init_idempotent();
        } else {
            self.transactions.epoch += 1;
            self.renumber();
        }
    }

    /// A producer id or epoch is new: sequences start at 0.
    pub(crate) fn renumber(&mut self) {
        let accumulator = &self.accumulator;
        let moved = self.sequences.restart(|id| accumulator.get(id).map_or(0, |batch| batch.count()));
        self.restamp(moved);
    }

    /// The broker has forgotten the producer on `partition`: sequences start at 0 there, under the same epoch.
    pub(crate) fn renumber_one(&mut self, partition: &TopicPartition) {
        let accumulator = &self.accumulator;
        let count_of = |id| accumulator.get(id).map_or(0, |batch| batch.count());
        let moved = self.sequences.restart_one(partition, count_of);
        self.restamp(moved);
    }

    fn restamp(&mut self, moved: Vec<(u64, i32)>) {
        let (producer_id, epoch) = (self.transactions.producer_id, self.transactions.epoch);
        for (id, base_sequence) in moved {
            if let Some(batch) = self.accumulator.get_mut(id) {
                batch.stamp = Some(Stamp { producer_id, epoch, base_sequence });
                batch.renumbered = true;
            }
        }
    }
}
