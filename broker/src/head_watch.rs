//! One watch over all heads, shared by all waiting Fetch requests of the agent.
//!
//! A request that read heads at revision R waits until some head it reads changed after R. The watch only wakes; what is
//! answered is always read anew. It begins with the first request that waits, from the revision that request read, so
//! no change is missed; when it breaks it resumes after the last revision seen.

use crate::agent::Context;
use crate::coordinator::WatchError;
use crate::layout;
use bytes::Bytes;
use rt::time::sleep;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// Pause before a broken watch is opened again.
const REOPEN: Duration = Duration::from_millis(100);

#[derive(Default)]
pub(crate) struct HeadWatch {
    known: Mutex<Known>,
    changed: Notify,
    wanted: Notify,
}

#[derive(Default)]
struct Known {
    /// The revision to watch from; 0 until somebody waits.
    next_revision: i64,
    /// Any head may have changed up to this revision: its events were compacted away.
    floor: i64,
    /// The newest change seen, by head key.
    heads: BTreeMap<Bytes, i64>,
}

impl HeadWatch {
    /// Waits until one of `heads` changed after `revision`.
    pub(crate) async fn changed_after(&self, heads: &[Bytes], revision: i64) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            {
                let mut known = self.known();
                if known.next_revision == 0 {
                    known.next_revision = revision + 1;
                    self.wanted.notify_one();
                }
                let moved = |head| known.heads.get(head).is_some_and(|changed| *changed > revision);
                if known.floor > revision || heads.iter().any(moved) {
                    return;
                }
            }
            changed.await;
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn update(&self, change: impl FnOnce(&mut Known)) {
        change(&mut self.known());
        self.changed.notify_waiters();
    }
}

/// Keeps the watch open.
pub(crate) async fn run(context: Arc<Context>) {
    let watch = &context.heads;
    watch.wanted.notified().await;
    loop {
        let from_revision = watch.known().next_revision;
        if let Ok(mut events) = context.gate.watch(layout::HEADS.into(), from_revision).await {
            follow(watch, events.as_mut()).await;
        }
        sleep(REOPEN).await;
    }
}

async fn follow(watch: &HeadWatch, events: &mut dyn crate::coordinator::Watch) {
    loop {
        match events.next().await {
            Ok(batch) => watch.update(|known| {
                for event in batch {
                    known.next_revision = known.next_revision.max(event.kv.mod_revision + 1);
                    known.heads.insert(event.kv.key, event.kv.mod_revision);
                }
            }),
            Err(WatchError::Compacted { compact_revision }) => {
                rt::mark!(reachable, "a watch over heads was compacted away");
                watch.update(|known| {
                    known.floor = known.floor.max(compact_revision);
                    known.next_revision = known.next_revision.max(compact_revision);
                });
                return;
            }
            Err(WatchError::Broken) => return,
        }
    }
}
