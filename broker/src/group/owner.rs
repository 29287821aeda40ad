//! The owner of a group: the one agent that changes its members.
//!
//! It is the rendezvous winner among the agents that are registered, by what the coordinator says: registrations and state
//! are read at one revision. Every change reads, decides by the pure rules, and writes under the state's mod revision; so
//! two agents that both were the owner a moment ago cannot undo each other's work, and a write whose answer was lost is
//! decided again on what there is. Requests of one group line up here: they would only fail each other's guards.

use super::classic::{ClassicGroup, GroupPhase, Turn};
use super::state::GroupState;
use crate::agent::Context;
use crate::codec;
use crate::coordinator::{Compare, Op, Range};
use crate::gate::{Fault, Snapshot, Stored};
use crate::records::AgentEntry;
use crate::{layout, membership, routing};
use bytes::Bytes;
use kafka_protocol::ResponseError;
use rt::time::{Instant, sleep, timeout_at, wall_ms};
use std::time::Duration;

/// How much longer than the group's rebalance time-out a member waits for its answer.
const WAIT_MARGIN: Duration = Duration::from_secs(10);
/// Pause before a member that waits looks again while the coordinator is away.
const RETRY: Duration = Duration::from_millis(200);

/// A time in which an agent owns its groups: as long as its registration stands and nobody registered beside it. Agents that
/// go take no group from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tenure {
    /// Mod revision of this agent's registration.
    pub(crate) registration: i64,
    /// Mod revision of `counters/registration`.
    pub(crate) newest: i64,
}

impl Tenure {
    /// What a write compares that may only land while it lasts.
    pub(super) fn guards(self, context: &Context) -> [Compare; 2] {
        [
            Compare::unchanged(layout::agent(context.config.node_id), self.registration),
            Compare::unchanged(layout::registrations(), self.newest),
        ]
    }
}

/// A group as read at one revision.
pub(crate) struct Seen {
    pub(crate) revision: i64,
    /// Whether this agent owns it, or what a client is told that comes here.
    pub(crate) tenure: Result<Tenure, ResponseError>,
    pub(crate) state: Stored<GroupState>,
}

/// Who owns what, as read at one revision.
pub(super) struct Owners {
    agents: Vec<AgentEntry>,
    tenure: Option<Tenure>,
    node_id: i32,
}

impl Owners {
    /// The ranges that [`Owners::read`] takes.
    pub(super) fn ranges() -> [Range; 2] {
        [membership::registered(), Range::key(layout::registrations())]
    }

    pub(super) fn read(context: &Context, now: &mut Snapshot) -> Result<Self, Fault> {
        let registered = now.next().kvs;
        let newest = now.next().kvs.first().map_or(0, |kv| kv.mod_revision);
        let node_id = context.config.node_id;
        let mine = registered.iter().find(|kv| kv.key == layout::agent(node_id));
        let tenure = mine.map(|kv| Tenure { registration: kv.mod_revision, newest });
        Ok(Owners { agents: membership::entries(&registered)?, tenure, node_id })
    }

    /// This agent's tenure, if it owns the group.
    pub(super) fn tenure(&self, group: &str) -> Result<Tenure, ResponseError> {
        let owner = routing::owner(&self.agents, group).ok_or(ResponseError::CoordinatorNotAvailable)?;
        let mine = self.tenure.filter(|_| owner.node_id == self.node_id);
        mine.ok_or(ResponseError::NotCoordinator)
    }
}

/// Reads a group and who owns it; the keeper takes note.
pub(crate) async fn look(context: &Context, group: &str) -> Result<Seen, Fault> {
    let [agents, registrations] = Owners::ranges();
    let state = Range::key(layout::group_state(group));
    let mut now = context.gate.read(vec![agents, registrations, state]).await?;
    let revision = now.revision;
    let tenure = Owners::read(context, &mut now)?.tenure(group);
    let state: Stored<GroupState> = now.one()?;
    context.keeper.saw(group, revision, tenure.ok(), state.value());
    Ok(Seen { revision, tenure, state })
}

/// A group after a change, and the revision it is of.
pub(crate) struct Changed<T> {
    pub(crate) outcome: T,
    pub(crate) state: Option<GroupState>,
    pub(crate) revision: i64,
}

/// Changes a group as its owner. `decide` changes the state in place; it may be called again, on what is there then.
pub(crate) async fn change<T>(
    context: &Context,
    group: &str,
    mut decide: impl FnMut(&mut Option<GroupState>) -> T,
) -> Result<Changed<T>, ResponseError> {
    let mut patience = context.patience();
    let _place = context.group_lines.place(std::iter::once((group, 0))).await;
    loop {
        match attempt(context, group, &mut decide).await {
            Ok(Ok(Some(changed))) => return Ok(changed),
            Ok(Ok(None)) if patience.is_over() => return Err(ResponseError::CoordinatorLoadInProgress),
            Ok(Ok(None)) => {}
            Ok(Err(error)) => return Err(error),
            Err(fault) if fault.passes() && patience.pause().await => {}
            Err(fault) => return Err(fault.coordinator_error()),
        }
    }
}

/// One try: `None` if the group changed under it.
async fn attempt<T>(
    context: &Context,
    group: &str,
    decide: &mut impl FnMut(&mut Option<GroupState>) -> T,
) -> Result<Result<Option<Changed<T>>, ResponseError>, Fault> {
    let seen = look(context, group).await?;
    let tenure = match seen.tenure {
        Ok(tenure) => tenure,
        Err(error) => return Ok(Err(error)),
    };
    let mut next = seen.state.value().cloned();
    let outcome = decide(&mut next);
    if next.as_ref() == seen.state.value() {
        return Ok(Ok(Some(Changed { outcome, state: next, revision: seen.revision })));
    }
    rt::preempt("group.before-commit").await;
    let landed = commit(context, group, tenure, &seen.state, &mut next, Vec::new()).await?;
    Ok(Ok(landed.map(|revision| Changed { outcome, state: next, revision })))
}

/// Writes a group's next state over the one read, under that one's mod revision and `guards`. Its revision, or `None` if a
/// guard failed.
pub(super) async fn commit(
    context: &Context,
    group: &str,
    tenure: Tenure,
    before: &Stored<GroupState>,
    next: &mut Option<GroupState>,
    guards: Vec<Compare>,
) -> Result<Option<i64>, Fault> {
    if let Some(GroupState::Classic(group)) = next {
        let before = before.value().and_then(GroupState::classic);
        let was_empty = before.is_some_and(|group| group.phase == GroupPhase::Empty);
        if group.phase == GroupPhase::Empty && !was_empty {
            group.empty_since_ms = wall_ms();
        }
    }
    let key = layout::group_state(group);
    let mut compares = guards;
    compares.push(Compare::unchanged(key.clone(), before.revision()));
    let op = match next {
        Some(state) => Op::put(key, codec::encode(state)),
        None => Op::delete(key),
    };
    let Some(answer) = context.gate.commit(compares, vec![op]).await? else { return Ok(None) };
    context.keeper.saw(group, answer.revision, Some(tenure), next.as_ref());
    if let Some(next) = next {
        tell(group, before.value(), next, answer.revision);
    }
    Ok(Some(answer.revision))
}

/// Tells the observer what became of a group.
fn tell(name: &str, before: Option<&GroupState>, group: &GroupState, revision: i64) {
    let (generation, members) = group.generation();
    if before.is_none_or(|before| before.generation().0 != generation) {
        rt::event!(
            "group.generation",
            group = name,
            protocol = group.type_name(),
            generation = generation,
            members = members,
            revision = revision,
        );
    }
    if before.is_none_or(|before| before.name() != group.name()) {
        rt::event!(
            "group.state",
            group = name,
            generation = generation,
            state = group.name(),
            revision = revision,
        );
    }
}

/// Waits until a member's turn comes, on what `changed` says or whatever anybody makes of the group later. It need not be
/// the owner any more: the answer is in the state, whoever wrote it.
pub(crate) async fn wait<T>(
    context: &Context,
    group: &str,
    changed: Changed<T>,
    turn: impl Fn(&ClassicGroup) -> Turn,
) -> Result<ClassicGroup, ResponseError> {
    let Changed { mut state, mut revision, .. } = changed;
    let key = [layout::group_state(group)];
    let mut deadline = None;
    loop {
        let Some(GroupState::Classic(now)) = state else { return Err(ResponseError::UnknownMemberId) };
        match turn(&now) {
            Turn::Answer => return Ok(now),
            Turn::Refused(error) => return Err(error),
            Turn::Wait => {}
        }
        let limit = Duration::from_millis(now.rebalance_timeout_ms().max(0) as u64) + WAIT_MARGIN;
        // A connection may not be silent longer than that anyway.
        let limit = limit.min(Duration::from_millis(context.config.connections_max_idle_ms));
        let deadline = *deadline.get_or_insert_with(|| Instant::now() + limit);
        tokio::select! {
            biased;
            _ = timeout_at(deadline, context.group_states.changed_after(&key, revision, |_, _| true)) => {}
            () = context.health.drains() => return Err(ResponseError::NotCoordinator),
        }
        (state, revision) = loop {
            if Instant::now() >= deadline {
                rt::mark!(reachable, "a member waited in vain for its group");
                return Err(ResponseError::RebalanceInProgress);
            }
            match read(context, &key[0]).await {
                Ok(read) => break read,
                Err(fault) if fault.passes() => sleep(RETRY).await,
                Err(fault) => return Err(fault.coordinator_error()),
            }
        };
    }
}

async fn read(context: &Context, key: &Bytes) -> Result<(Option<GroupState>, i64), Fault> {
    let mut now = context.gate.read(vec![Range::key(key.clone())]).await?;
    let revision = now.revision;
    Ok((now.one::<GroupState>()?.into_value(), revision))
}
