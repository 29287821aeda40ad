//! What an error means for an operation: `facts/error-map.json` (jepsen.md A5), in terms of this client's errors.

use check::Status;
use client::Error;

/// What an operation that met an error comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Told {
    /// `Fail` if it certainly had no effect, else `Info`.
    pub(super) status: Status,
    /// The client is given up.
    pub(super) ends_process: bool,
}

const FAIL: Told = Told { status: Status::Fail, ends_process: false };
const FAIL_AND_END: Told = Told { status: Status::Fail, ends_process: true };
const INFO: Told = Told { status: Status::Info, ends_process: true };

/// The row of the table. What it does not list is of unknown effect.
pub(super) fn of(error: &Error) -> Told {
    match error {
        Error::ProducerFenced => FAIL_AND_END,
        // "Cannot execute transactional method because we are in an error state".
        Error::Abortable(_) | Error::Fatal(_) => FAIL_AND_END,
        Error::Kafka(code) => match *code {
            AUTHORIZATION_TOPIC
            | AUTHORIZATION_GROUP
            | AUTHORIZATION_CLUSTER
            | AUTHORIZATION_TRANSACTIONAL_ID
            | OUT_OF_ORDER_SEQUENCE_NUMBER => FAIL_AND_END,
            INVALID_PRODUCER_EPOCH
            | INVALID_TOPIC_EXCEPTION
            | INVALID_REPLICATION_FACTOR
            | NOT_CONTROLLER
            | UNKNOWN_TOPIC_OR_PARTITION
            | BROKER_NOT_AVAILABLE => FAIL,
            _ => INFO,
        },
        _ => INFO,
    }
}

/// Whether an error ends a transaction for good, so that there is nothing left to abort (jepsen.md A5, "abort rule").
pub(super) fn is_final(error: &Error) -> bool {
    match error {
        Error::ProducerFenced => true,
        Error::Kafka(code) => matches!(
            *code,
            AUTHORIZATION_TOPIC
                | AUTHORIZATION_GROUP
                | AUTHORIZATION_CLUSTER
                | AUTHORIZATION_TRANSACTIONAL_ID
                | OUT_OF_ORDER_SEQUENCE_NUMBER
        ),
        _ => false,
    }
}

/// Whether a commit that met it is of unknown outcome, and is not followed by an abort: it timed out, or the client says
/// that an earlier copy may have been executed.
pub(super) fn is_unknown_commit(error: &Error) -> bool {
    matches!(error, Error::Timeout(_) | Error::OutcomeUnknown(_) | Error::Closed)
}

/// `INVALID_TXN_STATE`: a commit that met it failed, even if the abort after it fails too.
pub(super) fn is_invalid_state(error: &Error) -> bool {
    matches!(error, Error::Kafka(INVALID_TXN_STATE))
}

const UNKNOWN_TOPIC_OR_PARTITION: i16 = 3;
const BROKER_NOT_AVAILABLE: i16 = 8;
const INVALID_TOPIC_EXCEPTION: i16 = 17;
const AUTHORIZATION_TOPIC: i16 = 29;
const AUTHORIZATION_GROUP: i16 = 30;
const AUTHORIZATION_CLUSTER: i16 = 31;
const INVALID_REPLICATION_FACTOR: i16 = 38;
const NOT_CONTROLLER: i16 = 41;
const OUT_OF_ORDER_SEQUENCE_NUMBER: i16 = 45;
const INVALID_PRODUCER_EPOCH: i16 = 47;
const INVALID_TXN_STATE: i16 = 48;
const AUTHORIZATION_TRANSACTIONAL_ID: i16 = 53;

#[cfg(test)]
mod tests {
    use super::*;

    /// The rows of the table that this client's errors can tell apart: error, type, whether the process ends.
    #[test]
    fn errors_mean_what_the_table_says() {
        let rows = [
            (Error::Kafka(29), FAIL_AND_END),
            (Error::Kafka(53), FAIL_AND_END),
            (Error::IllegalState("Invalid transition attempted"), INFO),
            (Error::Kafka(47), FAIL),
            (Error::Kafka(17), FAIL),
            (Error::Kafka(38), FAIL),
            // NetworkException, NotLeaderOrFollowerException (KAFKA-13574), UnknownServerException.
            (Error::Kafka(13), INFO),
            (Error::Kafka(6), INFO),
            (Error::Kafka(-1), INFO),
            (Error::Kafka(41), FAIL),
            (Error::Kafka(45), FAIL_AND_END),
            (Error::ProducerFenced, FAIL_AND_END),
            (Error::Kafka(3), FAIL),
            (Error::Timeout("send"), INFO),
            (Error::Kafka(8), FAIL),
            (Error::Fatal(Box::new(Error::Kafka(48))), FAIL_AND_END),
            (Error::Unacknowledged, INFO),
        ];
        for (error, told) in rows {
            assert_eq!(of(&error), told, "{error}");
        }
    }
}
