//! The transaction manager: which calls are legal, and which request comes next. Java 3.8's `TransactionManager`.
//!
//! It decides and never waits. The application side asks for transitions; the sender takes requests out, one at a
//! time, and brings their answers back. A request that got no answer is sent again, the same bytes, after the
//! coordinator has been looked up: there is no limit to that, only the application's wait is bounded.
//!
//! Here: state, what the application asks for, and which request goes next. `request`: the requests and their queue.
//! `reply`: what their answers change. `doubt`: what may still be under way. `unconfirmed`: what clients do that give a request
//! up.

mod doubt;
mod reply;
mod request;
mod unconfirmed;

pub(crate) use request::{Call, GroupOffsets, Reply, TxnRequest};

use self::request::outcome;
use crate::codes;
use crate::config::ProducerConfig;
use crate::error::Error;
use crate::flaws::{Flaws, Model};
use crate::producer::classify::Rpc;
use crate::told::Told;
use crate::types::TopicPartition;
use rt::time::Instant;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How the application waits for an operation; `None` until it is over.
pub(crate) type Wait = Told<Option<Result<(), Error>>>;

/// Java's `TransactionManager.State`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Uninitialized,
    Initializing,
    Ready,
    InTransaction,
    Committing,
    Aborting,
    AbortableError,
    FatalError,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Init,
    Commit,
    Abort,
}

/// State of one producer's id, epoch and transaction.
pub(crate) struct TransactionManager {
    /// `client.id`, by which events know the producer.
    name: String,
    transactional: bool,
    model: Model,
    retry_backoff_ms: u64,
    pub(crate) state: State,
    last_error: Option<Error>,
    pub(crate) producer_id: i64,
    pub(crate) epoch: i16,
    pub(crate) coordinator: Option<i32>,
    pub(crate) group_coordinator: Option<i32>,
    /// Whether the coordinator knows `InitProducerId` 3, which can bump an epoch.
    pub(crate) can_bump_epoch: bool,
    /// It speaks TV2: `Produce` brings partitions into the transaction, and every `EndTxn` answers the producer id and
    /// epoch of the next one.
    second_protocol: bool,
    /// The number of the current or last transaction, from 1.
    number: u64,
    new_partitions: BTreeSet<TopicPartition>,
    partitions: BTreeSet<TopicPartition>,
    /// The coordinator knows of the transaction.
    started: bool,
    epoch_bump_required: bool,
    /// A copy of a request of this transaction may still be under way.
    suspicious: bool,
    /// Only a client with limits: the next thing is a new epoch, and it aborts.
    reload_required: bool,
    /// Counts operations given up: the ends of their requests concern nobody.
    round: u64,
    queue: BTreeMap<(u8, u64), TxnRequest>,
    queued: u64,
    pending: Option<(Operation, Wait)>,
}

impl TransactionManager {
    pub(crate) fn new(config: &ProducerConfig, model: Model) -> Self {
        TransactionManager {
            name: config.client_id.clone(),
            transactional: config.transactional_id.is_some(),
            model,
            retry_backoff_ms: config.retry_backoff_ms,
            state: State::Uninitialized,
            last_error: None,
            producer_id: -1,
            epoch: -1,
            coordinator: None,
            group_coordinator: None,
            can_bump_epoch: true,
            second_protocol: false,
            number: 0,
            new_partitions: BTreeSet::new(),
            partitions: BTreeSet::new(),
            started: false,
            epoch_bump_required: false,
            suspicious: false,
            reload_required: false,
            round: 0,
            queue: BTreeMap::new(),
            queued: 0,
            pending: None,
        }
    }

    pub(crate) fn is_transactional(&self) -> bool {
        self.transactional
    }

    /// The number of the current or last transaction.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Whether its requests say which transaction they are of.
    pub(crate) fn is_numbered(&self) -> bool {
        self.transactional && self.model.numbers_transactions
    }

    /// What this client gets wrong.
    pub(crate) fn flaws(&self) -> &Flaws {
        &self.model.flaws
    }

    /// Whether it speaks TV2.
    pub(crate) fn speaks_second_protocol(&self) -> bool {
        self.second_protocol
    }

    /// The coordinator has finalized this level of `transaction.version`. It decides the protocol for the producer's
    /// life; Java follows a later change (KAFKA-18227).
    pub(crate) fn learn_transaction_version(&mut self, finalized: i16) {
        self.second_protocol = self.model.transaction_version.min(finalized) >= 2;
    }

    /// Whether it asks for new epochs by itself; under TV2 the end of each transaction brings one.
    pub(super) fn bumps_epochs(&self) -> bool {
        self.can_bump_epoch && !self.second_protocol
    }

    pub(crate) fn is_completing(&self) -> bool {
        matches!(self.state, State::Committing | State::Aborting)
    }

    pub(crate) fn last_error(&self) -> Option<&Error> {
        self.last_error.as_ref()
    }

    /// Whether the application has an operation whose end it has not taken note of.
    pub(crate) fn is_pending(&self) -> bool {
        self.pending.is_some()
    }

    // ---- what the application asks for ----

    /// `initTransactions`.
    pub(crate) fn init(&mut self) -> Result<Wait, Error> {
        self.operation(Operation::Init, |this| {
            this.fail_with_last_error()?;
            if this.state != State::Uninitialized {
                return Err(Error::IllegalState("init_transactions was called before"));
            }
            this.state = State::Initializing;
            Ok(this.enqueue_init(-1, -1, None))
        })
    }

    /// `beginTransaction`; the new transaction's number.
    pub(crate) fn begin(&mut self) -> Result<u64, Error> {
        self.refuse_while_pending()?;
        self.fail_with_last_error()?;
        if !self.is_transactional() || self.state != State::Ready {
            return Err(Error::IllegalState(
                "begin_transaction needs an initialised producer outside a transaction",
            ));
        }
        self.state = State::InTransaction;
        self.number += 1;
        Ok(self.number)
    }

    /// Whether a record may be sent now.
    pub(crate) fn may_send(&self) -> Result<(), Error> {
        self.refuse_while_pending()?;
        self.fail_with_last_error()?;
        if self.is_transactional() && self.state != State::InTransaction {
            return Err(Error::IllegalState("send needs an open transaction"));
        }
        Ok(())
    }

    /// A record of this transaction goes to `partition`.
    pub(crate) fn register(&mut self, partition: &TopicPartition) {
        if !self.is_transactional() || self.partitions.contains(partition) {
            return;
        }
        if self.second_protocol {
            // The coordinator must hear of its end, even if no batch gets there.
            self.started = true;
            self.partitions.insert(partition.clone());
        } else {
            self.new_partitions.insert(partition.clone());
        }
    }

    /// `sendOffsetsToTransaction`. Under TV2 the offsets bring the group into the transaction by themselves.
    pub(crate) fn send_offsets(&mut self, offsets: GroupOffsets) -> Result<Wait, Error> {
        self.refuse_while_pending()?;
        self.fail_with_last_error()?;
        if self.state != State::InTransaction {
            return Err(Error::IllegalState("there is no transaction to send offsets to"));
        }
        let (producer_id, epoch, offsets) = (self.producer_id, self.epoch, Arc::new(offsets));
        let (result, wait) = outcome();
        let call = if self.second_protocol {
            self.started = true;
            Call::TxnOffsetCommit { producer_id, epoch, offsets }
        } else {
            Call::AddOffsetsToTxn { producer_id, epoch, offsets }
        };
        self.enqueue(call, Some(result), 0);
        Ok(wait)
    }

    /// `commitTransaction` and `abortTransaction`.
    pub(crate) fn end(&mut self, commit: bool) -> Result<Wait, Error> {
        let operation = if commit { Operation::Commit } else { Operation::Abort };
        self.operation(operation, |this| {
            if this.ends_nothing() {
                let (result, wait) = outcome();
                result.tell(Some(Ok(())));
                return Ok(wait);
            }
            let aborts_error = !commit && this.state == State::AbortableError;
            if !aborts_error {
                this.fail_with_last_error()?;
                if this.state != State::InTransaction {
                    return Err(Error::IllegalState("there is no transaction to end"));
                }
            }
            Ok(this.begin_end(commit))
        })
    }

    fn begin_end(&mut self, committed: bool) -> Wait {
        if self.reload_required {
            return self.abort_by_reload();
        }
        let pid_unknown = matches!(self.last_error, Some(Error::Kafka(codes::INVALID_PRODUCER_ID_MAPPING)));
        self.state = if committed { State::Committing } else { State::Aborting };
        if !committed {
            self.new_partitions.clear();
        }
        self.enqueue_add_partitions();
        let (result, mut wait) = outcome();
        if !(pid_unknown && self.epoch_bump_required) {
            let call = Call::EndTxn { producer_id: self.producer_id, epoch: self.epoch, committed };
            self.enqueue(call, Some(result), 0);
        }
        if self.epoch_bump_required {
            wait = self.enqueue_init(self.producer_id, self.epoch, None);
        }
        wait
    }

    /// The application has seen the end of its operation.
    pub(crate) fn acknowledge(&mut self) {
        self.pending = None;
    }

    fn operation(
        &mut self,
        operation: Operation,
        start: impl FnOnce(&mut Self) -> Result<Wait, Error>,
    ) -> Result<Wait, Error> {
        if !self.is_transactional() {
            return Err(Error::IllegalState("there is no transactional.id"));
        }
        match &self.pending {
            Some((pending, wait)) if *pending == operation => Ok(wait.clone()),
            Some(_) => Err(PENDING),
            None => {
                let wait = start(self)?;
                self.pending = Some((operation, wait.clone()));
                Ok(wait)
            }
        }
    }

    fn refuse_while_pending(&self) -> Result<(), Error> {
        self.pending.as_ref().map_or(Ok(()), |_| Err(PENDING))
    }

    fn fail_with_last_error(&self) -> Result<(), Error> {
        let error = || Box::new(self.last_error.clone().unwrap_or(Error::Closed));
        match self.state {
            State::AbortableError => Err(Error::Abortable(error())),
            State::FatalError => Err(Error::Fatal(error())),
            _ => Ok(()),
        }
    }

    // ---- what the sender asks for ----

    /// Whether batches of `partition` may go out: the coordinator has it in the transaction.
    pub(crate) fn may_drain(&self, partition: &TopicPartition) -> bool {
        self.state != State::FatalError
            && self.producer_id >= 0
            && (!self.is_transactional() || self.partitions.contains(partition))
    }

    /// Asks for a producer id without a transactional one, unless that was done.
    pub(crate) fn init_idempotent(&mut self) {
        if !self.is_transactional() && self.state == State::Uninitialized {
            self.state = State::Initializing;
            self.enqueue_init(-1, -1, None);
        }
    }

    /// The next request, if any may go. `EndTxn` waits until no batch is unfinished.
    pub(crate) fn next_request(&mut self, has_incomplete_batches: bool) -> Option<TxnRequest> {
        self.enqueue_add_partitions();
        loop {
            let (_, first) = self.queue.first_key_value()?;
            let ends = matches!(first.call, Call::EndTxn { .. });
            let aborts = matches!(first.call, Call::EndTxn { committed: false, .. }) && first.tries == 0;
            if ends && has_incomplete_batches {
                return None;
            }
            let (_, request) = self.queue.pop_first()?;
            let lookup_for_abort =
                self.state == State::AbortableError && request.call.rpc() == Rpc::FindCoordinator;
            if let Err(error) = self.fail_with_last_error()
                && !lookup_for_abort
            {
                self.refuse(request, error);
                continue;
            }
            if ends && !self.started {
                // Nothing was added to the transaction, so the coordinator need not hear of its end.
                self.complete(request);
                continue;
            }
            return Some(if aborts && self.distrusts() { self.abort_by_new_epoch(request) } else { request });
        }
    }

    /// `request` goes out now.
    pub(crate) fn sent(&mut self, request: &mut TxnRequest, now: Instant) {
        request.tries += 1;
        request.attempts += 1;
        request.since.get_or_insert(now);
        if request.tries > 1 {
            let call = format!("{:?}", request.call.rpc());
            rt::event!(
                "producer.resend",
                id = &self.name,
                txn = request.txn,
                request = &call,
                attempt = request.tries
            );
        }
    }

    /// Puts a request back that could not be sent.
    pub(crate) fn put_back(&mut self, request: TxnRequest, now: Instant) {
        self.again(request, codes::NETWORK_EXCEPTION, self.retry_backoff_ms, now);
    }

    /// Forgets the coordinator that `call` goes to and asks who it is now.
    pub(crate) fn lookup_for(&mut self, call: &Call) {
        let Call::TxnOffsetCommit { offsets, .. } = call else { return self.lookup_coordinator() };
        self.group_coordinator = None;
        let lookup = Call::FindGroupCoordinator(offsets.group.group_id.clone());
        if !self.queue.values().any(|request| request.call == lookup) {
            self.enqueue(lookup, None, 0);
        }
    }

    /// Forgets the coordinator and asks who it is now.
    fn lookup_coordinator(&mut self) {
        self.coordinator = None;
        if !self.queue.values().any(|request| request.call == Call::FindCoordinator) {
            self.enqueue(Call::FindCoordinator, None, 0);
        }
    }
}

const PENDING: Error = Error::IllegalState("the previous operation timed out and must be retried first");

#[cfg(test)]
mod tests;
