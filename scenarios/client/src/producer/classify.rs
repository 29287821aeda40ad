//! What each error code means to each transactional request: the handlers of Java 3.8's `TransactionManager`, and what
//! Java 4 does otherwise under TV2.

use crate::codes::{self, is_retriable};

/// A transactional request, by kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rpc {
    FindCoordinator,
    InitProducerId,
    AddPartitionsToTxn,
    AddOffsetsToTxn,
    TxnOffsetCommit,
    EndTxn,
}

/// What the producer does about an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Done,
    /// Send the same request again.
    Retry,
    /// Find the coordinator first, then send the same request again.
    Relocate,
    /// The transaction must be aborted; with `bump`, and the epoch bumped after it.
    Abortable {
        bump: bool,
    },
    /// The producer is of no further use.
    Fatal,
    /// Nobody knows what became of it, and it is not sent again. Only clients with limits.
    GiveUp,
    /// The transaction must be aborted, by a new epoch alone. Only clients with limits.
    Reload,
}

/// What `code` in the answer to `rpc` means, under the second transaction protocol or the first.
pub(crate) fn classify(rpc: Rpc, code: i16, second_protocol: bool) -> Verdict {
    use Verdict::{Abortable, Done, Fatal, Relocate, Retry};
    match (rpc, code) {
        (_, codes::NONE) => Done,
        (_, codes::TRANSACTION_ABORTABLE) => Abortable { bump: false },
        (Rpc::FindCoordinator, codes::GROUP_AUTHORIZATION_FAILED) => Abortable { bump: false },
        (Rpc::FindCoordinator, code) if is_retriable(code) => Retry,
        (Rpc::FindCoordinator, _) => Fatal,
        (_, codes::COORDINATOR_NOT_AVAILABLE | codes::NOT_COORDINATOR) => Relocate,
        (Rpc::TxnOffsetCommit, codes::REQUEST_TIMED_OUT) => Relocate,
        (_, code) if is_retriable(code) => Retry,
        (_, codes::INVALID_PRODUCER_EPOCH | codes::PRODUCER_FENCED) => Fatal,
        (
            Rpc::InitProducerId,
            codes::TRANSACTIONAL_ID_AUTHORIZATION_FAILED | codes::CLUSTER_AUTHORIZATION_FAILED,
        ) => Abortable { bump: false },
        (_, codes::TRANSACTIONAL_ID_AUTHORIZATION_FAILED | codes::INVALID_TXN_STATE) => Fatal,
        // KAFKA-18019.
        (_, codes::INVALID_PRODUCER_ID_MAPPING) if second_protocol => Fatal,
        (
            Rpc::AddPartitionsToTxn | Rpc::AddOffsetsToTxn | Rpc::EndTxn,
            codes::UNKNOWN_PRODUCER_ID | codes::INVALID_PRODUCER_ID_MAPPING,
        ) => Abortable { bump: true },
        // Topic authorization, OPERATION_NOT_ATTEMPTED, and codes it does not know.
        (Rpc::AddPartitionsToTxn, _) => Abortable { bump: false },
        (Rpc::AddOffsetsToTxn | Rpc::TxnOffsetCommit, codes::GROUP_AUTHORIZATION_FAILED) => {
            Abortable { bump: false }
        }
        // The member is in the group no more, or was replaced (KIP-447).
        (
            Rpc::TxnOffsetCommit,
            codes::ILLEGAL_GENERATION | codes::UNKNOWN_MEMBER_ID | codes::FENCED_INSTANCE_ID,
        ) => Abortable { bump: false },
        (Rpc::InitProducerId | Rpc::AddOffsetsToTxn | Rpc::TxnOffsetCommit | Rpc::EndTxn, _) => Fatal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_classifies_as_java_3_8_does() {
        use Rpc::*;
        let abortable = Verdict::Abortable { bump: false };
        let bump = Verdict::Abortable { bump: true };
        for (rpc, code, expected) in [
            (FindCoordinator, 15, Verdict::Retry),
            (FindCoordinator, 14, Verdict::Retry),
            (FindCoordinator, 53, Verdict::Fatal),
            (InitProducerId, 51, Verdict::Retry),
            (InitProducerId, 16, Verdict::Relocate),
            (InitProducerId, 53, abortable),
            (InitProducerId, 90, Verdict::Fatal),
            (AddPartitionsToTxn, 51, Verdict::Retry),
            (AddPartitionsToTxn, 3, Verdict::Retry),
            (AddPartitionsToTxn, 29, abortable),
            (AddPartitionsToTxn, 55, abortable),
            (AddPartitionsToTxn, 48, Verdict::Fatal),
            (AddPartitionsToTxn, 49, bump),
            (AddPartitionsToTxn, codes::UNKNOWN, abortable),
            (AddOffsetsToTxn, 51, Verdict::Retry),
            (AddOffsetsToTxn, 16, Verdict::Relocate),
            (AddOffsetsToTxn, 30, abortable),
            (AddOffsetsToTxn, 59, bump),
            (AddOffsetsToTxn, 90, Verdict::Fatal),
            (AddOffsetsToTxn, 48, Verdict::Fatal),
            (TxnOffsetCommit, 7, Verdict::Relocate),
            (TxnOffsetCommit, 16, Verdict::Relocate),
            (TxnOffsetCommit, 14, Verdict::Retry),
            (TxnOffsetCommit, 22, abortable),
            (TxnOffsetCommit, 25, abortable),
            (TxnOffsetCommit, 82, abortable),
            (TxnOffsetCommit, 120, abortable),
            (TxnOffsetCommit, 47, Verdict::Fatal),
            (TxnOffsetCommit, 12, Verdict::Fatal),
            (EndTxn, 0, Verdict::Done),
            (EndTxn, 51, Verdict::Retry),
            (EndTxn, 7, Verdict::Retry),
            (EndTxn, 15, Verdict::Relocate),
            (EndTxn, 59, bump),
            (EndTxn, 120, abortable),
            (EndTxn, 47, Verdict::Fatal),
            (EndTxn, 48, Verdict::Fatal),
            (EndTxn, codes::UNKNOWN, Verdict::Fatal),
        ] {
            assert_eq!(classify(rpc, code, false), expected, "{rpc:?} {code}");
        }
        assert_eq!(classify(EndTxn, 49, true), Verdict::Fatal);
        assert_eq!(classify(EndTxn, 59, true), bump);
    }
}
