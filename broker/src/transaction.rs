//! A transaction's state in the coordinator, and the decisions over it: kafka.md 3.2 to 3.4, after `TransactionCoordinator`
//! and `TransactionMetadata` of Kafka 3.8 (the old protocol, version 1) and Kafka 4 (version 2). All functions here are
//! pure. Which version's rules a request meets is the request's affair; what the coordinator does by itself follows the
//! version offered.
//!
//! Two rules are ours. InitProducerId with an expected (producer id, epoch) checks that epoch also while the transaction is
//! Ongoing, and remembers it as the last one, so that the client's own repeat is recognised (findings.md, "strict
//! client"); Kafka does neither. And a time-out at the last epoch rotates the producer id as an end does, so that the
//! client's abort recovers there too.
//!
//! Kafka marks a fence that could not be written (`hasFailedEpochFence`, KAFKA-9666), because it bumps in memory first.
//! Here state changes in the coordinator or not at all, so there is nothing to mark.

use crate::config::{Outside, TransactionVersion};
use crate::coordinator::Compare;
use crate::defects::Defects;
use bytes::Bytes;
use kafka_protocol::ResponseError;
use serde::{Deserialize, Serialize};

/// The largest epoch a client may hold; 32767 is only ever a fence.
const EPOCH_MAX: i16 = i16::MAX - 1;
/// No epoch.
const NONE: i16 = -1;
/// No number of a transaction.
const NO_NUMBER: i64 = -1;

/// A transactional id's state. Without a number it holds nothing that tells one transaction of an epoch from the next: what
/// does is the mod revision of its key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TxnState {
    pub(crate) producer_id: i64,
    pub(crate) epoch: i16,
    /// The producer id before the last rotation; -1 if there was none.
    pub(crate) last_producer_id: i64,
    /// The producer id that Complete swaps in, taken at Prepare because the epochs of the current one are used up
    /// (KAFKA-20310: it has to be stored); -1 if there is none.
    pub(crate) next_producer_id: i64,
    /// The epoch a client held before the last bump it asked for; -1 if the bump was not its own.
    pub(crate) last_epoch: i16,
    /// The version by whose rules the last end was prepared; its markers follow it.
    pub(crate) version: TransactionVersion,
    pub(crate) timeout_ms: i32,
    pub(crate) phase: Phase,
    /// The number of the last transaction, if its client numbers them (see `age`); -1 if there was none.
    pub(crate) number: i64,
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
    pub(crate) const ALL: [Phase; 6] = [
        Phase::Empty,
        Phase::Ongoing,
        Phase::PrepareCommit,
        Phase::PrepareAbort,
        Phase::CompleteCommit,
        Phase::CompleteAbort,
    ];

    /// Kafka's name, as DescribeTransactions and ListTransactions tell it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Phase::Empty => "Empty",
            Phase::Ongoing => "Ongoing",
            Phase::PrepareCommit => "PrepareCommit",
            Phase::PrepareAbort => "PrepareAbort",
            Phase::CompleteCommit => "CompleteCommit",
            Phase::CompleteAbort => "CompleteAbort",
        }
    }

    /// Whether no transaction is open or being ended, so that the transactional id may expire.
    pub(crate) fn is_idle(self) -> bool {
        matches!(self, Phase::Empty | Phase::CompleteCommit | Phase::CompleteAbort)
    }

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
            next_producer_id: -1,
            last_epoch: NONE,
            version: TransactionVersion::V1,
            timeout_ms,
            phase: Phase::Empty,
            number: NO_NUMBER,
        }
    }

    /// The next transaction, of this number.
    pub(crate) fn begun(&self, number: Option<i64>) -> Self {
        TxnState { phase: Phase::Ongoing, number: number.unwrap_or(NO_NUMBER), ..self.clone() }
    }

    /// An end of `version`. Version 2 moves the epoch on, so the markers carry the new one.
    fn prepared(&self, version: TransactionVersion, committed: bool) -> Self {
        let phase = Phase::prepare(committed);
        match version {
            TransactionVersion::V1 => TxnState { phase, version, ..self.clone() },
            TransactionVersion::V2 => {
                let epoch = self.epoch.saturating_add(1);
                TxnState { phase, version, epoch, last_epoch: self.epoch, ..self.clone() }
            }
        }
    }

    pub(crate) fn completed(&self, committed: bool) -> Self {
        let ended = TxnState { phase: Phase::complete(committed), ..self.clone() };
        if self.next_producer_id < 0 {
            return ended;
        }
        let (producer_id, epoch) = self.held();
        TxnState { producer_id, epoch, last_producer_id: self.producer_id, next_producer_id: -1, ..ended }
    }

    /// An abort by the coordinator itself: the epoch moves on, so that the producer is fenced. It does so once in either
    /// version (KAFKA-19367).
    fn fenced(&self, last_epoch: i16) -> Self {
        TxnState {
            epoch: self.epoch.saturating_add(1),
            last_epoch,
            version: TransactionVersion::V1,
            phase: Phase::PrepareAbort,
            ..self.clone()
        }
    }

    /// An abort because the transaction ran out of time. Where version 1 is offered the producer cannot recover from it
    /// (KIP-588); where version 2 is, its own abort counts as a repeat of this one.
    pub(crate) fn timed_out(&self, offered: TransactionVersion) -> Self {
        match offered {
            TransactionVersion::V1 => self.fenced(NONE),
            TransactionVersion::V2 => self.prepared(offered, false),
        }
    }

    /// Whether a prepared end needs a next producer id: it used up the last epoch that a client may hold.
    pub(crate) fn wants_producer_id(&self) -> bool {
        self.version == TransactionVersion::V2
            && self.last_epoch == EPOCH_MAX
            && self.phase.prepared().is_some()
    }

    /// Producer id and epoch that the client uses next.
    pub(crate) fn held(&self) -> (i64, i16) {
        if self.next_producer_id < 0 { (self.producer_id, self.epoch) } else { (self.next_producer_id, 0) }
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

/// Decides over EndTxn of a client of `version`.
pub(crate) fn end(
    version: TransactionVersion,
    state: Option<&TxnState>,
    producer_id: i64,
    epoch: i16,
    committed: bool,
) -> End {
    match version {
        TransactionVersion::V1 => end_v1(state, producer_id, epoch, committed),
        TransactionVersion::V2 => end_v2(state, producer_id, epoch, committed),
    }
}

fn end_v1(state: Option<&TxnState>, producer_id: i64, epoch: i16, committed: bool) -> End {
    let state = match own(state, producer_id, epoch) {
        Ok(state) => state,
        Err(error) => return End::Refuse(error),
    };
    match (state.phase, committed) {
        (Phase::Ongoing, _) => End::Decide(state.prepared(TransactionVersion::V1, committed)),
        (Phase::CompleteCommit, true) | (Phase::CompleteAbort, false) => End::Already,
        (Phase::PrepareCommit, true) | (Phase::PrepareAbort, false) => {
            End::Refuse(ResponseError::ConcurrentTransactions)
        }
        _ => End::Refuse(ResponseError::InvalidTxnState),
    }
}

/// Kafka's rows for PrepareCommit and PrepareAbort are never reached: a prepared transaction has its markers out, which is
/// asked first, because the producer id may be about to change (KAFKA-18464).
fn end_v2(state: Option<&TxnState>, producer_id: i64, epoch: i16, committed: bool) -> End {
    let Some(state) = state else { return End::Refuse(ResponseError::InvalidProducerIdMapping) };
    if state.phase.prepared().is_some() {
        return End::Refuse(ResponseError::ConcurrentTransactions);
    }
    let rotated = producer_id == state.last_producer_id && epoch == EPOCH_MAX && state.epoch == 0;
    if producer_id != state.producer_id && !rotated {
        return End::Refuse(ResponseError::InvalidProducerIdMapping);
    }
    // The epoch after the last one is only ever a fence: nobody may be told to use it.
    let retry = rotated || (epoch == state.epoch - 1 && state.epoch <= EPOCH_MAX);
    let ended = matches!(state.phase, Phase::CompleteCommit | Phase::CompleteAbort);
    match (state.phase, committed) {
        _ if !(epoch == state.epoch && epoch <= EPOCH_MAX || (retry && ended)) => {
            End::Refuse(ResponseError::ProducerFenced)
        }
        (Phase::CompleteCommit, true) | (Phase::CompleteAbort, false) if retry => End::Already,
        (Phase::CompleteCommit | Phase::CompleteAbort, _) if retry => {
            End::Refuse(ResponseError::InvalidTxnState)
        }
        (Phase::Ongoing, _) | (_, false) => End::Decide(state.prepared(TransactionVersion::V2, committed)),
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

/// Decides over a transactional batch of (`producer_id`, `epoch`): by the setting `outside` (findings.md) if it comes by a
/// request of version 1; one of version 2 joins. `listed` says whether the transaction lists the batch's partition.
pub(crate) fn admit(
    version: TransactionVersion,
    outside: Outside,
    state: Option<&TxnState>,
    listed: bool,
    producer_id: i64,
    epoch: i16,
) -> Admission {
    if version == TransactionVersion::V2 {
        // Asked first: the producer id may be about to change.
        if state.is_some_and(|state| state.phase.prepared().is_some()) {
            return Admission::Refuse(ResponseError::ConcurrentTransactions);
        }
    } else if outside == Outside::Local {
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
    match (state.phase, listed) {
        (Phase::PrepareCommit | Phase::PrepareAbort, _) => {
            Admission::Refuse(ResponseError::ConcurrentTransactions)
        }
        (Phase::Ongoing, true) => Admission::Append,
        (phase, _) if version == TransactionVersion::V2 || outside == Outside::Implicit => {
            Admission::Join { begin: phase != Phase::Ongoing }
        }
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
            number: NO_NUMBER,
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

#[cfg(test)]
#[path = "transaction_model.rs"]
mod model;
