//! From Prepare to Complete: the markers.
//!
//! Each step is one bounded coordinator transaction that any agent can take and that happens once. A step appends markers
//! to up to [`STEP`] partitions: control batch, head, producer state and aborted range change together, and the
//! partition leaves the transaction. It is compared that the partition is in it until then: two agents that finish the
//! same transaction would each write a marker otherwise. Then the offsets that the transaction holds pending are settled,
//! group by group (`pending`). The last step, of either kind, completes the transaction with what it writes. Every step
//! compares the mod revision that Prepare gave the transaction, so a late one can do nothing to the next transaction.
//!
//! Who prepares an end mostly knows what is in the transaction: he read it before. So Prepare also reads what the first
//! steps decide on, and they need no read of their own.

use crate::agent::Context;
use crate::batch::MARKER_BYTES;
use crate::codec::{self, Unreadable};
use crate::coordinator::{Compare, KeyValue, Op, Range, RangeResponse};
use crate::gate::{Fault, Snapshot, Stored};
use crate::layout;
use crate::pending;
use crate::producer::{self, ProducerEntry};
use crate::records::{AbortedRange, Body, Head, IndexEntry, TopicEntry};
use crate::topics;
use crate::transaction::TxnState;
use rt::time::wall_ms;
use std::sync::Arc;

/// Partitions per step: at most five operations each and two more, within etcd's 128; or three reads each with Prepare.
const STEP: usize = 24;
/// How long one agent keeps trying; then the scan takes over.
const LIMIT_MS: u64 = 10_000;

/// What a transaction held when it was read: partitions and the first group. More may have come since.
#[derive(Default)]
pub(crate) struct Contents {
    parts: RangeResponse,
    groups: RangeResponse,
}

impl Contents {
    /// Takes the answers to [`lists`].
    pub(crate) fn take(now: &mut Snapshot) -> Self {
        Contents { parts: now.next(), groups: now.next() }
    }

    /// What the first steps of a transaction with these contents decide on.
    fn ranges(&self, state: &TxnState) -> Result<Vec<Range>, Unreadable> {
        let mut ranges = mark_ranges(&self.parts.kvs, state.producer_id);
        if let Some(group) = self.groups.kvs.first() {
            ranges.extend(pending::settle_ranges(group, state.producer_id)?);
        }
        Ok(ranges)
    }

    /// Whether the steps that `other` needs decide on the same.
    fn is_like(&self, other: &Contents) -> bool {
        let same = |(mine, other): (&KeyValue, &KeyValue)| mine.key == other.key && mine.value == other.value;
        let all_same = |mine: &RangeResponse, other: &RangeResponse| {
            mine.kvs.len() == other.kvs.len() && mine.kvs.iter().zip(&other.kvs).all(same)
        };
        all_same(&self.parts, &other.parts) && all_same(&self.groups, &other.groups)
    }
}

/// Stores a prepared end (`state`) under `guards`, with what is written `beside` it, and has it finished. `expected` is what
/// the transaction holds as far as is known. The revision of Prepare; `None` if a guard failed.
pub(crate) async fn prepare(
    context: &Context,
    id: &str,
    state: TxnState,
    by: &'static str,
    guards: Vec<Compare>,
    beside: Vec<Op>,
    expected: Contents,
) -> Result<Option<i64>, Fault> {
    let mut ops = vec![Op::put(layout::txn(id), codec::encode(&state))];
    ops.extend(lists(id).into_iter().chain(expected.ranges(&state)?).map(Op::Range));
    ops.extend(beside);
    let Some(answer) = context.gate.commit(guards, ops).await? else { return Ok(None) };
    let revision = answer.revision;
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
    let mut now = Snapshot::of(answer);
    // The put comes first.
    now.next();
    let contents = Contents::take(&mut now);
    let ahead = contents.is_like(&expected).then_some(now);
    let known = Some(Listed { state, revision, contents, ahead });
    context.steward.finish(Prepared { transactional_id: id.to_string(), known });
    Ok(Some(revision))
}

/// A transaction to be finished.
pub(crate) struct Prepared {
    pub(crate) transactional_id: String,
    /// What this agent learnt when it prepared the end; absent of one that was found prepared, as another agent left it.
    pub(crate) known: Option<Listed>,
}

/// A prepared transaction and what is left to be written.
pub(crate) struct Listed {
    state: TxnState,
    /// The mod revision that Prepare gave the transaction.
    revision: i64,
    contents: Contents,
    /// The answers to [`Contents::ranges`], if they were read with it.
    ahead: Option<Snapshot>,
}

/// Keys of `txn_parts`, at most [`STEP`], and the first key of `txn_groups`.
pub(crate) fn lists(id: &str) -> [Range; 2] {
    let (parts, groups) = (layout::txn_parts(id), layout::txn_groups(id));
    let (parts_end, groups_end) = (layout::end_of(&parts), layout::end_of(&groups));
    [Range::span(parts, parts_end, STEP as i64), Range::span(groups, groups_end, 1)]
}

impl Listed {
    /// Reads a transaction; `None` if it is not prepared (any more).
    async fn read(context: &Context, id: &str) -> Result<Option<Self>, Fault> {
        let [parts, groups] = lists(id);
        let mut now = context.gate.read(vec![Range::key(layout::txn(id)), parts, groups]).await?;
        let stored = now.one::<TxnState>()?;
        let revision = stored.revision();
        let prepared = stored.into_value().filter(|state| state.phase.prepared().is_some());
        Ok(prepared.map(|state| Listed { state, revision, contents: Contents::take(&mut now), ahead: None }))
    }
}

/// Finishes a transaction, trying again while the coordinator is away.
pub(crate) async fn run(context: Arc<Context>, prepared: Prepared) {
    let Prepared { transactional_id: id, mut known } = prepared;
    let found = known.is_none();
    let mut patience = context.patience_for(LIMIT_MS);
    loop {
        match step(&context, &id, known.take()).await {
            Ok(Step::Advanced) => {}
            Ok(Step::Completed) => {
                rt::mark!(sometimes, "a prepared transaction was finished by another agent", found);
                break;
            }
            Ok(Step::Nothing) => break,
            Err(fault) if !fault.passes() || !patience.pause().await => break,
            Err(_) => {}
        }
    }
    context.steward.finished(&id);
}

enum Step {
    /// Some partitions got their markers, some offsets were settled, or somebody else was quicker.
    Advanced,
    /// This agent completed the transaction.
    Completed,
    /// It is not prepared (any more).
    Nothing,
}

async fn step(context: &Context, id: &str, known: Option<Listed>) -> Result<Step, Fault> {
    let listed = match known {
        Some(listed) => Some(listed),
        None => Listed::read(context, id).await?,
    };
    let Some(Listed { state, revision, contents, mut ahead }) = listed else { return Ok(Step::Nothing) };
    let Contents { parts, groups } = contents;
    let committed = state.phase.prepared() == Some(true);
    let end = End { transactional_id: id, state: &state, committed, prepared_revision: revision };
    // Neither list grows once the transaction is prepared.
    let only_parts = !parts.more && groups.kvs.is_empty();
    if parts.kvs.is_empty() && only_parts {
        return complete(context, &end).await;
    }
    if !parts.kvs.is_empty() {
        let marked = mark(context, &end, &parts.kvs, only_parts, ahead.as_mut()).await?;
        if only_parts || parts.more || !marked {
            return Ok(if only_parts && marked { Step::Completed } else { Step::Advanced });
        }
    }
    let Some(group) = groups.kvs.first() else { return Ok(Step::Advanced) };
    let completed = pending::settle(context, &end, group, !groups.more, ahead).await?;
    Ok(if completed { Step::Completed } else { Step::Advanced })
}

/// A prepared end, as it is being finished.
pub(crate) struct End<'a> {
    transactional_id: &'a str,
    pub(crate) state: &'a TxnState,
    pub(crate) committed: bool,
    /// The mod revision that Prepare gave the transaction.
    prepared_revision: i64,
}

impl End<'_> {
    /// The transaction is as it was when prepared.
    pub(crate) fn guard(&self) -> Compare {
        Compare::unchanged(layout::txn(self.transactional_id), self.prepared_revision)
    }

    /// Reads the transaction.
    pub(crate) fn range(&self) -> Range {
        Range::key(layout::txn(self.transactional_id))
    }

    /// Whether the transaction, read at this mod revision, is as it was when prepared.
    pub(crate) fn is_at(&self, revision: i64) -> bool {
        revision == self.prepared_revision
    }

    /// Completes the transaction.
    pub(crate) fn completion(&self) -> [Op; 2] {
        let id = self.transactional_id;
        let done = codec::encode(&self.state.completed(self.committed));
        [Op::put(layout::txn(id), done), Op::put(layout::txn_idle(id), codec::encode(&wall_ms()))]
    }

    /// Tells that it is completed.
    pub(crate) fn completed(&self, revision: i64) {
        rt::event!(
            "txn.completed",
            transactional_id = self.transactional_id,
            producer_id = self.state.producer_id,
            epoch = self.state.epoch,
            committed = self.committed,
            prepared_revision = self.prepared_revision,
            revision = revision,
        );
    }
}

/// Completes a transaction that has nothing left to be written.
async fn complete(context: &Context, end: &End<'_>) -> Result<Step, Fault> {
    rt::preempt("finish.before-complete").await;
    let answer = context.gate.commit(vec![end.guard()], end.completion().to_vec()).await?;
    let Some(answer) = answer else { return Ok(Step::Nothing) };
    end.completed(answer.revision);
    Ok(Step::Completed)
}

/// Writes the markers of the partitions whose `txn_parts` keys are given, and completes the transaction if they are the
/// `last` thing to be written. False if a produce got in between, or another agent was quicker: both show at the next step.
/// `ahead` are the answers to [`mark_ranges`], if they were read already.
async fn mark(
    context: &Context,
    end: &End<'_>,
    parts: &[KeyValue],
    last: bool,
    ahead: Option<&mut Snapshot>,
) -> Result<bool, Fault> {
    let state = end.state;
    let mut read = None;
    let now = match ahead {
        Some(ahead) => ahead,
        None => read.insert(context.gate.read(mark_ranges(parts, state.producer_id)).await?),
    };
    let committed = end.committed;
    let mut step =
        MarkStep { state, committed, compares: vec![end.guard()], ops: Vec::new(), written: Vec::new() };
    for (topic, partition) in partitions(parts) {
        step.add(topic, partition, now)?;
    }
    for part in parts {
        // The heads were read later than the list: another agent may have marked the partitions by then.
        step.compares.push(Compare::unchanged(part.key.clone(), part.mod_revision));
        step.ops.push(Op::delete(part.key.clone()));
    }
    if last {
        step.ops.extend(end.completion());
    }
    rt::preempt("finish.before-markers").await;
    let Some(answer) = context.gate.commit(step.compares, step.ops).await? else { return Ok(false) };
    for (partition, offset) in step.written {
        rt::event!(
            "marker.written",
            partition = &partition,
            offset = offset,
            producer_id = state.producer_id,
            epoch = state.epoch,
            committed = committed,
            prepared_revision = end.prepared_revision,
        );
    }
    if last {
        end.completed(answer.revision);
    }
    Ok(true)
}

/// The partitions that `txn_parts` keys name.
fn partitions(parts: &[KeyValue]) -> impl Iterator<Item = (&str, i32)> {
    parts.iter().filter_map(|kv| layout::partition_of(&kv.key))
}

/// What markers are decided on.
fn mark_ranges(parts: &[KeyValue], producer_id: i64) -> Vec<Range> {
    let of = |(topic, partition): (&str, i32)| {
        let producer = layout::producer(topic, partition, producer_id);
        [layout::topic(topic), layout::head(topic, partition), producer].map(Range::key)
    };
    partitions(parts).flat_map(of).collect()
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
