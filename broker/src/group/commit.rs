//! The stored values of a group's offsets, and the decisions over a commit: kafka.md 1.7, after `OffsetMetadataManager` and
//! `ClassicGroup.validateOffsetCommit` of Kafka 4. All functions here are pure.

use super::classic::{ClassicGroup, GroupPhase};
use super::consumer::ConsumerGroup;
use super::state::GroupState;
use crate::config::Outside;
use crate::topics::TopicId;
use crate::transaction::{self, Admission, Phase, TxnState};
use kafka_protocol::ResponseError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Longest metadata of a committed offset, in UTF-16 units as Java counts them (`offset.metadata.max.bytes`).
pub(crate) const METADATA_MAX: usize = 4096;
/// First OffsetCommit version whose clients know GROUP_ID_NOT_FOUND (KIP-848).
const GROUP_ID_NOT_FOUND_SINCE: i16 = 9;
/// First OffsetCommit version that carries a member epoch (KIP-848).
const EPOCHS_SINCE: i16 = 9;

/// The head of a group: its mod revision fences every write to its offsets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct GroupHead {
    /// Producers with pending offsets, and the one epoch these are of.
    pub(crate) pending: BTreeMap<i64, i16>,
    /// Offsets written at or before this revision, pending ones too, were deleted with the group; 0 if none is left of those.
    pub(crate) dead_through: i64,
    /// The group was deleted, and nothing was committed since.
    pub(crate) deleted: bool,
}

/// An offset that a group committed for a partition, or that a transaction is about to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CommittedOffset {
    pub(crate) offset: i64,
    /// Leader epoch of the last record consumed; -1 if the client does not say.
    pub(crate) leader_epoch: i32,
    pub(crate) metadata: String,
    /// When the client committed it, by the agent's wall clock, in ms.
    pub(crate) committed_ms: i64,
    /// Create revision of the topic: the offset means nothing to a topic created again under this name.
    pub(crate) topic_revision: i64,
    /// When it is to expire, as clients of OffsetCommit up to version 4 may say, by the agent's wall clock in ms.
    pub(crate) expires_ms: Option<i64>,
    /// Revision at which it was written as pending; 0 if it never was. See [`CommittedOffset::order`].
    pub(crate) pending_revision: i64,
}

impl CommittedOffset {
    /// When the client's commit took its place among others, as a revision: a transaction's offsets count from
    /// TxnOffsetCommit on, not from the transaction's end (`OffsetMetadataManager.completeTransaction`).
    pub(crate) fn order(&self, mod_revision: i64) -> i64 {
        if self.pending_revision > 0 { self.pending_revision } else { mod_revision }
    }
}

/// A group of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TxnGroup {
    /// The producer's epoch in this transaction: only pending offsets of this epoch may be committed by it.
    pub(crate) epoch: i16,
}

/// Whether an offset's metadata is short enough to be kept.
pub(crate) fn fits(metadata: &str) -> bool {
    metadata.encode_utf16().count() <= METADATA_MAX
}

/// Who a commit says it comes from. Admin tools, and consumers that are in no group, claim nothing: generation -1, no ids.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim<'a> {
    pub(crate) generation: i32,
    pub(crate) member_id: &'a str,
    pub(crate) instance_id: Option<&'a str>,
    /// TxnOffsetCommit: a claim of nothing is valid always (its versions before KIP-447 cannot make any), and one of a
    /// member also while the generation is not assigned yet.
    pub(crate) transactional: bool,
    /// Of the request.
    pub(crate) version: i16,
}

/// Whether who claims this may commit offsets of these `partitions` for the group, of which `head` and `state` are what is
/// stored.
pub(crate) fn may_commit(
    head: Option<&GroupHead>,
    state: Option<&GroupState>,
    claim: &Claim<'_>,
    partitions: impl Iterator<Item = (TopicId, i32)>,
) -> Result<(), ResponseError> {
    let never = ClassicGroup::default();
    let group = match state {
        Some(GroupState::Consumer(group)) => return may_commit_to(group, claim, partitions),
        Some(GroupState::Classic(group)) => group,
        None if head.is_none_or(|head| head.deleted) && claim.generation >= 0 => {
            return Err(ResponseError::GroupIdNotFound);
        }
        None => &never,
    };
    let empty = group.phase == GroupPhase::Empty;
    if claim.generation < 0 && empty {
        return Ok(());
    }
    if claim.generation >= 0 || !claim.member_id.is_empty() || claim.instance_id.is_some() {
        group.validate(claim.member_id, claim.instance_id)?;
        if claim.generation != group.generation {
            return Err(ResponseError::IllegalGeneration);
        }
    } else if !claim.transactional {
        return Err(ResponseError::UnknownMemberId);
    }
    if !claim.transactional && group.phase == GroupPhase::CompletingRebalance {
        return Err(ResponseError::RebalanceInProgress);
    }
    Ok(())
}

/// A member commits in its epoch; and in an earlier one for what it has had since then (KIP-1251): a heartbeat that moves its
/// epoch on may overtake a commit.
fn may_commit_to(
    group: &ConsumerGroup,
    claim: &Claim<'_>,
    mut partitions: impl Iterator<Item = (TopicId, i32)>,
) -> Result<(), ResponseError> {
    let nothing = claim.generation < 0 && claim.member_id.is_empty() && claim.instance_id.is_none();
    if (claim.generation < 0 && group.members.is_empty()) || (claim.transactional && nothing) {
        return Ok(());
    }
    let member = group.members.get(claim.member_id).ok_or(ResponseError::UnknownMemberId)?;
    let epoch = claim.generation;
    let earlier = (0..member.epoch).contains(&epoch);
    let valid = epoch == member.epoch
        || (earlier && partitions.all(|(topic, partition)| member.has_had(&topic, partition, epoch)));
    match (valid, claim.transactional) {
        _ if !claim.transactional && claim.version < EPOCHS_SINCE => Err(ResponseError::UnsupportedVersion),
        (true, _) => Ok(()),
        (false, true) => Err(ResponseError::IllegalGeneration),
        (false, false) => Err(ResponseError::StaleMemberEpoch),
    }
}

/// Whether who claims to be this member, in this epoch, may read the group's offsets (OffsetFetch from version 9 on).
pub(crate) fn may_fetch(
    state: Option<&GroupState>,
    member_id: Option<&str>,
    epoch: i32,
) -> Result<(), ResponseError> {
    let Some(GroupState::Consumer(group)) = state else { return Ok(()) };
    let Some(member_id) = member_id.filter(|id| epoch >= 0 || !id.is_empty()) else { return Ok(()) };
    let member = group.members.get(member_id).ok_or(ResponseError::UnknownMemberId)?;
    if member.epoch == epoch { Ok(()) } else { Err(ResponseError::StaleMemberEpoch) }
}

/// What a client of OffsetCommit's `version` is told of an error of [`may_commit`]; one of TxnOffsetCommit is told what
/// version 0 is.
pub(crate) fn commit_error(error: ResponseError, version: i16) -> ResponseError {
    match error {
        ResponseError::GroupIdNotFound if version < GROUP_ID_NOT_FOUND_SINCE => {
            ResponseError::IllegalGeneration
        }
        other => other,
    }
}

/// Decides over a TxnOffsetCommit of (`producer_id`, `epoch`) by the setting `outside` (findings.md). `listed` says whether
/// the transaction lists the group; `joins` whether the request lists it by itself (version 5 on, KIP-890 part 2).
///
/// Without verification a group takes whatever comes under the current epoch, as Kafka's does: an offset that arrives
/// outside its transaction waits for the next one that lists the group (S9).
pub(crate) fn admit(
    outside: Outside,
    joins: bool,
    state: Option<&TxnState>,
    listed: bool,
    producer_id: i64,
    epoch: i16,
) -> Admission {
    let state = match transaction::own(state, producer_id, epoch) {
        Ok(state) => state,
        // As a partition of the log would say it.
        Err(ResponseError::ProducerFenced) => return Admission::Refuse(ResponseError::InvalidProducerEpoch),
        Err(error) => return Admission::Refuse(error),
    };
    if state.phase.prepared().is_some() {
        return Admission::Refuse(ResponseError::ConcurrentTransactions);
    }
    match outside {
        _ if listed && state.phase == Phase::Ongoing => Admission::Append,
        _ if joins => Admission::Join { begin: state.phase != Phase::Ongoing },
        Outside::Implicit | Outside::Local => Admission::Append,
        Outside::Verify => Admission::Refuse(ResponseError::TransactionAbortable),
    }
}

#[cfg(test)]
#[path = "commit_tests.rs"]
mod tests;
