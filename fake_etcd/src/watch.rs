//! Who watches what, and what each is to be told.
//!
//! Pure, as the store; but not durable: watches end with their connection. A watcher is *synced* when it was told
//! everything so far, and is then notified of each new revision by a look-up of its key. Otherwise (it started in the
//! past, or its connection does not take what it is sent) it catches up from the store, whole revisions in batches, and
//! is canceled if what it lacks was compacted. `mvcc/watchable_store.go` is the model.

mod fragment;

use crate::api::{Event, KeyValue, WatchRequest, WatchResponse};
use crate::error::EtcdError;
use crate::store::{Span, Store};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A watch of one connection: the connection's number and the id its client gave the watch.
pub(crate) type WatchKey = (u64, u64);

/// Revisions a catching-up watcher is sent at a time, as etcd's `watchBatchMaxRevs`.
const BATCH_REVISIONS: usize = 1000;

#[derive(Debug)]
struct Watch {
    request: WatchRequest,
    /// The first revision it has not been told of.
    next: i64,
    synced: bool,
    /// Whether it was told something since the last progress notification.
    told: bool,
}

impl Watch {
    /// Whether it was told everything so far and has begun: of a watch that starts in the future nothing can be said.
    fn has_progress(&self, store: &Store) -> bool {
        self.synced && self.request.start_revision <= store.revision()
    }

    fn wants(&self, record: &KeyValue) -> bool {
        !(if record.is_tombstone() { self.request.no_delete } else { self.request.no_put })
    }
}

#[derive(Debug, Default)]
pub(crate) struct Hub {
    watches: BTreeMap<WatchKey, Watch>,
    /// Watches of single keys, by key.
    by_key: BTreeMap<Bytes, BTreeSet<WatchKey>>,
    /// Watches of ranges, by the range's start.
    by_start: BTreeSet<(Bytes, WatchKey)>,
}

impl Hub {
    /// Begins a watch. Events follow through [`Hub::notify`] and [`Hub::catch_up`].
    pub(crate) fn create(&mut self, store: &Store, id: WatchKey, mut request: WatchRequest) -> WatchResponse {
        let revision = store.revision();
        let refused = if request.start_revision < 0 {
            Some(EtcdError::COMPACTED)
        } else if self.watches.contains_key(&id) {
            Some(EtcdError::WATCH_DUPLICATE_ID)
        } else if is_empty(&request) {
            Some(EtcdError::WATCH_EMPTY_RANGE)
        } else {
            None
        };
        if let Some(error) = refused {
            return WatchResponse {
                revision,
                created: true,
                canceled: true,
                cancel_reason: error.message.into_owned(),
                ..Default::default()
            };
        }
        if request.key.is_empty() {
            request.key = Bytes::from_static(b"\0");
        }
        let synced = request.start_revision == 0 || request.start_revision > revision;
        let next = match request.start_revision {
            start if start > revision && !store.quirks().future_watch_sees_old_events => start,
            _ if synced => revision + 1,
            start => start,
        };
        if request.range_end.is_empty() {
            self.by_key.entry(request.key.clone()).or_default().insert(id);
        } else {
            self.by_start.insert((request.key.clone(), id));
        }
        self.watches.insert(id, Watch { request, next, synced, told: false });
        WatchResponse { revision, created: true, ..Default::default() }
    }

    /// Ends a watch; whether there was one.
    pub(crate) fn cancel(&mut self, id: WatchKey) -> bool {
        let Some(watch) = self.watches.remove(&id) else { return false };
        self.by_start.remove(&(watch.request.key.clone(), id));
        if let Some(ids) = self.by_key.get_mut(&watch.request.key) {
            ids.remove(&id);
            if ids.is_empty() {
                self.by_key.remove(&watch.request.key);
            }
        }
        true
    }

    /// Ends the watches of a connection.
    pub(crate) fn disconnect(&mut self, connection: u64) {
        let ids: Vec<_> = self.of(connection).map(|(id, _)| *id).collect();
        for id in ids {
            self.cancel(id);
        }
    }

    /// What synced watchers are told of a new revision. `by_expiry` says that a lease ran out. A watcher whose
    /// connection has no `room` falls behind.
    pub(crate) fn notify(
        &mut self,
        store: &Store,
        revision: i64,
        by_expiry: bool,
        room: impl Fn(u64) -> bool,
    ) -> Vec<(WatchKey, WatchResponse)> {
        if by_expiry && store.quirks().lease_deletions_are_silent {
            return Vec::new();
        }
        let mut told: BTreeMap<WatchKey, Vec<Event>> = BTreeMap::new();
        for record in store.index().changes(revision) {
            for id in self.watching(&record.key) {
                let watch = &self.watches[&id];
                if watch.synced && watch.next <= revision && watch.wants(record) {
                    told.entry(id).or_default().push(store.event(record, watch.request.prev_kv));
                }
            }
        }
        let mut responses = Vec::with_capacity(told.len());
        for (id, events) in told {
            let watch = self.watches.get_mut(&id).expect("it was found watching");
            if room(id.0) {
                (watch.next, watch.told) = (revision + 1, true);
                let response = WatchResponse { revision, events, ..Default::default() };
                responses.extend(fragment::split(response, watch.request.fragment).map(|part| (id, part)));
            } else {
                (watch.next, watch.synced) = (revision, false);
            }
        }
        responses
    }

    /// What the watchers of a connection that are behind are told next: at most one batch each.
    pub(crate) fn catch_up(&mut self, store: &Store, connection: u64) -> Vec<(WatchKey, WatchResponse)> {
        let behind: Vec<_> =
            self.of(connection).filter(|(_, watch)| !watch.synced).map(|(id, _)| *id).collect();
        let mut responses = Vec::new();
        for id in behind {
            let watch = self.watches.get_mut(&id).expect("found above");
            if watch.next < store.index().compacted() {
                let compact_revision = store.index().compacted();
                self.cancel(id);
                let response = WatchResponse { canceled: true, compact_revision, ..Default::default() };
                responses.push((id, response));
                continue;
            }
            let mut events = batch(store, watch);
            // A whole batch may be filtered out.
            while events.is_empty() && !watch.synced {
                events = batch(store, watch);
            }
            if !events.is_empty() {
                watch.told = true;
                let response = WatchResponse { revision: store.revision(), events, ..Default::default() };
                responses.extend(fragment::split(response, watch.request.fragment).map(|part| (id, part)));
            }
        }
        responses
    }

    /// Progress notifications now due to a connection's watches that asked for them: those that were told nothing
    /// since the last time, and lack nothing.
    pub(crate) fn progress(&mut self, store: &Store, connection: u64) -> Vec<(WatchKey, WatchResponse)> {
        let mut responses = Vec::new();
        for (id, watch) in self.watches.range_mut((connection, 0)..=(connection, u64::MAX)) {
            let silent = !std::mem::take(&mut watch.told);
            if silent && watch.request.progress_notify && watch.has_progress(store) {
                responses.push((*id, WatchResponse { revision: store.revision(), ..Default::default() }));
            }
        }
        responses
    }

    /// Whether there is progress to report on all of a connection's watches together, and any watch to report it to.
    pub(crate) fn have_progress(&self, store: &Store, connection: u64) -> bool {
        let mut watches = self.of(connection).peekable();
        watches.peek().is_some() && watches.all(|(_, watch)| watch.has_progress(store))
    }

    /// Forgets every watch and tells nobody.
    pub(crate) fn forget(&mut self) {
        *self = Hub::default();
    }

    fn of(&self, connection: u64) -> impl Iterator<Item = (&WatchKey, &Watch)> {
        self.watches.range((connection, 0)..=(connection, u64::MAX))
    }

    fn watching(&self, key: &Bytes) -> Vec<WatchKey> {
        let single = self.by_key.get(key).into_iter().flatten().copied();
        let ranges =
            self.by_start.range(..=(key.clone(), (u64::MAX, u64::MAX))).map(|(_, id)| *id).filter(|id| {
                let request = &self.watches[id].request;
                Span::new(&request.key, &request.range_end).contains(key)
            });
        single.chain(ranges).collect()
    }
}

/// Whether no key lies in the range, which the key as etcd completes it decides.
fn is_empty(request: &WatchRequest) -> bool {
    let key: &[u8] = if request.key.is_empty() { b"\0" } else { &request.key };
    match Span::new(key, &request.range_end) {
        Span::Within(start, end) => start >= end,
        Span::One(_) | Span::From(_) => false,
    }
}

/// The next events of a watcher that is behind, and moves it on.
fn batch(store: &Store, watch: &mut Watch) -> Vec<Event> {
    let span = Span::new(&watch.request.key, &watch.request.range_end);
    let mut revisions = store.index().revisions_since(span, watch.next);
    watch.synced = revisions.len() <= BATCH_REVISIONS;
    revisions.truncate(BATCH_REVISIONS);
    watch.next = match revisions.last() {
        Some(last) if !watch.synced => last + 1,
        _ => store.revision() + 1,
    };
    let of_revision = |revision: &i64| -> Vec<Arc<KeyValue>> {
        let changes = store.index().changes(*revision).iter();
        changes.filter(|record| span.contains(&record.key) && watch.wants(record)).cloned().collect()
    };
    let records: Vec<_> = revisions.iter().flat_map(of_revision).collect();
    records.iter().map(|record| store.event(record, watch.request.prev_kv)).collect()
}

#[cfg(test)]
mod tests;
