//! The wiring: agents over a coordinator and an object store, each on a machine of its own.
//!
//! What the coordinator and the store have acknowledged survives their crashes: it is on a disk that the wiring keeps
//! outside their processes. An agent has no disk. It takes a factory for the agent, so that somebody else's broker can
//! be put in the tank.

use crate::config::Config;
pub use crate::config::{ETCD_PORT, KAFKA_PORT, S3_PORT};
use crate::coordinator::EtcdCoordinator;
use broker::Coordinator;
use rt::host::BoxFuture;
use rt::net::TcpListener;
use sim::node::{self, Role};
use std::sync::Arc;

/// The coordinator's node.
pub const COORDINATOR: &str = "etcd";
/// The object store's node.
pub const STORAGE: &str = "s3";

/// What an agent is told when it starts.
pub struct AgentSeat {
    /// Its node's name, which is also its host name.
    pub name: String,
    /// Its Kafka node id, from 1.
    pub node_id: i32,
    /// The port to serve Kafka on.
    pub port: u16,
    /// `host:port` of the coordinator.
    pub coordinator: String,
    /// `host:port` of the object store.
    pub storage: String,
}

/// Makes an agent's process: called at every start of one. It ends when the future does.
pub type MakeAgent = Arc<dyn Fn(&Config, AgentSeat) -> BoxFuture<()> + Send + Sync>;

/// Starts the cluster of `config`. Called by the script of a run.
pub fn start(config: &Config, agent: &MakeAgent) {
    let (disk, server) = (fake_etcd::Disk::default(), config.coordinator.clone());
    node::add(COORDINATOR, Role::Coordinator, None, move |_| {
        let (disk, server) = (disk.clone(), server.clone());
        Box::pin(async move {
            let listener = bind(COORDINATOR, ETCD_PORT).await;
            fake_etcd::serve(listener, disk, server).await.expect("the coordinator's socket serves");
        })
    });
    let (disk, server) = (fake_s3::Disk::default(), config.storage.clone());
    node::add(STORAGE, Role::Storage, None, move |_| {
        let (disk, server) = (disk.clone(), server.clone());
        Box::pin(async move {
            let listener = bind(STORAGE, S3_PORT).await;
            fake_s3::serve(listener, disk, server).await.expect("the store's socket serves");
        })
    });
    for (name, node_id) in config.agent_names().into_iter().zip(1..) {
        let (agent, config) = (agent.clone(), config.clone());
        node::add(&name.clone(), Role::Agent, None, move |_| {
            let seat = AgentSeat {
                name: name.clone(),
                node_id,
                port: KAFKA_PORT,
                coordinator: format!("{COORDINATOR}:{ETCD_PORT}"),
                storage: format!("{STORAGE}:{S3_PORT}"),
            };
            agent(&config, seat)
        });
    }
}

/// Our own broker.
pub fn our_agent() -> MakeAgent {
    Arc::new(|config, seat| {
        let etcd = fake_etcd::Client::new(seat.coordinator.clone(), fake_etcd::ClientConfig::default());
        serve(config.clone(), seat, Arc::new(EtcdCoordinator(etcd)))
    })
}

/// Serves our own broker in a seat, over a coordinator that the caller adapts.
pub fn serve(config: Config, seat: AgentSeat, coordinator: Arc<dyn Coordinator>) -> BoxFuture<()> {
    let agent_config = broker::AgentConfig {
        node_id: seat.node_id,
        advertised_host: seat.name.clone(),
        advertised_port: seat.port,
        defects: config.defects,
        ..config.agent
    };
    let store = fake_s3::Client::new(seat.storage, fake_s3::ClientConfig::default());
    let agent = broker::Agent::new(agent_config, coordinator, Arc::new(store));
    Box::pin(async move { agent.serve(bind(&seat.name, seat.port).await).await })
}

async fn bind(host: &str, port: u16) -> TcpListener {
    TcpListener::bind(&format!("{host}:{port}")).await.expect("a machine of its own has every port free")
}
