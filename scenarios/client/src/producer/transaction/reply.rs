//! What answers, and failures of batches, change.

use super::request::{Call, Reply, TxnRequest};
use super::{State, TransactionManager};
use crate::codes;
use crate::error::Error;
use crate::producer::classify::{Rpc, Verdict, classify};
use rt::time::Instant;

impl TransactionManager {
    /// Takes in the end of `request`.
    pub(crate) fn ended(&mut self, request: TxnRequest, reply: Reply, now: Instant) {
        let rpc = request.call.rpc();
        if request.round != self.round && rpc != Rpc::FindCoordinator {
            return;
        }
        let code = match &reply {
            Reply::Lost => return self.lost(request, now),
            Reply::Coordinator { code, .. }
            | Reply::Producer { code, .. }
            | Reply::Offsets(code)
            | Reply::End { code, .. } => *code,
            Reply::Partitions(codes) => decisive(rpc, codes),
        };
        let error = match (rpc, code) {
            (Rpc::TxnOffsetCommit, codes::ILLEGAL_GENERATION | codes::UNKNOWN_MEMBER_ID) => {
                Error::CommitFailed
            }
            _ => Error::of_transactional(code),
        };
        match self.verdict(rpc, code) {
            Verdict::Done => self.succeeded(request, reply),
            Verdict::Retry => {
                self.suspect_copies_of(&request, code);
                let busy = code == codes::CONCURRENT_TRANSACTIONS && rpc == Rpc::AddPartitionsToTxn;
                // Java waits less for the end of the previous transaction.
                let backoff_ms = if busy && self.partitions.is_empty() { 20 } else { self.retry_backoff_ms };
                self.again(request, code, backoff_ms, now);
            }
            Verdict::Relocate => {
                self.suspect_copies_of(&request, code);
                self.lookup_for(&request.call);
                self.again(request, code, self.retry_backoff_ms, now);
            }
            Verdict::GiveUp => self.give_up(request, code),
            Verdict::Reload => {
                self.needs_reload(Error::Kafka(code));
                self.refuse(request, Error::Kafka(code));
            }
            Verdict::Abortable { .. }
                if rpc == Rpc::InitProducerId && code != codes::TRANSACTION_ABORTABLE =>
            {
                self.state = State::Uninitialized;
                self.resolve(request, Err(error));
            }
            Verdict::Abortable { bump } => {
                self.epoch_bump_required |= bump && self.bumps_epochs();
                self.abortable(error.clone());
                self.refuse(request, error);
            }
            Verdict::Fatal => {
                self.fatal(error.clone());
                self.refuse(request, error);
            }
        }
    }

    fn lost(&mut self, request: TxnRequest, now: Instant) {
        self.suspect_copies_of(&request, codes::NETWORK_EXCEPTION);
        if request.call.rpc() != Rpc::FindCoordinator && self.is_transactional() {
            self.lookup_for(&request.call);
        }
        self.put_back(request, now);
    }

    fn succeeded(&mut self, request: TxnRequest, reply: Reply) {
        match (&request.call, reply) {
            (Call::FindCoordinator, Reply::Coordinator { node, .. }) => {
                self.coordinator = Some(node);
                self.resolve(request, Ok(()));
            }
            (Call::FindGroupCoordinator(_), Reply::Coordinator { node, .. }) => {
                self.group_coordinator = Some(node)
            }
            (Call::InitProducerId { .. }, Reply::Producer { producer_id, epoch, .. }) => {
                self.take_epoch(producer_id, epoch);
                self.state = State::Ready;
                self.last_error = None;
                self.resolve(request, Ok(()));
            }
            (Call::AddPartitionsToTxn { partitions, .. }, _) => {
                self.partitions.extend(partitions.iter().cloned());
                self.started = true;
            }
            (Call::AddOffsetsToTxn { producer_id, epoch, offsets }, _) => {
                self.started = true;
                let (producer_id, epoch, offsets) = (*producer_id, *epoch, offsets.clone());
                self.enqueue(Call::TxnOffsetCommit { producer_id, epoch, offsets }, request.result, 0);
            }
            (Call::TxnOffsetCommit { .. }, _) => self.resolve(request, Ok(())),
            (_, Reply::End { producer_id: producer_id @ 0.., epoch, .. }) => {
                self.take_epoch(producer_id, epoch);
                self.complete(request);
            }
            _ => self.complete(request),
        }
    }

    fn take_epoch(&mut self, producer_id: i64, epoch: i16) {
        (self.producer_id, self.epoch) = (producer_id, epoch);
        rt::event!("producer.epoch", id = &self.name, producer_id = producer_id, epoch = epoch);
    }

    /// The transaction is over.
    pub(super) fn complete(&mut self, request: TxnRequest) {
        let bump_queued = self.queue.values().any(|queued| queued.call.rpc() == Rpc::InitProducerId);
        // Under TV2 the next epoch is there already.
        let distrust =
            self.suspicious && !self.model.flaws.reuse_epoch_after_resend && !self.speaks_second_protocol();
        let bump_required = self.epoch_bump_required;
        self.forget_transaction();
        if bump_queued || bump_required || distrust {
            self.state = State::Initializing;
            if bump_queued || (!distrust && self.model.flaws.forget_bump_while_aborting) {
                self.resolve(request, Ok(()));
            } else {
                // The application learns of the end together with the new epoch, without which it cannot go on.
                self.enqueue_init(self.producer_id, self.epoch, request.result);
            }
        } else {
            self.state = State::Ready;
            self.resolve(request, Ok(()));
        }
    }

    /// Nothing of the last transaction is left.
    pub(super) fn forget_transaction(&mut self) {
        self.last_error = None;
        self.started = false;
        self.suspicious = false;
        self.epoch_bump_required = false;
        self.partitions.clear();
        self.new_partitions.clear();
    }

    /// The transaction has failed and must be aborted.
    pub(crate) fn abortable(&mut self, error: Error) {
        match self.state {
            // It is being aborted already.
            State::Aborting => {}
            State::InTransaction | State::Committing | State::AbortableError | State::Initializing => {
                self.state = State::AbortableError;
                self.last_error = Some(error);
            }
            _ => self.fatal(error),
        }
    }

    /// The producer has failed.
    pub(crate) fn fatal(&mut self, error: Error) {
        self.state = State::FatalError;
        self.last_error = Some(error);
    }

    /// A batch of this transaction failed for good (Java's `maybeTransitionToErrorState`). `keeps_epoch`: whatever became
    /// of it, no new epoch is asked for.
    pub(crate) fn batch_failed(&mut self, error: &Error, keeps_epoch: bool) {
        let fatal = matches!(
            error,
            Error::ProducerFenced
                | Error::Kafka(
                    codes::CLUSTER_AUTHORIZATION_FAILED
                        | codes::TRANSACTIONAL_ID_AUTHORIZATION_FAILED
                        | codes::PRODUCER_FENCED
                        | codes::UNSUPPORTED_VERSION
                )
        );
        if fatal {
            self.fatal(error.clone());
        } else if self.is_transactional() {
            // Java asks for no new epoch while it is completing, even if the batch may yet be appended.
            self.epoch_bump_required |= self.bumps_epochs() && !self.is_completing() && !keeps_epoch;
            self.abortable(error.clone());
        }
    }

    /// Sequences can no longer be told apart (Java's `maybeResolveSequences`).
    pub(crate) fn sequence_gap(&mut self) {
        if self.can_bump_epoch || self.second_protocol {
            self.epoch_bump_required |= self.bumps_epochs();
            self.abortable(Error::Unacknowledged);
        } else {
            self.fatal(Error::Unacknowledged);
        }
    }

    /// Gives up everything, as a forced close does.
    pub(crate) fn close(&mut self) {
        self.fatal(Error::Closed);
        for (_, request) in std::mem::take(&mut self.queue) {
            self.refuse(request, Error::Closed);
        }
    }

    /// Tells the application that the operation behind `request` failed with `error`.
    pub(super) fn refuse(&mut self, request: TxnRequest, error: Error) {
        let resent_end = matches!(request.call, Call::EndTxn { .. }) && request.tries > 1;
        let unanswered_end =
            matches!(request.call, Call::EndTxn { .. }) && request.tries == 1 && error.is_wrapper();
        let told = match error {
            error if request.settled => {
                self.resolve(request, Ok(()));
                return drop(error);
            }
            error if (resent_end || unanswered_end) && !self.model.flaws.fenced_after_resend_is_failed => {
                Error::OutcomeUnknown(Box::new(error))
            }
            error => error,
        };
        self.resolve(request, Err(told));
    }

    pub(super) fn resolve(&mut self, request: TxnRequest, outcome: Result<(), Error>) {
        if let Some(result) = request.result {
            result.tell(Some(outcome));
        }
    }
}

/// The code that decides about an answer with one for each partition: one that demands more than an abort comes first.
pub(super) fn decisive(rpc: Rpc, codes: &[i16]) -> i16 {
    let weight = |code: &i16| match classify(rpc, *code, false) {
        Verdict::Done => 2,
        Verdict::Abortable { bump: false } => 1,
        _ => 0,
    };
    codes.iter().min_by_key(|code| weight(code)).copied().unwrap_or(codes::NONE)
}
