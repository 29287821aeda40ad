//! LeaveGroup to a classic group, after `GroupMetadataManager.classicGroupLeave` of Kafka 4.

use super::classic::{ClassicGroup, GroupPhase};
use kafka_protocol::ResponseError;

/// Somebody who leaves, or is taken out by an admin tool: by its instance id alone then.
#[derive(Clone, Debug)]
pub(crate) struct Leaver {
    pub(crate) member_id: String,
    pub(crate) instance_id: Option<String>,
}

/// What became of each.
pub(crate) type Left = Vec<Result<(), ResponseError>>;

impl ClassicGroup {
    /// Takes members out, each for itself, and rebalances once.
    pub(crate) fn leave(&mut self, leavers: &[Leaver]) -> Left {
        let left: Left = leavers.iter().map(|leaver| self.take_out(leaver)).collect();
        if left.iter().any(Result::is_ok) {
            match self.phase {
                GroupPhase::Stable | GroupPhase::CompletingRebalance => self.prepare(),
                GroupPhase::PreparingRebalance => self.try_complete(),
                GroupPhase::Empty => {}
            }
        }
        left
    }

    fn take_out(&mut self, leaver: &Leaver) -> Result<(), ResponseError> {
        let instance_id = leaver.instance_id.as_deref();
        let id = if leaver.member_id.is_empty() {
            let named = instance_id.and_then(|id| self.static_member(id));
            named.ok_or(ResponseError::UnknownMemberId)?.to_string()
        } else {
            if !self.pending.contains_key(&leaver.member_id) {
                self.validate(&leaver.member_id, instance_id)?;
            }
            leaver.member_id.clone()
        };
        self.remove(&id);
        Ok(())
    }
}
