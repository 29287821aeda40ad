//! Where a member stands with its coordinator: Java's `AbstractCoordinator`. It decides and never waits.
//!
//! The application, when it polls, asks to join; the task takes calls out and brings their ends back. Where Java goes
//! on with a rebalance only inside `poll`, here the task sends `SyncGroup` as soon as `JoinGroup` is answered. What the
//! ends of calls change is in `reply`.

use super::heartbeat::Heartbeat;
use crate::config::ConsumerConfig;
use crate::error::Error;
use crate::types::TopicPartition;
use bytes::Bytes;
use rt::time::Instant;
use std::collections::BTreeSet;
use std::time::Duration;

/// Java's `MemberState`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Unjoined,
    PreparingRebalance,
    CompletingRebalance,
    Stable,
}

/// As whom a member speaks: Java's `Generation`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Generation {
    /// -1 for none.
    pub(crate) id: i32,
    /// Empty for none.
    pub(crate) member_id: String,
    pub(crate) protocol: Option<String>,
}

impl Generation {
    pub(crate) const NONE: Generation = Generation { id: -1, member_id: String::new(), protocol: None };

    pub(super) fn is_reset(&self) -> bool {
        self.id == -1 && self.protocol.is_none()
    }
}

/// How far a rebalance has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Rebalance {
    None,
    /// `JoinGroup` is to be sent.
    Join,
    Joining,
    /// This member leads, and must say who gets what.
    Assign,
    /// `SyncGroup` is to be sent, with the assignments if this member leads.
    Sync(Vec<(String, Bytes)>),
    Syncing,
    /// What the application has not taken note of yet.
    Synced(BTreeSet<TopicPartition>),
}

/// A call of the membership's own. The others are `core`'s.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Join,
    Sync(Vec<(String, Bytes)>),
    Heartbeat,
    Leave,
}

/// What a good `JoinGroup` answer says of this member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JoinAnswer {
    pub(crate) generation: Generation,
    pub(crate) leads: bool,
    /// A static member came back to a group that goes on as it is (KIP-814).
    pub(crate) skip_assignment: bool,
}

/// A member's state.
#[derive(Debug)]
pub(crate) struct Membership {
    is_static: bool,
    retry_backoff: Duration,
    pub(crate) coordinator: Option<i32>,
    /// The connection to a coordinator that is doubted must go.
    pub(crate) hang_up: Option<i32>,
    pub(crate) state: State,
    pub(crate) generation: Generation,
    pub(crate) leads: bool,
    pub(super) rejoin_needed: bool,
    /// The application has given up what it must before it joins (Java's `needsJoinPrepare`, the other way round).
    pub(crate) prepared: bool,
    pub(crate) rebalance: Rebalance,
    /// Not to join before this moment.
    retry_at: Instant,
    pub(super) heartbeat: Heartbeat,
    /// `LeaveGroup` is to be sent as this member.
    leaving: Option<Generation>,
    /// What the application must be told.
    pub(crate) failure: Option<Error>,
}

impl Membership {
    pub(crate) fn new(config: &ConsumerConfig, now: Instant) -> Self {
        Membership {
            is_static: config.group_instance_id.is_some(),
            retry_backoff: Duration::from_millis(config.retry_backoff_ms),
            coordinator: None,
            hang_up: None,
            state: State::Unjoined,
            generation: Generation::NONE,
            leads: false,
            rejoin_needed: true,
            prepared: false,
            rebalance: Rebalance::None,
            retry_at: now,
            heartbeat: Heartbeat::new(config, now),
            leaving: None,
            failure: None,
        }
    }

    // ---- what the application asks for ----

    /// `poll` was called (`pollHeartbeat`).
    pub(crate) fn polled(&mut self, now: Instant) {
        self.heartbeat.polled(now);
    }

    pub(crate) fn must_rejoin(&self) -> bool {
        self.rejoin_needed || self.rebalance != Rebalance::None
    }

    /// The generation, if it can be spoken as (`generationIfStable`).
    pub(crate) fn stable_generation(&self) -> Option<&Generation> {
        (self.state == State::Stable).then_some(&self.generation)
    }

    pub(crate) fn is_rebalancing(&self) -> bool {
        matches!(self.state, State::PreparingRebalance | State::CompletingRebalance)
    }

    /// Whether the application has an assignment to take note of.
    pub(crate) fn has_synced(&self) -> bool {
        matches!(self.rebalance, Rebalance::Synced(_))
    }

    /// Whether `LeaveGroup` is to be sent.
    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving.is_some()
    }

    /// Joins, if it is not doing so (`initiateJoinGroup`). Otherwise the moment from which it may.
    pub(crate) fn join(&mut self, now: Instant) -> Option<Instant> {
        if self.rebalance != Rebalance::None || self.coordinator.is_none() {
            return None;
        }
        if now < self.retry_at {
            return Some(self.retry_at);
        }
        self.state = State::PreparingRebalance;
        self.rebalance = Rebalance::Join;
        None
    }

    /// The end of a rebalance: what this member got, and as whom. `None` if a heartbeat has reset the generation
    /// meanwhile; it joins again then.
    pub(crate) fn complete(&mut self) -> Option<BTreeSet<TopicPartition>> {
        let Rebalance::Synced(partitions) = std::mem::replace(&mut self.rebalance, Rebalance::None) else {
            return None;
        };
        if self.state == State::Stable && !self.generation.is_reset() {
            self.prepared = false;
            Some(partitions)
        } else {
            self.reset(true);
            None
        }
    }

    pub(crate) fn request_rejoin(&mut self) {
        self.rejoin_needed = true;
    }

    /// Leaves the group: only dynamic members tell it (`maybeLeaveGroup`).
    pub(crate) fn leave(&mut self) {
        let is_member = self.state != State::Unjoined && !self.generation.member_id.is_empty();
        if !self.is_static && self.coordinator.is_some() && is_member {
            self.leaving = Some(self.generation.clone());
        }
        self.reset(true);
    }

    // ---- what the task asks for ----

    /// The next call, and as whom.
    pub(crate) fn next(&mut self, now: Instant) -> Option<(Call, Generation)> {
        if let Some(generation) = self.leaving.take() {
            return Some((Call::Leave, generation));
        }
        let call = match std::mem::replace(&mut self.rebalance, Rebalance::None) {
            Rebalance::Join => {
                self.rebalance = Rebalance::Joining;
                Some(Call::Join)
            }
            Rebalance::Sync(assignments) => {
                self.rebalance = Rebalance::Syncing;
                Some(Call::Sync(assignments))
            }
            other => {
                self.rebalance = other;
                None
            }
        };
        let call = call.or_else(|| {
            let due = self.beats() && self.heartbeat.is_due(now);
            due.then(|| {
                self.heartbeat.sent(now);
                Call::Heartbeat
            })
        });
        call.map(|call| (call, self.generation.clone()))
    }

    /// Whether heartbeats are sent: not outside the group, and not before `JoinGroup` is answered.
    fn beats(&self) -> bool {
        matches!(self.state, State::CompletingRebalance | State::Stable) && self.failure.is_none()
    }

    /// What the heartbeat thread does when nobody was heard for too long.
    pub(crate) fn tick(&mut self, now: Instant) {
        if !self.beats() || self.coordinator.is_none() {
            return;
        }
        if self.heartbeat.session_expired(now) {
            self.lose_coordinator(true);
        } else if self.heartbeat.poll_expired(now) {
            rt::event!("member.poll_timeout", member = &self.generation.member_id);
            self.leave();
        }
    }

    pub(crate) fn next_due(&self) -> Option<Instant> {
        (self.beats() && self.coordinator.is_some()).then(|| self.heartbeat.next_due())
    }

    pub(crate) fn found_coordinator(&mut self, node: i32, now: Instant) {
        self.coordinator = Some(node);
        self.heartbeat.session_restarts(now);
    }

    /// Forgets the coordinator. `connected`: what is under way to it fails.
    pub(crate) fn lose_coordinator(&mut self, connected: bool) {
        if let Some(node) = self.coordinator.take().filter(|_| connected) {
            self.hang_up = Some(node);
        }
    }

    pub(super) fn rebalance_failed(&mut self, now: Instant, backs_off: bool) {
        self.rebalance = Rebalance::None;
        self.rejoin_needed = true;
        self.retry_at = if backs_off { now + self.retry_backoff } else { now };
    }

    /// It is in no generation any more (`resetStateAndRejoin`). What is under way of a rebalance fails by itself.
    pub(super) fn reset(&mut self, member_id_too: bool) {
        let member_id = if member_id_too { String::new() } else { self.generation.member_id.clone() };
        self.state = State::Unjoined;
        self.generation = Generation { member_id, ..Generation::NONE };
        self.rejoin_needed = true;
        self.prepared = false;
        if matches!(self.rebalance, Rebalance::Join | Rebalance::Assign | Rebalance::Sync(_)) {
            self.rebalance = Rebalance::None;
        }
    }

    pub(crate) fn fail(&mut self, error: Error) {
        self.rebalance = Rebalance::None;
        self.rejoin_needed = true;
        self.failure = Some(error);
    }
}

#[cfg(test)]
#[path = "membership_tests.rs"]
mod tests;
