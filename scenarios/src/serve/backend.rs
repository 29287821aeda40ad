//! What agents stand on: a coordinator and a store, embedded in this process by default, or real ones.
//!
//! The embedded ones are the models that the tank uses, each behind its own server on loopback. Both are in memory: what
//! they hold ends with the process.

use super::real::{self, Real};
use super::settings::Settings;
use crate::coordinator::EtcdCoordinator;
use broker::Coordinator;
use object_store::ObjectStore;
use rt::net::TcpListener;
use rt::time::{Instant, sleep};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Revisions that the embedded coordinator keeps; older ones are compacted, as etcd does with
/// `--auto-compaction-mode=revision`. More than any walk of an agent over a snapshot lasts.
const REVISIONS_KEPT: i64 = 10_000;
/// How often it is compacted. etcd does every five minutes; this one's history is memory.
const COMPACTION_INTERVAL: Duration = Duration::from_secs(10);

/// The coordinator and the store of a served cluster. Dropping it ends the embedded ones.
pub(super) enum Backend {
    Embedded {
        /// Where the models listen.
        etcd: String,
        s3: String,
        /// What they hold.
        disks: (fake_etcd::Disk, fake_s3::Disk),
        _servers: rt::JoinSet<()>,
    },
    Real {
        coordinator: Arc<dyn Coordinator>,
        store: Arc<dyn ObjectStore>,
        told: Real,
    },
}

impl Backend {
    /// Starts the embedded ones, or connects to the real ones.
    ///
    /// # Errors
    /// The option, what is wrong, and the remedy.
    pub(super) async fn new(settings: &Settings, real: Option<Real>) -> Result<Self, String> {
        match real {
            Some(told) => {
                let (coordinator, store) = (real::coordinator(&told.etcd).await?, real::store(&told.store)?);
                Ok(Backend::Real { coordinator, store, told })
            }
            None => Backend::embedded(settings)
                .await
                .map_err(|error| format!("no loopback socket for the embedded models: {error}")),
        }
    }

    async fn embedded(settings: &Settings) -> io::Result<Self> {
        let (etcd, s3) = (TcpListener::bind("127.0.0.1:0").await?, TcpListener::bind("127.0.0.1:0").await?);
        let (etcd_address, s3_address) = (etcd.local_addr()?.to_string(), s3.local_addr()?.to_string());
        let disks = (fake_etcd::Disk::default(), fake_s3::Disk::default());
        let (etcd_disk, s3_disk) = disks.clone();
        let mut servers = rt::JoinSet::new();
        let config = settings.coordinator.clone();
        servers.spawn("serve.etcd", async move {
            let ended = fake_etcd::serve(etcd, etcd_disk, config).await;
            ended.expect("a loopback socket accepts");
        });
        let config = settings.storage.clone();
        servers.spawn("serve.s3", async move {
            let ended = fake_s3::serve(s3, s3_disk, config).await;
            ended.expect("a loopback socket accepts");
        });
        servers.spawn("serve.etcd-compaction", compact(etcd_client(&etcd_address)));
        Ok(Backend::Embedded { etcd: etcd_address, s3: s3_address, disks, _servers: servers })
    }

    /// A client of the coordinator; of the embedded one, with a connection of its own.
    pub(super) fn coordinator(&self) -> Arc<dyn Coordinator> {
        match self {
            Backend::Embedded { etcd, .. } => Arc::new(EtcdCoordinator(etcd_client(etcd))),
            Backend::Real { coordinator, .. } => coordinator.clone(),
        }
    }

    /// A client of the store; of the embedded one, with connections of its own.
    pub(super) fn store(&self) -> Arc<dyn ObjectStore> {
        match self {
            Backend::Embedded { s3, .. } => {
                Arc::new(fake_s3::Client::new(s3.clone(), fake_s3::ClientConfig::default()))
            }
            Backend::Real { store, .. } => store.clone(),
        }
    }

    /// What the embedded ones hold in memory.
    pub(super) fn sizes(&self) -> Option<Sizes> {
        let Backend::Embedded { disks: (etcd, s3), .. } = self else { return None };
        let status = lock(etcd).apply(Instant::now(), &fake_etcd::api::Request::Status).response;
        let Ok(fake_etcd::api::Response::Status(status)) = status else { return None };
        let (objects, object_bytes) = lock(s3).size();
        Some(Sizes { revision: status.revision, etcd_bytes: status.db_size_bytes, objects, object_bytes })
    }

    /// What they are, a line each.
    pub(super) fn describe(&self) -> [String; 2] {
        match self {
            Backend::Embedded { .. } => {
                ["coordinator: embedded etcd model, in memory", "store: embedded S3 model, in memory"]
                    .map(String::from)
            }
            Backend::Real { told, .. } => {
                [format!("coordinator: etcd at {}", told.etcd), format!("store: {}", told.store)]
            }
        }
    }
}

/// What the embedded models hold.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    /// The coordinator's revision.
    pub(super) revision: i64,
    /// Bytes of its keys and values, history included.
    pub(super) etcd_bytes: i64,
    /// Objects in the store.
    pub(super) objects: u64,
    /// Bytes of them.
    pub(super) object_bytes: u64,
}

fn lock<T>(disk: &Mutex<T>) -> MutexGuard<'_, T> {
    disk.lock().unwrap_or_else(PoisonError::into_inner)
}

fn etcd_client(address: &str) -> fake_etcd::Client {
    fake_etcd::Client::new(address.to_string(), fake_etcd::ClientConfig::default())
}

/// Keeps the coordinator's history short.
async fn compact(etcd: fake_etcd::Client) {
    let mut compacted = 0;
    loop {
        sleep(COMPACTION_INTERVAL).await;
        let Ok(status) = etcd.status().await else { continue };
        let revision = status.revision - REVISIONS_KEPT;
        if revision > compacted && etcd.compact(revision).await.is_ok() {
            compacted = revision;
        }
    }
}
