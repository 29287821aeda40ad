//! ConsumerGroupHeartbeat (68), versions 0 and 1 (KIP-848). Heard by the group's owner; one that changes nothing writes
//! nothing. Topics are looked up at every heartbeat, so new partitions show within an interval.

use super::{Client, refuse, text};
use crate::agent::Context;
use crate::coordinator::{Range, TXN_OPS_MAX};
use crate::gate::{Fault, Stored};
use crate::group::{
    self, AWAY, Assignor, Beat, Catalogue, ConsumerGroup, ConsumerMember, GroupPhase, GroupState, Partitions,
    Topic,
};
use crate::layout;
use crate::records::TopicEntry;
use crate::topics;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::consumer_group_heartbeat_response::{Assignment, TopicPartitions};
use kafka_protocol::messages::{ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse};
use kafka_protocol::protocol::StrBytes;
use std::collections::{BTreeMap, BTreeSet};

/// First version whose clients make their member ids themselves (KIP-1082).
const MEMBER_ID_SINCE: i16 = 1;
/// Epoch of who leaves for good.
const LEAVES: i32 = -1;

pub(super) async fn handle(
    context: &Context,
    version: i16,
    client: &Client<'_>,
    request: ConsumerGroupHeartbeatRequest,
) -> ConsumerGroupHeartbeatResponse {
    let answer = match validate(version, &request) {
        Ok(()) if request.member_epoch < 0 => leave(context, &request).await,
        Ok(()) => beat(context, client, &request).await,
        Err(error) => Err(error),
    };
    answer.unwrap_or_else(refuse::beat)
}

/// What Kafka checks before it looks at the group.
fn validate(version: i16, request: &ConsumerGroupHeartbeatRequest) -> Result<(), ResponseError> {
    let is_empty = |text: &Option<_>| text.as_ref().is_some_and(|text: &StrBytes| text.is_empty());
    let epoch = request.member_epoch;
    let needs_id = version >= MEMBER_ID_SINCE || epoch > 0 || epoch == LEAVES;
    let comes_in = epoch == 0;
    let names_nothing = request.subscribed_topic_names.is_none() && request.subscribed_topic_regex.is_none();
    let invalid = (needs_id && request.member_id.is_empty())
        || is_empty(&request.instance_id)
        || is_empty(&request.rack_id)
        || (comes_in && request.rebalance_timeout_ms == -1)
        || (comes_in && request.topic_partitions.as_ref().is_none_or(|owned| !owned.is_empty()))
        || (comes_in && names_nothing)
        || (epoch == AWAY && request.instance_id.is_none())
        || epoch < AWAY;
    if !layout::is_id(&request.group_id) || invalid {
        return Err(ResponseError::InvalidRequest);
    }
    match request.server_assignor.as_deref().map(Assignor::named) {
        Some(None) => Err(ResponseError::UnsupportedAssignor),
        _ => Ok(()),
    }
}

fn read_beat(context: &Context, client: &Client<'_>, request: &ConsumerGroupHeartbeatRequest) -> Beat {
    let names = request.subscribed_topic_names.as_ref();
    let owned = request.topic_partitions.as_ref().map(|owned| {
        let topics = owned.iter().filter(|topic| !topic.partitions.is_empty());
        topics
            .map(|topic| (topic.topic_id.into_bytes(), topic.partitions.iter().copied().collect()))
            .collect()
    });
    let member_id = match request.member_id.as_str() {
        "" => context.keeper.draw_id(client.id),
        id => id.to_string(),
    };
    Beat {
        member_id,
        epoch: request.member_epoch,
        instance_id: request.instance_id.as_deref().map(str::to_string),
        rack_id: request.rack_id.as_deref().map(str::to_string),
        rebalance_timeout_ms: Some(request.rebalance_timeout_ms).filter(|ms| *ms != -1),
        names: names.map(|names| names.iter().map(|name| name.to_string()).collect()),
        pattern: request.subscribed_topic_regex.as_deref().map(str::to_string),
        assignor: request.server_assignor.as_deref().and_then(Assignor::named),
        owned,
        client_id: client.id.to_string(),
        client_host: client.host(),
    }
}

async fn beat(
    context: &Context,
    client: &Client<'_>,
    request: &ConsumerGroupHeartbeatRequest,
) -> Result<ConsumerGroupHeartbeatResponse, ResponseError> {
    let (name, beat) = (request.group_id.as_str(), read_beat(context, client, request));
    // It lives, whether the coordinator can be asked about it or not.
    context.keeper.heard(name, &beat.member_id);
    let size_max = context.config.groups.consumer_max_size;
    let mut patience = context.patience();
    // Whether the member's partitions changed, in this try or one before whose answer was lost.
    let mut moved = false;
    let member = loop {
        let catalogue = match catalogue(context, name, &beat).await {
            Ok(catalogue) => catalogue,
            Err(fault) if fault.passes() && patience.pause().await => continue,
            Err(fault) => return Err(fault.coordinator_error()),
        };
        let changed = group::change(context, name, |state| {
            let outcome = step(state, &beat, &catalogue, size_max)?;
            moved |= outcome.as_ref().is_some_and(|(before, member)| *before != member.assigned);
            Ok(outcome)
        });
        match changed.await?.outcome? {
            Some((_, member)) => break member,
            // Others read topics by now that were not looked up.
            None if patience.is_over() => return Err(ResponseError::CoordinatorLoadInProgress),
            None => {}
        }
    };
    let full = request.rebalance_timeout_ms != -1
        && (beat.names.is_some() || beat.pattern.is_some())
        && beat.owned.is_some();
    let assignment = (beat.epoch == 0 || full || moved).then(|| assignment(&member.assigned));
    Ok(ConsumerGroupHeartbeatResponse::default()
        .with_member_id(Some(text(beat.member_id)))
        .with_member_epoch(member.epoch)
        .with_heartbeat_interval_ms(context.config.groups.consumer_heartbeat_interval_ms)
        .with_assignment(assignment))
}

/// Decides over a heartbeat: what the member had before, and the member as it is then. `None` if the catalogue does not
/// cover what the group reads.
fn step(
    state: &mut Option<GroupState>,
    beat: &Beat,
    catalogue: &Catalogue,
    size_max: usize,
) -> Result<Option<(Partitions, ConsumerMember)>, ResponseError> {
    let mut group = match state {
        Some(GroupState::Consumer(group)) => group.clone(),
        // A group of the other protocol is made anew once it has no members.
        Some(GroupState::Classic(group)) if group.phase != GroupPhase::Empty => {
            return Err(ResponseError::GroupIdNotFound);
        }
        _ if beat.epoch == 0 => ConsumerGroup::default(),
        _ => return Err(ResponseError::GroupIdNotFound),
    };
    let covered = match (&catalogue.asked, group.names()) {
        (None, _) => true,
        (Some(asked), Some(names)) => names.is_subset(asked),
        (Some(_), None) => false,
    };
    if !covered {
        return Ok(None);
    }
    let before = group.members.get(&beat.member_id).map(|member| member.assigned.clone());
    group.beat(beat, catalogue, size_max)?;
    let member = group.members.get(&beat.member_id).cloned().unwrap_or_default();
    *state = Some(GroupState::Consumer(group));
    Ok(Some((before.unwrap_or_default(), member)))
}

/// Looks up the topics that the group reads, or is about to: by name, or all where somebody reads by pattern.
async fn catalogue(context: &Context, group: &str, beat: &Beat) -> Result<Catalogue, Fault> {
    let stored = group::read(context, &[group.to_string()]).await?.pop().and_then(|stored| stored.state);
    let names = match &stored {
        Some(GroupState::Consumer(group)) => group.names(),
        _ => Some(BTreeSet::new()),
    };
    let by_pattern = beat.pattern.as_ref().is_some_and(|pattern| !pattern.is_empty());
    let Some(mut names) = names.filter(|_| !by_pattern) else {
        let all = topics::list(&context.gate).await?.into_iter();
        let found = all.map(|topic| (topic.name, Topic { id: topic.id, partitions: topic.entry.partitions }));
        return Ok(Catalogue { asked: None, found: found.collect() });
    };
    names.extend(beat.names.iter().flatten().cloned());
    let mut found = BTreeMap::new();
    let asked: Vec<&String> = names.iter().collect();
    for chunk in asked.chunks(TXN_OPS_MAX) {
        let ranges = chunk.iter().map(|name| Range::key(layout::topic(name))).collect();
        let mut now = context.gate.read(ranges).await?;
        for name in chunk {
            let topic: Stored<TopicEntry> = now.one()?;
            if let Some(entry) = topic.value() {
                let id = topics::id_of(name, topic.create_revision());
                found.insert((*name).clone(), Topic { id, partitions: entry.partitions });
            }
        }
    }
    Ok(Catalogue { asked: Some(names), found })
}

fn assignment(partitions: &Partitions) -> Assignment {
    let topic = |(id, partitions): (&topics::TopicId, &BTreeSet<i32>)| {
        TopicPartitions::default()
            .with_topic_id(id.to_vec().try_into().unwrap_or_default())
            .with_partitions(partitions.iter().copied().collect())
    };
    Assignment::default().with_topic_partitions(partitions.iter().map(topic).collect())
}

async fn leave(
    context: &Context,
    request: &ConsumerGroupHeartbeatRequest,
) -> Result<ConsumerGroupHeartbeatResponse, ResponseError> {
    let (member_id, instance_id) = (request.member_id.as_str(), request.instance_id.as_deref());
    // Who was taken out by a try whose answer was lost is unknown to the next one.
    let mut gone = false;
    let changed = group::change(context, &request.group_id, |state| match state {
        Some(GroupState::Consumer(group)) => {
            let left = group.bow_out(member_id, instance_id, request.member_epoch);
            let before = gone;
            gone |= left.is_ok();
            if before { Ok(()) } else { left }
        }
        _ => Err(ResponseError::GroupIdNotFound),
    });
    changed.await?.outcome?;
    Ok(ConsumerGroupHeartbeatResponse::default()
        .with_member_id(Some(request.member_id.clone()))
        .with_member_epoch(request.member_epoch))
}
