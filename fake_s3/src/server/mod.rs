//! Puts a store on a node.
//!
//! Requests proceed concurrently, on one connection and on many. Each takes a time drawn for its operation and is
//! done at some drawn moment within it, all at once; what was done stays done, whoever learns of it. A request that
//! was read whole goes on when its connection ends. The store is the disk and outlives the server.

mod job;
mod lag;

use crate::quirks::Quirks;
use crate::store::Store;
use crate::wire::{self, Call};
use job::Job;
use lag::Lag;
use rt::JoinSet;
use rt::host::BoxFuture;
use rt::net::{FrameWriter, ReadHalf, TcpListener, TcpStream};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Semaphore;

/// What survives a crash of the server process.
pub type Disk = Arc<Mutex<Store>>;

/// How long an operation takes, in microseconds: at least `base_us`, and up to `jitter_us` more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Latency {
    /// The least time.
    pub base_us: u64,
    /// What is added at most; drawn uniformly.
    pub jitter_us: u64,
}

/// How the server behaves. The defaults are an S3 in the same region, on a good day.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServerConfig {
    /// Puts, parts, copies and completions.
    pub write: Latency,
    /// Gets.
    pub read: Latency,
    /// Heads.
    pub head: Latency,
    /// Lists.
    pub list: Latency,
    /// Deletions, and what begins or aborts an upload.
    pub delete: Latency,
    /// Requests in work at once; more wait unread.
    pub concurrency: usize,
    /// What it may do to its clients.
    pub quirks: Quirks,
}

impl Default for ServerConfig {
    fn default() -> Self {
        let latency = |base_us, jitter_us| Latency { base_us, jitter_us };
        ServerConfig {
            write: latency(15_000, 25_000),
            read: latency(8_000, 17_000),
            head: latency(5_000, 10_000),
            list: latency(20_000, 30_000),
            delete: latency(8_000, 12_000),
            concurrency: 1_000,
            quirks: Quirks::default(),
        }
    }
}

impl ServerConfig {
    /// Whether anything about a request is left to chance.
    fn draws(&self) -> bool {
        let all = [self.write, self.read, self.head, self.list, self.delete];
        self.quirks != Quirks::default() || all != [Latency { base_us: 0, jitter_us: 0 }; 5]
    }
}

/// Serves `disk` on `listener` until dropped.
///
/// # Errors
/// Whatever accepting reports.
// Boxed, so that it is compiled here, and not once more in every crate that calls it.
pub fn serve(listener: TcpListener, disk: Disk, config: ServerConfig) -> BoxFuture<io::Result<()>> {
    Box::pin(accept_all(listener, disk, config))
}

async fn accept_all(listener: TcpListener, disk: Disk, config: ServerConfig) -> io::Result<()> {
    let shared = Arc::new(Shared {
        lag: Arc::new(Lag::new(&disk, config.quirks.list_lag_ms_max)),
        permits: Arc::new(Semaphore::new(config.concurrency.max(1))),
        ordinals: config.draws().then(Mutex::default),
        config: Arc::new(config),
        disk,
    });
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            // Reaped so that the set does not grow with every connection there ever was.
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => {
                connections.spawn("s3.connection", connection(accepted?, shared.clone()));
            }
        }
    }
}

/// What connections share.
struct Shared {
    disk: Disk,
    config: Arc<ServerConfig>,
    lag: Arc<Option<Lag>>,
    /// For requests in work.
    permits: Arc<Semaphore>,
    /// A server that draws nothing needs no numbers, which are kept for every key there ever was.
    ordinals: Option<Mutex<Ordinals>>,
}

impl Shared {
    /// Begins to work on a request, once there is room for it.
    async fn begin(&self, mut job: Job) {
        // It is never closed.
        let Ok(permit) = self.permits.clone().acquire_owned().await else { return };
        if let Some(ordinals) = &self.ordinals {
            job.ordinal = ordinals.lock().unwrap_or_else(PoisonError::into_inner).next(job.entity);
        }
        let (disk, config, lag) = (self.disk.clone(), self.config.clone(), self.lag.clone());
        rt::spawn("s3.request", async move {
            job.run(disk, config, lag).await;
            drop(permit);
        });
    }
}

/// Numbers the requests of one peer and kind for one key, so that what is drawn for one depends on no other.
#[derive(Default)]
struct Ordinals(BTreeMap<u64, u64>);

impl Ordinals {
    fn next(&mut self, entity: u64) -> u64 {
        let count = self.0.entry(entity).or_default();
        *count += 1;
        *count
    }
}

/// Serves a connection until it ends.
async fn connection(stream: TcpStream, shared: Arc<Shared>) {
    let Ok(peer) = stream.peer_addr() else { return };
    let peer = peer.ip().to_string();
    let (reader, writer) = stream.into_split();
    let replies = Arc::new(FrameWriter::new(writer));
    let ended = tokio::select! {
        biased;
        ended = read(reader, &peer, &shared, &replies) => ended,
        ended = replies.run() => ended,
    };
    // Requests in work go on.
    replies.close();
    if let Err(error) = ended {
        tracing::debug!(target: "wavetank", %error, "s3 connection ended");
    }
}

async fn read(
    mut reader: ReadHalf,
    peer: &str,
    shared: &Shared,
    replies: &Arc<FrameWriter>,
) -> io::Result<()> {
    while let Some(body) = rt::net::read_frame(&mut reader, wire::MAX_FRAME_BYTES).await? {
        let call: Call = wire::decode(&body)?;
        shared.begin(Job::new(peer, call, replies.clone())).await;
    }
    Ok(())
}
