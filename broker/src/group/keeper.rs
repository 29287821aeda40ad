//! The keeper: the timers of the groups that this agent owns, by its monotonic clock.
//!
//! They are in memory only. What they should be follows from the stored state ([`GroupState::timers`]), so whoever looks at
//! a group as its owner brings them up to date; a new owner begins all of them anew. Heartbeats touch them and are
//! written nowhere. A timer that runs out acts on the state as it is then, if this agent has been the owner ever since the
//! timer began: its write compares the tenure.
//!
//! Nobody is silent while the agent cannot hear: when a timer is looked at much later than it ran out (the process was
//! paused), as long as the coordinator does not answer, or when the tenure is new, sessions begin anew.
//!
//! Limit: an agent that is always later than [`LATE`] expires nobody.

use super::owner::{self, Owners, Tenure};
use super::state::GroupState;
use super::timer::Timer;
use crate::agent::Context;
use crate::codec;
use crate::config::{AgentConfig, GroupConfig};
use crate::coordinator::Range;
use crate::gate::Fault;
use crate::health::Dependency;
use crate::layout;
use rt::choice::{choice, stable_hash};
use rt::time::{Instant, sleep_until};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// Groups read at once by a scan.
const PAGE: i64 = 500;
/// Period of the scan that finds groups nobody sends requests for; one also follows every change of the registrations.
const SCAN: Duration = Duration::from_secs(30);
/// Pause before a scan that failed is tried again.
const RETRY: Duration = Duration::from_millis(500);
/// How late a timer may be looked at; beyond it the agent was not running.
const LATE: Duration = Duration::from_secs(1);
/// The keeper looks at the clock that often while it has timers, so that it notices a pause.
const TICK: Duration = Duration::from_millis(500);

pub(crate) struct Keeper {
    known: Mutex<BTreeMap<String, Kept>>,
    armed: Notify,
    config: GroupConfig,
    /// Member ids drawn, and what tells them from those of the process before.
    drawn: AtomicU64,
    started: u64,
}

/// A group that this agent owns.
struct Kept {
    tenure: Tenure,
    /// The revision of the newest look.
    revision: i64,
    timers: BTreeMap<Timer, Running>,
    /// How the delay of an initial join phase may be extended.
    extension: Extension,
}

#[derive(Clone, Copy)]
struct Running {
    deadline: Instant,
    period: Duration,
}

impl Running {
    fn begin(period: Duration) -> Self {
        Running { deadline: Instant::now() + period, period }
    }
}

/// Of the delay of an initial join phase.
#[derive(Clone, Copy, Default)]
struct Extension {
    /// Members that had been added when it began.
    added: u32,
    /// How much longer than it the phase may take.
    left: Duration,
}

impl Keeper {
    pub(crate) fn new(config: &AgentConfig) -> Self {
        Keeper {
            known: Mutex::default(),
            armed: Notify::new(),
            config: config.groups,
            drawn: AtomicU64::new(0),
            started: Instant::now().as_nanos(),
        }
    }

    /// A new member id of the classic protocol: `name`, and a random UUID behind it, as Kafka makes it.
    pub(crate) fn draw_member_id(&self, name: &str) -> String {
        format!("{name}-{}", self.draw_id(name))
    }

    /// A random UUID for a member of a client called `name`.
    pub(crate) fn draw_id(&self, name: &str) -> String {
        let nth = self.drawn.fetch_add(1, Ordering::Relaxed);
        let process = stable_hash(format!("{name}/{}", self.started).as_bytes());
        let half = |n| u128::from(choice("group.member-id", process, 2 * nth + n).raw());
        let bits = half(0) << 64 | half(1);
        // Version 4, variant 1 (RFC 9562).
        let bits = bits & !(0xf000 << 64) & !(0xc << 60) | 0x4000 << 64 | 0x8 << 60;
        let hex = format!("{bits:032x}");
        format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
    }

    /// Takes note of a group as read or written at `revision`; `tenure` says that this agent owns it.
    pub(super) fn saw(&self, group: &str, revision: i64, tenure: Option<Tenure>, state: Option<&GroupState>) {
        let mut known = self.known();
        if known.get(group).is_some_and(|kept| kept.revision > revision) {
            return;
        }
        let wanted = state.map(|state| state.timers(&self.config)).unwrap_or_default();
        let (Some(tenure), Some(state), false) = (tenure, state, wanted.is_empty()) else {
            known.remove(group);
            return;
        };
        let new = || Kept { tenure, revision, timers: BTreeMap::new(), extension: Extension::default() };
        let kept = known.entry(group.to_string()).or_insert_with(new);
        if kept.tenure != tenure {
            rt::mark!(reachable, "a group's timers began anew under a new owner");
            *kept = new();
        }
        kept.revision = revision;
        if kept.follow(&wanted, state, &self.config) {
            self.armed.notify_one();
        }
    }

    /// A sign of life of a member.
    pub(crate) fn heard(&self, group: &str, member_id: &str) {
        if let Some(kept) = self.known().get_mut(group) {
            for (timer, running) in &mut kept.timers {
                if timer.is_session_of(member_id) {
                    *running = Running::begin(running.period);
                }
            }
        }
    }

    /// Groups that this agent owns, and members whose sessions it keeps.
    fn sizes(&self) -> (usize, usize) {
        let known = self.known();
        let timers = known.values().flat_map(|kept| kept.timers.keys());
        (known.len(), timers.filter(|timer| matches!(timer, Timer::Session { .. })).count())
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, Kept>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When to look at the timers again.
    fn next_look(&self) -> Option<Instant> {
        let known = self.known();
        let deadlines = known.values().flat_map(|kept| kept.timers.values().map(|running| running.deadline));
        deadlines.min().map(|deadline| deadline.min(Instant::now() + TICK))
    }

    /// The timer that ran out first.
    fn due(&self) -> Option<(String, Timer, Running)> {
        let now = Instant::now();
        let known = self.known();
        let all = known.iter().flat_map(|(group, kept)| {
            kept.timers.iter().map(move |(timer, running)| (group, timer, *running))
        });
        let due = all.filter(|(_, _, running)| running.deadline <= now);
        let first = due.min_by_key(|(_, _, running)| running.deadline);
        first.map(|(group, timer, running)| (group.clone(), timer.clone(), running))
    }

    /// The tenure in which the timer was begun, if it has run out.
    fn ran_out(&self, group: &str, timer: &Timer) -> Option<Tenure> {
        let known = self.known();
        let kept = known.get(group)?;
        kept.timers.get(timer).filter(|running| running.deadline <= Instant::now()).map(|_| kept.tenure)
    }

    /// Begins sessions anew, of one group or all: nobody could be heard.
    fn forgive(&self, only: Option<&str>) {
        for (group, kept) in self.known().iter_mut() {
            if only.is_none_or(|only| only == group) {
                for (timer, running) in &mut kept.timers {
                    // Members that were to come are given time to be heard, not all of it.
                    let rest = if timer.is_of_silence() { running.period } else { LATE };
                    running.deadline = running.deadline.max(Instant::now() + rest);
                }
            }
        }
    }

    /// Extends an initial join phase that has run out of its delay, if members came meanwhile and there is time left.
    fn extend(&self, group: &str, timer: &Timer, added: u32) -> bool {
        let delay = Duration::from_millis(self.config.initial_rebalance_delay_ms.max(0) as u64);
        let mut known = self.known();
        let Some(kept) = known.get_mut(group) else { return false };
        let Extension { added: before, left } = kept.extension;
        let Some(running) = kept.timers.get_mut(timer).filter(|_| added > before && !left.is_zero()) else {
            return false;
        };
        kept.extension = Extension { added, left: left.saturating_sub(running.period) };
        *running = Running::begin(delay.min(left));
        true
    }

    /// A timer was acted on, and is wanted still.
    fn begin_anew(&self, group: &str, timer: &Timer) {
        if let Some(running) = self.known().get_mut(group).and_then(|kept| kept.timers.get_mut(timer)) {
            *running = Running::begin(running.period);
        }
    }
}

impl Kept {
    /// Lets the timers be those that are wanted; true if one began.
    fn follow(
        &mut self,
        wanted: &BTreeMap<Timer, Duration>,
        state: &GroupState,
        config: &GroupConfig,
    ) -> bool {
        self.timers.retain(|timer, _| wanted.contains_key(timer));
        let before = self.timers.len();
        for (timer, period) in wanted {
            if self.timers.contains_key(timer) {
                continue;
            }
            if let (Timer::Initial(_), GroupState::Classic(group)) = (timer, state) {
                let left =
                    group.rebalance_timeout_ms().saturating_sub(config.initial_rebalance_delay_ms).max(0);
                self.extension = Extension { added: group.added, left: Duration::from_millis(left as u64) };
            }
            self.timers.insert(timer.clone(), Running::begin(*period));
        }
        self.timers.len() > before
    }
}

/// Keeps the timers for as long as the agent serves.
pub(crate) async fn run(context: Arc<Context>) {
    let keeper = &context.keeper;
    let mut scanned = 0;
    let mut next_scan = Instant::now();
    loop {
        context.counters.groups(keeper.sizes());
        let wake = keeper.next_look().map_or(next_scan, |look| look.min(next_scan));
        tokio::select! {
            biased;
            () = sleep_until(wake) => {}
            () = keeper.armed.notified() => continue,
            () = context.agents.any_changed_after(scanned), if scanned > 0 => next_scan = Instant::now(),
        }
        let late = Instant::now() - wake > LATE;
        if late || context.health.is_away(Dependency::Coordinator) {
            rt::mark!(reachable, "a pause of the owner or the coordinator was held against nobody");
            keeper.forgive(None);
        }
        if Instant::now() >= next_scan {
            let (revision, pause) = match scan(&context).await {
                Ok(revision) => (revision, SCAN),
                Err(_) => (scanned, RETRY),
            };
            (scanned, next_scan) = (revision, Instant::now() + pause);
        }
        while let Some((group, timer, running)) = keeper.due() {
            if Instant::now() - running.deadline > LATE {
                keeper.forgive(None);
            } else if run_out(&context, &group, &timer).await.is_err() {
                keeper.forgive(Some(&group));
            }
        }
    }
}

/// Acts on a timer that ran out.
async fn run_out(context: &Context, group: &str, timer: &Timer) -> Result<(), Fault> {
    let keeper = &context.keeper;
    let _place = context.group_lines.place(std::iter::once((group, 0))).await;
    let seen = owner::look(context, group).await?;
    // The look may have begun it anew, or dropped it.
    let Some(tenure) = keeper.ran_out(group, timer) else { return Ok(()) };
    let mut next = seen.state.value().cloned();
    let Some(state) = &mut next else { return Ok(()) };
    let added = state.classic().map_or(0, |group| group.added);
    if matches!(timer, Timer::Initial(_)) && keeper.extend(group, timer, added) {
        rt::mark!(reachable, "the first join phase of a group was extended");
        return Ok(());
    }
    state.elapse(timer);
    if next.as_ref() != seen.state.value() {
        rt::preempt("group-timer.before-commit").await;
        let guards = tenure.guards(context).to_vec();
        if owner::commit(context, group, tenure, &seen.state, &mut next, guards).await?.is_none() {
            // The next look says what became of the group.
            return Ok(());
        }
        if let Timer::Session { member_id, .. }
        | Timer::Revocation { member_id, .. }
        | Timer::Pending(member_id) = timer
        {
            rt::event!("group.member_expired", group = group, member_id = member_id);
        }
    }
    keeper.begin_anew(group, timer);
    Ok(())
}

/// Looks at all groups: notes those that this agent owns, forgets the others. The revision of the look.
async fn scan(context: &Context) -> Result<i64, Fault> {
    let keeper = &context.keeper;
    let end = layout::end_of(layout::GROUP_STATES.as_bytes());
    let mut from = bytes::Bytes::from_static(layout::GROUP_STATES.as_bytes());
    let [agents, registrations] = Owners::ranges();
    let mut now = context.gate.read(vec![agents, registrations]).await?;
    let revision = now.revision;
    let owners = Owners::read(context, &mut now)?;
    let mut owned = BTreeSet::new();
    loop {
        let page = Range { revision, ..Range::span(from, end.clone(), PAGE) };
        let page = context.gate.range(page).await?;
        for kv in &page.kvs {
            let Some(group) = layout::group_of(&kv.key) else { continue };
            if let Ok(tenure) = owners.tenure(&group) {
                let state: GroupState = codec::decode(&kv.value)?;
                keeper.saw(&group, revision, Some(tenure), Some(&state));
                owned.insert(group);
            }
        }
        match page.kvs.last() {
            Some(last) if page.more => from = [&last.key[..], &[0]].concat().into(),
            _ => break,
        }
    }
    keeper.known().retain(|group, kept| owned.contains(group) || kept.revision > revision);
    Ok(revision)
}
