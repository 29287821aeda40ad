//! ConsumerGroupHeartbeat to a group of the consumer protocol, after `GroupMetadataManager.consumerGroupHeartbeat` of Kafka 4.
//!
//! As with JoinGroup, a heartbeat may be decided more than once; who has come in by it already is found there.

use super::assignor::Assignor;
use super::consumer::{AWAY, Catalogue, ConsumerGroup, ConsumerMember, Partitions, is_within, pattern};
use kafka_protocol::ResponseError;
use std::collections::BTreeSet;

/// Somebody who sends a ConsumerGroupHeartbeat. What is `None` is as it was.
#[derive(Clone, Debug, Default)]
pub(crate) struct Beat {
    pub(crate) member_id: String,
    /// The epoch it knows; 0 to come in, or in again.
    pub(crate) epoch: i32,
    pub(crate) instance_id: Option<String>,
    pub(crate) rack_id: Option<String>,
    pub(crate) rebalance_timeout_ms: Option<i32>,
    pub(crate) names: Option<BTreeSet<String>>,
    pub(crate) pattern: Option<String>,
    pub(crate) assignor: Option<Assignor>,
    /// What it has.
    pub(crate) owned: Option<Partitions>,
    pub(crate) client_id: String,
    pub(crate) client_host: String,
}

impl ConsumerGroup {
    /// Takes a heartbeat in: the member as it says it is, the target if that has to be made anew, and the member's next step
    /// towards it. Nothing is changed that matters if it is refused.
    pub(crate) fn beat(
        &mut self,
        beat: &Beat,
        catalogue: &Catalogue,
        size_max: usize,
    ) -> Result<(), ResponseError> {
        if self.members.len() >= size_max && !self.members.contains_key(&beat.member_id) {
            return Err(ResponseError::GroupMaxSizeReached);
        }
        if let Some(asked) = &beat.pattern {
            pattern(asked)?;
        }
        let assignor = self.assignor();
        let mut member = self.member_of(beat)?;
        let before = (member.names.clone(), member.pattern.clone());
        let is_new = !self.members.contains_key(&beat.member_id);
        update(&mut member, beat);
        let changed = is_new || before != (member.names.clone(), member.pattern.clone());
        self.members.insert(beat.member_id.clone(), member);
        self.advance(changed || assignor != self.assignor(), catalogue);
        self.reconcile(&beat.member_id, beat.owned.as_ref());
        Ok(())
    }

    /// The member as it was, or as a new one begins. A static one that was away is taken over by its new id.
    fn member_of(&mut self, beat: &Beat) -> Result<ConsumerMember, ResponseError> {
        let comes_in = beat.epoch == 0;
        let Some(instance_id) = &beat.instance_id else {
            return match self.members.get(&beat.member_id) {
                Some(member) => valid_epoch(member, beat).map(|()| member.clone()),
                None if comes_in => Ok(ConsumerMember::default()),
                None => Err(ResponseError::UnknownMemberId),
            };
        };
        let Some(current) = self.static_member(instance_id).map(str::to_string) else {
            return if comes_in {
                Ok(ConsumerMember::default())
            } else {
                Err(ResponseError::UnknownMemberId)
            };
        };
        let member = self.members.get(&current).cloned().unwrap_or_default();
        if !comes_in {
            if current != beat.member_id {
                return Err(ResponseError::FencedInstanceId);
            }
            return valid_epoch(&member, beat).map(|()| member);
        }
        // Perhaps it missed the answer to its first heartbeat.
        if current == beat.member_id && member.previous_epoch == 0 {
            return Ok(member);
        }
        if member.epoch != AWAY {
            return Err(ResponseError::UnreleasedInstanceId);
        }
        self.members.remove(&current);
        let member = ConsumerMember { epoch: 0, previous_epoch: 0, ..member };
        self.members.insert(beat.member_id.clone(), member.clone());
        Ok(member)
    }

    /// Takes a member out for good, or for a while (`epoch` [`AWAY`], static members only), in which its partitions stay its.
    pub(crate) fn bow_out(
        &mut self,
        member_id: &str,
        instance_id: Option<&str>,
        epoch: i32,
    ) -> Result<(), ResponseError> {
        if let Some(instance_id) = instance_id {
            match self.static_member(instance_id) {
                None => return Err(ResponseError::UnknownMemberId),
                Some(current) if current != member_id => return Err(ResponseError::FencedInstanceId),
                Some(_) => {}
            }
        }
        let member = self.members.get_mut(member_id).ok_or(ResponseError::UnknownMemberId)?;
        if epoch == AWAY && instance_id.is_some() {
            (member.epoch, member.revoking) = (AWAY, Partitions::new());
            member.forget();
        } else {
            self.fence(member_id);
        }
        Ok(())
    }
}

/// A member comes with the epoch it has, or with the one before if the answer that told it the newer one may have been lost.
/// Who comes in again has given up everything.
fn valid_epoch(member: &ConsumerMember, beat: &Beat) -> Result<(), ResponseError> {
    let owns_less = || beat.owned.as_ref().is_some_and(|owned| is_within(owned, &member.assigned));
    match beat.epoch {
        0 => Ok(()),
        epoch if epoch == member.epoch => Ok(()),
        epoch if epoch < member.epoch && epoch == member.previous_epoch && owns_less() => Ok(()),
        _ => Err(ResponseError::FencedMemberEpoch),
    }
}

fn update(member: &mut ConsumerMember, beat: &Beat) {
    fn set<T: Clone>(field: &mut T, value: &Option<T>) {
        if let Some(value) = value {
            *field = value.clone();
        }
    }
    set(&mut member.rebalance_timeout_ms, &beat.rebalance_timeout_ms);
    set(&mut member.names, &beat.names);
    set(&mut member.pattern, &beat.pattern);
    member.instance_id = beat.instance_id.clone().or(member.instance_id.take());
    member.rack_id = beat.rack_id.clone().or(member.rack_id.take());
    member.assignor = beat.assignor.or(member.assignor);
    member.client_id.clone_from(&beat.client_id);
    member.client_host.clone_from(&beat.client_host);
}
