//! A producer: Java's `KafkaProducer`.
//!
//! The application side (here) appends records and asks for transitions under a lock, and waits at most
//! `max.block.ms`. A sender task does the talking. They share [`core::Core`], which is plain data and never waits.
//!
//! * [`core`]: the shared state, and what the application may do to it
//! * [`accumulator`]: batches waiting to be sent
//! * [`sequences`]: sequence numbers per partition
//! * [`transaction`]: the transaction manager
//! * [`classify`]: what each error code means to each transactional request
//! * [`outcome`]: what becomes of a batch when its request ends
//! * [`sender`], [`batches`]: the loop

mod accumulator;
mod batches;
mod classify;
mod core;
mod outcome;
mod requests;
mod sender;
mod sequences;
mod transaction;

use self::core::{Closing, Core};
use self::sender::Sender;
use self::transaction::{GroupOffsets, Wait};
use crate::config::ProducerConfig;
use crate::error::Error;
use crate::flaws::Model;
use crate::group::GroupMetadata;
use crate::told::Teller;
use crate::types::{ProducerRecord, RecordMetadata, TopicPartition};
use rt::time::{Instant, sleep_until, timeout_at};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{Notify, oneshot};

/// What the application and the sender task share.
struct Shared {
    core: Mutex<Core>,
    /// Wakes the sender.
    wake: Notify,
    /// Says that leaders may have changed.
    metadata: Teller<u64>,
}

impl Shared {
    fn core(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// A Kafka producer. Dropping it closes its connections at once, as `close(0)` does.
pub struct Producer {
    shared: Arc<Shared>,
    sender: rt::JoinHandle<()>,
    id: String,
    max_block: Duration,
}

impl Producer {
    /// Starts a producer and its sender task. Nothing is sent before the first call that needs it.
    pub fn new(config: ProducerConfig, model: Model) -> Self {
        let id = config.client_id.clone();
        let max_block = Duration::from_millis(config.max_block_ms);
        let shared = Arc::new(Shared {
            core: Mutex::new(Core::new(config, model)),
            wake: Notify::new(),
            metadata: Teller::new(0),
        });
        let sender = rt::spawn("client.producer", Sender::new(shared.clone()).run());
        Producer { shared, sender, id, max_block }
    }

    /// Gets a producer id and epoch, and so fences every older producer with the same transactional id.
    ///
    /// # Errors
    /// [`Error::Timeout`] after `max.block.ms`: the request goes on, and calling again waits for it.
    pub async fn init_transactions(&self) -> Result<(), Error> {
        let wait = self.shared.core().transactions.init()?;
        self.shared.wake.notify_one();
        self.wait(wait, "init_transactions").await
    }

    /// Begins a transaction and returns its number, which counts this producer's transactions from 1.
    ///
    /// # Errors
    /// [`Error::IllegalState`] before `init_transactions`, inside a transaction, or while a timed-out operation is
    /// pending.
    pub fn begin_transaction(&self) -> Result<u64, Error> {
        let number = self.shared.core().transactions.begin()?;
        rt::event!("producer.begin", id = &self.id, txn = number);
        Ok(number)
    }

    /// Appends a record to a batch, waiting up to `max.block.ms` until its partition is known. The future returned
    /// yields where it was written.
    ///
    /// # Errors
    /// [`Error::Timeout`] if the partition stays unknown, and whatever makes sending illegal.
    pub async fn send(&self, record: ProducerRecord) -> Result<Delivery, Error> {
        let deadline = Instant::now() + self.max_block;
        let metadata = self.shared.metadata.listen();
        loop {
            let version = metadata.get();
            let appended = self.shared.core().append(&record, Instant::now());
            self.shared.wake.notify_one();
            if let Some(result) = appended? {
                return Ok(Delivery(result));
            }
            match timeout_at(deadline, metadata.wait_for(|now| *now != version)).await {
                Ok(Ok(_)) => {}
                Ok(Err(_)) => return Err(Error::Closed),
                Err(_) => return Err(Error::Timeout("metadata")),
            }
        }
    }

    /// Commits offsets of a consumer group with the transaction (`sendOffsetsToTransaction`, KIP-447), waiting up to
    /// `max.block.ms`.
    ///
    /// # Errors
    /// [`Error::CommitFailed`] if the member that `group` names is in the group no more: abort. [`Error::Timeout`].
    pub async fn send_offsets_to_transaction(
        &self,
        offsets: BTreeMap<TopicPartition, i64>,
        group: &GroupMetadata,
    ) -> Result<(), Error> {
        let (txn, wait) = {
            let mut core = self.shared.core();
            let told = GroupOffsets { group: group.clone(), offsets: offsets.clone() };
            let wait = core.transactions.send_offsets(told)?;
            (core.transactions.number(), wait)
        };
        for (partition, offset) in &offsets {
            rt::event!(
                "producer.offsets",
                id = &self.id,
                txn = txn,
                member = &group.member_id,
                generation = group.generation_id,
                partition = &partition.to_string(),
                offset = *offset
            );
        }
        self.shared.wake.notify_one();
        let deadline = Instant::now() + self.max_block;
        match timeout_at(deadline, wait.wait_for(Option::is_some)).await {
            Ok(Ok(result)) => result.unwrap_or(Err(Error::Closed)),
            Ok(Err(_)) => Err(Error::Closed),
            Err(_) => Err(Error::Timeout("send_offsets_to_transaction")),
        }
    }

    /// Commits the transaction.
    ///
    /// # Errors
    /// [`Error::Timeout`] after `max.block.ms`: the request goes on, its outcome is unknown, and only
    /// `commit_transaction` again is legal (or giving the producer up). [`Error::OutcomeUnknown`] from a client with
    /// [limits](crate::Persistence): only `abort_transaction` is of use then.
    pub async fn commit_transaction(&self) -> Result<(), Error> {
        self.end(true, "commit_transaction").await
    }

    /// Aborts the transaction. Records not sent yet are dropped.
    ///
    /// # Errors
    /// As [`Producer::commit_transaction`].
    pub async fn abort_transaction(&self) -> Result<(), Error> {
        self.end(false, "abort_transaction").await
    }

    /// Waits up to `timeout` for everything sent to be acknowledged, then aborts an open transaction, fails what is
    /// left, and closes the connections. Bytes already written may still be executed.
    pub async fn close(mut self, timeout: Duration) {
        let closing = if timeout.is_zero() { Closing::Now } else { Closing::Soon };
        self.shared.core().closing = Some(closing);
        self.shared.wake.notify_one();
        let deadline = Instant::now() + timeout;
        tokio::select! {
            biased;
            // The sender has ended, or was ended: either way nothing is left to wait for.
            _ = &mut self.sender => {}
            () = sleep_until(deadline) => self.shared.core().closing = Some(Closing::Now),
        }
    }

    async fn end(&self, commit: bool, what: &'static str) -> Result<(), Error> {
        let (txn, wait, ends_nothing) = {
            let mut core = self.shared.core();
            let asked_before = core.transactions.is_pending();
            let ends_nothing = core.transactions.ends_nothing();
            let wait = core.transactions.end(commit)?;
            let txn = core.transactions.number();
            if !asked_before && !ends_nothing {
                rt::event!("producer.ending", id = &self.id, txn = txn, committed = commit);
            }
            (txn, wait, ends_nothing)
        };
        self.shared.wake.notify_one();
        let result = self.wait(wait, what).await;
        if ends_nothing {
            return result;
        }
        let outcome = result.as_ref().err().map_or("ok", Error::word);
        rt::event!("producer.end", id = &self.id, txn = txn, committed = commit, outcome = outcome);
        result
    }

    async fn wait(&self, wait: Wait, what: &'static str) -> Result<(), Error> {
        let deadline = Instant::now() + self.max_block;
        let result = match timeout_at(deadline, wait.wait_for(Option::is_some)).await {
            Ok(Ok(result)) => result.unwrap_or(Err(Error::Closed)),
            Ok(Err(_)) => Err(Error::Closed),
            Err(_) => {
                self.shared.core().transactions.timed_out(what);
                return Err(Error::Timeout(what));
            }
        };
        self.shared.core().transactions.acknowledge();
        result
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        self.shared.core().closing.get_or_insert(Closing::Now);
        self.shared.wake.notify_one();
    }
}

/// The fate of one record, as a future. Dropping it changes nothing.
pub struct Delivery(oneshot::Receiver<Result<RecordMetadata, Error>>);

impl Future for Delivery {
    type Output = Result<RecordMetadata, Error>;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map(|result| result.unwrap_or(Err(Error::Closed)))
    }
}
