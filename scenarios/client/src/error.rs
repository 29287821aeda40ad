//! What the application is told when something failed.

use crate::codes;
use kafka_protocol::ResponseError;
use kafka_protocol::error::ParseResponseErrorCode;

/// A client error, in the classes that Java's client throws.
///
/// Whether the operation may nevertheless have taken effect is [`Error::is_definite`]'s business.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// `TimeoutException`: not done within the time allowed. The operation may go on.
    #[error("timed out: {0}")]
    Timeout(&'static str),
    /// `ProducerFencedException`: another producer with the same transactional id, or the transaction timeout, moved the
    /// epoch on. Java's words do not tell which (KIP-588).
    #[error("There is a newer producer with the same transactionalId which fences the current one.")]
    ProducerFenced,
    /// The broker answered with this error code.
    #[error("{}", name(*.0))]
    Kafka(i16),
    /// `TransactionAbortedException`: the record was dropped because its transaction was aborted.
    #[error("dropped with the aborted transaction")]
    TransactionAborted,
    /// A batch was sent more than once, was never acknowledged, and cannot be retried any longer.
    #[error("some records were sent, never acknowledged, and can no longer be retried")]
    Unacknowledged,
    /// The transaction failed earlier for this reason; only `abort_transaction` is legal.
    #[error("the transaction failed and must be aborted: {0}")]
    Abortable(Box<Error>),
    /// The producer failed earlier for this reason and can only be closed.
    #[error("the producer failed: {0}")]
    Fatal(Box<Error>),
    /// An `EndTxn` that was sent more than once was refused: an earlier copy may have been executed. Only a client
    /// without [`crate::Flaws::fenced_after_resend_is_failed`] says so; Java's says [`Error::ProducerFenced`]. Or it was
    /// given up, by a client with [limits](crate::Persistence).
    #[error("outcome unknown, an earlier copy of the request may have been executed: {0}")]
    OutcomeUnknown(Box<Error>),
    /// `IllegalStateException`: the call is not legal now.
    #[error("illegal state: {0}")]
    IllegalState(&'static str),
    /// `RecordTooLargeException`: above `max.request.size`.
    #[error("record too large: {size_bytes} bytes")]
    RecordTooLarge {
        /// The record's size when encoded.
        size_bytes: usize,
    },
    /// A fetched batch that cannot be decoded, at or after this offset.
    #[error("corrupt batch at offset {offset}")]
    Corrupt {
        /// The offset at which the consumer stands.
        offset: i64,
    },
    /// `NoOffsetForPartitionException`, or out of range with `auto.offset.reset=none`.
    #[error("no offset for the partition and no reset policy")]
    NoOffset,
    /// `CommitFailedException`: the member is not in the group as it was when it got its partitions.
    #[error("the commit was refused: the member is in the group no more, or under another generation")]
    CommitFailed,
    /// `RebalanceInProgressException`: a commit while its member joins anew.
    #[error("a rebalance is in progress")]
    RebalanceInProgress,
    /// The client was closed.
    #[error("closed")]
    Closed,
}

impl Error {
    /// Whether the failed operation certainly had no effect and never will, as far as this client can tell. A call
    /// refused because of an earlier failure had none, whatever that failure was.
    pub fn is_definite(&self) -> bool {
        match self {
            Error::Timeout(_) | Error::OutcomeUnknown(_) | Error::Closed | Error::Unacknowledged => false,
            Error::Kafka(code) => {
                use codes::{
                    NETWORK_EXCEPTION, NOT_ENOUGH_REPLICAS_AFTER_APPEND, REQUEST_TIMED_OUT, UNKNOWN,
                };
                !matches!(
                    *code,
                    NETWORK_EXCEPTION | NOT_ENOUGH_REPLICAS_AFTER_APPEND | REQUEST_TIMED_OUT | UNKNOWN
                )
            }
            _ => true,
        }
    }

    /// Whether it only repeats an earlier failure.
    pub(crate) fn is_wrapper(&self) -> bool {
        matches!(self, Error::Abortable(_) | Error::Fatal(_))
    }

    /// A stable one-word name, for events.
    pub fn word(&self) -> &'static str {
        match self {
            Error::Timeout(_) => "timeout",
            Error::ProducerFenced => "fenced",
            Error::Kafka(codes::INVALID_TXN_STATE) => "invalid-txn-state",
            Error::Kafka(_) => "error",
            Error::TransactionAborted => "aborted",
            Error::Unacknowledged => "unacknowledged",
            Error::Abortable(cause) | Error::Fatal(cause) => cause.word(),
            Error::OutcomeUnknown(_) => "unknown",
            Error::IllegalState(_) => "illegal-state",
            Error::RecordTooLarge { .. } => "too-large",
            Error::Corrupt { .. } => "corrupt",
            Error::NoOffset => "no-offset",
            Error::CommitFailed => "commit-failed",
            Error::RebalanceInProgress => "rebalance-in-progress",
            Error::Closed => "closed",
        }
    }

    /// The error of a transactional request's answer. Both fencing codes are one exception there.
    pub(crate) fn of_transactional(code: i16) -> Self {
        match code {
            codes::INVALID_PRODUCER_EPOCH | codes::PRODUCER_FENCED => Error::ProducerFenced,
            _ => Error::Kafka(code),
        }
    }
}

fn name(code: i16) -> String {
    match code.err() {
        Some(ResponseError::Unknown(code)) => format!("error {code}"),
        Some(error) => format!("{error:?} ({code})"),
        None => "no error".to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_errors_that_exclude_an_effect_are_definite() {
        assert!(Error::ProducerFenced.is_definite());
        assert!(Error::Fatal(Box::new(Error::Kafka(codes::INVALID_TXN_STATE))).is_definite());
        for error in [
            Error::Timeout("commit_transaction"),
            Error::OutcomeUnknown(Box::new(Error::ProducerFenced)),
            Error::Kafka(codes::UNKNOWN),
            Error::Kafka(codes::REQUEST_TIMED_OUT),
            Error::Unacknowledged,
        ] {
            assert!(!error.is_definite(), "{error}");
        }
    }

    /// 3.4, jepsen.md E6: after a transaction timeout the user reads of a newer producer, though there is none (KIP-588).
    #[test]
    fn a_fence_is_told_in_the_words_of_java() {
        let told = Error::of_transactional(codes::INVALID_PRODUCER_EPOCH).to_string();
        assert_eq!(
            told,
            "There is a newer producer with the same transactionalId which fences the current one."
        );
        assert_eq!(told, Error::of_transactional(codes::PRODUCER_FENCED).to_string());
    }

    #[test]
    fn codes_are_printed_by_name() {
        assert_eq!(Error::Kafka(48).to_string(), "InvalidTxnState (48)");
    }
}
