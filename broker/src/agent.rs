//! The agent: what its tasks share, and the task that accepts connections.

use crate::api::{self, Answer};
use crate::chunks::Chunks;
use crate::config::AgentConfig;
use crate::coordinator::Coordinator;
use crate::counters::Counters;
use crate::gate::{Gate, Patience};
use crate::group::{self, Keeper};
use crate::health::Health;
use crate::lines::Lines;
use crate::memory::RequestMemory;
use crate::prefix_watch::{self, PrefixWatch};
use crate::records::AgentEntry;
use crate::steward::{self, Steward};
use crate::topics::TopicNames;
use crate::watermarks::{self, Watermarks};
use crate::writer::{self, Inbox, Writer};
use crate::{chores, chunks, collector, compaction, connection, expiry, finish, fragile, layout, membership};
use bytes::Bytes;
use object_store::ObjectStore;
use rt::host::BoxFuture;
use rt::net::TcpListener;
use rt::time::{sleep, timeout};
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
    /// Lines of requests that change a group's members; see `group::owner`.
    pub(crate) group_lines: Lines,
    pub(crate) heads: PrefixWatch,
    /// Only with the defect `watch_gap`.
    pub(crate) watermarks: Option<Watermarks>,
    pub(crate) group_states: PrefixWatch,
    pub(crate) agents: PrefixWatch,
    pub(crate) keeper: Keeper,
    pub(crate) topic_names: TopicNames,
    pub(crate) steward: Steward,
    pub(crate) health: Health,
    pub(crate) counters: Counters,
    pub(crate) memory: RequestMemory,
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
        let (health, counters) = (Health::new(config.node_id), Counters::default());
        let context = Context {
            gate: Gate::new(coordinator, config.coordinator_timeout_ms, health.clone(), counters.clone()),
            chunks: Chunks::new(store, &config, health.clone(), counters.clone()),
            writer,
            lines: Lines::default(),
            group_lines: Lines::default(),
            heads: PrefixWatch::new(layout::HEADS),
            watermarks: config.defects.watch_gap.then(Watermarks::default),
            group_states: PrefixWatch::new(layout::GROUP_STATES),
            agents: PrefixWatch::new(layout::AGENTS),
            keeper: Keeper::new(&config),
            topic_names: TopicNames::default(),
            steward,
            health,
            counters,
            memory: RequestMemory::new(config.queued_max_request_bytes),
            config,
        };
        Agent { context: Arc::new(context), prepared, inbox }
    }

    /// The agent's health, and the way to end it in order.
    pub fn health(&self) -> Health {
        self.context.health.clone()
    }

    /// What the agent counts.
    pub fn counters(&self) -> Counters {
        self.context.counters.clone()
    }

    /// Executes one request as if it had come on a connection: its frame without the length in, the answer's frame out.
    /// `None` where a connection would stay silent or close. For hosts with a transport of their own, and for fuzzing.
    pub fn answer(&self, frame: Bytes) -> BoxFuture<Option<Bytes>> {
        let context = self.context.clone();
        Box::pin(async move {
            let mut held = context.memory.request();
            held.grow(frame.len()).await;
            match api::handle(&context, frame, "", &mut held).await {
                Answer::Reply { frame, .. } => Some(frame),
                Answer::Nothing | Answer::Close => None,
            }
        })
    }

    /// Registers and serves until dropped, or until [`Health::drain`] and what is in flight is answered. It goes on while
    /// coordinator or store are away, and answers retriable errors.
    // Boxed, so that it is compiled here, and not once more in every crate that calls it.
    pub fn serve(self, listener: TcpListener) -> BoxFuture<()> {
        let context = self.context.clone();
        match context.config.defects.exits_on_trouble {
            true => Box::pin(fragile::serve(context, self.serve_until_drained(listener))),
            false => Box::pin(self.serve_until_drained(listener)),
        }
    }

    async fn serve_until_drained(self, listener: TcpListener) {
        let Agent { context, mut prepared, inbox } = self;
        let mut tasks = rt::JoinSet::new();
        tasks.spawn("agent.membership", membership::run(context.clone()));
        tasks.spawn("agent.head-watch", prefix_watch::run(context.clone(), |context| &context.heads));
        if context.watermarks.is_some() {
            tasks.spawn("agent.watermarks", watermarks::run(context.clone()));
        }
        tasks.spawn("agent.group-watch", prefix_watch::run(context.clone(), |context| &context.group_states));
        tasks.spawn("agent.agent-watch", prefix_watch::run(context.clone(), |context| &context.agents));
        tasks.spawn("agent.group-retention", group::retain(context.clone()));
        tasks.spawn("agent.group-keeper", group::run(context.clone()));
        tasks.spawn("agent.steward", steward::run(context.clone()));
        tasks.spawn("agent.retention", chores::retain(context.clone()));
        tasks.spawn("agent.compaction", compaction::run(context.clone()));
        tasks.spawn("agent.collector", collector::run(context.clone()));
        tasks.spawn("agent.writer", writer::run(context.clone(), inbox));
        tasks.spawn("agent.expiry", expiry::run(context.clone()));
        tasks.spawn("agent.store-probe", chunks::probe(context.clone()));
        let (mut connections, mut finishing) = (rt::JoinSet::new(), rt::JoinSet::new());
        loop {
            tokio::select! {
                biased;
                () = context.health.drains() => break,
                _ = connections.join_next(), if !connections.is_empty() => {}
                _ = finishing.join_next(), if !finishing.is_empty() => {}
                accepted = listener.accept() => match accepted {
                    Ok(_) if connections.len() >= context.config.connections_max => {
                        context.counters.connection_refused();
                        rt::mark!(reachable, "a connection beyond the limit was closed");
                    }
                    Ok(stream) => {
                        connections.spawn("agent.connection", connection::serve(context.clone(), stream));
                    }
                    Err(_) => sleep(ACCEPT_PAUSE).await,
                },
                Some(prepared) = prepared.recv() => {
                    finishing.spawn("agent.finish", finish::run(context.clone(), prepared));
                }
            }
        }
        drop(listener);
        let in_flight = async {
            loop {
                tokio::select! {
                    biased;
                    // First, so that what the last request prepared is not left behind. The context holds a sender, so this
                    // never ends by itself.
                    Some(prepared) = prepared.recv(), if !connections.is_empty() || !finishing.is_empty() => {
                        finishing.spawn("agent.finish", finish::run(context.clone(), prepared));
                    }
                    _ = connections.join_next(), if !connections.is_empty() => {}
                    _ = finishing.join_next(), if !finishing.is_empty() => {}
                    else => break,
                }
            }
        };
        let limit = Duration::from_millis(context.config.drain_limit_ms);
        let answered = timeout(limit, in_flight).await.is_ok();
        drop(tasks);
        membership::leave(&context).await;
        rt::event!("agent.drained", node_id = context.config.node_id, answered = answered);
    }
}
