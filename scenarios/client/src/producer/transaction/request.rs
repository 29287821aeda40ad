//! Transactional requests and the queue they wait in.

use super::{TransactionManager, Wait};
use crate::error::Error;
use crate::group::GroupMetadata;
use crate::producer::classify::Rpc;
use crate::told::Teller;
use crate::types::TopicPartition;
use rt::time::Instant;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Where the end of an operation is told.
pub(super) type Outcome = Arc<Teller<Option<Result<(), Error>>>>;

/// A new place to tell an operation's end, and the application's side of it.
pub(super) fn outcome() -> (Outcome, Wait) {
    let outcome = Teller::new(None);
    let wait = outcome.listen();
    (Arc::new(outcome), wait)
}

/// What a request says. Producer id and epoch are fixed when it is made, so that a retry has the same bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    FindCoordinator,
    /// The coordinator of this group, where its offsets go.
    FindGroupCoordinator(String),
    /// With -1 and -1 for a first one; with the current id and epoch to bump it.
    InitProducerId {
        producer_id: i64,
        epoch: i16,
    },
    AddPartitionsToTxn {
        producer_id: i64,
        epoch: i16,
        partitions: BTreeSet<TopicPartition>,
    },
    AddOffsetsToTxn {
        producer_id: i64,
        epoch: i16,
        offsets: Arc<GroupOffsets>,
    },
    TxnOffsetCommit {
        producer_id: i64,
        epoch: i16,
        offsets: Arc<GroupOffsets>,
    },
    EndTxn {
        producer_id: i64,
        epoch: i16,
        committed: bool,
    },
}

/// Offsets that a group commits with the transaction, and as whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupOffsets {
    pub(crate) group: GroupMetadata,
    pub(crate) offsets: BTreeMap<TopicPartition, i64>,
}

impl Call {
    pub(crate) fn rpc(&self) -> Rpc {
        match self {
            Call::FindCoordinator | Call::FindGroupCoordinator(_) => Rpc::FindCoordinator,
            Call::InitProducerId { .. } => Rpc::InitProducerId,
            Call::AddPartitionsToTxn { .. } => Rpc::AddPartitionsToTxn,
            Call::AddOffsetsToTxn { .. } => Rpc::AddOffsetsToTxn,
            Call::TxnOffsetCommit { .. } => Rpc::TxnOffsetCommit,
            Call::EndTxn { .. } => Rpc::EndTxn,
        }
    }
}

/// A request on its way.
#[derive(Clone, Debug)]
pub(crate) struct TxnRequest {
    pub(crate) call: Call,
    /// The client's transaction it belongs to.
    pub(crate) txn: u64,
    /// Times it was sent.
    pub(crate) tries: u32,
    /// How long the sender sleeps before it is sent.
    pub(crate) backoff_ms: u64,
    /// What its limits count: when it was first tried, and how often it was sent since.
    pub(super) since: Option<Instant>,
    /// See above.
    pub(super) attempts: u32,
    /// The round of operations it belongs to.
    pub(super) round: u64,
    pub(super) result: Option<Outcome>,
    /// The transaction it follows has ended well: its own failure does not change that.
    pub(super) settled: bool,
}

/// The end of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Coordinator {
        code: i16,
        node: i32,
    },
    Producer {
        code: i16,
        producer_id: i64,
        epoch: i16,
    },
    /// The codes of all partitions.
    Partitions(Vec<i16>),
    Offsets(i16),
    /// With the producer id and epoch to use next, from version 5 on; -1 for both before.
    End {
        code: i16,
        producer_id: i64,
        epoch: i16,
    },
    /// No answer.
    Lost,
}

impl TransactionManager {
    pub(super) fn enqueue_add_partitions(&mut self) {
        if !self.new_partitions.is_empty() {
            let partitions = std::mem::take(&mut self.new_partitions);
            let (producer_id, epoch) = (self.producer_id, self.epoch);
            self.enqueue(Call::AddPartitionsToTxn { producer_id, epoch, partitions }, None, 0);
        }
    }

    /// `settles`: who waits for the end of a transaction that has already ended well.
    pub(super) fn enqueue_init(&mut self, producer_id: i64, epoch: i16, settles: Option<Outcome>) -> Wait {
        let settled = settles.is_some();
        let (fresh, wait) = outcome();
        let call = Call::InitProducerId { producer_id, epoch };
        let key = self.enqueue(call, Some(settles.unwrap_or(fresh)), 0);
        if let Some(request) = self.queue.get_mut(&key) {
            request.settled = settled;
        }
        wait
    }

    pub(super) fn enqueue(&mut self, call: Call, result: Option<Outcome>, backoff_ms: u64) -> (u8, u64) {
        self.push(TxnRequest {
            call,
            txn: self.number,
            tries: 0,
            backoff_ms,
            since: None,
            attempts: 0,
            round: self.round,
            result,
            settled: false,
        })
    }

    pub(super) fn retry(&mut self, mut request: TxnRequest, backoff_ms: u64) {
        request.backoff_ms = backoff_ms;
        self.push(request);
    }

    pub(super) fn push(&mut self, request: TxnRequest) -> (u8, u64) {
        let priority = match &request.call {
            Call::FindCoordinator | Call::FindGroupCoordinator(_) => 0,
            Call::InitProducerId { producer_id: -1, .. } => 1,
            Call::AddPartitionsToTxn { .. } | Call::AddOffsetsToTxn { .. } | Call::TxnOffsetCommit { .. } => {
                2
            }
            Call::EndTxn { .. } => 3,
            Call::InitProducerId { .. } => 4,
        };
        self.queued += 1;
        self.queue.insert((priority, self.queued), request);
        (priority, self.queued)
    }
}
