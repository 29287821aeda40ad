//! One watch over all keys of a kind, shared by all who wait for one of them to change.
//!
//! Who read keys at revision R waits until some of them changed after R. The watch only wakes; what is answered is
//! always read anew. It begins with the first who waits, from the revision that one read, so no change is missed: who
//! read earlier and waits later is sent to read again. When it breaks it resumes after the last revision seen.
//!
//! Keys come and go, and a key that is gone changes no more: of more than [`KEYS_MAX`] the half that changed longest ago
//! is forgotten, and who read before one of those changes is sent to read again.

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
/// Keys remembered; a hundred bytes each.
const KEYS_MAX: usize = 100_000;

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

impl Known {
    fn saw(&mut self, key: Bytes, revision: i64) {
        self.next_revision = self.next_revision.max(revision + 1);
        self.newest = self.newest.max(revision);
        self.keys.insert(key, revision);
    }

    /// Keeps the newer half of the keys if there are more than `max`.
    fn forget(&mut self, max: usize) {
        if self.keys.len() <= max {
            return;
        }
        let mut revisions: Vec<i64> = self.keys.values().copied().collect();
        let middle = revisions.len() / 2;
        let (_, oldest_kept, _) = revisions.select_nth_unstable(middle);
        let oldest_kept = *oldest_kept;
        self.keys.retain(|_, revision| *revision >= oldest_kept);
        self.floor = self.floor.max(oldest_kept - 1);
    }
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
                    known.saw(event.kv.key, event.kv.mod_revision);
                }
                known.forget(KEYS_MAX);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changed_long_ago_is_forgotten_and_who_read_before_it_reads_again() {
        let mut known = Known::default();
        for (key, revision) in [("a", 5), ("b", 6), ("c", 7), ("d", 8), ("a", 9)] {
            known.saw(Bytes::from(key), revision);
        }
        known.forget(4);
        assert_eq!((known.keys.len(), known.floor), (4, 0));
        known.saw(Bytes::from("e"), 11);
        known.forget(4);
        assert_eq!(known.keys.keys().collect::<Vec<_>>(), ["a", "d", "e"]);
        assert_eq!((known.floor, known.newest, known.next_revision), (7, 11, 12), "b and c changed by then");
    }
}
