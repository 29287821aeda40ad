//! The agent's way to the coordinator: every call bounded in time, reads as one snapshot, writes as one guarded
//! transaction, and the patience with which a request is tried again.

use crate::codec::{self, Unreadable};
use crate::coordinator::{
    Compare, Coordinator, CoordinatorError, KeyValue, Op, OpResponse, Range, RangeResponse, TXN_OPS_MAX, Txn,
    TxnResponse, Watch,
};
use crate::counters::Counters;
use crate::health::{Dependency, Health};
use bytes::Bytes;
use kafka_protocol::ResponseError;
use rt::time::{Instant, sleep, timeout};
use serde::de::DeserializeOwned;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

/// Why an operation over the coordinator failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fault {
    #[error(transparent)]
    Coordinator(#[from] CoordinatorError),
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
}

impl Fault {
    /// What clients of the transaction, group and metadata APIs are told.
    pub(crate) fn coordinator_error(&self) -> ResponseError {
        match self {
            Fault::Coordinator(CoordinatorError::Unavailable | CoordinatorError::Unknown) => {
                ResponseError::CoordinatorNotAvailable
            }
            Fault::Coordinator(CoordinatorError::Refused(_)) | Fault::Unreadable(_) => {
                ResponseError::UnknownServerError
            }
        }
    }

    /// Whether trying again may help.
    pub(crate) fn passes(&self) -> bool {
        matches!(self, Fault::Coordinator(CoordinatorError::Unavailable | CoordinatorError::Unknown))
    }
}

/// The coordinator behind a time-out.
pub(crate) struct Gate {
    coordinator: Arc<dyn Coordinator>,
    limit: Duration,
    health: Health,
    counters: Counters,
    /// The highest revision that an answer told.
    known: AtomicI64,
}

impl Gate {
    pub(crate) fn new(
        coordinator: Arc<dyn Coordinator>,
        timeout_ms: u64,
        health: Health,
        counters: Counters,
    ) -> Self {
        Gate {
            coordinator,
            limit: Duration::from_millis(timeout_ms),
            health,
            counters,
            known: AtomicI64::new(0),
        }
    }

    /// Reads `ranges` (at most [`TXN_OPS_MAX`]) at one revision.
    pub(crate) async fn read(&self, ranges: Vec<Range>) -> Result<Snapshot, CoordinatorError> {
        debug_assert!(ranges.len() <= TXN_OPS_MAX);
        let success = ranges.into_iter().map(Op::Range).collect();
        Ok(Snapshot::of(self.txn(Txn { success, ..Txn::default() }).await?))
    }

    /// Reads one range.
    pub(crate) async fn range(&self, range: Range) -> Result<RangeResponse, CoordinatorError> {
        let answer = self.bounded(self.coordinator.range(range)).await?;
        self.known.fetch_max(answer.revision, Ordering::Relaxed);
        Ok(answer)
    }

    /// The highest revision of the coordinator that a read or write of this agent has told.
    pub(crate) fn last_known(&self) -> i64 {
        self.known.load(Ordering::Relaxed)
    }

    /// Applies `success` if all compares hold; `None` if they do not.
    ///
    /// # Errors
    /// `Unknown` means that it may have been applied, or may yet be.
    pub(crate) async fn commit(
        &self,
        compares: Vec<Compare>,
        success: Vec<Op>,
    ) -> Result<Option<TxnResponse>, CoordinatorError> {
        debug_assert!(success.len() <= TXN_OPS_MAX && compares.len() <= TXN_OPS_MAX);
        let answer = self.txn(Txn { compares, success, failure: Vec::new() }).await?;
        Ok(answer.succeeded.then_some(answer))
    }

    /// As [`Gate::commit`], but a guard that fails brings what stands in `ranges` now, read at the same revision: another
    /// try needs no read of its own.
    pub(crate) async fn commit_or_read(
        &self,
        compares: Vec<Compare>,
        success: Vec<Op>,
        ranges: Vec<Range>,
    ) -> Result<Result<TxnResponse, Snapshot>, CoordinatorError> {
        debug_assert!([compares.len(), success.len(), ranges.len()].iter().all(|n| *n <= TXN_OPS_MAX));
        let failure = ranges.into_iter().map(Op::Range).collect();
        let answer = self.txn(Txn { compares, success, failure }).await?;
        Ok(if answer.succeeded { Ok(answer) } else { Err(Snapshot::of(answer)) })
    }

    async fn txn(&self, txn: Txn) -> Result<TxnResponse, CoordinatorError> {
        let answer = self.bounded(self.coordinator.txn(txn)).await?;
        self.known.fetch_max(answer.revision, Ordering::Relaxed);
        Ok(answer)
    }

    pub(crate) async fn lease_grant(&self, ttl_s: i64) -> Result<i64, CoordinatorError> {
        self.bounded(self.coordinator.lease_grant(ttl_s)).await
    }

    pub(crate) async fn lease_keep_alive(&self, id: i64) -> Result<i64, CoordinatorError> {
        self.bounded(self.coordinator.lease_keep_alive(id)).await
    }

    pub(crate) async fn lease_revoke(&self, id: i64) -> Result<(), CoordinatorError> {
        self.bounded(self.coordinator.lease_revoke(id)).await
    }

    pub(crate) async fn watch(
        &self,
        prefix: Bytes,
        from_revision: i64,
    ) -> Result<Box<dyn Watch>, CoordinatorError> {
        self.bounded(self.coordinator.watch(prefix, from_revision)).await
    }

    /// Takes the next number of the counter at `key`, which starts at 1. A number whose answer is lost is skipped.
    pub(crate) async fn take_number(&self, key: Bytes) -> Result<i64, Fault> {
        self.take_number_with(key, |_| Vec::new()).await
    }

    /// As [`Gate::take_number`], and writes what belongs to the number with it.
    pub(crate) async fn take_number_with(
        &self,
        key: Bytes,
        belonging: impl Fn(i64) -> Vec<Op>,
    ) -> Result<i64, Fault> {
        loop {
            let mut now = self.read(vec![Range::key(key.clone())]).await?;
            let stored = now.one::<i64>()?;
            let number = stored.value().copied().unwrap_or(1);
            let mut advance = vec![Op::put(key.clone(), codec::encode(&(number + 1)))];
            advance.extend(belonging(number));
            let guard = vec![Compare::unchanged(key.clone(), stored.revision())];
            if self.commit(guard, advance).await?.is_some() {
                return Ok(number);
            }
        }
    }

    async fn bounded<T>(
        &self,
        call: impl Future<Output = Result<T, CoordinatorError>>,
    ) -> Result<T, CoordinatorError> {
        let begun = Instant::now();
        let answer = timeout(self.limit, call).await.unwrap_or(Err(CoordinatorError::Unknown));
        let answers = matches!(answer, Ok(_) | Err(CoordinatorError::Refused(_)));
        self.counters.coordinator_call(begun.elapsed(), answers);
        self.health.note(Dependency::Coordinator, answers);
        answer
    }
}

/// Answers to one read, in the order asked.
pub(crate) struct Snapshot {
    pub(crate) revision: i64,
    responses: std::vec::IntoIter<OpResponse>,
}

impl Snapshot {
    /// The answers to a transaction's operations, in their order.
    pub(crate) fn of(answer: TxnResponse) -> Self {
        Snapshot { revision: answer.revision, responses: answer.responses.into_iter() }
    }

    /// The next range's answer.
    pub(crate) fn next(&mut self) -> RangeResponse {
        match self.responses.next() {
            Some(OpResponse::Range(answer)) => answer,
            _ => RangeResponse::default(),
        }
    }

    /// The last answer that was not taken yet.
    pub(crate) fn last(&mut self) -> RangeResponse {
        match self.responses.next_back() {
            Some(OpResponse::Range(answer)) => answer,
            _ => RangeResponse::default(),
        }
    }

    /// The next answer, of a single key.
    pub(crate) fn one<T: DeserializeOwned>(&mut self) -> Result<Stored<T>, Unreadable> {
        self.next().kvs.pop().map(Stored::read).transpose().map(|kv| kv.unwrap_or(Stored(None)))
    }
}

/// A single key as read: its value if it exists, and what a guard needs.
#[derive(Clone, Debug)]
pub(crate) struct Stored<T>(Option<(T, KeyValue)>);

impl<T: DeserializeOwned> Stored<T> {
    fn read(kv: KeyValue) -> Result<Self, Unreadable> {
        Ok(Stored(Some((codec::decode(&kv.value)?, kv))))
    }
}

impl<T> Stored<T> {
    /// What a key that does not exist reads as.
    pub(crate) fn absent() -> Self {
        Stored(None)
    }

    pub(crate) fn value(&self) -> Option<&T> {
        self.0.as_ref().map(|(value, _)| value)
    }

    pub(crate) fn into_value(self) -> Option<T> {
        self.0.map(|(value, _)| value)
    }

    /// The mod revision; 0 if the key is absent, which is also what a guard compares with then.
    pub(crate) fn revision(&self) -> i64 {
        self.0.as_ref().map_or(0, |(_, kv)| kv.mod_revision)
    }

    /// The create revision; 0 if the key is absent.
    pub(crate) fn create_revision(&self) -> i64 {
        self.0.as_ref().map_or(0, |(_, kv)| kv.create_revision)
    }

    /// The value's bytes; empty if the key is absent.
    pub(crate) fn bytes(&self) -> Bytes {
        self.0.as_ref().map_or_else(Bytes::new, |(_, kv)| kv.value.clone())
    }
}

/// How long something is tried, and how long is waited between two tries.
pub(crate) struct Patience {
    deadline: Instant,
    /// What a try may take: none begins that could not end before the deadline.
    reserve: Duration,
    wait: Duration,
    wait_max: Duration,
}

impl Patience {
    pub(crate) fn new(limit_ms: u64, reserve_ms: u64, backoff_ms: u64) -> Self {
        let wait = Duration::from_millis(backoff_ms);
        Patience {
            deadline: Instant::now() + Duration::from_millis(limit_ms),
            reserve: Duration::from_millis(reserve_ms),
            wait,
            wait_max: wait * 16,
        }
    }

    /// How much of the time allowed is left.
    pub(crate) fn left(&self) -> Duration {
        self.deadline - Instant::now()
    }

    /// Whether the time allowed has run out.
    pub(crate) fn is_over(&self) -> bool {
        Instant::now() >= self.deadline
    }

    /// Waits before the next try; false when there is no time for one.
    pub(crate) async fn pause(&mut self) -> bool {
        if Instant::now() + self.wait + self.reserve > self.deadline {
            return false;
        }
        sleep(self.wait).await;
        self.wait = (self.wait * 2).min(self.wait_max);
        // An agent that was paused wakes late.
        Instant::now() + self.reserve <= self.deadline
    }
}
