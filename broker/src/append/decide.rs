//! What becomes of one batch, by what a round read.

use super::{Append, Claim, Item, Placed, Plan, Submission, Tried};
use crate::age;
use crate::batch::Header;
use crate::config::{Outside, TransactionVersion};
use crate::finish::Prepared;
use crate::gate::{Fault, Snapshot, Stored};
use crate::producer::{self, ProducerEntry, Verdict};
use crate::records::{Body, ChunkId, Head, IndexEntry, TopicEntry, TxnPart};
use crate::topic_config;
use crate::topics;
use crate::transaction::{self, Admission, TxnState};
use kafka_protocol::ResponseError;

/// What a round read for one batch.
struct Found {
    topic: Stored<TopicEntry>,
    head: Stored<Head>,
    producer: Stored<ProducerEntry>,
    /// The transaction lists the partition.
    listed: bool,
    /// The index entry of an earlier try.
    landed: Option<IndexEntry>,
}

impl Found {
    /// Takes the answers in the order of [`Append::ranges`].
    fn take(item: &Item<'_>, chunk: Option<ChunkId>, now: &mut Snapshot) -> Result<Self, Fault> {
        let header = &item.batch.header;
        let (topic, head) = (now.one()?, now.one()?);
        let producer = if header.producer_id >= 0 { now.one()? } else { Stored::absent() };
        let listed = header.transactional && now.one::<TxnPart>()?.revision() != 0;
        let landed = match item.tried {
            Some(_) => {
                now.one::<IndexEntry>()?.into_value().filter(|entry| is_in(entry, chunk, item.position))
            }
            None => None,
        };
        Ok(Found { topic, head, producer, listed, landed })
    }
}

impl Append<'_> {
    /// Decides over one batch: gives it an outcome, or a plan and whether the transaction begins.
    pub(super) fn decide(
        &mut self,
        at: usize,
        txn: &Stored<TxnState>,
        settled: bool,
        now: &mut Snapshot,
    ) -> Result<Option<(Plan, bool)>, Fault> {
        let item = &mut self.items[at];
        let found = Found::take(item, self.chunk, now)?;
        let Submission { partition, header, bytes, .. } = item.batch;
        let created = found.topic.create_revision();
        let same = *item.topic.get_or_insert(created) == created;
        let Some(entry) = found.topic.value().filter(|_| same && topics::holds(&found.topic, *partition))
        else {
            item.outcome = Some(Err(ResponseError::UnknownTopicOrPartition));
            return Ok(None);
        };
        if bytes.len() > topic_config::max_message_bytes(entry, &self.context.config) {
            item.outcome = Some(Err(ResponseError::MessageTooLarge));
            return Ok(None);
        }
        let log_start_offset = found.head.value().map_or(0, |head| head.log_start_offset);
        if let Some(entry) = found.landed {
            rt::mark!(reachable, "a produce whose commit was not answered had landed");
            let placed = Placed { base_offset: entry.base_offset, log_start_offset, is_repeat: false };
            item.settle(placed, item.tried.is_some_and(|tried| tried.began));
            return Ok(None);
        }
        let rules = match self.claim {
            Some(claim) if header.transactional => claim.rules,
            _ => TransactionVersion::V1,
        };
        let in_transaction =
            found.head.value().is_some_and(|head| head.open.contains_key(&header.producer_id));
        let verdict = match header.producer_id {
            0.. => producer::check(rules, found.producer.value(), in_transaction, header),
            _ => Verdict::Accept,
        };
        if let Verdict::Duplicate { base_offset } = verdict {
            rt::mark!(reachable, "a duplicate batch was answered");
            item.outcome = Some(Ok(Placed { base_offset, log_start_offset, is_repeat: true }));
            return Ok(None);
        }
        let lost_sight = |tried: Tried| settled || tried.last_offset < log_start_offset;
        if found.producer.value().is_none() && item.tried.is_some_and(lost_sight) {
            // It may have landed, and been moved to another chunk or deleted since. Only what is remembered of an idempotent
            // producer tells, and that expires.
            item.outcome = Some(Err(ResponseError::RequestTimedOut));
            return Ok(None);
        }
        let admission = match self.claim {
            Some(claim) if header.transactional => {
                admit(self.context.config.transactions.outside, claim, txn, found.listed, header)
            }
            _ => Admission::Append,
        };
        if let (Admission::Refuse(error), _) | (_, Verdict::Refuse(error)) = (admission, verdict) {
            item.outcome = Some(Err(error));
            if error == ResponseError::ConcurrentTransactions {
                self.finish_found();
            }
            return Ok(None);
        }
        Ok(Some((plan(at, found, item, admission), admission == Admission::Join { begin: true })))
    }

    /// Has the end written that the batch met.
    fn finish_found(&self) {
        if let Some(Claim { transactional_id, .. }) = self.claim {
            let transactional_id = transactional_id.to_string();
            self.context.steward.finish(Prepared { transactional_id, known: None });
        }
    }
}

/// What a transactional batch is to the transaction, by its age and then by where the transaction stands.
fn admit(
    outside: Outside,
    claim: Claim<'_>,
    txn: &Stored<TxnState>,
    listed: bool,
    header: &Header,
) -> Admission {
    if claim.stamp.is_before(txn.revision()) {
        return Admission::Refuse(ResponseError::ConcurrentTransactions);
    }
    if claim.number.is_some() {
        // To be asked for the number is to be asked for the epoch, whatever the setting.
        let own = transaction::own(txn.value(), header.producer_id, header.epoch);
        match own.map(|state| age::may_join(state, claim.number)) {
            Ok(Err(error)) => return Admission::Refuse(error),
            Err(_) => return Admission::Refuse(ResponseError::InvalidProducerEpoch),
            Ok(Ok(())) => {}
        }
    }
    transaction::admit(claim.rules, outside, txn.value(), listed, header.producer_id, header.epoch)
}

fn plan(at: usize, found: Found, item: &Item<'_>, admission: Admission) -> Plan {
    let header = &item.batch.header;
    let (head_revision, topic_revision) = (found.head.revision(), found.topic.revision());
    let producer = (header.producer_id >= 0)
        .then(|| found.producer.into_value().unwrap_or_else(|| ProducerEntry::fresh(header.epoch)));
    Plan {
        item: at,
        head: found.head.into_value().unwrap_or_default(),
        head_revision,
        topic_revision,
        producer,
        joins: matches!(admission, Admission::Join { .. }),
    }
}

fn is_in(entry: &IndexEntry, chunk: Option<ChunkId>, position: Option<u32>) -> bool {
    match entry.body {
        Body::Chunk { chunk: stored, position: at, .. } => Some(stored) == chunk && Some(at) == position,
        Body::Marker { .. } => false,
    }
}
