//! A group of the classic protocol, after `ClassicGroup` of Kafka 4: its values, and what can be asked of them.
//!
//! Members are kept by id, and whatever Kafka leaves to the order of a hash map goes by that order here.

use bytes::Bytes;
use kafka_protocol::ResponseError;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Where a group is between two generations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum GroupPhase {
    /// No members.
    #[default]
    Empty,
    /// Members are to join anew.
    PreparingRebalance,
    /// The next generation is made; its leader is to send the assignment.
    CompletingRebalance,
    /// Every member can have its assignment.
    Stable,
}

impl GroupPhase {
    /// Its name as Kafka tells it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            GroupPhase::Empty => "Empty",
            GroupPhase::PreparingRebalance => "PreparingRebalance",
            GroupPhase::CompletingRebalance => "CompletingRebalance",
            GroupPhase::Stable => "Stable",
        }
    }
}

/// A classic group. One that was never written is `ClassicGroup::default()`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ClassicGroup {
    pub(crate) phase: GroupPhase,
    /// Number of the generation, moved on whenever a join phase is complete.
    pub(crate) generation: i32,
    /// What its members are (`consumer`, `connect`); outlives them.
    pub(crate) protocol_type: Option<String>,
    /// The assignor that the generation agreed on.
    pub(crate) protocol: Option<String>,
    /// Member id of who makes the assignment.
    pub(crate) leader: Option<String>,
    pub(crate) members: BTreeMap<String, Member>,
    /// Member ids given out with MEMBER_ID_REQUIRED, each with the session time-out in ms that it has to come back.
    pub(crate) pending: BTreeMap<String, i32>,
    /// While PreparingRebalance: the group was Empty before, so it waits a little for further members.
    pub(crate) initial: bool,
    /// While `initial`: how many members came after the first.
    pub(crate) added: u32,
    /// While Empty: since when, by the wall clock of the agent that found it so, in ms.
    pub(crate) empty_since_ms: i64,
}

/// A member of a classic group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Member {
    /// `group.instance.id` of a static member (KIP-345).
    pub(crate) instance_id: Option<String>,
    pub(crate) client_id: String,
    pub(crate) client_host: String,
    pub(crate) session_timeout_ms: i32,
    pub(crate) rebalance_timeout_ms: i32,
    /// The assignors it knows, best first, each with what it says to it.
    pub(crate) protocols: Vec<(String, Bytes)>,
    /// What the leader assigned to it, opaque.
    pub(crate) assignment: Bytes,
    /// While PreparingRebalance: it has joined, and its JoinGroup waits to be answered.
    pub(crate) joining: bool,
    /// It was never told its generation.
    pub(crate) is_new: bool,
    /// It has sent a SyncGroup in this generation.
    pub(crate) synced: bool,
}

impl Member {
    /// What it says to the assignor `protocol`.
    pub(crate) fn metadata(&self, protocol: &str) -> Bytes {
        let found = self.protocols.iter().find(|(name, _)| name == protocol);
        found.map(|(_, metadata)| metadata.clone()).unwrap_or_default()
    }

    fn knows(&self, protocol: &str) -> bool {
        self.protocols.iter().any(|(name, _)| name == protocol)
    }
}

/// How it stands with a member whose request waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    Wait,
    /// The answer is what the group now says.
    Answer,
    Refused(ResponseError),
}

impl ClassicGroup {
    /// Whether the member id, and the instance id if there is one, are those of a member (`validateMember`).
    pub(crate) fn validate(&self, member_id: &str, instance_id: Option<&str>) -> Result<(), ResponseError> {
        if let Some(instance_id) = instance_id {
            match self.static_member(instance_id) {
                None => return Err(ResponseError::UnknownMemberId),
                Some(current) if current != member_id => return Err(ResponseError::FencedInstanceId),
                Some(_) => {}
            }
        }
        match self.members.contains_key(member_id) {
            true => Ok(()),
            false => Err(ResponseError::UnknownMemberId),
        }
    }

    /// Why who was a member is none any more.
    pub(crate) fn why_gone(&self, instance_id: Option<&str>) -> ResponseError {
        match instance_id.and_then(|instance_id| self.static_member(instance_id)) {
            Some(_) => ResponseError::FencedInstanceId,
            None => ResponseError::UnknownMemberId,
        }
    }

    /// Member id of the static member `instance_id`.
    pub(crate) fn static_member(&self, instance_id: &str) -> Option<&str> {
        let mut members = self.members.iter();
        let found = members.find(|(_, member)| member.instance_id.as_deref() == Some(instance_id));
        found.map(|(id, _)| id.as_str())
    }

    pub(crate) fn is_leader(&self, member_id: &str) -> bool {
        self.leader.as_deref() == Some(member_id)
    }

    /// The longest time that a member asks for to join anew, in ms.
    pub(crate) fn rebalance_timeout_ms(&self) -> i32 {
        self.members.values().map(|member| member.rebalance_timeout_ms).max().unwrap_or(0)
    }

    pub(super) fn all_joined(&self) -> bool {
        self.pending.is_empty() && self.members.values().all(|member| member.joining)
    }

    /// Whether somebody of these protocols fits in: one of them must be known to all members.
    pub(super) fn supports(&self, protocol_type: &str, protocols: &[(String, Bytes)]) -> bool {
        if self.phase == GroupPhase::Empty {
            return !protocol_type.is_empty() && !protocols.is_empty();
        }
        self.protocol_type.as_deref() == Some(protocol_type)
            && protocols.iter().any(|(name, _)| self.members.values().all(|member| member.knows(name)))
    }

    /// The protocol that most members like best among those that all know; the first by name where votes are equal.
    pub(super) fn select_protocol(&self) -> Option<String> {
        let candidate = |name: &&String| self.members.values().all(|member| member.knows(name));
        let names = self.members.values().next()?.protocols.iter().map(|(name, _)| name);
        let candidates: BTreeSet<&String> = names.filter(candidate).collect();
        let mut votes: BTreeMap<&String, usize> = BTreeMap::new();
        for member in self.members.values() {
            let vote = member.protocols.iter().map(|(name, _)| name).find(|name| candidates.contains(name));
            *votes.entry(vote?).or_default() += 1;
        }
        let most = votes.values().copied().max()?;
        votes.iter().find(|(_, votes)| **votes == most).map(|(name, _)| (*name).clone())
    }

    /// Takes somebody out. The next leader is the first member that is left.
    pub(super) fn remove(&mut self, member_id: &str) {
        self.members.remove(member_id);
        self.pending.remove(member_id);
        if self.is_leader(member_id) {
            self.leader = self.members.keys().next().cloned();
        }
    }

    /// Begins a rebalance, or completes the join phase that is on (`maybePrepareRebalanceOrCompleteJoin`).
    pub(super) fn rebalance(&mut self) {
        match self.phase {
            GroupPhase::PreparingRebalance => self.try_complete(),
            _ => self.prepare(),
        }
    }

    /// Begins a join phase. That of an empty group is completed by its delay only.
    pub(super) fn prepare(&mut self) {
        let completing = self.phase == GroupPhase::CompletingRebalance;
        for member in self.members.values_mut() {
            member.synced = false;
            if completing {
                member.assignment.clear();
            }
        }
        self.initial = self.phase == GroupPhase::Empty;
        self.added = 0;
        self.phase = GroupPhase::PreparingRebalance;
        self.try_complete();
    }

    /// Completes the join phase if everybody is there.
    pub(super) fn try_complete(&mut self) {
        if self.phase == GroupPhase::PreparingRebalance && !self.initial && self.all_joined() {
            self.complete_join();
        }
    }

    /// Makes the next generation of those who joined. Dynamic members who did not are out; static ones stay (KIP-345), and
    /// when nobody joined at all the phase goes on.
    pub(super) fn complete_join(&mut self) {
        let gone = self.members.iter().filter(|(_, member)| !member.joining && member.instance_id.is_none());
        let gone: Vec<String> = gone.map(|(id, _)| id.clone()).collect();
        gone.iter().for_each(|id| self.remove(id));
        if !self.elect_joined_leader() {
            return;
        }
        self.generation = self.generation.wrapping_add(1).max(1);
        (self.initial, self.added) = (false, 0);
        self.protocol = self.select_protocol();
        self.phase = match self.members.is_empty() {
            true => GroupPhase::Empty,
            false => GroupPhase::CompletingRebalance,
        };
        for member in self.members.values_mut() {
            (member.joining, member.is_new, member.synced) = (false, false, false);
        }
    }

    /// A leader that has not joined gives way to somebody who has. False if members are left and none has joined.
    fn elect_joined_leader(&mut self) -> bool {
        let joined = |id: &String| self.members.get(id).is_some_and(|member| member.joining);
        if self.leader.as_ref().is_some_and(joined) {
            return true;
        }
        let next = self.members.iter().find(|(_, member)| member.joining).map(|(id, _)| id.clone());
        match next {
            Some(next) => self.leader = Some(next),
            None if self.members.is_empty() => self.leader = None,
            None => return false,
        }
        true
    }
}

#[cfg(test)]
#[path = "classic_tests.rs"]
mod tests;
