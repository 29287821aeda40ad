//! A transaction's state in the coordinator, and the decisions over it: kafka.md 3.2 to 3.4, after `TransactionCoordinator`
//! and `TransactionMetadata` of Kafka 3.8 (the old protocol, TV1). All functions here are pure.
//!
//! One rule is ours (findings.md, "strict client"): InitProducerId with an expected (producer id, epoch) checks that
//! epoch also while the transaction is Ongoing, and remembers it as the last one, so that the client's own repeat is
//! recognised. Kafka does neither.

use crate::config::Outside;
use crate::coordinator::Compare;
use crate::defects::Defects;
use bytes::Bytes;
use kafka_protocol::ResponseError;
use serde::{Deserialize, Serialize};

/// The largest epoch a client may hold; 32767 is only ever a fence.
const EPOCH_MAX: i16 = i16::MAX - 1;
/// No epoch.
const NONE: i16 = -1;

/// A transactional id's state. It holds nothing that tells one transaction of an epoch from the next: what does is the
/// mod revision of its key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TxnState {
    pub(crate) producer_id: i64,
    pub(crate) epoch: i16,
    /// The producer id before the last rotation; -1 if there was none.
    pub(crate) last_producer_id: i64,
    /// The epoch a client held before the last bump it asked for; -1 if the bump was not its own.
    pub(crate) last_epoch: i16,
    pub(crate) timeout_ms: i32,
    pub(crate) phase: Phase,
}

/// Kafka's transaction states, with Kafka's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Phase {
    Empty,
    Ongoing,
    PrepareCommit,
    PrepareAbort,
    CompleteCommit,
    CompleteAbort,
}

impl Phase {
    /// The end being written: `Some(true)` a commit, `Some(false)` an abort.
    pub(crate) fn prepared(self) -> Option<bool> {
        match self {
            Phase::PrepareCommit => Some(true),
            Phase::PrepareAbort => Some(false),
            _ => None,
        }
    }

    fn prepare(committed: bool) -> Self {
        if committed { Phase::PrepareCommit } else { Phase::PrepareAbort }
    }

    fn complete(committed: bool) -> Self {
        if committed { Phase::CompleteCommit } else { Phase::CompleteAbort }
    }
}

impl TxnState {
    /// The state in which a transactional id's first producer begins.
    pub(crate) fn first(producer_id: i64, timeout_ms: i32) -> Self {
        TxnState {
            producer_id,
            epoch: 0,
            last_producer_id: -1,
            last_epoch: NONE,
            timeout_ms,
            phase: Phase::Empty,
        }
    }

    pub(crate) fn begun(&self) -> Self {
        TxnState { phase: Phase::Ongoing, ..self.clone() }
    }

    pub(crate) fn prepared(&self, committed: bool) -> Self {
        TxnState { phase: Phase::prepare(committed), ..self.clone() }
    }

    pub(crate) fn completed(&self, committed: bool) -> Self {
        TxnState { phase: Phase::complete(committed), ..self.clone() }
    }

    /// An abort by the coordinator itself: the epoch moves on, so that the producer is fenced.
    pub(crate) fn fenced(&self, last_epoch: i16) -> Self {
        TxnState {
            epoch: self.epoch.saturating_add(1),
            last_epoch,
            phase: Phase::PrepareAbort,
            ..self.clone()
        }
    }

    /// An abort because the transaction ran out of time; the producer cannot recover from it (KIP-588).
    pub(crate) fn timed_out(&self) -> Self {
        self.fenced(NONE)
    }
}

/// What EndTxn does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Store this state (a prepared end), then answer NONE.
    Decide(TxnState),
    /// Answer NONE: it has ended so already.
    Already,
    /// Answer this error.
    Refuse(ResponseError),
}

/// Decides over EndTxn (request versions 0 to 4).
pub(crate) fn end(state: Option<&TxnState>, producer_id: i64, epoch: i16, committed: bool) -> End {
    let state = match own(state, producer_id, epoch) {
        Ok(state) => state,
        Err(error) => return End::Refuse(error),
    };
    match (state.phase, committed) {
        (Phase::Ongoing, _) => End::Decide(state.prepared(committed)),
        (Phase::CompleteCommit, true) | (Phase::CompleteAbort, false) => End::Already,
        (Phase::PrepareCommit, true) | (Phase::PrepareAbort, false) => {
            End::Refuse(ResponseError::ConcurrentTransactions)
        }
        _ => End::Refuse(ResponseError::InvalidTxnState),
    }
}

/// Checks that an operation comes from the current holder of the transactional id (kafka.md 3.3).
pub(crate) fn own(
    state: Option<&TxnState>,
    producer_id: i64,
    epoch: i16,
) -> Result<&TxnState, ResponseError> {
    match state {
        Some(state) if state.producer_id != producer_id => Err(ResponseError::InvalidProducerIdMapping),
        Some(state) if state.epoch != epoch => Err(ResponseError::ProducerFenced),
        Some(state) => Ok(state),
        None => Err(ResponseError::InvalidProducerIdMapping),
    }
}

/// What a transactional batch is to the transaction of its transactional id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// Part of it, or a batch that only its partition knows of: append.
    Append,
    /// The partition must join; `begin` says whether the transaction must begin for that.
    Join { begin: bool },
    /// Answer this error.
    Refuse(ResponseError),
}

/// Decides over a transactional batch of (`producer_id`, `epoch`) by the setting `outside` (findings.md). `listed` says
/// whether the transaction lists the batch's partition.
pub(crate) fn admit(
    outside: Outside,
    state: Option<&TxnState>,
    listed: bool,
    producer_id: i64,
    epoch: i16,
) -> Admission {
    if outside == Outside::Local {
        // The partition asks nobody, except that nothing may land while the end is being written.
        let ending =
            state.filter(|state| state.producer_id == producer_id && state.phase.prepared().is_some());
        return match ending {
            Some(_) => Admission::Refuse(ResponseError::ConcurrentTransactions),
            None => Admission::Append,
        };
    }
    let state = match own(state, producer_id, epoch) {
        Ok(state) => state,
        // Produce never answers PRODUCER_FENCED (KAFKA-10687).
        Err(ResponseError::ProducerFenced) => return Admission::Refuse(ResponseError::InvalidProducerEpoch),
        Err(error) => return Admission::Refuse(error),
    };
    match (state.phase, outside) {
        (Phase::PrepareCommit | Phase::PrepareAbort, _) => {
            Admission::Refuse(ResponseError::ConcurrentTransactions)
        }
        (Phase::Ongoing, _) if listed => Admission::Append,
        (phase, Outside::Implicit) => Admission::Join { begin: phase != Phase::Ongoing },
        _ => Admission::Refuse(ResponseError::TransactionAbortable),
    }
}

/// What guards Prepare: that nothing happened to the transaction since `value` was read at `revision`.
pub(crate) fn prepare_guard(defects: &Defects, key: Bytes, revision: i64, value: Bytes) -> Compare {
    if defects.state_compare { Compare::value(key, value) } else { Compare::unchanged(key, revision) }
}

/// What InitProducerId does for a transactional id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Init {
    /// Store this state and answer its producer id and epoch.
    Grant(TxnState),
    /// Take a new producer id and answer epoch 0; `last_epoch` is what the new state remembers.
    Rotate { last_epoch: i16 },
    /// Answer the current producer id and epoch: the client repeats a request whose answer it missed.
    Repeat,
    /// Store this state (a prepared abort) and answer CONCURRENT_TRANSACTIONS; the client comes again.
    Fence(TxnState),
    /// Answer this error.
    Refuse(ResponseError),
}

/// Decides over InitProducerId of a known transactional id. `expected` is the (producer id, epoch) that the client holds,
/// if it holds one (KIP-360).
pub(crate) fn init(state: &TxnState, expected: Option<(i64, i16)>, timeout_ms: i32) -> Init {
    let exhausted = state.epoch >= EPOCH_MAX;
    if let Some((producer_id, epoch)) = expected {
        let rotated = producer_id == state.last_producer_id && epoch >= EPOCH_MAX;
        if producer_id != state.producer_id && !rotated {
            return Init::Refuse(ResponseError::ProducerFenced);
        }
    }
    if state.phase.prepared().is_some() {
        return Init::Refuse(ResponseError::ConcurrentTransactions);
    }
    let epoch = expected.map(|(_, epoch)| epoch);
    let (current, repeated) = (epoch.is_none_or(|e| e == state.epoch), epoch == Some(state.last_epoch));
    if state.phase == Phase::Ongoing {
        return match epoch {
            Some(_) if !current => Init::Refuse(ResponseError::ProducerFenced),
            _ => Init::Fence(state.fenced(epoch.unwrap_or(NONE))),
        };
    }
    match epoch {
        // A fence may have used up the last epoch on behalf of the client that now comes again.
        _ if exhausted && (current || (repeated && state.epoch > EPOCH_MAX)) => {
            Init::Rotate { last_epoch: epoch.unwrap_or(NONE) }
        }
        Some(_) if repeated => Init::Repeat,
        _ if current => Init::Grant(TxnState {
            epoch: state.epoch + 1,
            last_epoch: epoch.unwrap_or(NONE),
            timeout_ms,
            phase: Phase::Empty,
            ..state.clone()
        }),
        _ => Init::Refuse(ResponseError::ProducerFenced),
    }
}

/// The state after a rotation to a new producer id.
pub(crate) fn rotated(state: &TxnState, producer_id: i64, last_epoch: i16, timeout_ms: i32) -> TxnState {
    let last_producer_id = state.producer_id;
    TxnState { last_producer_id, last_epoch, ..TxnState::first(producer_id, timeout_ms) }
}

#[cfg(test)]
#[path = "transaction_tests.rs"]
mod tests;
