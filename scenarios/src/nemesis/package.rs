//! Packages: what is done to which nodes.

use super::draw::Draw;
use super::period::Period;
use super::{clock, dependencies, membership, partition, processes};
use crate::cluster::{COORDINATOR, STORAGE};
use crate::config::Config;
use sim::fault::Fault;
use sim::node::Role;
use std::fmt;

/// Operations of one kind at the nodes of one role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Package {
    /// Processes are killed, or paused, or both in turn.
    Processes {
        /// Whose.
        role: Role,
        /// They are killed.
        kill: bool,
        /// They are paused.
        pause: bool,
    },
    /// Agents are cut off from agents.
    Partition,
    /// Agents are cut off from what they depend on.
    Dependencies {
        /// From the coordinator.
        coordinator: bool,
        /// From the object store.
        storage: bool,
    },
    /// Wall clocks jump, strobe, and are set right.
    Clock {
        /// Whose.
        role: Role,
    },
    /// Agents leave in order and come back; spare ones join.
    Membership,
}

/// A fault and when it strikes, before it has an id.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Planned {
    pub(super) at_ms: u64,
    pub(super) fault: Fault,
}

impl fmt::Display for Package {
    /// A stable name: choices are drawn by it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Package::Processes { role, .. } => write!(f, "processes {role:?}"),
            Package::Partition => f.write_str("partition"),
            Package::Dependencies { .. } => f.write_str("dependencies"),
            Package::Clock { role } => write!(f, "clock {role:?}"),
            Package::Membership => f.write_str("membership"),
        }
    }
}

impl Package {
    /// Whose nodes it strikes.
    pub(super) fn role(self) -> Role {
        match self {
            Package::Processes { role, .. } | Package::Clock { role } => role,
            Package::Partition | Package::Dependencies { .. } | Package::Membership => Role::Agent,
        }
    }

    /// Whether there is something that it can do.
    pub(super) fn has_targets(self, config: &Config) -> bool {
        match self {
            Package::Processes { kill, pause, .. } => kill || pause,
            Package::Partition => config.agents > 1,
            Package::Dependencies { coordinator, storage } => coordinator || storage,
            Package::Clock { .. } | Package::Membership => true,
        }
    }

    /// Its faults of one period, all healed by its end.
    pub(super) fn plan(self, draw: &Draw<'_>, config: &Config, period: &Period) -> Vec<Planned> {
        match self {
            Package::Processes { role, kill, pause } => {
                let kinds = processes::Kinds { kill, pause };
                processes::plan(draw, kinds, &nodes(config, role), period)
            }
            Package::Partition => partition::plan(draw, &config.agent_names(), period),
            Package::Dependencies { coordinator, storage } => {
                let all = [(coordinator, COORDINATOR), (storage, STORAGE)];
                let from: Vec<&str> =
                    all.into_iter().filter(|(is_on, _)| *is_on).map(|(_, node)| node).collect();
                dependencies::plan(draw, &from, &config.agent_names(), period)
            }
            Package::Clock { role } => clock::plan(draw, &nodes(config, role), period),
            Package::Membership => membership::plan(draw, config, period),
        }
    }
}

/// The nodes of a role.
fn nodes(config: &Config, role: Role) -> Vec<String> {
    match role {
        Role::Agent => config.agent_names(),
        Role::Coordinator => vec![COORDINATOR.to_string()],
        Role::Storage => vec![STORAGE.to_string()],
        Role::Client => Vec::new(),
    }
}
