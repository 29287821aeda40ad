//! The agent: what its tasks share, and the task that accepts connections.

use crate::chunks::Chunks;
use crate::config::AgentConfig;
use crate::coordinator::Coordinator;
use crate::gate::{Gate, Patience};
use crate::head_watch::{self, HeadWatch};
use crate::lines::Lines;
use crate::records::AgentEntry;
use crate::steward::{self, Steward};
use crate::topics::TopicNames;
use crate::writer::{self, Inbox, Writer};
use crate::{chores, collector, compaction, connection, expiry, finish, membership};
use object_store::ObjectStore;
use rt::net::TcpListener;
use rt::time::sleep;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// Pause after a failed accept (out of descriptors, most likely).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What every task of the agent works with.
pub(crate) struct Context {
    pub(crate) config: AgentConfig,
    pub(crate) gate: Gate,
    pub(crate) chunks: Chunks,
    pub(crate) writer: Writer,
    pub(crate) lines: Lines,
    pub(crate) heads: HeadWatch,
    pub(crate) topic_names: TopicNames,
    pub(crate) steward: Steward,
}

impl Context {
    /// This agent as it registers itself.
    pub(crate) fn myself(&self) -> AgentEntry {
        AgentEntry {
            node_id: self.config.node_id,
            host: self.config.advertised_host.clone(),
            port: self.config.advertised_port,
        }
    }

    /// The patience of a request.
    pub(crate) fn patience(&self) -> Patience {
        self.patience_for(self.config.request_limit_ms)
    }

    /// The patience of something that may take `limit_ms`.
    pub(crate) fn patience_for(&self, limit_ms: u64) -> Patience {
        Patience::new(limit_ms, self.config.coordinator_timeout_ms, self.config.retry_backoff_ms)
    }
}

/// A broker agent. It keeps no state of its own: any agent serves any request, and a new one may take over at any time.
pub struct Agent {
    context: Arc<Context>,
    prepared: mpsc::UnboundedReceiver<finish::Prepared>,
    inbox: Inbox,
}

impl Agent {
    /// An agent over a coordinator and an object store. It touches neither before [`Agent::serve`].
    pub fn new(config: AgentConfig, coordinator: Arc<dyn Coordinator>, store: Arc<dyn ObjectStore>) -> Self {
        let (steward, prepared) = Steward::new();
        let (writer, inbox) = Writer::new();
        let context = Context {
            gate: Gate::new(coordinator, config.coordinator_timeout_ms),
            chunks: Chunks::new(store, config.store_timeout_ms, config.cache_max_bytes),
            writer,
            lines: Lines::default(),
            heads: HeadWatch::default(),
            topic_names: TopicNames::default(),
            steward,
            config,
        };
        Agent { context: Arc::new(context), prepared, inbox }
    }

    /// Registers and serves until dropped. It goes on while coordinator or store are away, and answers retriable errors.
    pub async fn serve(self, listener: TcpListener) {
        let Agent { context, mut prepared, inbox } = self;
        let mut tasks = rt::JoinSet::new();
        tasks.spawn("agent.membership", membership::run(context.clone()));
        tasks.spawn("agent.head-watch", head_watch::run(context.clone()));
        tasks.spawn("agent.steward", steward::run(context.clone()));
        tasks.spawn("agent.retention", chores::retain(context.clone()));
        tasks.spawn("agent.compaction", compaction::run(context.clone()));
        tasks.spawn("agent.collector", collector::run(context.clone()));
        tasks.spawn("agent.writer", writer::run(context.clone(), inbox));
        tasks.spawn("agent.expiry", expiry::run(context.clone()));
        loop {
            tokio::select! {
                biased;
                _ = tasks.join_next(), if !tasks.is_empty() => {}
                accepted = listener.accept() => match accepted {
                    Ok(stream) => tasks.spawn("agent.connection", connection::serve(context.clone(), stream)),
                    Err(_) => sleep(ACCEPT_PAUSE).await,
                },
                Some(prepared) = prepared.recv() => {
                    tasks.spawn("agent.finish", finish::run(context.clone(), prepared));
                }
            }
        }
    }
}
