//! Offsets of a transaction: listing the group in it, holding its offsets pending, and settling them at its end.
//!
//! Pending offsets belong to a group, a producer and an epoch; those of an older epoch go when the first of a newer one
//! come. [`settle`] is a step between Prepare and Complete, bounded, done once and by any agent, as markers are.

use crate::age;
use crate::agent::Context;
use crate::codec::{self, Unreadable};
use crate::coordinator::{Compare, CompareOp, KeyValue, Op, Range, RangeResponse, Target};
use crate::finish::{End, Prepared};
use crate::gate::{Fault, Snapshot, Stored};
use crate::group::{self, Claim, CommittedOffset, GroupHead, GroupState, TxnGroup};
use crate::layout;
use crate::offsets::{self, Attempt, Row, STEP, Tried, settle_tried};
use crate::transaction::{self, Admission, Phase, TxnState};
use bytes::Bytes;
use kafka_protocol::ResponseError;

/// A transaction's client, and the group whose offsets it commits.
pub(crate) struct Committer<'a> {
    pub(crate) transactional_id: &'a str,
    pub(crate) producer_id: i64,
    pub(crate) epoch: i16,
    pub(crate) group: &'a str,
    /// The number of the transaction, if its client tells it (see `age`).
    pub(crate) number: Option<i64>,
}

impl Committer<'_> {
    fn txn_group(&self) -> Bytes {
        layout::txn_group(self.transactional_id, self.group)
    }

    /// What [`hold`] reads.
    pub(crate) fn ranges(&self) -> Vec<Range> {
        let group = [layout::group(self.group), layout::group_state(self.group)];
        let txn = [layout::txn(self.transactional_id), self.txn_group()];
        txn.into_iter().chain(group).map(Range::key).collect()
    }

    /// Lists the group in the transaction.
    fn joining(&self) -> Op {
        Op::put(self.txn_group(), codec::encode(&TxnGroup { epoch: self.epoch }))
    }

    fn finish_found(&self, context: &Context) {
        let transactional_id = self.transactional_id.to_string();
        context.steward.finish(Prepared { transactional_id, known: None });
    }

    fn begun(&self, context: &Context, revision: i64, timeout_ms: i32) {
        context.steward.saw_begin(self.transactional_id, revision, timeout_ms);
        rt::event!(
            "txn.begun",
            transactional_id = self.transactional_id,
            producer_id = self.producer_id,
            epoch = self.epoch,
            revision = revision,
        );
    }
}

/// Lists the group in the transaction, which begins if it is not open (AddOffsetsToTxn). One try.
pub(crate) async fn list(context: &Context, committer: &Committer<'_>) -> Result<Attempt, Fault> {
    let key = layout::txn(committer.transactional_id);
    let mut now = context.gate.read(vec![Range::key(key.clone()), Range::key(committer.txn_group())]).await?;
    let (stored, listed) = (now.one::<TxnState>()?, now.one::<TxnGroup>()?);
    let state = match transaction::own(stored.value(), committer.producer_id, committer.epoch) {
        Ok(state) => state,
        Err(error) => return Ok(Attempt::Refused(error)),
    };
    if state.phase.prepared().is_some() {
        committer.finish_found(context);
        return Ok(Attempt::Refused(ResponseError::ConcurrentTransactions));
    }
    if let Err(error) = age::may_join(state, committer.number) {
        return Ok(Attempt::Refused(error));
    }
    let begin = state.phase != Phase::Ongoing;
    if !begin && listed.value().is_some() {
        return Ok(Attempt::Done);
    }
    let mut ops = vec![committer.joining()];
    if begin {
        ops.push(Op::put(key.clone(), codec::encode(&state.begun(committer.number))));
    }
    rt::preempt("add-offsets.before-commit").await;
    let guard = vec![Compare::unchanged(key, stored.revision())];
    let Some(answer) = context.gate.commit(guard, ops).await? else { return Ok(Attempt::Changed) };
    if begin {
        committer.begun(context, answer.revision, state.timeout_ms);
    }
    Ok(Attempt::Done)
}

/// Holds at most [`STEP`] offsets pending. One try. `joins` lists the group in the transaction if need be (KIP-890 part 2).
/// `found` are the answers to [`Committer::ranges`], if they were read already.
pub(crate) async fn hold(
    context: &Context,
    committer: &Committer<'_>,
    claim: &Claim<'_>,
    joins: bool,
    rows: &[&Row<'_>],
    found: Option<Snapshot>,
    tried: &mut Tried,
) -> Result<Attempt, Fault> {
    let Committer { producer_id, epoch, group, .. } = *committer;
    let (txn_key, head_key) = (layout::txn(committer.transactional_id), layout::group(group));
    let state_key = layout::group_state(group);
    let key = |row: &Row<'_>| layout::pending_offset(group, producer_id, epoch, row.topic, row.partition);
    let puts: Vec<_> = rows.iter().map(|row| (key(row), codec::encode(&row.value))).collect();
    let mut now = match found {
        Some(found) => found,
        None => {
            let tried = tried.iter().flat_map(|_| puts.iter().map(|(key, _)| Range::key(key.clone())));
            context.gate.read(committer.ranges().into_iter().chain(tried).collect()).await?
        }
    };
    let (stored, listed, head): (Stored<TxnState>, Stored<TxnGroup>, Stored<GroupHead>) =
        (now.one()?, now.one()?, now.one()?);
    let state: Stored<GroupState> = now.one()?;
    if let Some(settled) = settle_tried(*tried, head.revision(), &puts, &mut now) {
        return Ok(settled);
    }
    if let Err(error) = group::may_commit(head.value(), state.value(), claim, offsets::partitions(rows)) {
        return Ok(Attempt::Refused(error));
    }
    if let Some(Err(error)) = stored.value().map(|state| age::may_join(state, committer.number)) {
        return Ok(Attempt::Refused(error));
    }
    let outside = context.config.transactions.outside;
    let listed = listed.value().is_some();
    let joining = match group::admit(outside, joins, stored.value(), listed, producer_id, epoch) {
        Admission::Append => None,
        Admission::Join { begin } => Some(begin),
        Admission::Refuse(error) => {
            if error == ResponseError::ConcurrentTransactions {
                committer.finish_found(context);
            }
            return Ok(Attempt::Refused(error));
        }
    };
    let guard = head.revision();
    let compares = vec![
        Compare::unchanged(txn_key.clone(), stored.revision()),
        Compare::unchanged(head_key.clone(), guard),
        Compare::unchanged(state_key, state.revision()),
    ];
    let mut ops: Vec<Op> = puts.into_iter().map(|(key, value)| Op::put(key, value)).collect();
    let mut head = GroupHead { deleted: false, ..head.into_value().unwrap_or_default() };
    match head.pending.insert(producer_id, epoch) {
        Some(newer) if newer > epoch => {
            return Ok(Attempt::Refused(ResponseError::InvalidProducerEpoch));
        }
        Some(older) if older < epoch => {
            rt::mark!(reachable, "pending offsets of an older epoch were dropped");
            ops.push(Op::Delete {
                key: layout::pending_epoch(group, producer_id, 0),
                range_end: layout::pending_epoch(group, producer_id, epoch),
            });
        }
        _ => {}
    }
    ops.push(Op::put(head_key, codec::encode(&head)));
    let begins = stored.value().filter(|_| joining == Some(true));
    if joining.is_some() {
        ops.push(committer.joining());
    }
    if let Some(state) = begins {
        ops.push(Op::put(txn_key, codec::encode(&state.begun(committer.number))));
    }
    rt::preempt("txn-offset-commit.before-commit").await;
    let Some(revision) = offsets::write(context, compares, ops, guard, tried).await? else {
        return Ok(Attempt::Changed);
    };
    if let Some(state) = begins {
        committer.begun(context, revision, state.timeout_ms);
    }
    for row in rows {
        rt::event!(
            "offset.held",
            transactional_id = committer.transactional_id,
            group = group,
            partition = &layout::partition_name(row.topic, row.partition),
            offset = row.value.offset,
            producer_id = producer_id,
            epoch = epoch,
        );
    }
    Ok(Attempt::Done)
}

/// What [`settle`] reads of the group that `listed` (a key of `txn_groups`) names.
pub(crate) fn settle_ranges(listed: &KeyValue, producer_id: i64) -> Result<[Range; 2], Unreadable> {
    let TxnGroup { epoch } = codec::decode(&listed.value)?;
    let group = layout::group_of(&listed.key).unwrap_or_default();
    Ok([Range::key(layout::group(&group)), pending_range(&group, producer_id, epoch)])
}

/// Pending offsets of older epochs come first, and belong to no transaction any more.
fn pending_range(group: &str, producer_id: i64, epoch: i16) -> Range {
    let first = layout::pending_epoch(group, producer_id, 0);
    let after = layout::end_of(&layout::pending_epoch(group, producer_id, epoch));
    Range::span(first, after, STEP as i64)
}

/// Settles pending offsets of the transaction's producer in the group that `listed` (a key of `txn_groups`) names: up to
/// [`STEP`] become committed ones, or are dropped. The last such step takes the group out of the transaction, and completes
/// the transaction if the group is the `last` thing in it. Whether it did. `ahead` are the answers to [`settle_ranges`], if
/// they were read already.
pub(crate) async fn settle(
    context: &Context,
    end: &End<'_>,
    listed: &KeyValue,
    last: bool,
    ahead: Option<Snapshot>,
) -> Result<bool, Fault> {
    let now = match ahead {
        Some(ahead) => ahead,
        None => context.gate.read(settle_ranges(listed, end.state.producer_id)?.to_vec()).await?,
    };
    let mut step = Settling::take(end, listed, now)?;
    let completes = last && !step.pending.more;
    let mut compares = step.older();
    loop {
        let mut ops = step.ops()?;
        if completes {
            ops.extend(end.completion());
        }
        rt::preempt("finish.before-offsets").await;
        compares.extend([end.guard(), Compare::unchanged(step.head_key(), step.head.revision())]);
        match context.gate.commit_or_read(compares, ops, step.ranges()).await? {
            Ok(answer) => {
                step.tell();
                if completes {
                    end.completed(answer.revision);
                }
                return Ok(completes);
            }
            // The group changed or has a newer offset, or another agent was quicker: that shows at the next step.
            Err(now) => {
                if !step.goes_on(now)? {
                    return Ok(false);
                }
                compares = Vec::new();
            }
        }
    }
}

/// A step that settles offsets of one group.
struct Settling<'a> {
    end: &'a End<'a>,
    group: String,
    epoch: i16,
    listed: &'a KeyValue,
    head: Stored<GroupHead>,
    pending: RangeResponse,
    /// Of a commit: each pending offset of the transaction, the key of its committed one, and what stands there, once it
    /// was read.
    offsets: Vec<(KeyValue, Bytes, Stored<CommittedOffset>)>,
}

impl<'a> Settling<'a> {
    /// Takes the answers to [`settle_ranges`].
    fn take(end: &'a End<'a>, listed: &'a KeyValue, mut now: Snapshot) -> Result<Self, Fault> {
        let TxnGroup { epoch } = codec::decode(&listed.value)?;
        let group = layout::group_of(&listed.key).unwrap_or_default();
        let (head, pending) = (now.one()?, now.next());
        let current = layout::pending_epoch(&group, end.state.producer_id, epoch);
        let of_commit = pending.kvs.iter().filter(|kv| end.committed && kv.key.starts_with(&current));
        let with_keys = of_commit.filter_map(|kv| {
            let (topic, partition) = layout::partition_of(&kv.key)?;
            Some((kv.clone(), layout::group_offset(&group, topic, partition), Stored::absent()))
        });
        let offsets = with_keys.collect();
        Ok(Settling { end, group, epoch, listed, head, pending, offsets })
    }

    /// What must hold for the first try, which does not know the committed offsets: that they are older than those pending.
    fn older(&self) -> Vec<Compare> {
        let older = |(kv, key, _): &(KeyValue, Bytes, _)| Compare {
            key: key.clone(),
            op: CompareOp::Less,
            target: Target::ModRevision(kv.mod_revision),
        };
        self.offsets.iter().map(older).collect()
    }

    fn head_key(&self) -> Bytes {
        layout::group(&self.group)
    }

    /// What is read again when the group has changed.
    fn ranges(&self) -> Vec<Range> {
        let pending = pending_range(&self.group, self.end.state.producer_id, self.epoch);
        let mut ranges = vec![self.end.range(), Range::key(self.head_key()), pending];
        ranges.extend(self.offsets.iter().map(|(_, key, _)| Range::key(key.clone())));
        ranges
    }

    fn take_offsets(&mut self, now: &mut Snapshot) -> Result<(), Fault> {
        for (_, _, stored) in &mut self.offsets {
            *stored = now.one()?;
        }
        Ok(())
    }

    /// Takes the answers in the order of [`Settling::ranges`]. Whether the same is still left to do.
    fn goes_on(&mut self, mut now: Snapshot) -> Result<bool, Fault> {
        let prepared = self.end.is_at(now.one::<TxnState>()?.revision());
        self.head = now.one()?;
        let pending = now.next();
        self.take_offsets(&mut now)?;
        Ok(prepared && pending.kvs == self.pending.kvs && pending.more == self.pending.more)
    }

    fn ops(&self) -> Result<Vec<Op>, Fault> {
        // Offsets of a group that was deleted since they came go with it.
        let dead_through = self.head.value().map_or(0, |head| head.dead_through);
        let mut ops = Vec::with_capacity(self.offsets.len() + 5);
        for (kv, key, stored) in self.offsets.iter().filter(|(kv, ..)| kv.mod_revision > dead_through) {
            // The group may have committed another since.
            let newer =
                stored.value().is_some_and(|offset| offset.order(stored.revision()) > kv.mod_revision);
            if !newer {
                let offset: CommittedOffset = codec::decode(&kv.value)?;
                let offset = CommittedOffset { pending_revision: kv.mod_revision, ..offset };
                ops.push(Op::put(key.clone(), codec::encode(&offset)));
            }
        }
        if let (Some(first), Some(last)) = (self.pending.kvs.first(), self.pending.kvs.last()) {
            ops.push(Op::Delete { key: first.key.clone(), range_end: [&last.key[..], &[0]].concat().into() });
        }
        if !self.pending.more {
            ops.push(Op::delete(self.listed.key.clone()));
        }
        // A group that was listed and given no offsets still is none.
        if let Some(mut head) = self.head.value().cloned() {
            if !self.pending.more {
                head.pending.remove(&self.end.state.producer_id);
            }
            ops.push(Op::put(self.head_key(), codec::encode(&head)));
        }
        Ok(ops)
    }

    fn tell(&self) {
        rt::event!(
            "offsets.settled",
            group = self.group.as_str(),
            producer_id = self.end.state.producer_id,
            epoch = self.epoch,
            count = self.pending.kvs.len(),
            committed = self.end.committed,
        );
    }
}
