//! A cluster for real clients: the same agents as in the tank, on real tokio and real TCP.
//!
//! * [`Settings`]: what agents and embedded models are told; [`Options`]: all that `wavetank serve` is asked for
//! * [`Serving`]: a cluster that serves; it is ended in order by [`Serving::drain`], or dropped
//! * `seats`: its agents, each of which can be ended and started while the others go on
//! * `backend`: the coordinator and the store they stand on; `real` and `etcd`: such as are not embedded
//! * `admin`: health, readiness, and the way to an agent, over HTTP; `metrics`: what agents counted, for Prometheus
//! * `topics`: what is there from the start
//!
//! Limits. Agents share one process: none can be paused alone, and memory is common. What the embedded models hold ends
//! with the process.

mod admin;
mod backend;
#[cfg(feature = "etcd")]
mod etcd;
mod metrics;
mod real;
mod seats;
mod settings;
mod topics;

pub use real::Real;
pub use seats::Stop;
pub use settings::Settings;
pub use topics::NewTopic;

use crate::host_port::{self, HostPort, advertised_host, taken};
use crate::http;
use admin::Admin;
use backend::Backend;
use broker::{Agent, AgentConfig, Readiness};
use rt::host::BoxFuture;
use rt::net::TcpListener;
use rt::time::{Instant, sleep};
use seats::Seat;
use std::sync::Arc;
use std::time::Duration;

/// What is to be served.
#[derive(Clone, Debug)]
pub struct Options {
    /// Settings of the agents and of what they stand on.
    pub settings: Settings,
    /// Number of agents, at least 1.
    pub agents: u16,
    /// The first one's node id; the others have the ids after it.
    pub first_node_id: i32,
    /// Where the first agent listens; the others take the ports after it. Port 0 takes any.
    pub listen: HostPort,
    /// The host that clients are told to connect to; the one listened on if absent.
    pub advertise: Option<String>,
    /// Where health is told. Port 0 takes any.
    pub admin: HostPort,
    /// Topics that are there when the cluster is ready.
    pub topics: Vec<NewTopic>,
    /// A real coordinator and a real store instead of the embedded models.
    pub real: Option<Real>,
}

/// Pause between two looks at whether the agents are ready.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// A cluster that serves until this is dropped.
pub struct Serving {
    cluster: Arc<Cluster>,
    admin: HostPort,
    topics: Vec<NewTopic>,
    transaction_version: i16,
    _tasks: rt::JoinSet<()>,
}

/// What the agents and the admin endpoint share.
struct Cluster {
    seats: Vec<Seat>,
    backend: Backend,
    listen_host: String,
    drain_limit_ms: u64,
}

impl Serving {
    /// Starts the cluster of `options`. It listens from here on, and is ready when [`Serving::ready`] returns.
    ///
    /// # Errors
    /// The option, what is wrong, and the remedy.
    // Boxed, so that it is compiled here, and not once more in every crate that calls it.
    pub fn start(options: Options) -> BoxFuture<Result<Self, String>> {
        Box::pin(Serving::start_all(options))
    }

    async fn start_all(options: Options) -> Result<Self, String> {
        let HostPort { host, port } = &options.listen;
        let advertised = advertised_host(host, options.advertise.as_deref())?;
        let listeners = seats::listen(host, *port, options.agents).await;
        let listeners = listeners.map_err(|(address, error)| taken("--listen", &address, &error))?;
        let admin = TcpListener::bind(&options.admin.to_string()).await;
        let admin = admin.map_err(|error| taken("--admin", &options.admin.to_string(), &error))?;
        let admin_address =
            host_port::bound(&options.admin.host, &admin).map_err(|error| format!("--admin: {error}"))?;
        let backend = Backend::new(&options.settings, options.real.clone()).await?;
        create_topics(&options, &backend).await?;
        let mut seats = Vec::with_capacity(listeners.len());
        for (listener, node_id) in listeners.into_iter().zip(options.first_node_id..) {
            let address = host_port::bound(host, &listener).map_err(|error| format!("--listen: {error}"))?;
            let config = AgentConfig {
                node_id,
                advertised_host: advertised.clone(),
                advertised_port: address.port,
                ..options.settings.agent.clone()
            };
            seats.push(Seat::new(config, listener, &backend));
        }
        let drain_limit_ms = options.settings.agent.drain_limit_ms;
        let cluster = Arc::new(Cluster { seats, backend, listen_host: host.clone(), drain_limit_ms });
        let mut tasks = rt::JoinSet::new();
        tasks.spawn("serve.admin", http::serve(admin, Arc::new(Admin(cluster.clone()))));
        Ok(Serving {
            cluster,
            admin: admin_address,
            topics: options.topics,
            transaction_version: options.settings.agent.transactions.version.into(),
            _tasks: tasks,
        })
    }

    /// What is served, a line each.
    pub fn describe(&self) -> Vec<String> {
        let mut lines = self.cluster.backend.describe().to_vec();
        lines.push(format!("transactions: version {}", self.transaction_version));
        for topic in &self.topics {
            lines.push(format!("topic {}: {} partitions", topic.name, topic.partitions));
        }
        lines.push(format!("bootstrap: {}", self.bootstrap_servers().join(",")));
        lines.push(format!("admin: http://{}", self.admin));
        lines
    }

    /// Where clients begin, an address an agent.
    pub fn bootstrap_servers(&self) -> Vec<String> {
        self.cluster.seats.iter().map(Seat::address).collect()
    }

    /// Where health is told.
    pub fn admin(&self) -> &HostPort {
        &self.admin
    }

    /// What keeps the cluster from being ready, an agent a line.
    pub fn not_ready(&self) -> Vec<String> {
        let states = self.cluster.seats.iter().filter_map(|seat| {
            let Some(handles) = seat.handles() else {
                return Some(format!("agent {} {}", seat.node_id(), seat.state()));
            };
            let (readiness, away) = (handles.health.readiness(), handles.health.away());
            let away: Vec<String> =
                away.iter().map(|(dependency, _)| format!(", {dependency} away")).collect();
            let told = || format!("agent {} is {readiness}{}", seat.node_id(), away.concat());
            (readiness != Readiness::Ready).then(told)
        });
        states.collect()
    }

    /// Waits until every agent is registered, and nothing that it depends on is known to be away.
    pub async fn ready(&self) {
        while !self.cluster.is_ready() {
            sleep(LOOK_INTERVAL).await;
        }
    }

    /// Ends every agent in order; says how that went.
    pub async fn drain(&self) -> String {
        let begun = Instant::now();
        let mut draining = rt::JoinSet::new();
        for index in 0..self.cluster.seats.len() {
            let cluster = self.cluster.clone();
            draining.spawn("serve.drain", async move { cluster.seats[index].stop(Stop::Drain).await });
        }
        let mut drained = 0;
        while let Some(ended) = draining.join_next().await {
            drained += usize::from(matches!(ended, Ok(Ok(()))));
        }
        let took = begun.elapsed();
        let late = if took.as_millis() >= u128::from(self.cluster.drain_limit_ms) {
            format!("; requests were left unanswered after drain_limit_ms={}", self.cluster.drain_limit_ms)
        } else {
            String::new()
        };
        format!("stopped: {drained} agents drained in {:.1} s{late}", took.as_secs_f64())
    }
}

impl Cluster {
    fn is_ready(&self) -> bool {
        let ready = |seat: &Seat| {
            seat.handles().is_some_and(|handles| handles.health.readiness() == Readiness::Ready)
        };
        self.seats.iter().all(ready)
    }
}

async fn create_topics(options: &Options, backend: &Backend) -> Result<(), String> {
    if options.topics.is_empty() {
        return Ok(());
    }
    let agent = Agent::new(options.settings.agent.clone(), backend.coordinator(), backend.store());
    for topic in &options.topics {
        let created = topics::create(&agent, topic).await;
        created.map_err(|problem| format!("--topic: {}:{}: {problem}", topic.name, topic.partitions))?;
    }
    Ok(())
}
