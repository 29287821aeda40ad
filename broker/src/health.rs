//! An agent's readiness, as a state machine that never ends because a dependency is away.
//!
//! | state | when |
//! |---|---|
//! | starting | not registered yet; requests are answered as far as they can be, else with retriable errors |
//! | ready | registered, and nothing is known to be away |
//! | degraded | a dependency does not answer, or the registration was lost; each with the time since when |
//! | draining | asked to end: no new connections, what is in flight is answered, then the lease is revoked |
//!
//! Method: every call to the coordinator and the store tells how it went. The membership polls the coordinator
//! anyway; the store is probed while it is away, so that an agent without requests recovers too.
//!
//! Limits. A store that nobody has called yet counts as there. One call that fails or times out makes its dependency
//! away until the next that is answered.

use rt::time::Instant;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// What an agent can do at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// Not registered yet.
    Starting,
    /// Registered, with every dependency there.
    Ready,
    /// Something it depends on is away: see [`Health::away`].
    Degraded,
    /// It ends once what is in flight is answered.
    Draining,
}

/// What an agent depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dependency {
    /// The coordinator answers.
    Coordinator,
    /// The object store answers.
    Store,
    /// The agent is registered under a lease.
    Registration,
}

impl fmt::Display for Readiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Readiness::Starting => "starting",
            Readiness::Ready => "ready",
            Readiness::Degraded => "degraded",
            Readiness::Draining => "draining",
        })
    }
}

impl fmt::Display for Dependency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Dependency::Coordinator => "coordinator",
            Dependency::Store => "store",
            Dependency::Registration => "registration",
        })
    }
}

/// A handle on an agent's health, for whoever runs it: it outlives the call to [`Agent::serve`](crate::Agent::serve).
#[derive(Clone)]
pub struct Health(Arc<Shared>);

struct Shared {
    node_id: i32,
    state: Mutex<State>,
    drains: Notify,
}

#[derive(Clone, Default)]
struct State {
    was_registered: bool,
    lease: Option<i64>,
    draining: bool,
    away: BTreeMap<Dependency, Instant>,
}

impl State {
    fn readiness(&self) -> Readiness {
        match self {
            State { draining: true, .. } => Readiness::Draining,
            State { was_registered: false, .. } => Readiness::Starting,
            State { away, .. } if !away.is_empty() => Readiness::Degraded,
            _ => Readiness::Ready,
        }
    }

    fn note(&mut self, dependency: Dependency, answers: bool) {
        if answers {
            self.away.remove(&dependency);
        } else {
            self.away.entry(dependency).or_insert_with(Instant::now);
        }
    }
}

impl Health {
    pub(crate) fn new(node_id: i32) -> Self {
        Health(Arc::new(Shared { node_id, state: Mutex::default(), drains: Notify::new() }))
    }

    /// What the agent can do now.
    pub fn readiness(&self) -> Readiness {
        self.state().readiness()
    }

    /// The dependencies that are away, each since when.
    pub fn away(&self) -> Vec<(Dependency, Instant)> {
        self.state().away.iter().map(|(dependency, since)| (*dependency, *since)).collect()
    }

    /// Asks the agent to end in order: [`Agent::serve`](crate::Agent::serve) returns when it has.
    pub fn drain(&self) {
        self.change(|state| state.draining = true);
        self.0.drains.notify_waiters();
    }

    /// Waits until the agent is asked to end.
    pub(crate) async fn drains(&self) {
        let asked = self.0.drains.notified();
        tokio::pin!(asked);
        asked.as_mut().enable();
        if !self.state().draining {
            asked.await;
        }
    }

    /// Notes whether a call to a dependency was answered.
    pub(crate) fn note(&self, dependency: Dependency, answers: bool) {
        if self.is_away(dependency) == answers {
            self.change(|state| state.note(dependency, answers));
        }
    }

    pub(crate) fn is_away(&self, dependency: Dependency) -> bool {
        self.state().away.contains_key(&dependency)
    }

    /// Notes that the agent is registered under `lease`, or no longer.
    pub(crate) fn registered(&self, lease: Option<i64>) {
        self.change(|state| {
            state.was_registered |= lease.is_some();
            state.lease = lease;
            let answers = lease.is_some() || !state.was_registered;
            state.note(Dependency::Registration, answers);
        });
    }

    /// The lease under which the agent is registered.
    pub fn lease(&self) -> Option<i64> {
        self.state().lease
    }

    /// Changes the state, and tells of it if that shows.
    fn change(&self, change: impl FnOnce(&mut State)) {
        let (before, after) = {
            let mut state = self.state();
            let before = state.clone();
            change(&mut state);
            (before, state.clone())
        };
        if before.readiness() != after.readiness() || before.away != after.away {
            rt::event!(
                "agent.readiness",
                node_id = self.0.node_id,
                readiness = &after.readiness().to_string(),
                away = &after.away.keys().map(Dependency::to_string).collect::<Vec<_>>().join(",")
            );
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Readiness::{Degraded, Draining, Ready, Starting};

    #[test]
    fn from_start_to_end() {
        let mut state = State::default();
        let mut step = |change: &dyn Fn(&mut State)| {
            change(&mut state);
            let away: Vec<_> = state.away.keys().map(Dependency::to_string).collect();
            (state.readiness(), away.join(","))
        };
        let of = |readiness, away: &str| (readiness, away.to_string());
        let (down, up) = (false, true);
        assert_eq!(step(&|_| ()), of(Starting, ""));
        assert_eq!(step(&|s| s.note(Dependency::Coordinator, down)), of(Starting, "coordinator"));
        assert_eq!(step(&|s| s.note(Dependency::Coordinator, up)), of(Starting, ""));
        assert_eq!(step(&|s| s.was_registered = true), of(Ready, ""));
        assert_eq!(step(&|s| s.note(Dependency::Store, down)), of(Degraded, "store"));
        assert_eq!(step(&|s| s.note(Dependency::Coordinator, down)), of(Degraded, "coordinator,store"));
        assert_eq!(step(&|s| s.note(Dependency::Store, up)), of(Degraded, "coordinator"));
        assert_eq!(step(&|s| s.note(Dependency::Coordinator, up)), of(Ready, ""));
        assert_eq!(step(&|s| s.draining = true), of(Draining, ""));
        assert_eq!(step(&|s| s.note(Dependency::Store, down)), of(Draining, "store"), "for good");
    }

    #[test]
    fn away_is_since_the_first_failure() {
        let mut state = State::default();
        let first = Instant::from_nanos(7);
        state.away.insert(Dependency::Store, first);
        state.note(Dependency::Store, false);
        assert_eq!(state.away[&Dependency::Store], first);
    }
}
