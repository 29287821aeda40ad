//! What one agent can do: produce, fetch and transaction requests a second of CPU time, in the tank.
//!
//! Run: `cargo bench -p scenarios --bench broker [-- REQUESTS]`; 4,000 of each kind unless said otherwise. One client asks,
//! one request at a time; the CPU time is that of everything in the run: client, simulated network, agent, coordinator and
//! store. Simulated time per request is what a client waits: mostly the coordinator's fsync and the store's write.
//!
//! What dominates (callgrind, 300 of each, 2.3 M instructions for one of each): a quarter is allocation, a fifth the
//! tank's executor, kernel and trace, 7 % copies of frames, 6 % each labels in words, the fakes, and values as postcard;
//! the agent's own code is 3 %, Kafka's codec 1.4 %.
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the process's CPU time")]

use client::{
    Admin, AdminConfig, IsolationLevel, Probe, Producer, ProducerConfig, ProducerRecord, TopicPartition,
    Variant,
};
use scenarios::Config;
use scenarios::cluster::{self, ETCD_PORT, KAFKA_PORT, S3_PORT};
use sim::node::{self, Role};
use sim::run::Config as RunConfig;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const AGENT: &str = "agent-1:9092";
/// Records of the log that is fetched, and how many of them one fetch returns.
const LOG: u64 = 200;
const TAIL: i64 = 10;

fn main() {
    let requests = std::env::args().skip(1).find_map(|arg| arg.parse().ok()).unwrap_or(4_000u64);
    for (name, kind) in
        [("produce", Kind::Produce), ("fetch", Kind::Fetch), ("transaction", Kind::Transaction)]
    {
        // What a run costs without the requests is taken off.
        let (idle_cpu_s, idle_ns) = measure(kind, 0);
        let (cpu_s, simulated_ns) = measure(kind, requests);
        let each_us = 1e6 * (cpu_s - idle_cpu_s) / requests as f64;
        let waited_ms = (simulated_ns - idle_ns) as f64 / 1e6 / requests as f64;
        println!(
            "{name}: {:.0} a CPU second ({each_us:.0} us each); a client waits {waited_ms:.2} ms",
            1e6 / each_us
        );
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// One batch of one record.
    Produce,
    /// The last batches of one partition, in a log that stands still.
    Fetch,
    /// One record, committed: AddPartitionsToTxn, Produce, EndTxn, and the marker after them.
    Transaction,
}

/// CPU seconds and simulated nanoseconds of a run with so many requests.
fn measure(kind: Kind, requests: u64) -> (f64, u64) {
    let before_s = cpu_s();
    let config =
        RunConfig { seed: 1, frame_ports: vec![KAFKA_PORT, ETCD_PORT, S3_PORT], ..RunConfig::default() };
    let answered = Arc::new(AtomicU64::new(0));
    let counted = answered.clone();
    let run = sim::run(&config, move || async move {
        cluster::start(&Config { agents: 1, ..Config::default() }, &cluster::our_agent());
        let ended = Arc::new(tokio::sync::Notify::new());
        let tell = ended.clone();
        node::add("client", Role::Client, None, move |_| {
            let (tell, counted) = (tell.clone(), counted.clone());
            Box::pin(async move {
                load(kind, requests, &counted).await;
                tell.notify_one();
            })
        });
        ended.notified().await;
    });
    assert!(run.failures.is_empty() && answered.load(Ordering::Relaxed) == requests, "{:?}", run.failures);
    (cpu_s() - before_s, run.simulated_ns)
}

async fn load(kind: Kind, requests: u64, answered: &AtomicU64) {
    let bootstrap_servers = vec![AGENT.to_string()];
    let mut admin =
        Admin::new(AdminConfig { bootstrap_servers: bootstrap_servers.clone(), ..AdminConfig::default() });
    admin.create_topic("t", 1, 1).await.expect("the topic is created");
    let transactional_id = (kind == Kind::Transaction).then(|| "t1".to_string());
    let config = ProducerConfig { bootstrap_servers, transactional_id, ..ProducerConfig::default() };
    let producer = Producer::new(config, Variant::Java38.model());
    let send = async || {
        let partition = TopicPartition::new("t", 0);
        let record = ProducerRecord::new(partition, vec![b'v'; 100]);
        producer.send(record).await.expect("accepted").await.expect("written");
    };
    match kind {
        Kind::Produce => {
            for _ in 0..requests {
                send().await;
                answered.fetch_add(1, Ordering::Relaxed);
            }
        }
        Kind::Fetch => {
            for _ in 0..LOG {
                send().await;
            }
            let mut probe = Probe::new("probe", 10_000);
            for _ in 0..requests {
                let offsets = [(0, LOG as i64 - TAIL)];
                let answer = probe.fetch(AGENT, "t", &offsets, IsolationLevel::ReadCommitted).await;
                let found =
                    answer.expect("answered").iter().map(|probed| probed.batches.len()).sum::<usize>();
                answered.fetch_add(u64::from(found == TAIL as usize), Ordering::Relaxed);
            }
        }
        Kind::Transaction => {
            producer.init_transactions().await.expect("a producer id");
            for _ in 0..requests {
                producer.begin_transaction().expect("ready");
                send().await;
                producer.commit_transaction().await.expect("committed");
                answered.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// The process's CPU time so far, in seconds; 0 where the system does not say.
fn cpu_s() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    // Linux counts them in hundredths of a second whatever the kernel's own rate.
    ticks as f64 / 100.0
}
