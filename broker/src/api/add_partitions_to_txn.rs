//! AddPartitionsToTxn (24), versions 0 to 3: kafka.md 1.8 and 3.3. Versions 4 and 5 are between brokers.

use super::{fenced_since, refuse};
use crate::age;
use crate::agent::Context;
use crate::codec;
use crate::coordinator::{Compare, Op, Range, TXN_OPS_MAX};
use crate::finish::Prepared;
use crate::gate::{Fault, Snapshot};
use crate::layout;
use crate::records::{TopicEntry, TxnPart};
use crate::topics;
use crate::transaction::{self, Phase, TxnState};
use kafka_protocol::ResponseError;
use kafka_protocol::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use kafka_protocol::messages::add_partitions_to_txn_response::{
    AddPartitionsToTxnPartitionResult, AddPartitionsToTxnTopicResult,
};
use kafka_protocol::messages::{AddPartitionsToTxnRequest, AddPartitionsToTxnResponse};
use rt::time::wall_ms;
use std::collections::BTreeSet;

/// First version with PRODUCER_FENCED.
const FENCED_SINCE: i16 = 2;
/// Partitions added by one coordinator transaction, beside the write that begins the transaction.
const STEP: usize = TXN_OPS_MAX - 1;
/// Topics looked at in the snapshot that the transaction is read in.
const TOPICS: usize = TXN_OPS_MAX - 2;

pub(super) async fn handle(
    context: &Context,
    version: i16,
    request: AddPartitionsToTxnRequest,
) -> AddPartitionsToTxnResponse {
    let topics = &request.v3_and_below_topics;
    match add(context, &request).await {
        Ok(()) => answer(topics, |_, _| Ok(())),
        Err(Refusal::Unknown(unknown)) => {
            answer(topics, |topic, partition| match unknown.contains(&(topic, partition)) {
                true => Err(ResponseError::UnknownTopicOrPartition),
                false => Err(ResponseError::OperationNotAttempted),
            })
        }
        Err(Refusal::All(error)) => {
            let error = fenced_since(error, version, FENCED_SINCE);
            answer(topics, |_, _| Err(error))
        }
    }
}

/// Why nothing was added.
enum Refusal<'a> {
    /// These partitions do not exist.
    Unknown(BTreeSet<(&'a str, i32)>),
    /// What every partition is answered.
    All(ResponseError),
}

fn answer(
    topics: &[AddPartitionsToTxnTopic],
    outcome: impl Fn(&str, i32) -> Result<(), ResponseError>,
) -> AddPartitionsToTxnResponse {
    let results = topics.iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|&partition| match outcome(&topic.name, partition) {
            Ok(()) => AddPartitionsToTxnPartitionResult::default().with_partition_index(partition),
            Err(error) => refuse::added_partition(partition, error),
        });
        AddPartitionsToTxnTopicResult::default()
            .with_name(topic.name.clone())
            .with_results_by_partition(partitions.collect())
    });
    AddPartitionsToTxnResponse::default().with_results_by_topic_v3_and_below(results.collect())
}

/// The partitions of `topics` that do not exist, by the answers that come next.
fn unknown<'a>(
    topics: &'a [AddPartitionsToTxnTopic],
    now: &mut Snapshot,
) -> Result<BTreeSet<(&'a str, i32)>, Fault> {
    let mut unknown = BTreeSet::new();
    for topic in topics {
        let entry = now.one::<TopicEntry>()?;
        let missing = topic.partitions.iter().filter(|partition| !topics::holds(&entry, **partition));
        unknown.extend(missing.map(|partition| (topic.name.as_str(), *partition)));
    }
    Ok(unknown)
}

async fn add<'a>(context: &Context, request: &'a AddPartitionsToTxnRequest) -> Result<(), Refusal<'a>> {
    let id = request.v3_and_below_transactional_id.as_str();
    let mut wanted = BTreeSet::new();
    for topic in &request.v3_and_below_topics {
        for &partition in &topic.partitions {
            wanted.insert(layout::txn_part(id, &topic.name, partition));
        }
    }
    let mut patience = context.patience();
    loop {
        match step(context, id, request, &wanted).await {
            Ok(Ok(Added::All)) => return Ok(()),
            Ok(Ok(Added::Some)) if patience.is_over() => {
                return Err(Refusal::All(ResponseError::ConcurrentTransactions));
            }
            Ok(Ok(Added::Some)) => {}
            Ok(Err(refusal)) => return Err(refusal),
            Err(fault) if fault.passes() && patience.pause().await => {}
            Err(fault) => return Err(Refusal::All(fault.coordinator_error())),
        }
    }
}

enum Added {
    All,
    /// More are left, or the transaction changed under the step.
    Some,
}

async fn step<'a>(
    context: &Context,
    id: &str,
    request: &'a AddPartitionsToTxnRequest,
    wanted: &BTreeSet<bytes::Bytes>,
) -> Result<Result<Added, Refusal<'a>>, Fault> {
    let (key, parts_key) = (layout::txn(id), layout::txn_parts(id));
    let topic = |topic: &AddPartitionsToTxnTopic| Range::key(layout::topic(&topic.name));
    let (topics, further) =
        request.v3_and_below_topics.split_at_checked(TOPICS).unwrap_or((&request.v3_and_below_topics, &[]));
    let mut strange = BTreeSet::new();
    for topics in further.chunks(TXN_OPS_MAX) {
        strange.extend(unknown(topics, &mut context.gate.read(topics.iter().map(topic).collect()).await?)?);
    }
    let mut ranges: Vec<Range> = topics.iter().map(topic).collect();
    ranges.extend([Range::key(key.clone()), Range::span(parts_key.clone(), layout::end_of(&parts_key), 0)]);
    let mut now = context.gate.read(ranges).await?;
    strange.extend(unknown(topics, &mut now)?);
    if !strange.is_empty() {
        return Ok(Err(Refusal::Unknown(strange)));
    }
    if id.is_empty() {
        return Ok(Err(Refusal::All(ResponseError::InvalidRequest)));
    }
    let stored = now.one::<TxnState>()?;
    let (producer_id, epoch) = (request.v3_and_below_producer_id.0, request.v3_and_below_producer_epoch);
    let state = match transaction::own(stored.value(), producer_id, epoch) {
        Ok(state) => state,
        Err(error) => return Ok(Err(Refusal::All(error))),
    };
    if state.phase.prepared().is_some() {
        context.steward.finish(Prepared { transactional_id: id.to_string(), known: None });
        return Ok(Err(Refusal::All(ResponseError::ConcurrentTransactions)));
    }
    let number = age::number(&request.unknown_tagged_fields);
    if let Err(error) = age::may_join(state, number) {
        return Ok(Err(Refusal::All(error)));
    }
    let begin = state.phase != Phase::Ongoing;
    let listed: BTreeSet<_> = now.next().kvs.into_iter().map(|kv| kv.key).collect();
    let missing: Vec<_> = wanted.iter().filter(|part| begin || !listed.contains(*part)).collect();
    if missing.is_empty() && !begin {
        return Ok(Ok(Added::All));
    }
    let part = codec::encode(&TxnPart { added_ms: wall_ms() });
    let mut ops: Vec<Op> = missing.iter().take(STEP).map(|k| Op::put((*k).clone(), part.clone())).collect();
    if begin {
        ops.push(Op::put(key.clone(), codec::encode(&state.begun(number))));
    }
    rt::preempt("add-partitions.before-commit").await;
    let guard = vec![Compare::unchanged(key, stored.revision())];
    let Some(answer) = context.gate.commit(guard, ops).await? else { return Ok(Ok(Added::Some)) };
    if begin {
        context.steward.saw_begin(id, answer.revision, state.timeout_ms);
        rt::event!(
            "txn.begun",
            transactional_id = id,
            producer_id = producer_id,
            epoch = epoch,
            revision = answer.revision
        );
    }
    Ok(Ok(if missing.len() > STEP { Added::Some } else { Added::All }))
}
