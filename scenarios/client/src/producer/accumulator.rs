//! Batches waiting to be sent, per partition and in order: Java's `RecordAccumulator`.

use crate::error::Error;
use crate::records::{self, Buffered, HEADER_BYTES, Stamp, UNSTAMPED};
use crate::types::{RecordMetadata, TopicPartition};
use bytes::Bytes;
use rt::time::Instant;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use tokio::sync::oneshot;

/// Tells the application what became of a record.
pub(crate) type Promise = oneshot::Sender<Result<RecordMetadata, Error>>;

/// Records that are sent, and succeed or fail, together.
pub(crate) struct Batch {
    pub(crate) partition: TopicPartition,
    pub(crate) records: Vec<Buffered>,
    promises: Vec<Promise>,
    size_bytes: usize,
    pub(crate) created_at: Instant,
    /// Times it was sent.
    pub(crate) attempts: u32,
    retry_at: Instant,
    /// Given when it is first drained; retries keep it, and with it their bytes.
    pub(crate) stamp: Option<Stamp>,
    /// It was put back to be sent again.
    pub(crate) retried: bool,
    /// Its sequence was changed after it was first given.
    pub(crate) renumbered: bool,
    /// The client's transaction it belongs to.
    pub(crate) txn: u64,
    transactional: bool,
}

impl Batch {
    /// The number of records.
    pub(crate) fn count(&self) -> i32 {
        self.records.len() as i32
    }

    /// The bytes to send.
    pub(crate) fn encode(&self) -> Bytes {
        records::encode(&self.records, self.stamp.unwrap_or(UNSTAMPED), self.transactional)
    }

    /// Tells the application. `outcome` is the first record's offset, or why there is none.
    pub(crate) fn finish(self, outcome: Result<i64, Error>) {
        for (i, promise) in (0i64..).zip(self.promises) {
            let result = outcome.clone().map(|base| RecordMetadata {
                partition: self.partition.clone(),
                // Without a base offset (-1) there is none for the others either.
                offset: if base < 0 { base } else { base + i },
            });
            // The application may not care.
            let _ = promise.send(result);
        }
    }
}

/// The keys of the configuration that concern batches.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    /// Whose batches they are: the entity of their choices.
    pub(crate) owner: String,
    pub(crate) batch_bytes: usize,
    pub(crate) linger: Duration,
    pub(crate) delivery_timeout: Duration,
    pub(crate) retry_backoff: Duration,
    pub(crate) retry_backoff_max: Duration,
}

/// All unfinished batches.
pub(crate) struct Accumulator {
    limits: Limits,
    batches: BTreeMap<u64, Batch>,
    /// Batches not in flight, oldest first; those to be retried come before new ones.
    queues: BTreeMap<TopicPartition, VecDeque<u64>>,
    next_id: u64,
}

impl Accumulator {
    pub(crate) fn new(limits: Limits) -> Self {
        Accumulator { limits, batches: BTreeMap::new(), queues: BTreeMap::new(), next_id: 0 }
    }

    /// Adds a record to the last open batch of its partition, or to a new one.
    pub(crate) fn append(
        &mut self,
        partition: &TopicPartition,
        record: Buffered,
        txn: Option<u64>,
        now: Instant,
    ) -> oneshot::Receiver<Result<RecordMetadata, Error>> {
        let size = record.size_bytes();
        let (promise, result) = oneshot::channel();
        let queue = self.queues.entry(partition.clone()).or_default();
        let open = queue.back().and_then(|id| self.batches.get_mut(id));
        let limit = self.limits.batch_bytes;
        match open
            .filter(|batch| batch.stamp.is_none() && batch.attempts == 0 && batch.size_bytes + size <= limit)
        {
            Some(batch) => {
                batch.records.push(record);
                batch.promises.push(promise);
                batch.size_bytes += size;
            }
            None => {
                let batch = Batch {
                    partition: partition.clone(),
                    records: vec![record],
                    promises: vec![promise],
                    size_bytes: HEADER_BYTES + size,
                    created_at: now,
                    attempts: 0,
                    retry_at: now,
                    stamp: None,
                    retried: false,
                    renumbered: false,
                    txn: txn.unwrap_or(0),
                    transactional: txn.is_some(),
                };
                queue.push_back(self.next_id);
                self.batches.insert(self.next_id, batch);
                self.next_id += 1;
            }
        }
        result
    }

    pub(crate) fn get(&self, id: u64) -> Option<&Batch> {
        self.batches.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: u64) -> Option<&mut Batch> {
        self.batches.get_mut(&id)
    }

    /// Whether any batch is unfinished.
    pub(crate) fn has_incomplete(&self) -> bool {
        !self.batches.is_empty()
    }

    /// Partitions with something to send.
    pub(crate) fn partitions(&self) -> Vec<TopicPartition> {
        self.queues
            .iter()
            .filter(|(_, queue)| !queue.is_empty())
            .map(|(partition, _)| partition.clone())
            .collect()
    }

    /// The first queued batch of a partition.
    pub(crate) fn first(&self, partition: &TopicPartition) -> Option<u64> {
        self.queues.get(partition)?.front().copied()
    }

    /// When the first queued batch of a partition may go: after its linger or its backoff, at once if it is full, has
    /// a successor, or must not wait (`flushing`).
    pub(crate) fn sendable_at(&self, partition: &TopicPartition, flushing: bool) -> Option<Instant> {
        let queue = self.queues.get(partition)?;
        let batch = self.batches.get(queue.front()?)?;
        Some(if batch.attempts > 0 {
            batch.retry_at
        } else if flushing || queue.len() > 1 || batch.size_bytes >= self.limits.batch_bytes {
            batch.created_at
        } else {
            batch.created_at + self.limits.linger
        })
    }

    /// Takes the first batch of a partition out of its queue, to be sent.
    pub(crate) fn drain(&mut self, partition: &TopicPartition) -> Option<u64> {
        let id = self.queues.get_mut(partition)?.pop_front()?;
        if let Some(batch) = self.batches.get_mut(&id) {
            batch.attempts += 1;
        }
        Some(id)
    }

    /// Puts a batch back, to be sent again, in the order of sequences (or of age).
    pub(crate) fn requeue(&mut self, id: u64, now: Instant) {
        let Some(batch) = self.batches.get_mut(&id) else { return };
        let limits = &self.limits;
        let doubled = limits.retry_backoff.saturating_mul(1 << batch.attempts.saturating_sub(1).min(20));
        let term = doubled.min(limits.retry_backoff_max);
        let ordinal = (id << 16) | u64::from(batch.attempts);
        let jitter = rt::choice("producer.retry-backoff", limits.owner.as_str(), ordinal);
        batch.retried = true;
        batch.retry_at = now + jitter.duration(term * 4 / 5, term * 6 / 5);
        let queue = self.queues.entry(batch.partition.clone()).or_default();
        // Ids are given in the order of sequences.
        let at = queue.iter().position(|queued| *queued > id).unwrap_or(queue.len());
        queue.insert(at, id);
    }

    /// Takes a finished batch out.
    pub(crate) fn remove(&mut self, id: u64) -> Option<Batch> {
        let batch = self.batches.remove(&id)?;
        if let Some(queue) = self.queues.get_mut(&batch.partition) {
            queue.retain(|queued| *queued != id);
        }
        Some(batch)
    }

    /// Batches older than `delivery.timeout.ms`.
    pub(crate) fn expired(&self, now: Instant) -> Vec<u64> {
        let old = |batch: &Batch| batch.created_at + self.limits.delivery_timeout <= now;
        self.batches.iter().filter(|(_, batch)| old(batch)).map(|(id, _)| *id).collect()
    }

    /// Whether `delivery.timeout.ms` is over for a batch.
    pub(crate) fn is_expired(&self, id: u64, now: Instant) -> bool {
        self.batches.get(&id).is_some_and(|batch| batch.created_at + self.limits.delivery_timeout <= now)
    }

    /// Queued batches that were never drained (they have no sequence and no attempt).
    pub(crate) fn undrained(&self) -> Vec<u64> {
        let queued = self.queues.values().flatten().copied();
        queued.filter(|id| self.batches[id].attempts == 0).collect()
    }

    /// Whether no batch is on the wire: all are in a queue.
    pub(crate) fn is_quiet(&self) -> bool {
        self.queues.values().map(VecDeque::len).sum::<usize>() == self.batches.len()
    }

    /// All unfinished batches.
    pub(crate) fn all(&self) -> Vec<u64> {
        self.batches.keys().copied().collect()
    }

    /// When something is due next, after `now`: a batch may be sent, or expires.
    pub(crate) fn next_due(&self, flushing: bool, now: Instant) -> Option<Instant> {
        let sendable = self.queues.keys().filter_map(|partition| self.sendable_at(partition, flushing));
        let expiry = self.batches.values().map(|batch| batch.created_at + self.limits.delivery_timeout);
        sendable.chain(expiry).filter(|due| *due > now).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::RECORD_OVERHEAD_BYTES;

    const START: Instant = Instant::from_nanos(0);

    fn accumulator() -> Accumulator {
        Accumulator::new(Limits {
            owner: "p".to_string(),
            batch_bytes: HEADER_BYTES + 2 * (RECORD_OVERHEAD_BYTES + 1),
            linger: Duration::from_millis(5),
            delivery_timeout: Duration::from_secs(10),
            retry_backoff: Duration::from_millis(100),
            retry_backoff_max: Duration::from_secs(1),
        })
    }

    fn append(accumulator: &mut Accumulator) -> oneshot::Receiver<Result<RecordMetadata, Error>> {
        let value = Bytes::from_static(b"v");
        let record = Buffered { timestamp_ms: 0, key: None, value, headers: Vec::new() };
        accumulator.append(&p0(), record, Some(1), START)
    }

    fn p0() -> TopicPartition {
        TopicPartition::new("t", 0)
    }

    #[test]
    fn a_batch_waits_for_its_linger_unless_it_is_full_or_must_go() {
        let mut accumulator = accumulator();
        append(&mut accumulator);
        assert_eq!(accumulator.sendable_at(&p0(), false), Some(START + Duration::from_millis(5)));
        assert_eq!(accumulator.sendable_at(&p0(), true), Some(START));
        append(&mut accumulator);
        assert_eq!(accumulator.sendable_at(&p0(), false), Some(START));
        append(&mut accumulator);
        assert_eq!(accumulator.all(), [0, 1], "the third record opens a second batch");
    }

    #[test]
    fn a_retried_batch_goes_before_newer_ones_and_after_its_backoff() {
        let mut accumulator = accumulator();
        for _ in 0..6 {
            append(&mut accumulator);
        }
        assert_eq!([accumulator.drain(&p0()), accumulator.drain(&p0())], [Some(0), Some(1)]);
        accumulator.requeue(1, START);
        accumulator.requeue(0, START);
        assert_eq!(accumulator.undrained(), [2]);
        let due = accumulator.sendable_at(&p0(), true).unwrap() - START;
        assert!((80..=120).contains(&due.as_millis()), "{due:?}");
        assert_eq!([accumulator.drain(&p0()), accumulator.drain(&p0())], [Some(0), Some(1)]);
    }

    #[test]
    fn each_record_learns_its_own_offset() {
        let mut accumulator = accumulator();
        let (mut first, mut second) = (append(&mut accumulator), append(&mut accumulator));
        accumulator.remove(0).unwrap().finish(Ok(40));
        assert_eq!(first.try_recv().unwrap().unwrap().offset, 40);
        assert_eq!(second.try_recv().unwrap().unwrap().offset, 41);
        assert!(!accumulator.has_incomplete());
    }

    #[test]
    fn delivery_time_counts_from_the_first_append() {
        let mut accumulator = accumulator();
        append(&mut accumulator);
        assert_eq!(accumulator.expired(START + Duration::from_millis(9_999)), [0; 0]);
        assert_eq!(accumulator.expired(START + Duration::from_secs(10)), [0]);
    }
}
