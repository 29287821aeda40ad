//! Fetch (1), versions 4 to 16: kafka.md 1.5. No fetch sessions: every answer carries session id 0, which tells clients to
//! name all partitions each time.

use super::refuse;
use crate::agent::Context;
use crate::codec;
use crate::coordinator::{Event, EventKind};
use crate::fetch_plan::{Candidate, plan};
use crate::gate::Fault;
use crate::layout;
use crate::read::{self, View, Wanted};
use crate::records::Head;
use crate::topics;
use crate::watermarks::Marks;
use bytes::{Bytes, BytesMut};
use kafka_protocol::ResponseError;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::fetch_response::{AbortedTransaction, FetchableTopicResponse, PartitionData};
use kafka_protocol::messages::{BrokerId, FetchRequest, FetchResponse, ProducerId};
use rt::time::{Instant, timeout_at};
use std::time::Duration;

/// First version that names topics by id (KIP-516).
const TOPIC_IDS_SINCE: i16 = 13;

/// One partition of the request.
struct Asked {
    wanted: Wanted,
    max_bytes: usize,
    /// Why it cannot be served at all.
    refusal: Option<ResponseError>,
}

pub(super) async fn handle(context: &Context, version: i16, request: FetchRequest) -> FetchResponse {
    if request.session_epoch > 0 {
        // No session was ever granted.
        return refuse::fetch_session(ResponseError::FetchSessionIdNotFound);
    }
    let data = match serve(context, version, &request).await {
        Ok(data) => data,
        Err(fault) => {
            let error = if fault.passes() {
                // Clients refresh their metadata and ask again, perhaps another agent.
                ResponseError::NotLeaderOrFollower
            } else {
                ResponseError::UnknownServerError
            };
            return answer(&request, |partition| refuse::fetched(partition, error));
        }
    };
    let mut data = data.into_iter();
    answer(&request, |partition| match data.next() {
        Some(Ok(data)) => data,
        Some(Err(error)) => refuse::fetched(partition, error),
        None => refuse::fetched(partition, ResponseError::UnknownServerError),
    })
}

fn answer(request: &FetchRequest, mut data: impl FnMut(i32) -> PartitionData) -> FetchResponse {
    let topics = request.topics.iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|partition| data(partition.partition)).collect();
        FetchableTopicResponse::default()
            .with_topic(topic.topic.clone())
            .with_topic_id(topic.topic_id)
            .with_partitions(partitions)
    });
    FetchResponse::default().with_responses(topics.collect())
}

type Data = Result<PartitionData, ResponseError>;

async fn serve(context: &Context, version: i16, request: &FetchRequest) -> Result<Vec<Data>, Fault> {
    let committed = request.isolation_level == 1;
    let max_bytes = context.config.fetch_max_bytes.min(request.max_bytes.max(0) as usize);
    // A connection may not be silent longer than that anyway.
    let wait_ms = (request.max_wait_ms.max(0) as u64).min(context.config.connections_max_idle_ms);
    let mut deadline = Instant::now() + Duration::from_millis(wait_ms);
    let asked = resolve(context, version, &request.topics).await?;
    let head = |Asked { wanted, .. }: &Asked| layout::head(&wanted.topic, wanted.partition);
    let heads: Vec<Bytes> = asked.iter().map(head).collect();
    if wait_ms > 0
        && request.min_bytes > 0
        && let Some((bounds, revision)) = caught_up(context, &asked, &heads, committed)
    {
        wait(context, &heads, moved(context, bounds, committed, revision), revision, &mut deadline).await;
    }
    loop {
        let (mut views, revision) = look(context, version, request, &asked, committed).await?;
        let candidate = |(asked, view): (&Asked, &Result<View, _>)| Candidate {
            max_bytes: asked.max_bytes,
            sizes: view.iter().flat_map(|view| &view.entries).map(|entry| entry.index.size_bytes()).collect(),
        };
        let candidates: Vec<Candidate> = asked.iter().zip(&views).map(candidate).collect();
        let counts = plan(max_bytes, &candidates);
        let bytes: usize =
            candidates.iter().zip(&counts).map(|(c, n)| c.sizes[..*n].iter().sum::<usize>()).sum();
        let at_once = bytes >= request.min_bytes.max(0) as usize
            || asked.is_empty()
            || views.iter().any(|view| view.as_ref().map_or(true, |view| view.more));
        if at_once || Instant::now() >= deadline {
            let mut data = Vec::with_capacity(asked.len());
            for ((asked, view), count) in asked.iter().zip(&mut views).zip(counts) {
                data.push(match view {
                    Ok(view) => load(context, &asked.wanted, view, count, committed).await?,
                    Err(error) => Err(*error),
                });
            }
            return Ok(data);
        }
        let of = |view: &View| read::bound(Marks::of(&view.head), read::only_stable(context, committed));
        let bounds = asked.iter().zip(&views);
        let bounds =
            bounds.map(|(asked, view)| Some((of(view.as_ref().ok()?), asked.wanted.offset))).collect();
        wait(context, &heads, moved(context, bounds, committed, revision), revision, &mut deadline).await;
    }
}

/// Of each partition, where the reader's view of it ends, and the offset that he wants; `None` if nobody knows.
type Bounds = Vec<Option<(i64, i64)>>;

/// Where views end of a reader who wants nothing but what is still to come, and as of which revision: by what the watch saw
/// of the heads, which spares him a look that would find nothing. Should it lag, its next event wakes him, or the deadline.
fn caught_up(context: &Context, asked: &[Asked], heads: &[Bytes], committed: bool) -> Option<(Bounds, i64)> {
    if context.watermarks.is_some() {
        // Those of the planted defect have a watch of their own.
        return None;
    }
    let (seen, revision) = context.heads.seen(heads)?;
    let only_stable = read::only_stable(context, committed);
    let bound = |(asked, event): (&Asked, &Event)| {
        let head = codec::decode::<Head>(&event.kv.value).ok().filter(|_| event.kind == EventKind::Put)?;
        let (bound, offset) = (read::bound(Marks::of(&head), only_stable), asked.wanted.offset);
        let ends_there = bound == offset && head.log_start_offset <= offset && asked.refusal.is_none();
        ends_there.then_some(Some((bound, offset)))
    };
    let bounds: Bounds = asked.iter().zip(&seen).map(bound).collect::<Option<_>>()?;
    (!bounds.is_empty()).then_some((bounds, revision))
}

/// Waits for a change of heads after `revision` that matters; not beyond the deadline, which is now once the agent drains.
async fn wait(
    context: &Context,
    heads: &[Bytes],
    matters: impl Fn(usize, &Event) -> bool + Send + Sync + 'static,
    revision: i64,
    deadline: &mut Instant,
) {
    tokio::select! {
        biased;
        // Out of time: the next look stands for what there is.
        _ = timeout_at(*deadline, context.heads.changed_after(heads, revision, matters)) => {}
        () = context.health.drains() => *deadline = Instant::now(),
    }
}

/// Which changes of heads, in the order asked, may bring the reader something that was not there at `revision`: of most
/// that happen to a partition under an open transaction, none does.
fn moved(
    context: &Context,
    bounds: Bounds,
    committed: bool,
    revision: i64,
) -> impl Fn(usize, &Event) -> bool + Send + Sync + use<> {
    let only_stable = read::only_stable(context, committed);
    // Watermarks of the planted defect are looked at whenever a head changes.
    let any = context.watermarks.is_some();
    move |place, event| {
        let (Some((bound, offset)), Ok(head)) = (bounds[place], codec::decode::<Head>(&event.kv.value))
        else {
            return true;
        };
        any || event.kind == EventKind::Delete
            || event.kv.create_revision > revision
            || head.log_start_offset > offset
            || read::bound(Marks::of(&head), only_stable) != bound
    }
}

/// Names the topics and checks what can be checked without reading.
async fn resolve(context: &Context, version: i16, topics: &[FetchTopic]) -> Result<Vec<Asked>, Fault> {
    let mut asked = Vec::new();
    for topic in topics {
        let name = match version >= TOPIC_IDS_SINCE {
            true => context.topic_names.name_of(&context.gate, topic.topic_id.into_bytes()).await?,
            false => Some(topic.topic.to_string()),
        };
        for partition in &topic.partitions {
            asked.push(ask(name.as_deref(), partition));
        }
    }
    Ok(asked)
}

fn ask(name: Option<&str>, partition: &FetchPartition) -> Asked {
    let refusal = match name {
        None => Some(ResponseError::UnknownTopicId),
        // Ours is always 0 (see Metadata).
        Some(_) if partition.current_leader_epoch > 0 => Some(ResponseError::UnknownLeaderEpoch),
        Some(_) => None,
    };
    let topic = name.unwrap_or_default().to_string();
    Asked {
        wanted: Wanted { topic, partition: partition.partition, offset: partition.fetch_offset },
        max_bytes: partition.partition_max_bytes.max(0) as usize,
        refusal,
    }
}

async fn look(
    context: &Context,
    version: i16,
    request: &FetchRequest,
    asked: &[Asked],
    committed: bool,
) -> Result<(Vec<Result<View, ResponseError>>, i64), Fault> {
    let wanted: Vec<&Wanted> = asked.iter().map(|asked| &asked.wanted).collect();
    let (mut views, revision) = read::views(context, &wanted, committed).await?;
    let ids = request.topics.iter().flat_map(|topic| topic.partitions.iter().map(|_| topic.topic_id));
    for ((asked, view), id) in asked.iter().zip(&mut views).zip(ids) {
        let created_again = |view: &View| {
            version >= TOPIC_IDS_SINCE
                && topics::id_of(&asked.wanted.topic, view.create_revision) != id.into_bytes()
        };
        if let Some(error) = asked.refusal {
            *view = Err(error);
        } else if view.as_ref().is_ok_and(created_again) {
            *view = Err(ResponseError::UnknownTopicId);
        }
    }
    Ok((views, revision))
}

/// The answer for one partition: its first `count` batches. With the defect `fetch_drops_middle` the newest batch is among
/// them even if there are more, in the place of the last one that has room.
async fn load(
    context: &Context,
    wanted: &Wanted,
    view: &mut View,
    count: usize,
    committed: bool,
) -> Result<Data, Fault> {
    let mut records = BytesMut::new();
    let (mut last_offset, mut loaded) = (None, 0);
    let is_cut = count > 1 && count < view.entries.len();
    let newest = view.entries.last().filter(|_| is_cut && context.config.defects.fetch_drops_middle);
    for entry in view.entries[..count - usize::from(newest.is_some())].iter().chain(newest) {
        if read::load(context, &wanted.topic, wanted.partition, entry, &mut records).await.is_err() {
            if last_offset.is_none() {
                return Ok(Err(ResponseError::KafkaStorageError));
            }
            // What was loaded is whole; the reader asks for the rest again.
            break;
        }
        loaded += (entry.last_offset - entry.index.base_offset + 1).unsigned_abs();
        last_offset = Some(entry.last_offset);
    }
    context.counters.fetched(loaded, records.len());
    let aborted = match (committed, last_offset) {
        (true, Some(last_offset)) => Some(view.aborted(context, wanted, last_offset).await?),
        (true, None) => Some(Vec::new()),
        (false, _) => None,
    };
    let transaction = |(producer_id, first_offset): (i64, i64)| {
        AbortedTransaction::default()
            .with_producer_id(ProducerId(producer_id))
            .with_first_offset(first_offset)
    };
    let data = PartitionData::default()
        .with_partition_index(wanted.partition)
        .with_high_watermark(view.marks.high_watermark)
        .with_last_stable_offset(view.marks.last_stable_offset)
        .with_log_start_offset(view.head.log_start_offset)
        .with_aborted_transactions(aborted.map(|ranges| ranges.into_iter().map(transaction).collect()))
        .with_preferred_read_replica(BrokerId(-1))
        .with_records(Some(records.freeze()));
    Ok(Ok(data))
}
