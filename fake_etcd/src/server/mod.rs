//! Puts a store on a node.
//!
//! One task accepts, one per connection reads and writes, and one applies: requests of all connections go through it in
//! one order, and it revokes leases whose time is over. Writes that wait together share one fsync, as etcd's raft log
//! batches them, and are applied and answered after it; so a crash loses or keeps an unanswered write, and never an
//! answered one. The store is the disk and outlives the server; leases, watches and connections begin anew with each.

mod applier;
mod connection;
mod outbox;
mod pauses;

use crate::api::WatchResponse;
use crate::store::Store;
use crate::watch::{Hub, WatchKey};
use outbox::Outbox;
use pauses::Stale;
use rt::JoinSet;
use rt::host::BoxFuture;
use rt::net::TcpListener;
use rt::time::Instant;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::mpsc;

/// What survives a crash of the server process.
pub type Disk = Arc<Mutex<Store>>;

/// How the server behaves. The defaults are a healthy etcd on a local disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServerConfig {
    /// The quickest fsync, in microseconds.
    pub fsync_min_us: u64,
    /// The slowest fsync, in microseconds.
    pub fsync_max_us: u64,
    /// How often leases are looked at, in milliseconds; etcd does every 500.
    pub lease_check_ms: u64,
    /// How often idle watches that asked for it are told so, in milliseconds; etcd does every ten minutes.
    pub progress_notify_ms: u64,
}

impl Default for ServerConfig {
    fn default() -> Self {
        ServerConfig {
            fsync_min_us: 50,
            fsync_max_us: 1_000,
            lease_check_ms: 500,
            progress_notify_ms: 600_000,
        }
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
    let started = Instant::now();
    lock(&disk).recover(started);
    let shared = Arc::new(Shared { disk, volatile: Mutex::default() });
    let (requests, queue) = mpsc::channel(applier::QUEUE);
    let mut tasks = JoinSet::new();
    tasks.spawn("etcd.applier", applier::run(shared.clone(), queue, config.clone(), started));
    let quirks = lock(&shared.disk).quirks().clone();
    if quirks.stale_reads_after_pause || quirks.pause_ends_watches_silently {
        tasks.spawn("etcd.pauses", pauses::notice(shared.clone(), quirks));
    }
    let mut connections = 0;
    loop {
        tokio::select! {
            biased;
            // Reaped so that the set does not grow with every connection there ever was.
            Some(_) = tasks.join_next() => {}
            accepted = listener.accept() => {
                connections += 1;
                let every_ms = config.progress_notify_ms;
                let connection =
                    connection::run(shared.clone(), requests.clone(), connections, accepted?, every_ms);
                tasks.spawn("etcd.connection", connection);
            }
        }
    }
}

/// What the server's tasks share.
struct Shared {
    disk: Disk,
    volatile: Mutex<Volatile>,
}

/// What ends with the process. Locked after the disk, never before it.
#[derive(Default)]
struct Volatile {
    hub: Hub,
    outboxes: BTreeMap<u64, Arc<Outbox>>,
    /// What a pause left behind, by a quirk.
    stale: Option<Stale>,
}

impl Volatile {
    /// Tells watchers of the revisions just made.
    fn notify(&mut self, store: &Store, revisions: impl IntoIterator<Item = i64>, by_expiry: bool) {
        for revision in revisions {
            let outboxes = &self.outboxes;
            let room = |connection| outboxes.get(&connection).is_some_and(|outbox| outbox.has_room());
            let told = self.hub.notify(store, revision, by_expiry, room);
            self.send(told);
        }
    }

    fn send(&self, told: Vec<(WatchKey, WatchResponse)>) {
        for ((connection, id), response) in told {
            if let Some(outbox) = self.outboxes.get(&connection) {
                outbox.watch(id, response);
            }
        }
    }
}

impl Shared {
    fn volatile(&self) -> MutexGuard<'_, Volatile> {
        self.volatile.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

fn lock(disk: &Disk) -> MutexGuard<'_, Store> {
    disk.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
