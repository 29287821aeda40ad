//! The one task that changes the store.

use super::outbox::Outbox;
use super::{ServerConfig, Shared, lock};
use crate::api::{Request, Response};
use crate::store::{Applied, Store};
use rt::time::{Instant, Sleep};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// Requests that may wait to be applied before connections stop reading.
pub(super) const QUEUE: usize = 1024;

/// A request on its way to the store.
pub(super) struct Pending {
    /// Who asks for what, as a hash of the peer's address and the request's kind and first key: stable, unlike a
    /// connection's number.
    pub(super) entity: u64,
    /// The client's own number of the request.
    pub(super) id: u64,
    pub(super) request: Request,
    /// The request's words, if somebody listens.
    pub(super) words: Option<String>,
    pub(super) outbox: Arc<Outbox>,
}

pub(super) async fn run(
    shared: Arc<Shared>,
    mut queue: mpsc::Receiver<Pending>,
    config: ServerConfig,
    started: Instant,
) {
    let mut batch = Vec::new();
    let mut ordinals = Ordinals::default();
    let mut timer: Option<Sleep> = None;
    loop {
        // Leases change only in this task, so the deadline is current; it seldom moves, so the timer stays.
        let expiry = lock(&shared.disk).next_expiry().map(|due| next_check(&config, started, due));
        if timer.as_ref().map(Sleep::deadline) != expiry {
            timer = expiry.map(rt::time::sleep_until);
        }
        tokio::select! {
            biased;
            received = queue.recv_many(&mut batch, QUEUE) => match received {
                0 => return,
                _ => apply(&shared, &config, &mut ordinals, &mut batch).await,
            },
            () = elapsed(&mut timer) => {
                timer = None;
                expire(&shared, &config).await;
            }
        }
    }
}

/// Numbers the fsyncs of one entity, so that what is drawn for one depends on no other.
#[derive(Default)]
struct Ordinals(BTreeMap<u64, u64>);

impl Ordinals {
    fn next(&mut self, entity: u64) -> u64 {
        let count = self.0.entry(entity).or_default();
        *count += 1;
        *count
    }
}

/// Writes one batch to the disk, then applies and answers it in order.
async fn apply(shared: &Shared, config: &ServerConfig, ordinals: &mut Ordinals, batch: &mut Vec<Pending>) {
    // An fsync that takes no time needs no number, which is kept for every key there ever was.
    if let Some(first) = batch.iter().find(|pending| pending.request.is_proposal())
        && config.fsync_max_us.max(config.fsync_min_us) > 0
    {
        fsync(config, first.entity, ordinals.next(first.entity)).await;
    }
    rt::preempt("etcd.before-apply").await;
    for pending in batch.drain(..) {
        let applied = {
            let mut store = lock(&shared.disk);
            let applied = answer(shared, &mut store, &pending.request);
            let by_expiry = matches!(pending.request, Request::LeaseKeepAlive { .. });
            shared.volatile().notify(&store, applied.revision, by_expiry);
            applied
        };
        // Here the write is durable and its client does not know.
        rt::preempt("etcd.before-reply").await;
        pending.outbox.reply(pending.id, applied.response, pending.words.as_deref());
    }
}

/// Applies a request, or reads as of before a pause.
fn answer(shared: &Shared, store: &mut Store, request: &Request) -> Applied {
    let now = Instant::now();
    match (request, shared.volatile().stale.filter(|stale| now < stale.until)) {
        (Request::Range(range), Some(stale)) => Applied {
            response: store.range_as_of(range, stale.revision).map(Response::Range),
            revision: None,
        },
        _ => store.apply(now, request),
    }
}

/// Revokes what ran out; a revocation is a write like any other.
async fn expire(shared: &Shared, config: &ServerConfig) {
    let revision = lock(&shared.disk).revision();
    fsync(config, rt::choice::stable_hash(b"expiry"), revision as u64).await;
    rt::preempt("etcd.before-expiry").await;
    let mut store = lock(&shared.disk);
    let revisions = store.expire(Instant::now());
    for revision in &revisions {
        rt::event!("etcd.lease-expired", revision = *revision);
    }
    shared.volatile().notify(&store, revisions, true);
}

async fn fsync(config: &ServerConfig, entity: u64, ordinal: u64) {
    let (low, high) = (config.fsync_min_us, config.fsync_max_us.max(config.fsync_min_us));
    let delay = rt::choice("etcd.fsync", entity, ordinal)
        .duration(Duration::from_micros(low), Duration::from_micros(high));
    if !delay.is_zero() {
        rt::time::sleep(delay).await;
    }
}

/// The first look at the leases at or after `due`.
fn next_check(config: &ServerConfig, started: Instant, due: Instant) -> Instant {
    let period = config.lease_check_ms.max(1) * 1_000_000;
    let after = (due - started).as_nanos() as u64;
    Instant::from_nanos(started.as_nanos().saturating_add(after.div_ceil(period).saturating_mul(period)))
}

async fn elapsed(timer: &mut Option<Sleep>) {
    match timer {
        Some(timer) => timer.await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_are_looked_at_on_a_grid_from_the_start() {
        let config = ServerConfig::default();
        let ms = |n: u64| Instant::from_nanos(n * 1_000_000);
        assert_eq!(next_check(&config, ms(100), ms(2_100)), ms(2_100));
        assert_eq!(next_check(&config, ms(100), ms(2_101)), ms(2_600));
    }
}
