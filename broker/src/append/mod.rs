//! Appending batches: decide, store the bytes, commit.
//!
//! A round reads everything it decides on in one snapshot and decides over each batch. The first one has the accepted
//! batches written into a chunk. The commit stands in line (see `lines`): head, index, producer state and transaction
//! change together in one coordinator transaction, guarded by the mod revisions read. Writing the chunk takes long enough
//! for others to append meanwhile; a failed guard brings what stands there then, and means another round. When the outcome of a commit is unknown, the next round looks
//! whether the index holds this very chunk where it would have been put: a commit that has not landed by then either
//! never can (its guard is stale) or excludes this round's own (both compare the same revision). When the chunk is settled
//! (see `floor`) the batches are written again, but for those that may have landed before that and are nobody's.

mod decide;

use crate::age::Stamp;
use crate::agent::Context;
use crate::batch::Header;
use crate::codec;
use crate::config::TransactionVersion;
use crate::coordinator::{Compare, CoordinatorError, Op, Range};
use crate::floor;
use crate::gate::{Fault, Patience, Snapshot, Stored};
use crate::layout;
use crate::producer::ProducerEntry;
use crate::records::{Body, ChunkId, Head, IndexEntry, TxnPart};
use crate::transaction::TxnState;
use crate::writer::{Lost, Written};
use bytes::Bytes;
use futures_util::poll;
use kafka_protocol::ResponseError;
use kafka_protocol::protocol::StrBytes;
use rt::time::{timeout, wall_ms};
use std::pin::pin;
use std::task::Poll;

/// Batches in one coordinator transaction: five reads each beside the transaction's and the floor's, within etcd's 128.
pub(crate) const GROUP: usize = 25;

/// A checked batch for one partition.
pub(crate) struct Submission {
    pub(crate) topic: StrBytes,
    pub(crate) partition: i32,
    pub(crate) header: Header,
    pub(crate) bytes: Bytes,
}

/// The transactional id that batches come under, the version whose rules their request meets, and what tells its age.
#[derive(Clone, Copy)]
pub(crate) struct Claim<'a> {
    pub(crate) transactional_id: &'a str,
    pub(crate) rules: TransactionVersion,
    pub(crate) stamp: Stamp,
    pub(crate) number: Option<i64>,
}

/// Where a batch is in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    pub(crate) base_offset: i64,
    pub(crate) log_start_offset: i64,
    /// It was there before: the producer sent it again.
    pub(crate) is_repeat: bool,
}

/// Why a round failed as a whole.
enum Trouble {
    Coordinator(Fault),
    Store,
}

impl From<Lost> for Trouble {
    fn from(lost: Lost) -> Self {
        match lost {
            Lost::Coordinator(fault) => Trouble::Coordinator(fault),
            Lost::Store => Trouble::Store,
        }
    }
}

impl<E: Into<Fault>> From<E> for Trouble {
    fn from(error: E) -> Self {
        Trouble::Coordinator(error.into())
    }
}

/// Appends up to [`GROUP`] batches, each to a partition of its own. Transactional ones come under `claim`.
pub(crate) async fn append(
    context: &Context,
    claim: Option<Claim<'_>>,
    batches: &[Submission],
    patience: &mut Patience,
) -> Vec<Result<Placed, ResponseError>> {
    let items =
        batches.iter().map(|batch| Item { batch, outcome: None, topic: None, tried: None, position: None });
    let mut place = None;
    let mut work = Append { context, claim, items: items.collect(), chunk: None, decided: None, found: None };
    while work.items.iter().any(|item| item.outcome.is_none()) {
        if work.chunk.is_some() && place.is_none() {
            let line = context.lines.place(work.partitions().into_iter());
            let mut line = pin!(timeout(patience.left(), line));
            let (taken, waited) = match poll!(line.as_mut()) {
                Poll::Ready(taken) => (taken, false),
                Poll::Pending => (line.await, true),
            };
            // Out of time in the line is out of time: the next look at the clock tells.
            place = taken.ok();
            if waited {
                // Who was before it has changed what was decided on.
                work.decided = None;
            }
        }
        let trouble = match work.round(patience).await {
            Ok(()) if !patience.is_over() => continue,
            Ok(()) => Trouble::Coordinator(CoordinatorError::Unavailable.into()),
            Err(trouble) => trouble,
        };
        let passes = match &trouble {
            Trouble::Coordinator(fault) => fault.passes(),
            Trouble::Store => true,
        };
        if !passes || !patience.pause().await {
            work.give_up(&trouble);
        }
    }
    work.items
        .into_iter()
        .map(|item| item.outcome.unwrap_or(Err(ResponseError::UnknownServerError)))
        .collect()
}

struct Append<'a> {
    context: &'a Context,
    claim: Option<Claim<'a>>,
    items: Vec<Item<'a>>,
    chunk: Option<ChunkId>,
    /// What the round decided that had the chunk written: to be committed as it is, if nothing has changed.
    decided: Option<Decided>,
    /// What stood there when a guard failed: what the next round decides on.
    found: Option<Snapshot>,
}

struct Decided {
    plans: Vec<Plan>,
    txn: Stored<TxnState>,
    begin: bool,
}

struct Item<'a> {
    batch: &'a Submission,
    outcome: Option<Result<Placed, ResponseError>>,
    /// Create revision of the topic that the first round met: one made again under the name is not what the client meant.
    topic: Option<i64>,
    /// A commit whose outcome is unknown.
    tried: Option<Tried>,
    /// Where the chunk holds the batch.
    position: Option<u32>,
}

impl Item<'_> {
    /// The batch is in the log.
    fn settle(&mut self, placed: Placed, began: bool) {
        self.outcome = Some(Ok(placed));
        let Submission { topic, partition, header, .. } = self.batch;
        rt::event!(
            "produce.committed",
            partition = &layout::partition_name(topic, *partition),
            base_offset = placed.base_offset,
            count = header.count,
            producer_id = header.producer_id,
            epoch = header.epoch,
            transactional = header.transactional,
            began = began,
        );
    }
}

#[derive(Clone, Copy)]
struct Tried {
    last_offset: i64,
    /// Whether it began the transaction.
    began: bool,
}

/// An accepted batch, ready to be committed.
struct Plan {
    item: usize,
    head: Head,
    head_revision: i64,
    topic_revision: i64,
    producer: Option<ProducerEntry>,
    joins: bool,
}

impl<'a> Append<'a> {
    fn partitions(&self) -> Vec<(&'a str, i32)> {
        let open = self.items.iter().filter(|item| item.outcome.is_none());
        open.map(|item| (item.batch.topic.as_str(), item.batch.partition)).collect()
    }

    async fn round(&mut self, patience: &Patience) -> Result<(), Trouble> {
        if let Some(decided) = self.decided.take() {
            return self.commit(decided).await;
        }
        let mut now = match self.found.take() {
            Some(found) => found,
            None => self.context.gate.read(self.ranges()).await?,
        };
        let settled = self.settled(&mut now)?;
        let txn = match self.claim {
            Some(_) => now.one::<TxnState>()?,
            None => Stored::absent(),
        };
        let mut plans = Vec::new();
        let mut begin = false;
        for item in 0..self.items.len() {
            if self.items[item].outcome.is_none()
                && let Some((plan, begins)) = self.decide(item, &txn, settled, &mut now)?
            {
                begin |= begins;
                plans.push(plan);
            }
        }
        if plans.is_empty() {
            return Ok(());
        }
        if settled && let Some(chunk) = self.chunk.take() {
            rt::mark!(reachable, "a chunk was settled before it was committed");
            self.context.chunks.forget(chunk.incarnation).await;
        }
        let decided = Decided { plans, txn, begin };
        if self.chunk.is_none() {
            // Out of time behind other chunks is as good as no store.
            timeout(patience.left(), self.store(&decided.plans)).await.map_err(|_| Trouble::Store)??;
            self.decided = Some(decided);
            return Ok(());
        }
        self.commit(decided).await
    }

    fn ranges(&self) -> Vec<Range> {
        let mut ranges: Vec<_> =
            self.claim.iter().map(|claim| Range::key(layout::txn(claim.transactional_id))).collect();
        for item in self.items.iter().filter(|item| item.outcome.is_none()) {
            let Submission { topic, partition, header, .. } = item.batch;
            ranges.push(Range::key(layout::topic(topic)));
            ranges.push(Range::key(layout::head(topic, *partition)));
            if header.producer_id >= 0 {
                ranges.push(Range::key(layout::producer(topic, *partition, header.producer_id)));
            }
            if let Some(claim) = self.claim.filter(|_| header.transactional) {
                ranges.push(Range::key(layout::txn_part(claim.transactional_id, topic, *partition)));
            }
            if let Some(Tried { last_offset, .. }) = item.tried {
                ranges.push(Range::key(layout::index(topic, *partition, last_offset)));
            }
        }
        ranges.extend(self.chunk.iter().map(|chunk| Range::key(layout::writer(chunk.incarnation))));
        ranges
    }

    /// Whether the chunk, if there is one, can be committed no more.
    fn settled(&self, now: &mut Snapshot) -> Result<bool, Fault> {
        let Some(chunk) = self.chunk else { return Ok(false) };
        let floor = now.last().kvs.pop().map(|kv| floor::decode(&kv.value)).transpose()?;
        Ok(floor.is_none_or(|floor| chunk.number < floor))
    }

    /// Has the chunk written. Later rounds accept no batch that it does not hold: what is refused stays refused.
    async fn store(&mut self, plans: &[Plan]) -> Result<(), Trouble> {
        let batches = plans.iter().map(|plan| self.items[plan.item].batch.bytes.clone()).collect();
        let Written { chunk, mut position } = self.context.writer.write(batches).await?;
        for plan in plans {
            let item = &mut self.items[plan.item];
            item.position = Some(position);
            position += item.batch.bytes.len() as u32;
        }
        self.chunk = Some(chunk);
        Ok(())
    }

    async fn commit(&mut self, decided: Decided) -> Result<(), Trouble> {
        let Decided { mut plans, txn, begin } = decided;
        let mut compares = Vec::with_capacity(2 * plans.len() + 2);
        let mut ops = Vec::with_capacity(4 * plans.len() + 1);
        if let Some(Claim { transactional_id: id, number, .. }) = self.claim {
            compares.push(Compare::unchanged(layout::txn(id), txn.revision()));
            if let (true, Some(state)) = (begin, txn.value()) {
                ops.push(Op::put(layout::txn(id), codec::encode(&state.begun(number))));
            }
        }
        for plan in &mut plans {
            self.stage(plan, &mut compares, &mut ops);
        }
        compares.extend(self.chunk.map(floor::guard));
        rt::preempt("produce.before-commit").await;
        match self.context.gate.commit_or_read(compares, ops, self.ranges()).await {
            Ok(Ok(answer)) => {
                if let (true, Some(claim), Some(state)) = (begin, self.claim, txn.value()) {
                    let id = claim.transactional_id;
                    self.context.steward.saw_begin(id, answer.revision, state.timeout_ms);
                }
                self.settle(&plans, begin);
                Ok(())
            }
            Ok(Err(found)) => {
                rt::mark!(reachable, "an append met another one");
                self.found = Some(found);
                Ok(())
            }
            Err(CoordinatorError::Unknown) => {
                for plan in &plans {
                    let began = begin && plan.joins;
                    self.items[plan.item].tried =
                        Some(Tried { last_offset: plan.head.next_offset - 1, began });
                }
                Err(CoordinatorError::Unknown.into())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Adds one batch to the commit; afterwards the plan's head is the new one.
    fn stage(&self, plan: &mut Plan, compares: &mut Vec<Compare>, ops: &mut Vec<Op>) {
        let Item { batch, position, .. } = &self.items[plan.item];
        let Submission { topic, partition, header, bytes } = batch;
        let head_key = layout::head(topic, *partition);
        compares.push(Compare::unchanged(head_key.clone(), plan.head_revision));
        compares.push(Compare::unchanged(layout::topic(topic), plan.topic_revision));
        let base_offset = plan.head.next_offset;
        plan.head.next_offset += i64::from(header.count);
        plan.head.size_bytes += bytes.len() as u64;
        if header.transactional {
            plan.head.open.entry(header.producer_id).or_insert(base_offset);
        }
        rt::mark!(
            always,
            "lso <= high watermark",
            plan.head.last_stable_offset() <= plan.head.high_watermark()
        );
        let stored = self.chunk.zip(*position);
        let (chunk, position) = stored.expect("a batch is stored before it is committed");
        let body = Body::Chunk { chunk, position, length: bytes.len() as u32 };
        let entry = IndexEntry { base_offset, max_timestamp_ms: header.max_timestamp_ms, body };
        ops.push(Op::put(head_key, codec::encode(&plan.head)));
        ops.push(Op::put(layout::index(topic, *partition, plan.head.next_offset - 1), codec::encode(&entry)));
        if let Some(producer) = &mut plan.producer {
            producer.append(header, base_offset, wall_ms());
            let key = layout::producer(topic, *partition, header.producer_id);
            ops.push(Op::put(key, codec::encode(producer)));
        }
        if let Some(claim) = self.claim.filter(|_| plan.joins) {
            let part = codec::encode(&TxnPart { added_ms: wall_ms() });
            ops.push(Op::put(layout::txn_part(claim.transactional_id, topic, *partition), part));
        }
    }

    fn settle(&mut self, plans: &[Plan], began: bool) {
        for plan in plans {
            let item = &mut self.items[plan.item];
            let count = u64::from(item.batch.header.count.unsigned_abs());
            self.context.counters.produced(count, item.batch.bytes.len());
            let base_offset = plan.head.next_offset - i64::from(item.batch.header.count);
            let log_start_offset = plan.head.log_start_offset;
            item.settle(Placed { base_offset, log_start_offset, is_repeat: false }, began && plan.joins);
        }
    }

    /// Answers what is left. A batch that may have landed is answered REQUEST_TIMED_OUT, one that has not an error that
    /// says so; producers retry on all of them.
    fn give_up(&mut self, trouble: &Trouble) {
        for item in self.items.iter_mut().filter(|item| item.outcome.is_none()) {
            let error = match trouble {
                Trouble::Coordinator(fault) if !fault.passes() => ResponseError::UnknownServerError,
                _ if item.tried.is_some() => ResponseError::RequestTimedOut,
                Trouble::Coordinator(_) => ResponseError::NotEnoughReplicas,
                Trouble::Store => ResponseError::KafkaStorageError,
            };
            item.outcome = Some(Err(error));
        }
    }
}
