//! The agent's registration: a key under a lease.
//!
//! The lease is renewed three times per time to live. That it was lost is found out in three ways, each sufficient: a
//! keep-alive answered with a time to live of 0, the key missing or held by another lease when it is read back (once
//! per renewal), and a watch on the key. Then the agent registers again. While the coordinator is away the agent
//! keeps serving and keeps trying.

use crate::agent::Context;
use crate::codec;
use crate::coordinator::{EventKind, KeyValue, Op, Range, Watch, WatchError};
use crate::gate::Fault;
use crate::layout;
use crate::records::AgentEntry;
use bytes::Bytes;
use rt::time::{Instant, sleep, sleep_until};
use std::sync::Arc;
use std::time::Duration;

/// The revision from which a watch tells only what comes after it.
const FROM_NOW: i64 = 0;
/// Pause before a failed registration is tried again.
const RETRY: Duration = Duration::from_millis(500);

struct Registration {
    key: Bytes,
    lease: i64,
    revision: i64,
}

/// Keeps the agent registered.
pub(crate) async fn run(context: Arc<Context>) {
    let node_id = context.config.node_id;
    loop {
        match register(&context).await {
            Ok(registration) => {
                let lease = registration.lease;
                rt::event!(
                    "lease.registered",
                    node_id = node_id,
                    lease = lease,
                    revision = registration.revision
                );
                context.health.registered(Some(lease));
                hold(&context, registration).await;
                context.health.registered(None);
                rt::event!("lease.lost", node_id = node_id, lease = lease);
                rt::mark!(reachable, "an agent found out that it had lost its lease");
            }
            Err(_) => sleep(RETRY).await,
        }
    }
}

/// Gives the registration up, so that nobody is sent here any more. If that fails the lease runs out by itself.
pub(crate) async fn leave(context: &Context) {
    if let Some(lease) = context.health.lease() {
        let revoked = context.gate.lease_revoke(lease).await.is_ok();
        rt::event!("lease.revoked", node_id = context.config.node_id, lease = lease, revoked = revoked);
    }
}

async fn register(context: &Context) -> Result<Registration, Fault> {
    let config = &context.config;
    let lease = context.gate.lease_grant(config.lease_ttl_s).await?;
    let entry = AgentEntry {
        node_id: config.node_id,
        host: config.advertised_host.clone(),
        port: config.advertised_port,
    };
    let key = layout::agent(config.node_id);
    rt::preempt("membership.before-register").await;
    let put = Op::Put { key: key.clone(), value: codec::encode(&entry), lease };
    let newest = Op::put(layout::registrations(), codec::encode(&lease));
    let answer = context.gate.commit(Vec::new(), vec![put, newest]).await?;
    let revision = answer.map_or(0, |answer| answer.revision);
    Ok(Registration { key, lease, revision })
}

/// Returns when the registration is lost.
async fn hold(context: &Context, registration: Registration) {
    let period = Duration::from_millis(1_000 * context.config.lease_ttl_s.max(1) as u64 / 3);
    let mut renewal = Instant::now() + period;
    let mut next_revision = registration.revision + 1;
    let mut watch: Option<Box<dyn Watch>> = None;
    let mut is_broken = false;
    loop {
        if watch.is_none() && !is_broken {
            // The poll below finds out what an unopened watch does not tell.
            watch = context.gate.watch(registration.key.clone(), next_revision).await.ok();
        }
        let events = async {
            match watch.as_mut() {
                Some(watch) => watch.next().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = sleep_until(renewal) => {
                let is_late = Instant::now() > renewal + period * 3;
                let polled = poll(context, &registration).await;
                let next = match polled {
                    Some(Poll::Lost) => return,
                    Some(Poll::Held) => period,
                    // Trouble is not loss, but the lease runs on: the next try comes soon.
                    None => RETRY,
                };
                renewal = Instant::now() + next;
                is_broken = is_forgetful(context) && polled.is_none();
                // Who was paused for as long as a lease lasts makes everything anew.
                if is_broken || is_forgetful(context) && is_late {
                    (watch, next_revision) = (None, FROM_NOW);
                }
            }
            events = events => match events {
                Ok(events) => {
                    if events.iter().any(|event| event.kind == EventKind::Delete) {
                        return;
                    }
                    let newest = events.iter().map(|event| event.kv.mod_revision).max();
                    next_revision = newest.map_or(next_revision, |newest| newest + 1);
                }
                Err(broken) => {
                    if let WatchError::Compacted { compact_revision } = broken {
                        next_revision = compact_revision;
                    }
                    watch = None;
                    sleep(RETRY).await;
                }
            },
        }
    }
}

/// Whether the agent has the defect `forgotten_lease`.
fn is_forgetful(context: &Context) -> bool {
    context.config.defects.forgotten_lease
}

/// What a poll found out about the registration.
#[derive(Clone, Copy)]
enum Poll {
    Held,
    Lost,
}

/// Renews the lease and reads the key back. `None` when the registration stands, as far as can be told, but one of the
/// two was not answered.
async fn poll(context: &Context, registration: &Registration) -> Option<Poll> {
    let renewed = context.gate.lease_keep_alive(registration.lease).await;
    if is_forgetful(context) {
        return renewed.ok().map(|_| Poll::Held);
    }
    if let Ok(0) = renewed {
        return Some(Poll::Lost);
    }
    let answer = context.gate.range(Range::key(registration.key.clone())).await.ok()?;
    match answer.kvs.first() {
        Some(kv) if kv.lease == registration.lease => renewed.ok().map(|_| Poll::Held),
        _ => Some(Poll::Lost),
    }
}

/// The range of all registrations.
pub(crate) fn registered() -> Range {
    Range::span(layout::AGENTS.into(), layout::end_of(layout::AGENTS.as_bytes()), 0)
}

/// The agents whose registrations were read, by node id.
pub(crate) fn entries(kvs: &[KeyValue]) -> Result<Vec<AgentEntry>, Fault> {
    kvs.iter().map(|kv| Ok(codec::decode(&kv.value)?)).collect()
}

/// The agents that hold a lease now, by node id; this one among them, though its registration may be on its way.
pub(crate) async fn live_agents(context: &Context) -> Result<Vec<AgentEntry>, Fault> {
    let mut agents = entries(&context.gate.range(registered()).await?.kvs)?;
    if is_forgetful(context) {
        return Ok(agents);
    }
    let me = context.myself();
    match agents.binary_search_by_key(&me.node_id, |agent| agent.node_id) {
        Ok(at) => agents[at] = me,
        Err(at) => agents.insert(at, me),
    }
    Ok(agents)
}
