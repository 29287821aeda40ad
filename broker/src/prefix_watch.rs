//! One watch over all keys of a kind, shared by all who wait for one of them to change.
//!
//! Who read keys at revision R waits until one of them changed after R in a way that matters to him. The watch only
//! wakes, and only whom a change matters to; what is answered is always read anew. It begins with the first who waits,
//! from the revision that one read, so no change is missed: who read earlier and waits later is sent to read again. When
//! it breaks it resumes after the last revision seen.
//!
//! Keys come and go, and a key that is gone changes no more: of more than [`KEYS_MAX`] the half that changed longest ago
//! is forgotten, and who read before one of those changes is sent to read again.

use crate::agent::Context;
use crate::coordinator::{Event, Watch, WatchError};
use bytes::Bytes;
use rt::time::sleep;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// Pause before a broken watch is opened again.
const REOPEN: Duration = Duration::from_millis(100);
/// Keys remembered, each with its last change: some 300 bytes.
const KEYS_MAX: usize = 100_000;

pub(crate) struct PrefixWatch {
    prefix: &'static str,
    known: Mutex<Known>,
    /// Something changed, whichever key.
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
    keys: BTreeMap<Bytes, Event>,
    /// The newest change seen, of whichever key.
    newest: i64,
    /// Who waits for a key, by the key and the wait's number; with the key's place among those he waits for.
    waits: BTreeMap<(Bytes, u64), (Arc<Wait>, usize)>,
    /// Waits so far.
    begun: u64,
}

/// Whether a change of the key at this place matters.
type Matters = Box<dyn Fn(usize, &Event) -> bool + Send + Sync>;

struct Wait {
    matters: Matters,
    over: Notify,
}

impl Known {
    /// Begins to watch, if nobody waited before one who read at `revision`. Whether he is to read again at once.
    fn enter(&mut self, revision: i64, wanted: &Notify) -> bool {
        if self.next_revision == 0 {
            self.next_revision = revision + 1;
            self.floor = revision;
            wanted.notify_one();
        }
        self.floor > revision
    }

    fn saw(&mut self, event: Event) {
        let (key, revision) = (event.kv.key.clone(), event.kv.mod_revision);
        self.next_revision = self.next_revision.max(revision + 1);
        self.newest = self.newest.max(revision);
        for (wait, place) in
            self.waits.range((key.clone(), 0)..=(key.clone(), u64::MAX)).map(|(_, wait)| wait)
        {
            if (wait.matters)(*place, &event) {
                wait.over.notify_one();
            }
        }
        self.keys.insert(key, event);
    }

    /// Any key may have changed up to `revision`: all who wait read again.
    fn raise_floor(&mut self, revision: i64) {
        if revision > self.floor {
            self.floor = revision;
            self.waits.values().for_each(|(wait, _)| wait.over.notify_one());
        }
    }

    /// Keeps the newer half of the keys if there are more than `max`.
    fn forget(&mut self, max: usize) {
        if self.keys.len() <= max {
            return;
        }
        let mut revisions: Vec<i64> = self.keys.values().map(|event| event.kv.mod_revision).collect();
        let middle = revisions.len() / 2;
        let (_, oldest_kept, _) = revisions.select_nth_unstable(middle);
        let oldest_kept = *oldest_kept;
        self.keys.retain(|_, event| event.kv.mod_revision >= oldest_kept);
        self.raise_floor(oldest_kept - 1);
    }
}

/// A wait in its keys' lists, until dropped.
struct Waiting<'a> {
    watch: &'a PrefixWatch,
    keys: &'a [Bytes],
    number: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut known = self.watch.known();
        for key in self.keys {
            known.waits.remove(&(key.clone(), self.number));
        }
    }
}

impl PrefixWatch {
    /// A watch over all keys that begin with `prefix`.
    pub(crate) fn new(prefix: &'static str) -> Self {
        PrefixWatch { prefix, known: Mutex::default(), changed: Notify::new(), wanted: Notify::new() }
    }

    /// Waits until one of `keys` changed after `revision` in a way that `matters`, which is told the key's place among
    /// them and what became of it. It may be done earlier, when nobody can tell.
    pub(crate) async fn changed_after(
        &self,
        keys: &[Bytes],
        revision: i64,
        matters: impl Fn(usize, &Event) -> bool + Send + Sync + 'static,
    ) {
        let wait = Arc::new(Wait { matters: Box::new(matters), over: Notify::new() });
        let _waiting = {
            let mut known = self.known();
            let moved = |(place, key): (usize, &Bytes)| {
                let seen = known.keys.get(key).filter(|event| event.kv.mod_revision > revision);
                seen.is_some_and(|event| (wait.matters)(place, event))
            };
            if keys.iter().enumerate().any(moved) || known.enter(revision, &self.wanted) {
                return;
            }
            known.begun += 1;
            let number = known.begun;
            for (place, key) in keys.iter().enumerate() {
                known.waits.insert((key.clone(), number), (wait.clone(), place));
            }
            Waiting { watch: self, keys, number }
        };
        wait.over.notified().await;
    }

    /// What the watch saw last of each of `keys`, and up to which revision it saw everything; `None` if it does not know
    /// all of them. It may lag: good for waiting, not for answering.
    pub(crate) fn seen(&self, keys: &[Bytes]) -> Option<(Vec<Event>, i64)> {
        let known = self.known();
        let seen = keys.iter().map(|key| known.keys.get(key).cloned()).collect::<Option<_>>()?;
        Some((seen, known.next_revision - 1))
    }

    /// Waits until any key changed after `revision`.
    pub(crate) async fn any_changed_after(&self, revision: i64) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            {
                let mut known = self.known();
                if known.enter(revision, &self.wanted) || known.newest > revision {
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
                batch.into_iter().for_each(|event| known.saw(event));
                known.forget(KEYS_MAX);
            }),
            Err(WatchError::Compacted { compact_revision }) => {
                rt::mark!(reachable, "a watch over keys of one kind was compacted away");
                watch.update(|known| {
                    known.raise_floor(compact_revision);
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
    use crate::coordinator::{EventKind, KeyValue};
    use std::pin::pin;
    use std::task::{Context as TaskContext, Waker};

    fn put(key: &'static str, value: &'static str, mod_revision: i64) -> Event {
        let (key, value) = (Bytes::from(key), Bytes::from(value));
        let kv = KeyValue { key, value, create_revision: 1, mod_revision, version: 1, lease: 0 };
        Event { kind: EventKind::Put, kv }
    }

    #[test]
    fn a_change_wakes_whom_it_matters_to_and_nobody_is_left_behind() {
        let watch = PrefixWatch::new("");
        let keys = [Bytes::from("a"), Bytes::from("b")];
        let is_x = |place, event: &Event| place == 1 && event.kv.value == "x";
        let mut task = TaskContext::from_waker(Waker::noop());
        {
            let mut first = pin!(watch.changed_after(&keys, 4, is_x));
            let mut late = pin!(watch.changed_after(&keys, 4, is_x));
            assert!(first.as_mut().poll(&mut task).is_pending());
            for event in [put("a", "x", 5), put("b", "y", 6), put("c", "x", 7)] {
                watch.update(|known| known.saw(event));
                assert!(first.as_mut().poll(&mut task).is_pending(), "that does not matter");
            }
            watch.update(|known| known.saw(put("b", "x", 8)));
            assert!(first.as_mut().poll(&mut task).is_ready());
            assert!(late.as_mut().poll(&mut task).is_ready(), "it has changed already");
            let mut blind = pin!(watch.changed_after(&keys, 3, is_x));
            assert!(blind.as_mut().poll(&mut task).is_ready(), "nobody watched at 4");
            let mut next = pin!(watch.changed_after(&keys, 8, is_x));
            assert!(next.as_mut().poll(&mut task).is_pending(), "what changed before it read is no change");
            watch.update(|known| known.raise_floor(9));
            assert!(next.as_mut().poll(&mut task).is_ready(), "who cannot be told reads again");
        }
        assert!(watch.known().waits.is_empty());
    }

    #[test]
    fn what_changed_long_ago_is_forgotten_and_who_read_before_it_reads_again() {
        let mut known = Known::default();
        for (key, revision) in [("a", 5), ("b", 6), ("c", 7), ("d", 8), ("a", 9)] {
            known.saw(put(key, "", revision));
        }
        known.forget(4);
        assert_eq!((known.keys.len(), known.floor), (4, 0));
        known.saw(put("e", "", 11));
        known.forget(4);
        assert_eq!(known.keys.keys().collect::<Vec<_>>(), ["a", "d", "e"]);
        assert_eq!((known.floor, known.newest, known.next_revision), (7, 11, 12), "b and c changed by then");
    }
}
