//! A lease that is kept alive for as long as somebody needs it.

use crate::client::{Client, Error};
use crate::error::EtcdError;
use rt::time::Instant;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::Notify;

/// How long to wait before a failed keep-alive is tried again.
const RETRY: Duration = Duration::from_millis(500);

/// Whether the lease is lost, and who waits for it. Those wake in the order they began to, as with tokio's `watch` they
/// would not.
#[derive(Debug, Default)]
struct Loss {
    happened: AtomicBool,
    told: Notify,
}

/// A lease, renewed every third of its time. Dropping the session stops the renewals, so that the lease runs out.
#[derive(Debug)]
pub struct Session {
    client: Client,
    lease: i64,
    loss: Arc<Loss>,
    renewals: rt::JoinHandle<()>,
}

impl Session {
    /// Grants a lease of `ttl_s` seconds and keeps it alive; etcd's own default is 60.
    ///
    /// # Errors
    /// When no lease is granted.
    pub async fn new(client: Client, ttl_s: i64) -> Result<Session, Error> {
        let asked = Instant::now();
        let (lease, ttl_s) = client.lease_grant(ttl_s, None).await?;
        Ok(Session::start(client, lease, asked, ttl_s))
    }

    /// Keeps alive a lease that was granted before.
    ///
    /// # Errors
    /// When the lease is gone, or as the client's.
    pub async fn of_lease(client: Client, lease: i64) -> Result<Session, Error> {
        let asked = Instant::now();
        match client.lease_keep_alive(lease).await? {
            0 => Err(EtcdError::LEASE_NOT_FOUND.into()),
            ttl_s => Ok(Session::start(client, lease, asked, ttl_s)),
        }
    }

    fn start(client: Client, lease: i64, asked: Instant, ttl_s: i64) -> Session {
        let loss = Arc::<Loss>::default();
        let lose = loss.clone();
        let renewing = client.clone();
        let renewals = rt::spawn("etcd.session", async move {
            renew(&renewing, lease, asked, Duration::from_secs(ttl_s.unsigned_abs())).await;
            lose.happened.store(true, Ordering::Release);
            lose.told.notify_waiters();
        });
        Session { client, lease, loss, renewals }
    }

    /// The lease.
    pub fn lease(&self) -> i64 {
        self.lease
    }

    /// The client it goes through.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Whether the lease is known to be gone, or must be assumed to.
    pub fn is_lost(&self) -> bool {
        self.loss.happened.load(Ordering::Acquire)
    }

    /// Waits until the lease is gone, or must be assumed to be as no renewal got through in its time.
    pub async fn lost(&self) {
        let mut told = std::pin::pin!(self.loss.told.notified());
        // Waits from here on, so that a loss between the look and the wait is not missed.
        told.as_mut().enable();
        if !self.is_lost() {
            told.await;
        }
    }

    /// Ends the lease, and with it every key of the session.
    ///
    /// # Errors
    /// As the client's.
    pub async fn close(self) -> Result<(), Error> {
        self.renewals.abort();
        self.client.lease_revoke(self.lease).await
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.renewals.abort();
    }
}

/// Renews until the lease is gone or its time passed without a renewal. The time runs from when a renewal was asked
/// for: the server may have granted it then.
async fn renew(client: &Client, lease: i64, mut since: Instant, ttl: Duration) {
    let mut wait = ttl / 3;
    loop {
        rt::time::sleep(wait).await;
        let asked = Instant::now();
        match rt::time::timeout_at(since + ttl, client.lease_keep_alive(lease)).await {
            Ok(Ok(0)) | Err(_) => return,
            Ok(Ok(_)) => (since, wait) = (asked, ttl / 3),
            Ok(Err(_)) if asked >= since + ttl => return,
            Ok(Err(_)) => wait = RETRY.min(ttl / 3),
        }
    }
}
