//! Watermarks in memory: what the planted defect `watch_gap` does (finding 1). Without it nothing of this is used.
//!
//! The agent lists the heads of all partitions once, when it starts. The watch that keeps them current begins with the first
//! reader, at the revision that one read: a later one. A head that changed between is served as it was listed until it
//! changes again. A partition that was not there when the heads were listed is served as it is.

use crate::agent::Context;
use crate::codec;
use crate::coordinator::{Event, EventKind, Range, Watch, WatchError};
use crate::gate::Fault;
use crate::layout;
use crate::records::Head;
use bytes::Bytes;
use rt::time::sleep;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// Pause before a list or a watch that failed is tried again.
const RETRY: Duration = Duration::from_millis(100);

/// How far a partition can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Marks {
    pub(crate) high_watermark: i64,
    pub(crate) last_stable_offset: i64,
}

impl Marks {
    pub(crate) fn of(head: &Head) -> Self {
        Marks { high_watermark: head.high_watermark(), last_stable_offset: head.last_stable_offset() }
    }
}

#[derive(Default)]
pub(crate) struct Watermarks {
    known: Mutex<Known>,
    wanted: Notify,
}

#[derive(Default)]
struct Known {
    /// By head key.
    marks: BTreeMap<Bytes, Marks>,
    /// The revision to watch from; 0 until somebody reads.
    next_revision: i64,
}

impl Watermarks {
    /// What whoever read `head` at `revision` is told of it.
    pub(crate) fn serve(&self, key: &Bytes, head: &Head, revision: i64) -> Marks {
        let mut known = self.known();
        if known.next_revision == 0 {
            known.next_revision = revision + 1;
            self.wanted.notify_one();
        }
        known.marks.get(key).copied().unwrap_or_else(|| Marks::of(head))
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lists, and then watches for as long as the agent serves.
pub(crate) async fn run(context: Arc<Context>) {
    let Some(watermarks) = &context.watermarks else { return };
    while list(&context, watermarks).await.is_err() {
        sleep(RETRY).await;
    }
    watermarks.wanted.notified().await;
    loop {
        let from_revision = watermarks.known().next_revision;
        if let Ok(mut events) = context.gate.watch(layout::HEADS.into(), from_revision).await {
            follow(watermarks, events.as_mut()).await;
        }
        sleep(RETRY).await;
    }
}

async fn list(context: &Context, watermarks: &Watermarks) -> Result<(), Fault> {
    let all = Range::span(layout::HEADS.into(), layout::end_of(layout::HEADS.as_bytes()), 0);
    for kv in context.gate.range(all).await?.kvs {
        let head: Head = codec::decode(&kv.value)?;
        watermarks.known().marks.insert(kv.key, Marks::of(&head));
    }
    Ok(())
}

async fn follow(watermarks: &Watermarks, events: &mut dyn Watch) {
    loop {
        match events.next().await {
            Ok(batch) => batch.into_iter().for_each(|event| watermarks.known().saw(event)),
            Err(WatchError::Compacted { compact_revision }) => {
                watermarks.known().next_revision = compact_revision;
                return;
            }
            Err(WatchError::Broken) => return,
        }
    }
}

impl Known {
    fn saw(&mut self, event: Event) {
        self.next_revision = self.next_revision.max(event.kv.mod_revision + 1);
        match (event.kind, codec::decode::<Head>(&event.kv.value)) {
            (EventKind::Put, Ok(head)) => drop(self.marks.insert(event.kv.key, Marks::of(&head))),
            _ => drop(self.marks.remove(&event.kv.key)),
        }
    }
}
