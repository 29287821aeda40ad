//! One watch over all keys of a kind, shared by all who wait for one of them to change.
//!
//! Who read keys at revision R waits until some of them changed after R. The watch only wakes; what is answered is
//! always read anew. It begins with the first who waits, from the revision that one read, so no change is missed: who
//! read earlier and waits later is sent to read again. When it breaks it resumes after the last revision seen.

use crate::agent::Context;
use crate::coordinator::{Watch, WatchError};
use bytes::Bytes;
use rt::time::sleep;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// Pause before a broken watch is opened again.
const REOPEN: Duration = Duration::from_millis(100);

pub(crate) struct PrefixWatch {
    prefix: &'static str,
    known: Mutex<Known>,
    changed: Notify,
    wanted: Notify,
}

#[derive(Default)]
struct Known {
    /// The revision to watch from; 0 until somebody waits.
    next_revision: i64,
    /// Any key may have changed up to this revision: nobody watched, or the events were compacted away.
    floor: i64,
    /// The newest change seen, by key.
    keys: BTreeMap<Bytes, i64>,
    /// The newest change seen, of whichever key.
    newest: i64,
}

impl PrefixWatch {
    /// A watch over all keys that begin with `prefix`.
    pub(crate) fn new(prefix: &'static str) -> Self {
        PrefixWatch { prefix, known: Mutex::default(), changed: Notify::new(), wanted: Notify::new() }
    }

    /// Waits until one of `keys` changed after `revision`.
    pub(crate) async fn changed_after(&self, keys: &[Bytes], revision: i64) {
        let moved = |known: &Known| {
            keys.iter().any(|key| known.keys.get(key).is_some_and(|changed| *changed > revision))
        };
        self.wait(revision, moved).await;
    }

    /// Waits until any key changed after `revision`.
    pub(crate) async fn any_changed_after(&self, revision: i64) {
        self.wait(revision, |known| known.newest > revision).await;
    }

    async fn wait(&self, revision: i64, moved: impl Fn(&Known) -> bool) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            {
                let mut known = self.known();
                if known.next_revision == 0 {
                    known.next_revision = revision + 1;
                    known.floor = revision;
                    self.wanted.notify_one();
                }
                if known.floor > revision || moved(&known) {
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

/// Keeps the watch open that `of` names.
pub(crate) async fn run(context: Arc<Context>, of: fn(&Context) -> &PrefixWatch) {
    let watch = of(&context);
    watch.wanted.notified().await;
    loop {
        let from_revision = watch.known().next_revision;
        if let Ok(mut events) = context.gate.watch(watch.prefix.into(), from_revision).await {
            follow(watch, events.as_mut()).await;
        }
        sleep(REOPEN).await;
    }
}

async fn follow(watch: &PrefixWatch, events: &mut dyn Watch) {
    loop {
        match events.next().await {
            Ok(batch) => watch.update(|known| {
                for event in batch {
                    known.next_revision = known.next_revision.max(event.kv.mod_revision + 1);
                    known.newest = known.newest.max(event.kv.mod_revision);
                    known.keys.insert(event.kv.key, event.kv.mod_revision);
                }
            }),
            Err(WatchError::Compacted { compact_revision }) => {
                rt::mark!(reachable, "a watch over keys of one kind was compacted away");
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
