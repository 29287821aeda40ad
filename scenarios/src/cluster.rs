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

/// Makes an agent's process: called at every start of one. It ends when the future does, which is to be soon after it was
/// asked to ([`rt::stop_requested`]).
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
    let (agents, spares) = (config.agent_names(), config.spare_names());
    for (name, node_id) in agents.iter().zip(1..) {
        node::add(name, Role::Agent, config.supervisor, seated(config, agent, name, node_id));
    }
    for (name, node_id) in spares.iter().zip(1 + agents.len() as i32..) {
        node::add_stopped(name, Role::Agent, config.supervisor, seated(config, agent, name, node_id));
    }
}

/// What makes the process of the agent called `name`.
fn seated(
    config: &Config,
    agent: &MakeAgent,
    name: &str,
    node_id: i32,
) -> impl Fn(u32) -> BoxFuture<()> + use<> {
    let (agent, config, name) = (agent.clone(), config.clone(), name.to_string());
    move |_| {
        let seat = AgentSeat {
            name: name.clone(),
            node_id,
            port: KAFKA_PORT,
            coordinator: format!("{COORDINATOR}:{ETCD_PORT}"),
            storage: format!("{STORAGE}:{S3_PORT}"),
        };
        agent(&config, seat)
    }
}

/// Our own broker.
pub fn our_agent() -> MakeAgent {
    Arc::new(|config, seat| {
        let etcd = fake_etcd::Client::new(seat.coordinator.clone(), fake_etcd::ClientConfig::default());
        serve(config.clone(), seat, Arc::new(EtcdCoordinator(etcd)))
    })
}

/// Serves our own broker in a seat, over a coordinator that the caller adapts. Asked to stop, it ends in order: what is
/// in flight is answered, and its registration is taken back.
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
    let health = agent.health();
    Box::pin(async move {
        let mut serving = agent.serve(bind(&seat.name, seat.port).await);
        tokio::select! {
            biased;
            () = &mut serving => {}
            () = rt::stop_requested() => {
                health.drain();
                serving.await;
            }
        }
    })
}

async fn bind(host: &str, port: u16) -> TcpListener {
    TcpListener::bind(&format!("{host}:{port}")).await.expect("a machine of its own has every port free")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rt::time::sleep;
    use sim::fault::{Fault, Scheduled, When};
    use sim::run::Run;
    use sim::trace::Keep;
    use std::time::Duration;

    /// What was said at a node, and when in whole seconds.
    fn said(run: &Run<()>, node: &str, names: &[&str]) -> Vec<(&'static str, u64)> {
        let here = run.trace.iter().filter(|entry| run.node(entry.node) == node);
        let named = here.filter(|entry| names.contains(&entry.name));
        named.map(|entry| (entry.name, entry.at_ns / 1_000_000_000)).collect()
    }

    fn run(config: Config, agent: MakeAgent, faults: Vec<(u64, Fault)>) -> Run<()> {
        let scheduled = |(id, (at_ms, fault))| Scheduled { id, when: When::AtMs(at_ms), fault };
        let plan = sim::run::Config {
            faults: (1..).zip(faults).map(scheduled).collect(),
            frame_ports: vec![KAFKA_PORT, ETCD_PORT, S3_PORT],
            keep: Keep::Events,
            ..Default::default()
        };
        let run = sim::run(&plan, move || async move {
            start(&config, &agent);
            sleep(Duration::from_secs(10)).await;
        });
        assert!(run.failures.is_empty(), "{:?}", run.failures);
        assert_eq!(run.landed.len(), plan.faults.len());
        run
    }

    #[test]
    fn an_agent_that_is_asked_to_stop_drains_and_a_spare_joins() {
        let config = Config { agents: 2, spare_agents: 1, ..Config::default() };
        let stop = Fault::Stop { node: "agent-1".into(), restart_after_ms: Some(3_000) };
        let start = Fault::Start { node: "agent-3".into() };
        let run = run(config, our_agent(), vec![(2_500, stop), (4_500, start)]);
        let life = ["node.start", "node.stop", "agent.drained", "node.exit"];
        let first = said(&run, "agent-1", &life);
        let expected =
            [("node.start", 0), ("node.stop", 2), ("agent.drained", 2), ("node.exit", 2), ("node.start", 5)];
        assert_eq!(first, expected);
        assert_eq!(said(&run, "agent-2", &life), [("node.start", 0)]);
        assert_eq!(said(&run, "agent-3", &life), [("node.start", 4)]);
    }

    #[test]
    fn the_watchdog_starts_an_agent_that_ended_by_itself_and_none_that_was_killed() {
        let quits: MakeAgent = Arc::new(|_, _| Box::pin(sleep(Duration::from_millis(1_500))));
        let kill = Fault::Crash { node: "agent-1".into(), restart_after_ms: None };
        let watched = run(Config { agents: 1, ..Config::default() }, quits.clone(), vec![(5_500, kill)]);
        let life = ["node.start", "node.exit", "node.crash"];
        let expected = [
            ("node.start", 0),
            ("node.exit", 1),
            ("node.start", 2),
            ("node.exit", 4),
            ("node.start", 5),
            ("node.crash", 5),
        ];
        assert_eq!(said(&watched, "agent-1", &life), expected);
        let alone = Config { agents: 1, supervisor: None, ..Config::default() };
        assert_eq!(said(&run(alone, quits, vec![]), "agent-1", &life), expected[..2]);
    }
}
