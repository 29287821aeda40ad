//! Requests that a client with limits gives up: franz-go's `retryable.Request`, `EndTransaction` and
//! `maybeRecoverProducerID`. Java gives up nothing.
//!
//! Where franz-go takes its new epoch when it next needs a producer id, here `abort_transaction` takes it. Every retriable
//! code is repeated within the limits; franz-go's transport repeats those about the coordinator, and hands the others on.

use super::request::{Call, TxnRequest};
use super::{Operation, State, TransactionManager, Wait};
use crate::codes;
use crate::error::Error;
use crate::flaws::{Persistence, UnconfirmedEnd};
use crate::producer::classify::{Rpc, Verdict, classify};
use rt::time::Instant;
use std::time::Duration;

impl TransactionManager {
    /// What is left after an `EndTxn` of unknown outcome; `None` for a client that never gives up.
    fn unconfirmed_end(&self) -> Option<UnconfirmedEnd> {
        match self.model.persistence {
            Persistence::Endless => None,
            Persistence::Limited { unconfirmed_end, .. } => Some(unconfirmed_end),
        }
    }

    /// Whether ending is a no-op now: franz-go's `EndTransaction` outside a transaction succeeds.
    pub(crate) fn ends_nothing(&self) -> bool {
        self.unconfirmed_end().is_some() && self.state == State::Ready
    }

    /// What an answer means: Java's reading, but for codes that franz-go reads otherwise.
    pub(super) fn verdict(&self, rpc: Rpc, code: i16) -> Verdict {
        let second_protocol = self.speaks_second_protocol();
        let as_java = classify(rpc, code, second_protocol);
        let Some(unconfirmed_end) = self.unconfirmed_end() else { return as_java };
        match (rpc, code) {
            (Rpc::EndTxn, codes::UNKNOWN) => Verdict::GiveUp,
            (Rpc::EndTxn, codes::UNKNOWN_PRODUCER_ID) => Verdict::Reload,
            (Rpc::EndTxn, codes::INVALID_PRODUCER_EPOCH | codes::INVALID_PRODUCER_ID_MAPPING)
                if !second_protocol =>
            {
                Verdict::Reload
            }
            (Rpc::EndTxn, codes::TRANSACTION_ABORTABLE) if second_protocol => Verdict::Reload,
            // 1.18 leaves it to the application; later ones repeat it.
            (Rpc::InitProducerId, codes::CONCURRENT_TRANSACTIONS)
                if unconfirmed_end == UnconfirmedEnd::Forget =>
            {
                Verdict::GiveUp
            }
            _ => as_java,
        }
    }

    /// Sends `request` again, or gives it up with `code`.
    pub(super) fn again(&mut self, mut request: TxnRequest, code: i16, backoff_ms: u64, now: Instant) {
        if code == codes::CONCURRENT_TRANSACTIONS {
            // That is no failure of the transport, which starts to count anew.
            request.since = None;
            request.attempts = 0;
        }
        if self.is_exhausted(&request, backoff_ms, now) {
            return self.give_up(request, code);
        }
        request.since.get_or_insert(now);
        self.retry(request, backoff_ms);
    }

    fn is_exhausted(&self, request: &TxnRequest, backoff_ms: u64, now: Instant) -> bool {
        let Persistence::Limited { retries, timeout_ms, .. } = self.model.persistence else { return false };
        if request.call.rpc() == Rpc::FindCoordinator {
            return false;
        }
        let begins = now + Duration::from_millis(backoff_ms);
        let too_late = |since: Instant| begins > since + Duration::from_millis(timeout_ms);
        request.attempts > retries || request.since.is_some_and(too_late)
    }

    pub(super) fn give_up(&mut self, request: TxnRequest, code: i16) {
        let error = Error::Kafka(code);
        match &request.call {
            Call::EndTxn { .. } => {
                let error = Error::OutcomeUnknown(Box::new(error));
                self.unconfirmed(&error);
                self.resolve(request, Err(error));
            }
            Call::InitProducerId { producer_id: -1, .. } => {
                self.state = State::Uninitialized;
                self.resolve(request, Err(error));
            }
            Call::InitProducerId { .. } => {
                self.needs_reload(error.clone());
                self.refuse(request, error);
            }
            Call::AddPartitionsToTxn { .. } if self.unconfirmed_end() == Some(UnconfirmedEnd::Forget) => {
                self.fatal(error.clone());
                self.refuse(request, error);
            }
            _ => {
                self.abortable(error.clone());
                self.refuse(request, error);
            }
        }
    }

    /// Nobody knows how the transaction ended, nor whether it has.
    fn unconfirmed(&mut self, error: &Error) {
        match self.unconfirmed_end() {
            None => {}
            Some(UnconfirmedEnd::Forget) => {
                self.forget_transaction();
                self.state = State::Ready;
            }
            Some(UnconfirmedEnd::Reload) => {
                self.needs_reload(error.clone());
            }
        }
    }

    /// A new epoch must come before anything else, and will abort what is open.
    pub(super) fn needs_reload(&mut self, error: Error) {
        self.reload_required = true;
        self.state = State::AbortableError;
        self.last_error = Some(error);
    }

    /// Aborts by a new epoch, without an `EndTxn`.
    pub(super) fn abort_by_reload(&mut self) -> Wait {
        self.forget_transaction();
        self.reload_required = false;
        self.state = State::Initializing;
        self.enqueue_init(self.producer_id, self.epoch, None)
    }

    /// The application waits no longer for its operation (`what`). A client with limits gives it up.
    pub(crate) fn timed_out(&mut self, what: &'static str) {
        if self.unconfirmed_end().is_none() {
            return;
        }
        let Some((operation, _)) = self.pending.take() else { return };
        let unsent = |request: &TxnRequest| matches!(request.call, Call::EndTxn { .. }) && request.tries == 0;
        let end_is_unsent = self.queue.values().any(unsent);
        // What is under way for it concerns nobody any more.
        self.round += 1;
        self.queue.retain(|_, request| request.call.rpc() == Rpc::FindCoordinator);
        let error = Error::Timeout(what);
        match operation {
            Operation::Init => self.state = State::Uninitialized,
            Operation::Commit | Operation::Abort if self.state == State::Initializing => {
                self.needs_reload(error);
            }
            Operation::Commit | Operation::Abort if end_is_unsent => {
                self.state = State::AbortableError;
                self.last_error = Some(error);
            }
            Operation::Commit | Operation::Abort => self.unconfirmed(&error),
        }
    }
}
