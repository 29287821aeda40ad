//! The end of what nobody uses any more: producers of a partition, and transactional ids.
//!
//! Each scan pages through one kind of key and deletes what is old in bounded coordinator transactions, each guarded by
//! the mod revisions of what was read. A transaction opens, closes and appends by writing its producer's key too, so
//! that key's revision alone says that none is open. A guard that fails leaves its step's keys to the next scan. Many
//! agents may scan at once. Age is by wall clock (it outlives agents), which is good enough for hours and days.

use crate::agent::Context;
use crate::codec;
use crate::coordinator::{Compare, KeyValue, Op, Range};
use crate::gate::{Fault, Stored};
use crate::layout;
use crate::producer::ProducerEntry;
use crate::records::Head;
use crate::transaction::TxnState;
use bytes::Bytes;
use rt::time::{Instant, sleep_until, wall_ms};
use std::sync::Arc;
use std::time::Duration;

/// Keys read at once by a scan.
const PAGE: i64 = 500;
/// What one coordinator transaction deletes: two reads, at most two compares and two operations each, within etcd's 128.
const STEP: usize = 60;

/// Scans for as long as the agent serves.
pub(crate) async fn run(context: Arc<Context>) {
    let config = &context.config.expiration;
    let producer_ids = Duration::from_millis(config.producer_id_scan_ms);
    let transactional_ids = Duration::from_millis(config.transactional_id_scan_ms);
    let mut next_producer_ids = Instant::now() + producer_ids;
    let mut next_transactional_ids = Instant::now() + transactional_ids;
    loop {
        sleep_until(next_producer_ids.min(next_transactional_ids)).await;
        // Trouble is not the end: the next scan comes.
        if Instant::now() >= next_producer_ids {
            let _ = expire_producers(&context).await;
            next_producer_ids = Instant::now() + producer_ids;
        }
        if Instant::now() >= next_transactional_ids {
            let _ = expire_transactional_ids(&context).await;
            next_transactional_ids = Instant::now() + transactional_ids;
        }
    }
}

/// Forgets producers that wrote nothing for long and have no open transaction. What they repeat later is not recognised.
async fn expire_producers(context: &Context) -> Result<(), Fault> {
    let expiration_ms = context.config.expiration.producer_id_ms;
    let old = |kv: &KeyValue| {
        let entry: ProducerEntry = codec::decode(&kv.value)?;
        Ok(entry.is_expired(wall_ms(), expiration_ms))
    };
    let mut cursor = Cursor::new(layout::PRODUCERS);
    while let Some(keys) = cursor.next(context, old).await? {
        for keys in keys.chunks(STEP) {
            expire_producers_step(context, keys, expiration_ms).await?;
        }
    }
    Ok(())
}

async fn expire_producers_step(context: &Context, keys: &[Bytes], expiration_ms: u64) -> Result<(), Fault> {
    let heads = keys.iter().filter_map(|key| {
        let (topic, partition, producer_id) = layout::producer_of(key)?;
        Some((key, layout::head(topic, partition), producer_id))
    });
    let heads: Vec<_> = heads.collect();
    let ranges = heads.iter().flat_map(|(key, head, _)| [(*key).clone(), head.clone()]);
    let mut now = context.gate.read(ranges.map(Range::key).collect()).await?;
    let (mut compares, mut ops) = (Vec::new(), Vec::new());
    for (key, _, producer_id) in &heads {
        let (entry, head) = (now.one::<ProducerEntry>()?, now.one::<Head>()?);
        let open = head.value().is_some_and(|head| head.open.contains_key(producer_id));
        if !open && entry.value().is_some_and(|entry| entry.is_expired(wall_ms(), expiration_ms)) {
            compares.push(Compare::unchanged((*key).clone(), entry.revision()));
            ops.push(Op::delete((*key).clone()));
        }
    }
    delete(context, "producers.expired", compares, ops).await
}

/// Forgets transactional ids that were idle for long: Kafka's state Dead.
async fn expire_transactional_ids(context: &Context) -> Result<(), Fault> {
    let expiration_ms = i64::try_from(context.config.expiration.transactional_id_ms).unwrap_or(i64::MAX);
    let old = |kv: &KeyValue| {
        let idle_since_ms: i64 = codec::decode(&kv.value)?;
        Ok(wall_ms().saturating_sub(idle_since_ms) >= expiration_ms)
    };
    let mut cursor = Cursor::new(layout::TXN_IDLE);
    while let Some(keys) = cursor.next(context, old).await? {
        for keys in keys.chunks(STEP) {
            expire_transactional_ids_step(context, keys).await?;
        }
    }
    Ok(())
}

async fn expire_transactional_ids_step(context: &Context, idle_keys: &[Bytes]) -> Result<(), Fault> {
    let keys: Vec<_> = idle_keys.iter().filter_map(|key| Some((layout::txn_of_idle(key)?, key))).collect();
    let ranges = keys.iter().flat_map(|(txn, idle)| [txn.clone(), (*idle).clone()]);
    let mut now = context.gate.read(ranges.map(Range::key).collect()).await?;
    let (mut compares, mut ops) = (Vec::new(), Vec::new());
    for (txn, idle) in &keys {
        let (state, since): (Stored<TxnState>, Stored<i64>) = (now.one()?, now.one()?);
        if state.value().is_some_and(|state| state.phase.is_idle()) {
            compares.push(Compare::unchanged(txn.clone(), state.revision()));
            compares.push(Compare::unchanged((*idle).clone(), since.revision()));
            ops.push(Op::delete(txn.clone()));
            ops.push(Op::delete((*idle).clone()));
        }
    }
    delete(context, "transactional_ids.expired", compares, ops).await
}

async fn delete(
    context: &Context,
    event: &'static str,
    compares: Vec<Compare>,
    ops: Vec<Op>,
) -> Result<(), Fault> {
    let keys = ops.len();
    if keys == 0 {
        return Ok(());
    }
    rt::preempt("expiry.before-commit").await;
    if context.gate.commit(compares, ops).await?.is_some() {
        rt::event!("expired", what = event, keys = keys);
    }
    Ok(())
}

/// A walk through all keys of one kind.
struct Cursor {
    from: Bytes,
    end: Bytes,
    over: bool,
}

impl Cursor {
    fn new(prefix: &'static str) -> Self {
        let from = Bytes::from_static(prefix.as_bytes());
        Cursor { end: layout::end_of(&from), from, over: false }
    }

    /// The keys of the next page that are `old`; `None` after the last page.
    async fn next(
        &mut self,
        context: &Context,
        old: impl Fn(&KeyValue) -> Result<bool, Fault>,
    ) -> Result<Option<Vec<Bytes>>, Fault> {
        if self.over {
            return Ok(None);
        }
        let page = context.gate.range(Range::span(self.from.clone(), self.end.clone(), PAGE)).await?;
        let mut keys = Vec::new();
        for kv in &page.kvs {
            if old(kv)? {
                keys.push(kv.key.clone());
            }
        }
        match page.kvs.last() {
            Some(last) if page.more => self.from = [&last.key[..], &[0]].concat().into(),
            _ => self.over = true,
        }
        Ok(Some(keys))
    }
}
