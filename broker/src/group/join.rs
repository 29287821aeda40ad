//! JoinGroup to a classic group, after `GroupMetadataManager.classicGroupJoin` of Kafka 4.
//!
//! A join may be decided more than once, because the answer to its write was lost: the id that a request draws for a new
//! member is drawn once, and whoever finds it in the group knows that the write had landed.

use super::classic::{ClassicGroup, GroupPhase, Member, Turn};
use bytes::Bytes;
use kafka_protocol::ResponseError;

/// Somebody who sends a JoinGroup.
#[derive(Clone, Debug)]
pub(crate) struct Joiner {
    /// Empty for who has none yet.
    pub(crate) member_id: String,
    /// The id it gets then.
    pub(crate) new_member_id: String,
    pub(crate) instance_id: Option<String>,
    pub(crate) client_id: String,
    pub(crate) client_host: String,
    pub(crate) session_timeout_ms: i32,
    pub(crate) rebalance_timeout_ms: i32,
    pub(crate) protocol_type: String,
    pub(crate) protocols: Vec<(String, Bytes)>,
    /// It has to come back with its new id before it is a member (KIP-394).
    pub(crate) requires_id: bool,
}

/// What a JoinGroup did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Joined {
    /// It is the member of this id; [`ClassicGroup::joined`] says what it is told.
    Member(String),
    /// A static member came back to a stable group and goes on as the one of this id. Its clients before version 9 are told
    /// that the leader is another, so that they make no assignment nobody waits for.
    Kept { member_id: String, leader_before: String },
    /// Nothing; the id is that told with the error.
    Refused { member_id: String, error: ResponseError },
}

impl ClassicGroup {
    /// Takes a JoinGroup in.
    pub(crate) fn join(&mut self, joiner: &Joiner, size_max: usize) -> Joined {
        let refused = |error| Joined::Refused { member_id: joiner.member_id.clone(), error };
        if let Some(landed) = self.join_that_landed(joiner) {
            return landed;
        }
        if !self.accepts(&joiner.member_id, size_max) {
            self.remove(&joiner.member_id);
            return Joined::Refused { member_id: String::new(), error: ResponseError::GroupMaxSizeReached };
        }
        if !self.supports(&joiner.protocol_type, &joiner.protocols) {
            return refused(ResponseError::InconsistentGroupProtocol);
        }
        if !joiner.member_id.is_empty() {
            return self.join_again(joiner).unwrap_or_else(refused);
        }
        let new_id = joiner.new_member_id.clone();
        let current = joiner.instance_id.as_deref().and_then(|id| self.static_member(id)).map(str::to_string);
        match current {
            Some(current) => self.replace_static(&current, joiner),
            None if joiner.instance_id.is_none() && joiner.requires_id => {
                self.pending.insert(new_id.clone(), joiner.session_timeout_ms);
                Joined::Refused { member_id: new_id, error: ResponseError::MemberIdRequired }
            }
            None => self.add(new_id, joiner),
        }
    }

    /// What a member that joined is told now.
    pub(crate) fn joined(&self, member_id: &str, instance_id: Option<&str>) -> Turn {
        match self.members.get(member_id) {
            None => Turn::Refused(self.why_gone(instance_id)),
            Some(member) if member.joining => Turn::Wait,
            // The generation it joined is over already.
            Some(_) if self.phase == GroupPhase::PreparingRebalance => {
                Turn::Refused(ResponseError::RebalanceInProgress)
            }
            Some(_) => Turn::Answer,
        }
    }

    /// The same request, if it has been here before.
    fn join_that_landed(&self, joiner: &Joiner) -> Option<Joined> {
        let id = &joiner.new_member_id;
        if !joiner.member_id.is_empty() {
            return None;
        }
        if self.pending.contains_key(id) {
            return Some(Joined::Refused { member_id: id.clone(), error: ResponseError::MemberIdRequired });
        }
        let member = self.members.get(id)?;
        Some(match self.phase {
            GroupPhase::Stable if member.instance_id.is_some() => {
                Joined::Kept { member_id: id.clone(), leader_before: String::new() }
            }
            _ => Joined::Member(id.clone()),
        })
    }

    /// Whether there is room (`acceptJoiningMember`). While members join anew only those who have joined count, so that the
    /// last ones of a group that is too large are left out.
    fn accepts(&self, member_id: &str, size_max: usize) -> bool {
        let member = self.members.get(member_id);
        match self.phase {
            GroupPhase::Empty => true,
            GroupPhase::PreparingRebalance => {
                let joining = self.members.values().filter(|member| member.joining).count();
                member.is_some_and(|member| member.joining) || joining < size_max
            }
            GroupPhase::CompletingRebalance | GroupPhase::Stable => {
                member.is_some() || self.members.len() < size_max
            }
        }
    }

    /// A JoinGroup of somebody who has an id.
    fn join_again(&mut self, joiner: &Joiner) -> Result<Joined, ResponseError> {
        let id = &joiner.member_id;
        if self.pending.contains_key(id) {
            return match joiner.instance_id {
                // Static members are never asked to come back.
                Some(_) => Err(ResponseError::UnknownServerError),
                None => Ok(self.add(id.clone(), joiner)),
            };
        }
        self.validate(id, joiner.instance_id.as_deref())?;
        let same = self.members.get(id).is_some_and(|member| member.protocols == joiner.protocols);
        let rejoins = match self.phase {
            GroupPhase::Empty => return Err(ResponseError::UnknownMemberId),
            GroupPhase::PreparingRebalance => true,
            // Perhaps it missed the answer to its first JoinGroup.
            GroupPhase::CompletingRebalance => !same,
            // The leader makes the assignment anew for reasons of its own, such as new partitions.
            GroupPhase::Stable => !same || self.is_leader(id),
        };
        if rejoins {
            self.update(id, joiner, true);
            self.rebalance();
        }
        Ok(Joined::Member(id.clone()))
    }

    fn add(&mut self, member_id: String, joiner: &Joiner) -> Joined {
        let member = Member {
            instance_id: joiner.instance_id.clone(),
            client_id: joiner.client_id.clone(),
            client_host: joiner.client_host.clone(),
            session_timeout_ms: joiner.session_timeout_ms,
            rebalance_timeout_ms: joiner.rebalance_timeout_ms,
            protocols: joiner.protocols.clone(),
            assignment: Bytes::new(),
            joining: true,
            is_new: true,
            synced: false,
        };
        if self.members.is_empty() {
            self.protocol_type = Some(joiner.protocol_type.clone());
        }
        if self.phase == GroupPhase::PreparingRebalance && self.initial {
            self.added += 1;
        }
        self.leader.get_or_insert_with(|| member_id.clone());
        self.pending.remove(&member_id);
        self.members.insert(member_id.clone(), member);
        self.rebalance();
        Joined::Member(member_id)
    }

    fn update(&mut self, member_id: &str, joiner: &Joiner, joining: bool) {
        if let Some(member) = self.members.get_mut(member_id) {
            member.protocols = joiner.protocols.clone();
            member.session_timeout_ms = joiner.session_timeout_ms;
            member.rebalance_timeout_ms = joiner.rebalance_timeout_ms;
            member.joining = joining;
        }
    }

    /// A static member comes back without its id: it takes its own place under a new one, and the old one is fenced. In a
    /// stable group whose protocol stays nobody else notices.
    fn replace_static(&mut self, current: &str, joiner: &Joiner) -> Joined {
        let new_id = joiner.new_member_id.clone();
        let leader_before = self.leader.clone().unwrap_or_default();
        let Some(mut member) = self.members.remove(current) else {
            return Joined::Refused { member_id: String::new(), error: ResponseError::UnknownMemberId };
        };
        member.is_new = false;
        self.members.insert(new_id.clone(), member);
        if self.is_leader(current) {
            self.leader = Some(new_id.clone());
        }
        self.update(&new_id, joiner, false);
        if self.phase == GroupPhase::Stable && self.select_protocol() == self.protocol {
            return Joined::Kept { member_id: new_id, leader_before };
        }
        self.update(&new_id, joiner, true);
        // A new id in a generation that is being assigned: the leader would assign to the old one.
        self.rebalance();
        Joined::Member(new_id)
    }
}
