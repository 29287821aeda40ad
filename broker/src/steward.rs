//! The agent's care for transactions nobody else cares for: those that ran out of time, and those whose agent died
//! between Prepare and Complete.
//!
//! A scan lists all transactional ids every `scan_interval_ms`, and the topics whose deletion was begun and not finished. Age is measured by the agent's own monotonic clock from
//! the moment it saw the transaction begin (its own ones) or first listed it, so a clock that jumps aborts nothing. Under
//! `Timeouts::Deadline` an agent also wakes at the deadline of those it saw. Many agents may do all this at once:
//! whatever is done is guarded by the mod revision that identifies the transaction, and marks are written once.

use crate::agent::Context;
use crate::codec;
use crate::config::Timeouts;
use crate::coordinator::{Compare, Range};
use crate::deletion;
use crate::finish::{self, Contents, Prepared};
use crate::gate::Fault;
use crate::layout;
use crate::transaction::{Phase, TxnState};
use rt::time::{Instant, sleep_until};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, mpsc};

/// Transactional ids read at once by a scan.
const PAGE: i64 = 500;
/// Pause before an abort that failed is tried again.
const RETRY: Duration = Duration::from_millis(500);

pub(crate) struct Steward {
    known: Mutex<Known>,
    begun: Notify,
    queue: mpsc::UnboundedSender<Prepared>,
}

#[derive(Default)]
struct Known {
    /// Open transactions by transactional id.
    open: BTreeMap<String, Sighting>,
    /// Transactional ids whose end this agent is writing.
    finishing: BTreeSet<String>,
}

/// A transaction as this agent first saw it.
#[derive(Clone, Copy)]
struct Sighting {
    /// The mod revision that identifies it.
    revision: i64,
    deadline: Instant,
}

impl Steward {
    /// The steward, and the prepared transactions it wants finished.
    pub(crate) fn new() -> (Self, mpsc::UnboundedReceiver<Prepared>) {
        let (queue, prepared) = mpsc::unbounded_channel();
        (Steward { known: Mutex::default(), begun: Notify::new(), queue }, prepared)
    }

    /// Notes that a transaction began at `revision`.
    pub(crate) fn saw_begin(&self, transactional_id: &str, revision: i64, timeout_ms: i32) {
        self.known().open.insert(transactional_id.to_string(), Sighting::new(revision, timeout_ms));
        self.begun.notify_one();
    }

    /// Has the end of a prepared transaction written, unless that is being done already.
    pub(crate) fn finish(&self, prepared: Prepared) {
        if self.known().finishing.insert(prepared.transactional_id.clone()) {
            // The receiver lives as long as the agent serves.
            let _ = self.queue.send(prepared);
        }
    }

    /// Notes that this agent no longer writes the end of a transaction.
    pub(crate) fn finished(&self, transactional_id: &str) {
        self.known().finishing.remove(transactional_id);
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.known().open.values().map(|sighting| sighting.deadline).min()
    }

    /// The transactions that are out of time.
    fn overdue(&self) -> Vec<(String, i64)> {
        let now = Instant::now();
        let known = self.known();
        let overdue = known.open.iter().filter(|(_, sighting)| sighting.deadline <= now);
        overdue.map(|(id, sighting)| (id.clone(), sighting.revision)).collect()
    }

    /// Forgets the transaction that began at `revision`: it is over.
    fn forget(&self, transactional_id: &str, revision: i64) {
        let mut known = self.known();
        if known.open.get(transactional_id).is_some_and(|sighting| sighting.revision == revision) {
            known.open.remove(transactional_id);
        }
    }

    /// Looks at the transaction again after [`RETRY`].
    fn postpone(&self, transactional_id: &str) {
        if let Some(sighting) = self.known().open.get_mut(transactional_id) {
            sighting.deadline = Instant::now() + RETRY;
        }
    }
}

impl Sighting {
    fn new(revision: i64, timeout_ms: i32) -> Self {
        let timeout = Duration::from_millis(timeout_ms.max(0) as u64);
        Sighting { revision, deadline: Instant::now() + timeout }
    }
}

/// Scans for as long as the agent serves.
pub(crate) async fn run(context: Arc<Context>) {
    let steward = &context.steward;
    let period = Duration::from_millis(context.config.transactions.scan_interval_ms);
    let by_deadline = context.config.transactions.timeouts == Timeouts::Deadline;
    let mut next_scan = Instant::now() + period;
    loop {
        let wake = match steward.next_deadline() {
            Some(deadline) if by_deadline => deadline.min(next_scan),
            _ => next_scan,
        };
        tokio::select! {
            biased;
            () = sleep_until(wake) => {}
            () = steward.begun.notified(), if by_deadline => continue,
        }
        if Instant::now() >= next_scan {
            // Trouble is not the end: the next scan comes.
            let _ = scan(&context).await;
            let _ = deletion::sweep(&context).await;
            next_scan = Instant::now() + period;
        }
        for (transactional_id, revision) in steward.overdue() {
            match time_out(&context, &transactional_id, revision).await {
                Ok(()) => steward.forget(&transactional_id, revision),
                Err(_) => steward.postpone(&transactional_id),
            }
        }
    }
}

/// Lists all transactions: notes the open ones, and has those prepared but not completed finished.
async fn scan(context: &Context) -> Result<(), Fault> {
    let steward = &context.steward;
    let end = layout::end_of(layout::TXNS.as_bytes());
    let mut from = bytes::Bytes::from_static(layout::TXNS.as_bytes());
    let mut open = BTreeMap::new();
    loop {
        let page = context.gate.range(Range::span(from, end.clone(), PAGE)).await?;
        for kv in &page.kvs {
            let Some(transactional_id) = layout::txn_of(&kv.key) else { continue };
            let state: TxnState = codec::decode(&kv.value)?;
            if state.phase == Phase::Ongoing {
                open.insert(transactional_id, Sighting::new(kv.mod_revision, state.timeout_ms));
            } else if state.phase.prepared().is_some() {
                steward.finish(Prepared { transactional_id, known: None });
            }
        }
        match page.kvs.last() {
            Some(last) if page.more => from = [&last.key[..], &[0]].concat().into(),
            _ => break,
        }
    }
    let mut known = steward.known();
    for (id, sighting) in &mut open {
        if let Some(earlier) = known.open.get(id).filter(|earlier| earlier.revision == sighting.revision) {
            *sighting = *earlier;
        }
    }
    known.open = open;
    Ok(())
}

/// Aborts the transaction that began at `revision`, if it is still open, and moves its epoch on.
async fn time_out(context: &Context, transactional_id: &str, revision: i64) -> Result<(), Fault> {
    let key = layout::txn(transactional_id);
    let [parts, groups] = finish::lists(transactional_id);
    let mut now = context.gate.read(vec![Range::key(key.clone()), parts, groups]).await?;
    let (stored, contents) = (now.one::<TxnState>()?, Contents::take(&mut now));
    let Some(state) = stored.value() else { return Ok(()) };
    if state.phase.prepared().is_some() {
        // Perhaps by an abort of ours whose answer was lost.
        context.steward.finish(Prepared { transactional_id: transactional_id.to_string(), known: None });
    }
    if state.phase != Phase::Ongoing || stored.revision() != revision {
        return Ok(());
    }
    let mut aborted = state.timed_out(context.config.transactions.version);
    if aborted.wants_producer_id() {
        aborted.next_producer_id = context.gate.take_number(layout::producer_id_counter()).await?;
    }
    rt::preempt("time-out.before-commit").await;
    let (producer_id, epoch) = (aborted.producer_id, aborted.epoch);
    let guards = vec![Compare::unchanged(key, revision)];
    let prepared =
        finish::prepare(context, transactional_id, aborted, "timeout", guards, Vec::new(), contents);
    if let Some(prepared) = prepared.await? {
        rt::event!(
            "txn.timed_out",
            transactional_id = transactional_id,
            producer_id = producer_id,
            epoch = epoch,
            revision = prepared,
        );
    }
    Ok(())
}
