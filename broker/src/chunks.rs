//! Chunks: the bytes of batches, in the object store, with a small bounded cache for readers.
//!
//! A chunk is written once under a name nobody else can hold (see `layout`), so writing it again after a lost answer is
//! harmless, and what was read once never changes. A settled chunk (see `floor`) that no index entry names is garbage.

use crate::agent::Context;
use crate::config::AgentConfig;
use crate::counters::Counters;
use crate::floor;
use crate::gate::{Fault, Gate};
use crate::health::{Dependency, Health};
use crate::records::{CHUNKS, ChunkId};
use bytes::Bytes;
use futures_util::future::{Shared, WeakShared};
use futures_util::{FutureExt, StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt, PutMode, PutPayload};
use rt::host::BoxFuture;
use rt::time::{Instant, sleep, timeout};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Mutex as AsyncMutex;

/// The object store did not answer in time, or answered an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the object store is not available")]
pub(crate) struct StoreAway;

/// Why a chunk could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unread {
    Away,
    /// There is no such chunk (any more).
    Missing,
}

/// A chunk on its way from the store.
type Load = Shared<BoxFuture<Result<Bytes, Unread>>>;
type WeakLoad = WeakShared<BoxFuture<Result<Bytes, Unread>>>;

/// Chunks listed at once.
const LISTED_MAX: usize = 1_000;

pub(crate) struct Chunks {
    store: Arc<dyn ObjectStore>,
    bounds: Bounds,
    /// Taken with the first chunk.
    incarnation: AsyncMutex<Option<i64>>,
    written: AtomicU64,
    cache: Mutex<Cache>,
    /// Chunks on their way from the store: whoever wants one of them waits for it as well.
    loading: Mutex<BTreeMap<ChunkId, WeakLoad>>,
    counters: Counters,
}

/// What every call to the store keeps to.
#[derive(Clone)]
struct Bounds {
    limit: Duration,
    health: Health,
    counters: Counters,
}

impl Bounds {
    /// The answer to a call, once it is noted whether there was one.
    async fn keep<T>(
        &self,
        call: impl Future<Output = object_store::Result<T>>,
    ) -> Result<object_store::Result<T>, StoreAway> {
        let begun = Instant::now();
        let answer = timeout(self.limit, call).await;
        let answers = matches!(answer, Ok(Ok(_) | Err(Error::NotFound { .. } | Error::AlreadyExists { .. })));
        self.counters.store_call(begun.elapsed(), answers);
        self.health.note(Dependency::Store, answers);
        answer.map_err(|_| StoreAway)
    }
}

/// Pause between two looks at whether the store is away, and at whether it is back.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);

/// While the store is away, finds out when it is back. No object of the probe's name is ever written.
pub(crate) async fn probe(context: Arc<Context>) {
    loop {
        sleep(PROBE_INTERVAL).await;
        if context.health.is_away(Dependency::Store) {
            let chunks = &context.chunks;
            // What matters is noted: whether the store answered.
            let _ = chunks.bounds.keep(async { chunks.store.head(&"probe".into()).await }).await;
        }
    }
}

impl Chunks {
    pub(crate) fn new(
        store: Arc<dyn ObjectStore>,
        config: &AgentConfig,
        health: Health,
        counters: Counters,
    ) -> Self {
        let limit = Duration::from_millis(config.store_timeout_ms);
        let bounds = Bounds { limit, health, counters: counters.clone() };
        Chunks {
            store,
            bounds,
            incarnation: AsyncMutex::default(),
            written: AtomicU64::new(0),
            cache: Mutex::new(Cache { max_bytes: config.cache_max_bytes, ..Cache::default() }),
            loading: Mutex::default(),
            counters,
        }
    }

    /// A name for a new chunk. The first one asks the coordinator which incarnation this process is.
    pub(crate) async fn name(&self, gate: &Gate) -> Result<ChunkId, Fault> {
        let mut taken = self.incarnation.lock().await;
        let incarnation = match *taken {
            Some(incarnation) => incarnation,
            None => *taken.insert(floor::take_incarnation(gate).await?),
        };
        Ok(ChunkId { incarnation, number: self.written.fetch_add(1, Ordering::Relaxed) })
    }

    /// Gives `incarnation` up, under which a chunk came too late to be committed: it may have been retired.
    pub(crate) async fn forget(&self, incarnation: i64) {
        self.incarnation.lock().await.take_if(|taken| *taken == incarnation);
    }

    pub(crate) async fn put(&self, id: ChunkId, bytes: Bytes) -> Result<(), StoreAway> {
        let path = id.path();
        let put = self.store.put(&path, PutPayload::from_bytes(bytes.clone()));
        self.bounds.keep(put).await?.map_err(|_| StoreAway)?;
        self.counters.chunk(bytes.len());
        self.cache().insert(id, bytes);
        Ok(())
    }

    pub(crate) async fn get(&self, id: ChunkId) -> Result<Bytes, Unread> {
        if let Some(bytes) = self.cache().get(id) {
            return Ok(bytes);
        }
        let loaded = self.load(id).await;
        self.loading().remove(&id);
        if let Ok(bytes) = &loaded {
            self.cache().insert(id, bytes.clone());
        }
        loaded
    }

    /// Loads a chunk, or waits for whoever does so already.
    fn load(&self, id: ChunkId) -> Load {
        let mut loading = self.loading();
        if let Some(load) = loading.get(&id).and_then(WeakShared::upgrade) {
            return load;
        }
        let (store, bounds) = (self.store.clone(), self.bounds.clone());
        let load = async move {
            let path = id.path();
            let get = async { store.get(&path).await?.bytes().await };
            bounds.keep(get).await.map_err(|_| Unread::Away)?.map_err(|error| match error {
                Error::NotFound { .. } => Unread::Missing,
                _ => Unread::Away,
            })
        };
        let load: BoxFuture<_> = Box::pin(load);
        let load = load.shared();
        loading.extend(load.downgrade().map(|load| (id, load)));
        load
    }

    /// The next chunks in the store after `after`, in order of their names; empty at the end.
    pub(crate) async fn list(&self, after: Option<ChunkId>) -> Result<Vec<ChunkId>, StoreAway> {
        let (prefix, after) = (Path::from(CHUNKS), after.map_or(Path::from(CHUNKS), ChunkId::path));
        let listed = self.store.list_with_offset(Some(&prefix), &after).take(LISTED_MAX);
        let listed = listed.try_filter_map(async |object| Ok(ChunkId::at(&object.location)));
        self.bounds.keep(listed.try_collect()).await?.map_err(|_| StoreAway)
    }

    /// Deletes a chunk; one that is gone already is no error.
    pub(crate) async fn delete(&self, id: ChunkId) -> Result<(), StoreAway> {
        let path = id.path();
        match self.bounds.keep(self.store.delete(&path)).await? {
            Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
            _ => Err(StoreAway),
        }
    }

    /// Reads the file that all agents share, which the first of them makes. Only with the defect `exits_on_trouble`.
    pub(crate) async fn read_shared(&self) -> Result<(), StoreAway> {
        let path = Path::from("shared");
        let make = self.store.put_opts(&path, PutPayload::default(), PutMode::Create.into());
        // Most find it made; whether it is there is seen when it is read.
        let _ = self.bounds.keep(make).await;
        let read = async { self.store.get(&path).await?.bytes().await };
        self.bounds.keep(read).await?.map_err(|_| StoreAway).map(drop)
    }

    fn loading(&self) -> std::sync::MutexGuard<'_, BTreeMap<ChunkId, WeakLoad>> {
        self.loading.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cache(&self) -> std::sync::MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// First in, first out: chunks never change and readers mostly follow the tail.
#[derive(Default)]
struct Cache {
    max_bytes: usize,
    bytes: usize,
    chunks: BTreeMap<ChunkId, Bytes>,
    order: VecDeque<ChunkId>,
}

impl Cache {
    fn get(&self, id: ChunkId) -> Option<Bytes> {
        self.chunks.get(&id).cloned()
    }

    fn insert(&mut self, id: ChunkId, bytes: Bytes) {
        if bytes.len() > self.max_bytes || self.chunks.contains_key(&id) {
            return;
        }
        self.bytes += bytes.len();
        self.chunks.insert(id, bytes);
        self.order.push_back(id);
        while self.bytes > self.max_bytes {
            let Some(oldest) = self.order.pop_front() else { break };
            if let Some(dropped) = self.chunks.remove(&oldest) {
                self.bytes -= dropped.len();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_stays_within_its_bound_and_drops_the_oldest() {
        let mut cache = Cache { max_bytes: 10, ..Cache::default() };
        let id = |number| ChunkId { incarnation: 1, number };
        for number in 0..3 {
            cache.insert(id(number), Bytes::from(vec![number as u8; 4]));
        }
        assert_eq!((cache.get(id(0)), cache.bytes), (None, 8));
        assert_eq!(cache.get(id(2)).as_deref(), Some(&[2; 4][..]));
        cache.insert(id(3), Bytes::from(vec![0; 11]));
        assert_eq!((cache.get(id(3)), cache.bytes), (None, 8), "larger than the cache");
        cache.insert(id(2), Bytes::from(vec![0; 4]));
        assert_eq!((cache.order.len(), cache.bytes), (2, 8), "inserted twice");
    }
}
