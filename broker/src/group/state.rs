//! What is stored about a group's members: a group of the classic protocol, or of the consumer protocol. It changes from one
//! to the other only while it has none.

use super::classic::{ClassicGroup, GroupPhase};
use super::consumer::ConsumerGroup;
use super::subscription::CONSUMER;
use super::timer::Timer;
use crate::config::GroupConfig;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// A group's members. Absent: it never had any, or was deleted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum GroupState {
    Classic(ClassicGroup),
    Consumer(ConsumerGroup),
}

impl GroupState {
    pub(crate) fn classic(&self) -> Option<&ClassicGroup> {
        match self {
            GroupState::Classic(group) => Some(group),
            GroupState::Consumer(_) => None,
        }
    }

    pub(crate) fn classic_mut(&mut self) -> Option<&mut ClassicGroup> {
        match self {
            GroupState::Classic(group) => Some(group),
            GroupState::Consumer(_) => None,
        }
    }

    /// The state by the name that Kafka gives it.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            GroupState::Classic(group) => group.phase.name(),
            GroupState::Consumer(group) => group.state_name(),
        }
    }

    /// Kafka's `GroupType`.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            GroupState::Classic(_) => "classic",
            GroupState::Consumer(_) => "consumer",
        }
    }

    pub(crate) fn protocol_type(&self) -> &str {
        match self {
            GroupState::Classic(group) => group.protocol_type.as_deref().unwrap_or_default(),
            GroupState::Consumer(_) => CONSUMER,
        }
    }

    /// Whether the group reads the topic.
    pub(crate) fn is_subscribed(&self, topic: &str) -> bool {
        match self {
            GroupState::Classic(group) => group.is_subscribed(topic),
            GroupState::Consumer(group) => group.is_subscribed(topic),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        match self {
            GroupState::Classic(group) => group.phase == GroupPhase::Empty,
            GroupState::Consumer(group) => group.members.is_empty(),
        }
    }

    /// Generation or group epoch, and the number of members.
    pub(super) fn generation(&self) -> (i32, usize) {
        match self {
            GroupState::Classic(group) => (group.generation, group.members.len()),
            GroupState::Consumer(group) => (group.epoch, group.members.len()),
        }
    }

    /// All that the group waits for now, each with how long from when the waiting began.
    pub(super) fn timers(&self, config: &GroupConfig) -> BTreeMap<Timer, Duration> {
        match self {
            GroupState::Classic(group) => group.timers(config.initial_rebalance_delay_ms),
            GroupState::Consumer(group) => group.timers(config.consumer_session_timeout_ms),
        }
    }

    /// The group after a timer ran out.
    pub(super) fn elapse(&mut self, timer: &Timer) {
        match self {
            GroupState::Classic(group) => group.elapse(timer),
            GroupState::Consumer(group) => group.elapse(timer),
        }
    }
}
