//! SyncGroup and Heartbeat to a classic group, after `GroupMetadataManager.classicGroupSync` and `classicGroupHeartbeat` of
//! Kafka 4.

use super::classic::{ClassicGroup, GroupPhase, Turn};
use bytes::Bytes;
use kafka_protocol::ResponseError;
use std::collections::BTreeMap;

/// Somebody who sends a SyncGroup.
#[derive(Clone, Debug)]
pub(crate) struct Syncer {
    pub(crate) member_id: String,
    pub(crate) instance_id: Option<String>,
    pub(crate) generation: i32,
    pub(crate) protocol_type: Option<String>,
    pub(crate) protocol: Option<String>,
    /// What the leader assigns, by member id.
    pub(crate) assignments: BTreeMap<String, Bytes>,
}

impl ClassicGroup {
    /// Takes a SyncGroup in; [`ClassicGroup::synced`] says what the member is told.
    pub(crate) fn sync(&mut self, syncer: &Syncer) -> Result<(), ResponseError> {
        if self.phase == GroupPhase::Empty {
            return Err(ResponseError::UnknownMemberId);
        }
        self.validate(&syncer.member_id, syncer.instance_id.as_deref())?;
        if syncer.generation != self.generation {
            return Err(ResponseError::IllegalGeneration);
        }
        let differs = |asked: &Option<String>, ours: &Option<String>| {
            asked.is_some() && ours.is_some() && asked != ours
        };
        if differs(&syncer.protocol_type, &self.protocol_type) || differs(&syncer.protocol, &self.protocol) {
            return Err(ResponseError::InconsistentGroupProtocol);
        }
        if self.phase == GroupPhase::PreparingRebalance {
            return Err(ResponseError::RebalanceInProgress);
        }
        if let Some(member) = self.members.get_mut(&syncer.member_id) {
            member.synced = true;
        }
        if self.phase == GroupPhase::CompletingRebalance && self.is_leader(&syncer.member_id) {
            for (id, member) in &mut self.members {
                member.assignment = syncer.assignments.get(id).cloned().unwrap_or_default();
            }
            self.phase = GroupPhase::Stable;
        }
        Ok(())
    }

    /// What a member that sent a SyncGroup in `generation` is told now.
    pub(crate) fn synced(&self, member_id: &str, instance_id: Option<&str>, generation: i32) -> Turn {
        if !self.members.contains_key(member_id) {
            return Turn::Refused(self.why_gone(instance_id));
        }
        match self.phase {
            GroupPhase::CompletingRebalance if generation == self.generation => Turn::Wait,
            GroupPhase::Stable if generation == self.generation => Turn::Answer,
            _ => Turn::Refused(ResponseError::RebalanceInProgress),
        }
    }

    /// What the sender of a Heartbeat is told. REBALANCE_IN_PROGRESS keeps its session alive too.
    pub(crate) fn heartbeat(
        &self,
        member_id: &str,
        instance_id: Option<&str>,
        generation: i32,
    ) -> Result<(), ResponseError> {
        self.validate(member_id, instance_id)?;
        if generation != self.generation {
            return Err(ResponseError::IllegalGeneration);
        }
        match self.phase {
            GroupPhase::PreparingRebalance => Err(ResponseError::RebalanceInProgress),
            _ => Ok(()),
        }
    }
}
