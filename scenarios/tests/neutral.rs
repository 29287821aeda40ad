//! Ten neutral changes leave every recording of the repository showing the same signature: seeds and schedules survive
//! what has nothing to do with them. Each change is made to the agents, from outside, by the factory that starts them.
//!
//! Limits: latency is drawn by frame number within a connection, and by the number of the connection within its pair of
//! nodes. A request more on a connection that is in use therefore shifts the latencies after it, by their jitter.

mod support;

use async_trait::async_trait;
use broker::Coordinator;
use broker::coordinator::{
    Compare, CompareOp, CoordinatorError, Range, RangeResponse, Target, Txn, TxnResponse, Watch,
};
use bytes::Bytes;
use rt::net::TcpStream;
use scenarios::cluster::{AgentSeat, MakeAgent, serve};
use scenarios::{EtcdCoordinator, Keep};
use std::sync::Arc;
use std::time::Duration;

const CHANGES: [&str; 10] = [
    "an extra choice",
    "an extra event",
    "an extra mark",
    "an extra task",
    "an extra timer that never fires",
    "an extra preemption point",
    "an extra connection",
    "two extra tasks and a channel",
    "a longer private frame",
    "a label nobody looks for",
];

#[test]
fn neutral_changes_leave_the_recordings_as_they_are() {
    for (path, recording) in support::recordings() {
        for change in CHANGES {
            let outcome = scenarios::execute_with(&recording.plan, Keep::Events, &changed(change));
            let shown: Vec<_> = outcome.signature.iter().cloned().collect();
            assert_eq!(shown, recording.signature, "{}: {change}", path.display());
            assert!(outcome.failures.is_empty(), "{}: {change}: {:?}", path.display(), outcome.failures);
        }
    }
}

#[test]
fn the_changes_are_changes() {
    let scenario = scenarios::find("torn-transaction").expect("known");
    let plan = (scenario.plan)(1, &(scenario.config)());
    let plain = scenarios::execute(&plan, Keep::Events).fingerprint;
    let silent = ["an extra choice", "an extra timer that never fires"];
    for change in CHANGES.into_iter().filter(|change| !silent.contains(change)) {
        let fingerprint = scenarios::execute_with(&plan, Keep::Events, &changed(change)).fingerprint;
        assert_ne!(fingerprint, plain, "{change} leaves no trace");
    }
}

/// Our own broker, with one change.
fn changed(change: &'static str) -> MakeAgent {
    Arc::new(move |config, seat| {
        let etcd = fake_etcd::Client::new(seat.coordinator.clone(), fake_etcd::ClientConfig::default());
        let plain = EtcdCoordinator(etcd);
        let coordinator: Arc<dyn Coordinator> = match change {
            "a longer private frame" => Arc::new(Longer(plain)),
            _ => Arc::new(plain),
        };
        let config = config.clone();
        Box::pin(async move {
            let mut beside = rt::JoinSet::new();
            beside.spawn("neutral", disturb(change, another_agent(&seat)));
            serve(config, AgentSeat { ..seat }, coordinator).await;
        })
    })
}

/// An address to which this agent otherwise never connects: connections are numbered by pair of nodes.
fn another_agent(seat: &AgentSeat) -> String {
    let other = if seat.name == "agent-1" { "agent-2" } else { "agent-1" };
    format!("{other}:{}", seat.port)
}

/// Does something unrelated every 50 ms.
async fn disturb(change: &'static str, peer: String) {
    let _never =
        (change == "an extra timer that never fires").then(|| rt::time::sleep(Duration::from_secs(100_000)));
    if change == "an extra choice" {
        for n in 0..1000 {
            rt::choice("neutral", 7, n);
        }
    }
    if matches!(change, "an extra choice" | "an extra timer that never fires" | "a longer private frame") {
        return std::future::pending().await;
    }
    for n in 0u64.. {
        rt::time::sleep(Duration::from_millis(50)).await;
        match change {
            "an extra event" => rt::event!("neutral", n = n),
            "an extra mark" => rt::mark!(sometimes, "neutral", n % 2 == 0),
            "an extra task" => drop(rt::spawn("neutral", async {})),
            "an extra preemption point" => rt::preempt("neutral").await,
            "an extra connection" => drop(TcpStream::connect(&peer).await),
            "two extra tasks and a channel" => {
                let (send, mut receive) = tokio::sync::mpsc::channel(1);
                rt::spawn("neutral", async move { send.send(n).await.is_ok() });
                rt::spawn("neutral", async move { receive.recv().await.is_some() });
            }
            "a label nobody looks for" => {
                if let Ok(mut stream) = TcpStream::connect(&peer).await {
                    drop(stream.write_frame(b"\0\0\0\x01x", || "neutral".into()).await);
                }
            }
            other => unreachable!("{other} is no change"),
        }
    }
}

/// Adds a compare that always holds to every transaction: what a new field does to a private frame.
struct Longer(EtcdCoordinator);

#[async_trait]
impl Coordinator for Longer {
    async fn range(&self, range: Range) -> Result<RangeResponse, CoordinatorError> {
        self.0.range(range).await
    }

    async fn txn(&self, mut txn: Txn) -> Result<TxnResponse, CoordinatorError> {
        // Not to one without compares: the coordinator's chance is keyed by the first key.
        if !txn.compares.is_empty() {
            let key = Bytes::from_static(b"neutral/a-key-that-is-never-written");
            txn.compares.push(Compare { key, op: CompareOp::Equal, target: Target::Version(0) });
        }
        self.0.txn(txn).await
    }

    async fn lease_grant(&self, ttl_s: i64) -> Result<i64, CoordinatorError> {
        self.0.lease_grant(ttl_s).await
    }

    async fn lease_keep_alive(&self, id: i64) -> Result<i64, CoordinatorError> {
        self.0.lease_keep_alive(id).await
    }

    async fn lease_revoke(&self, id: i64) -> Result<(), CoordinatorError> {
        self.0.lease_revoke(id).await
    }

    async fn watch(&self, prefix: Bytes, from_revision: i64) -> Result<Box<dyn Watch>, CoordinatorError> {
        self.0.watch(prefix, from_revision).await
    }
}
