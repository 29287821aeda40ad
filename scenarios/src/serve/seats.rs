//! The agents of a served cluster, each of which can be ended and started while the others go on.

use super::backend::Backend;
use broker::{Agent, AgentConfig, Counters, Health};
use rt::JoinHandle;
use rt::net::TcpListener;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How an agent is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// At once, as a crash does: connections close, the lease is left to run out.
    Crash,
    /// In order: what is in flight is answered, the lease is revoked.
    Drain,
}

/// A place for an agent: its settings, and the agent while there is one.
pub(super) struct Seat {
    config: AgentConfig,
    state: Mutex<State>,
}

enum State {
    Stopped,
    /// A start or an end is under way.
    Changing(Option<Handles>),
    Running {
        handles: Handles,
        task: JoinHandle<()>,
        /// Set once the task is over, which nobody asked for.
        ended: Arc<AtomicBool>,
    },
}

/// Sets its flag when a task ends, by a panic too.
struct Ending(Arc<AtomicBool>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// What an agent tells of itself.
#[derive(Clone)]
pub(super) struct Handles {
    pub(super) health: Health,
    pub(super) counters: Counters,
}

/// Why an agent is not started or ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// It is not in the state that this needs.
    Not(&'static str),
    Io(String),
}

impl Seat {
    /// An agent on `listener`.
    pub(super) fn new(config: AgentConfig, listener: TcpListener, backend: &Backend) -> Self {
        let state = Mutex::new(start(&config, listener, backend));
        Seat { config, state }
    }

    pub(super) fn node_id(&self) -> i32 {
        self.config.node_id
    }

    /// The address that clients are told.
    pub(super) fn address(&self) -> String {
        format!("{}:{}", self.config.advertised_host, self.config.advertised_port)
    }

    /// `running`, `stopped`, `changing`, or `failed` if it ended unasked.
    pub(super) fn state(&self) -> &'static str {
        match &*self.lock() {
            State::Stopped => "stopped",
            State::Changing(_) => "changing",
            State::Running { ended, .. } if ended.load(Ordering::Relaxed) => "failed",
            State::Running { .. } => "running",
        }
    }

    /// What the agent tells of itself, if there is one.
    pub(super) fn handles(&self) -> Option<Handles> {
        match &*self.lock() {
            State::Stopped => None,
            State::Changing(handles) => handles.clone(),
            State::Running { ended, .. } if ended.load(Ordering::Relaxed) => None,
            State::Running { handles, .. } => Some(handles.clone()),
        }
    }

    /// Ends the agent and waits until it has ended.
    pub(super) async fn stop(&self, stop: Stop) -> Result<(), Refused> {
        let task = {
            let mut state = self.lock();
            match std::mem::replace(&mut *state, State::Stopped) {
                State::Running { handles, task, .. } => {
                    match stop {
                        Stop::Crash => task.abort(),
                        Stop::Drain => handles.health.drain(),
                    }
                    *state = State::Changing(Some(handles));
                    task
                }
                other => {
                    *state = other;
                    return Err(Refused::Not("running"));
                }
            }
        };
        // However it ended, it is over.
        let _ = task.await;
        *self.lock() = State::Stopped;
        Ok(())
    }

    /// Starts an agent anew, on the port that the first one had.
    pub(super) async fn start(&self, listen_host: &str, backend: &Backend) -> Result<(), Refused> {
        {
            let mut state = self.lock();
            if !matches!(*state, State::Stopped) {
                return Err(Refused::Not("stopped"));
            }
            *state = State::Changing(None);
        }
        let bound = TcpListener::bind(&format!("{listen_host}:{}", self.config.advertised_port)).await;
        let (state, result) = match bound {
            Ok(listener) => (start(&self.config, listener, backend), Ok(())),
            Err(error) => (State::Stopped, Err(Refused::Io(error.to_string()))),
        };
        *self.lock() = state;
        result
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn start(config: &AgentConfig, listener: TcpListener, backend: &Backend) -> State {
    let agent = Agent::new(config.clone(), backend.coordinator(), backend.store());
    let handles = Handles { health: agent.health(), counters: agent.counters() };
    let ended = Arc::new(AtomicBool::new(false));
    let ending = Ending(ended.clone());
    let task = rt::spawn("serve.agent", async move {
        let _ending = ending;
        agent.serve(listener).await;
    });
    State::Running { handles, task, ended }
}

/// Listens on `host:port` for each of `count` agents: on `port` and the ones after it, on any if it is 0.
pub(super) async fn listen(
    host: &str,
    port: u16,
    count: u16,
) -> Result<Vec<TcpListener>, (String, io::Error)> {
    let mut listeners = Vec::new();
    for n in 0..count {
        let address = match port {
            0 => format!("{host}:0"),
            port => format!("{host}:{}", port.saturating_add(n)),
        };
        listeners.push(TcpListener::bind(&address).await.map_err(|error| (address, error))?);
    }
    Ok(listeners)
}
