//! What agents stand on: a coordinator and a store, embedded in this process by default.
//!
//! The embedded ones are the models that the tank uses, each behind its own server on loopback. Both are in memory: what
//! they hold ends with the process.

use super::settings::Settings;
use crate::coordinator::EtcdCoordinator;
use broker::Coordinator;
use object_store::ObjectStore;
use rt::net::TcpListener;
use rt::time::sleep;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Revisions that the embedded coordinator keeps; older ones are compacted, as etcd does with
/// `--auto-compaction-mode=revision`. More than any walk of an agent over a snapshot lasts.
const REVISIONS_KEPT: i64 = 10_000;
/// How often it is compacted. etcd does every five minutes; this one's history is memory.
const COMPACTION_INTERVAL: Duration = Duration::from_secs(10);

/// The coordinator and the store of a served cluster. Dropping it ends the embedded ones.
pub(super) struct Backend {
    etcd: String,
    s3: String,
    _servers: rt::JoinSet<()>,
}

impl Backend {
    /// Starts the embedded ones.
    pub(super) async fn embedded(settings: &Settings) -> io::Result<Self> {
        let (etcd, s3) = (TcpListener::bind("127.0.0.1:0").await?, TcpListener::bind("127.0.0.1:0").await?);
        let (etcd_address, s3_address) = (etcd.local_addr()?.to_string(), s3.local_addr()?.to_string());
        let mut servers = rt::JoinSet::new();
        let config = settings.coordinator.clone();
        servers.spawn("serve.etcd", async move {
            let ended = fake_etcd::serve(etcd, fake_etcd::Disk::default(), config).await;
            ended.expect("a loopback socket accepts");
        });
        let config = settings.storage.clone();
        servers.spawn("serve.s3", async move {
            let ended = fake_s3::serve(s3, fake_s3::Disk::default(), config).await;
            ended.expect("a loopback socket accepts");
        });
        servers.spawn("serve.etcd-compaction", compact(etcd_client(&etcd_address)));
        Ok(Backend { etcd: etcd_address, s3: s3_address, _servers: servers })
    }

    /// A client of the coordinator, with a connection of its own.
    pub(super) fn coordinator(&self) -> Arc<dyn Coordinator> {
        Arc::new(EtcdCoordinator(etcd_client(&self.etcd)))
    }

    /// A client of the store, with connections of its own.
    pub(super) fn store(&self) -> Arc<dyn ObjectStore> {
        Arc::new(fake_s3::Client::new(self.s3.clone(), fake_s3::ClientConfig::default()))
    }

    /// What they are, a line each.
    pub(super) fn describe(&self) -> Vec<String> {
        vec![
            "coordinator: embedded etcd model, in memory".into(),
            "store: embedded S3 model, in memory".into(),
        ]
    }
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
