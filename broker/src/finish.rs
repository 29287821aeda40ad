//! From Prepare to Complete: the markers.
//!
//! Each step is one bounded coordinator transaction that any agent can take and that happens once. A step appends markers
//! to up to [`STEP`] partitions: control batch, head, producer state and aborted range change together, and the
//! partition leaves the transaction. It is compared that the partition is in it until then: two agents that finish the
//! same transaction would each write a marker otherwise. Then the offsets that the transaction holds pending are settled,
//! group by group (`pending`). The last step finds neither left and completes the transaction. Every step compares the mod
//! revision that Prepare gave the transaction, so a late one can do nothing to the next transaction.

use crate::agent::Context;
use crate::batch::MARKER_BYTES;
use crate::codec;
use crate::coordinator::{Compare, KeyValue, Op, OpResponse, Range};
use crate::gate::{Fault, Snapshot, Stored};
use crate::layout;
use crate::pending;
use crate::producer::{self, ProducerEntry};
use crate::records::{AbortedRange, Body, Head, IndexEntry, TopicEntry};
use crate::topics;
use crate::transaction::TxnState;
use rt::time::wall_ms;
use std::sync::Arc;

/// Partitions per step: at most five operations each and one more, within etcd's 128.
const STEP: usize = 24;
/// How long one agent keeps trying; then the scan takes over.
const LIMIT_MS: u64 = 10_000;

/// Tells that this agent prepared the end of a transaction (`state`, as stored at `revision`), and has it finished.
pub(crate) fn begin(context: &Context, id: &str, state: &TxnState, by: &'static str, revision: i64) {
    rt::event!(
        "txn.prepared",
        transactional_id = id,
        producer_id = state.producer_id,
        epoch = state.epoch,
        committed = state.phase.prepared() == Some(true),
        by = by,
        revision = revision,
    );
    context.counters.transaction_ended(state.phase.prepared() == Some(true), by);
    context.steward.finish(Prepared { transactional_id: id.to_string(), found: false });
}

/// A transaction to be finished.
pub(crate) struct Prepared {
    pub(crate) transactional_id: String,
    /// Whether it was found prepared, as one that another agent left behind is.
    pub(crate) found: bool,
}

/// Finishes a transaction, trying again while the coordinator is away.
pub(crate) async fn run(context: Arc<Context>, prepared: Prepared) {
    let id = &prepared.transactional_id;
    let mut patience = context.patience_for(LIMIT_MS);
    loop {
        match step(&context, id).await {
            Ok(Step::Advanced) => {}
            Ok(Step::Completed) => {
                rt::mark!(sometimes, "a prepared transaction was finished by another agent", prepared.found);
                break;
            }
            Ok(Step::Nothing) => break,
            Err(fault) if !fault.passes() || !patience.pause().await => break,
            Err(_) => {}
        }
    }
    context.steward.finished(id);
}

enum Step {
    /// Some partitions got their markers, some offsets were settled, or somebody else was quicker.
    Advanced,
    /// This agent completed the transaction.
    Completed,
    /// It is not prepared (any more).
    Nothing,
}

async fn step(context: &Context, id: &str) -> Result<Step, Fault> {
    let (key, parts_key, groups_key) = (layout::txn(id), layout::txn_parts(id), layout::txn_groups(id));
    let parts = Range::span(parts_key.clone(), layout::end_of(&parts_key), STEP as i64);
    let groups = Range::span(groups_key.clone(), layout::end_of(&groups_key), 1);
    let mut now = context.gate.read(vec![Range::key(key.clone()), parts, groups]).await?;
    let stored = now.one::<TxnState>()?;
    let Some((state, committed)) = stored.value().and_then(|s| Some((s, s.phase.prepared()?))) else {
        return Ok(Step::Nothing);
    };
    let guard = Compare::unchanged(key.clone(), stored.revision());
    let (parts, groups) = (now.next().kvs, now.next().kvs);
    let marked = parts.is_empty()
        || matches!(mark(context, id, state, committed, stored.revision(), &parts).await?, Left::Nothing);
    match groups.first() {
        // Neither list grows once the transaction is prepared.
        None if marked => complete(context, id, &stored, committed, guard).await,
        Some(group) if marked => {
            pending::settle(context, state.producer_id, committed, guard, group).await?;
            Ok(Step::Advanced)
        }
        _ => Ok(Step::Advanced),
    }
}

/// What a step of markers left to do.
enum Left {
    Nothing,
    Unknown,
}

async fn complete(
    context: &Context,
    id: &str,
    prepared: &Stored<TxnState>,
    committed: bool,
    guard: Compare,
) -> Result<Step, Fault> {
    let Some(state) = prepared.value() else { return Ok(Step::Nothing) };
    let done = codec::encode(&state.completed(committed));
    rt::preempt("finish.before-complete").await;
    let idle = Op::put(layout::txn_idle(id), codec::encode(&wall_ms()));
    let answer = context.gate.commit(vec![guard], vec![Op::put(layout::txn(id), done), idle]).await?;
    let Some(answer) = answer else { return Ok(Step::Nothing) };
    rt::event!(
        "txn.completed",
        transactional_id = id,
        producer_id = state.producer_id,
        epoch = state.epoch,
        committed = committed,
        prepared_revision = prepared.revision(),
        revision = answer.revision,
    );
    Ok(Step::Completed)
}

/// Writes the markers of the partitions whose `txn_parts` keys are given, as long as the transaction is as it was when
/// prepared.
async fn mark(
    context: &Context,
    id: &str,
    state: &TxnState,
    committed: bool,
    prepared_revision: i64,
    parts: &[KeyValue],
) -> Result<Left, Fault> {
    let partitions: Vec<(&str, i32)> = parts.iter().filter_map(|kv| layout::partition_of(&kv.key)).collect();
    let mut ranges = Vec::with_capacity(3 * partitions.len());
    for (topic, partition) in &partitions {
        ranges.push(Range::key(layout::topic(topic)));
        ranges.push(Range::key(layout::head(topic, *partition)));
        ranges.push(Range::key(layout::producer(topic, *partition, state.producer_id)));
    }
    let mut now = context.gate.read(ranges).await?;
    let mut step = MarkStep {
        state,
        committed,
        compares: vec![Compare::unchanged(layout::txn(id), prepared_revision)],
        ops: Vec::new(),
        written: Vec::new(),
    };
    for (topic, partition) in &partitions {
        step.add(topic, *partition, &mut now)?;
    }
    for part in parts {
        // The heads were read later than the list: another agent may have marked the partitions by then.
        step.compares.push(Compare::unchanged(part.key.clone(), part.mod_revision));
        step.ops.push(Op::delete(part.key.clone()));
    }
    let parts_key = layout::txn_parts(id);
    step.ops.push(Op::Range(Range::span(parts_key.clone(), layout::end_of(&parts_key), 1)));
    rt::preempt("finish.before-markers").await;
    let Some(answer) = context.gate.commit(step.compares, step.ops).await? else {
        // A produce got in between, or another agent was quicker. Both show at the next step.
        return Ok(Left::Unknown);
    };
    for (partition, offset) in step.written {
        rt::event!(
            "marker.written",
            partition = &partition,
            offset = offset,
            producer_id = state.producer_id,
            epoch = state.epoch,
            committed = committed,
            prepared_revision = prepared_revision,
        );
    }
    let none_left = |last: &OpResponse| matches!(last, OpResponse::Range(left) if left.kvs.is_empty());
    Ok(if answer.responses.last().is_some_and(none_left) { Left::Nothing } else { Left::Unknown })
}

struct MarkStep<'a> {
    state: &'a TxnState,
    committed: bool,
    compares: Vec<Compare>,
    ops: Vec<Op>,
    written: Vec<(String, i64)>,
}

impl MarkStep<'_> {
    /// Adds one partition's marker; a topic that is gone needs none.
    fn add(&mut self, topic: &str, partition: i32, now: &mut Snapshot) -> Result<(), Fault> {
        let TxnState { producer_id, epoch, version, .. } = *self.state;
        let topic_entry: Stored<TopicEntry> = now.one()?;
        let head: Stored<Head> = now.one()?;
        let producer: Stored<ProducerEntry> = now.one()?;
        if !topics::holds(&topic_entry, partition) {
            return Ok(());
        }
        let head_revision = head.revision();
        let mut head = head.into_value().unwrap_or_default();
        let offset = head.next_offset;
        let in_transaction = head.open.contains_key(&producer_id);
        if !producer::takes_marker(version, producer.value(), in_transaction, epoch) {
            // The partition has gone on without this transaction; it leaves it, as if its leader had refused.
            rt::mark!(reachable, "a stale marker was not written");
            return Ok(());
        }
        let first_offset = head.open.remove(&producer_id);
        head.next_offset += 1;
        head.size_bytes += MARKER_BYTES as u64;
        let now_ms = wall_ms();
        let mut producer = producer.into_value().unwrap_or_else(|| ProducerEntry::fresh(epoch));
        producer.mark(epoch, now_ms);
        let entry = IndexEntry {
            base_offset: offset,
            max_timestamp_ms: now_ms,
            body: Body::Marker { producer_id, epoch, committed: self.committed },
        };
        rt::mark!(always, "lso <= high watermark", head.last_stable_offset() <= head.high_watermark());
        let head_key = layout::head(topic, partition);
        self.compares.push(Compare::unchanged(layout::topic(topic), topic_entry.revision()));
        self.compares.push(Compare::unchanged(head_key.clone(), head_revision));
        self.ops.push(Op::put(layout::index(topic, partition, offset), codec::encode(&entry)));
        self.ops.push(Op::put(layout::producer(topic, partition, producer_id), codec::encode(&producer)));
        if let (false, Some(first_offset)) = (self.committed, first_offset) {
            let range =
                AbortedRange { producer_id, first_offset, last_stable_offset: head.last_stable_offset() };
            self.ops.push(Op::put(layout::aborted(topic, partition, offset), codec::encode(&range)));
        }
        self.ops.push(Op::put(head_key, codec::encode(&head)));
        if rt::observe::listens() {
            self.written.push((layout::partition_name(topic, partition), offset));
        }
        Ok(())
    }
}
