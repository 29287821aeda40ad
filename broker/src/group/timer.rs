//! What a group waits for, how long, and what happens when it does not come. Pure: `keeper` has the clock.
//!
//! A timer's name says what it is about and in which generation, so one that is still wanted after a change goes on, and
//! one that is wanted anew begins anew. Rules after `GroupMetadataManager` of Kafka 4.

use super::classic::{ClassicGroup, GroupPhase, Member};
use super::consumer::{AWAY, ConsumerGroup, Progress};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long a JoinGroup of a new member may wait before it counts as given up: it has no session yet.
const NEW_MEMBER_JOIN_TIMEOUT: Duration = Duration::from_secs(300);

/// Something a group waits for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// A sign of life of a member. `is_new` for one that was never told its generation.
    Session { member_id: String, generation: i32, is_new: bool },
    /// The second JoinGroup of somebody who was given a member id.
    Pending(String),
    /// Further members of a group that was empty.
    Initial(i32),
    /// The JoinGroups of all members.
    Join(i32),
    /// The SyncGroups of all members.
    Sync(i32),
    /// What a member of the consumer protocol is to give up in this epoch.
    Revocation { member_id: String, epoch: i32 },
}

impl Timer {
    /// Whether a sign of life of the member begins it anew.
    pub(crate) fn is_session_of(&self, member: &str) -> bool {
        matches!(self, Timer::Session { member_id, is_new: false, .. } if member_id == member)
    }

    /// Whether it ends somebody's membership for being silent.
    pub(crate) fn is_of_silence(&self) -> bool {
        matches!(self, Timer::Session { .. } | Timer::Pending(_))
    }
}

fn millis(ms: i32) -> Duration {
    Duration::from_millis(ms.max(0) as u64)
}

impl ConsumerGroup {
    pub(super) fn timers(&self, session_timeout_ms: i32) -> BTreeMap<Timer, Duration> {
        let mut timers = BTreeMap::new();
        for (member_id, member) in &self.members {
            let session = Timer::Session { member_id: member_id.clone(), generation: 0, is_new: false };
            timers.insert(session, millis(session_timeout_ms));
            if member.progress == Progress::UnrevokedPartitions && member.epoch != AWAY {
                let revocation = Timer::Revocation { member_id: member_id.clone(), epoch: member.epoch };
                timers.insert(revocation, millis(member.rebalance_timeout_ms));
            }
        }
        timers
    }

    pub(super) fn elapse(&mut self, timer: &Timer) {
        if let Timer::Session { member_id, .. } | Timer::Revocation { member_id, .. } = timer {
            self.fence(member_id);
        }
    }
}

impl ClassicGroup {
    pub(super) fn timers(&self, initial_delay_ms: i32) -> BTreeMap<Timer, Duration> {
        let (generation, rebalance) = (self.generation, millis(self.rebalance_timeout_ms()));
        let mut timers = BTreeMap::new();
        for (member_id, member) in &self.members {
            let timer = Timer::Session { member_id: member_id.clone(), generation, is_new: member.is_new };
            if member.is_new {
                timers.insert(timer, NEW_MEMBER_JOIN_TIMEOUT);
            } else if !self.waits_for_answer(member) {
                timers.insert(timer, millis(member.session_timeout_ms));
            }
        }
        timers.extend(self.pending.iter().map(|(id, ms)| (Timer::Pending(id.clone()), millis(*ms))));
        match self.phase {
            GroupPhase::Empty => {}
            GroupPhase::PreparingRebalance if self.initial => {
                timers.insert(Timer::Initial(generation), millis(initial_delay_ms));
            }
            GroupPhase::PreparingRebalance => {
                timers.insert(Timer::Join(generation), rebalance);
            }
            GroupPhase::CompletingRebalance | GroupPhase::Stable => {
                if self.members.values().any(|member| !member.synced) {
                    timers.insert(Timer::Sync(generation), rebalance);
                }
            }
        }
        timers
    }

    /// Somebody whose request the group holds cannot be silent.
    fn waits_for_answer(&self, member: &Member) -> bool {
        member.joining || (member.synced && self.phase == GroupPhase::CompletingRebalance)
    }

    pub(super) fn elapse(&mut self, timer: &Timer) {
        match timer {
            Timer::Session { member_id, .. } => self.expire(member_id),
            Timer::Pending(id) => {
                self.remove(id);
                self.complete_if_all_joined();
            }
            Timer::Initial(_) | Timer::Join(_) => self.complete_join(),
            Timer::Revocation { .. } => {}
            Timer::Sync(_) => {
                self.members.retain(|_, member| member.synced);
                if !self.leader.as_ref().is_some_and(|leader| self.members.contains_key(leader)) {
                    self.leader = self.members.keys().next().cloned();
                }
                self.prepare();
            }
        }
    }

    /// A member was silent for its session time-out.
    fn expire(&mut self, member_id: &str) {
        self.remove(member_id);
        match self.phase {
            GroupPhase::Stable | GroupPhase::CompletingRebalance => self.prepare(),
            GroupPhase::PreparingRebalance => self.complete_if_all_joined(),
            GroupPhase::Empty => {}
        }
    }

    /// Also in the join phase of a group that was empty: nobody is left to wait for.
    fn complete_if_all_joined(&mut self) {
        if self.phase == GroupPhase::PreparingRebalance && self.all_joined() {
            self.complete_join();
        }
    }
}
