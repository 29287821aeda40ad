//! The faults at work on real frames: what is armed, what is held, who waits.
//!
//! The alphabet and its meaning are the tank's ([`sim::fault`]), as far as a proxy can carry it out ([`super::alphabet`]).
//! Nodes are `broker-1` and up, clients by their `client.id`, and `client` for any client. Plain data: it is told of frames
//! and moments, and says what becomes of them. A client that is paused or cut off is so only as far as it talks to the
//! brokers.

use rt::time::Instant;
use sim::fault::{Fault, FramePattern, Scheduled, When};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Any client, as a node's name.
const ANY_CLIENT: &str = "client";

/// One end of a frame's way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Client(String),
    Broker(String),
}

impl Side {
    fn is(&self, name: &str) -> bool {
        match self {
            Side::Client(id) => name == ANY_CLIENT || name == id,
            Side::Broker(broker) => name == broker,
        }
    }

    pub(super) fn name(&self) -> &str {
        match self {
            Side::Client(name) | Side::Broker(name) => name,
        }
    }
}

/// A frame's way, and what it is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) from: Side,
    pub(super) to: Side,
    pub(super) label: String,
}

/// What keeps a frame from going on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ticket {
    /// The fault that holds it.
    pub(super) held_by: Option<u32>,
    /// The moment before which it does not go.
    not_before: Option<Instant>,
}

/// What becomes of a frame that was just seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Goes(Ticket),
    /// Its connection is reset, by this fault; the frame is lost.
    Reset(u32),
}

/// Whether a frame may go on now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gate {
    Open,
    /// Ask again at this moment, or when something changes.
    Shut(Option<Instant>),
}

/// How a fault stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Its moment has not come, or its frame has not.
    Waiting,
    /// It holds a frame.
    Holding,
    /// It struck.
    Struck,
}

/// What a moment brings about.
#[derive(Clone, Debug)]
enum Action {
    Strike(Box<Scheduled>),
    Release(u32),
}

#[derive(Debug)]
enum Trigger {
    At(Instant),
    Frame(FramePattern, u32),
}

/// A fault that waits for its frame.
#[derive(Debug)]
struct Catch {
    id: u32,
    pattern: FramePattern,
    seen: u32,
    what: Caught,
}

#[derive(Clone, Debug)]
enum Caught {
    Hold(When),
    Delay(Duration),
    Reset,
}

/// Frames that do not pass, or pass slowly, for a time.
#[derive(Debug)]
struct Wall {
    from: Vec<String>,
    to: Vec<String>,
    until: Instant,
    /// How much longer they take; not at all before `until` if absent.
    slow_by: Option<Duration>,
}

impl Wall {
    fn stands_between(&self, way: &Way, now: Instant) -> bool {
        let is_one =
            |names: &[String], side: &Side| names.is_empty() || names.iter().any(|name| side.is(name));
        now < self.until && is_one(&self.from, &way.from) && is_one(&self.to, &way.to)
    }
}

/// Everything armed and done.
#[derive(Debug, Default)]
pub(super) struct Faults {
    standings: BTreeMap<u32, Standing>,
    pending: Vec<(Trigger, Action)>,
    catches: Vec<Catch>,
    walls: Vec<Wall>,
    /// When each schedule began, by fault.
    begun: BTreeMap<u32, Instant>,
}

impl Faults {
    /// Arms faults; their times count from `now`.
    ///
    /// # Errors
    /// An id that is taken.
    pub(super) fn arm(&mut self, now: Instant, schedule: Vec<Scheduled>) -> Result<(), String> {
        for (index, scheduled) in schedule.iter().enumerate() {
            let earlier = schedule[..index].iter().any(|other| other.id == scheduled.id);
            if earlier || self.standings.contains_key(&scheduled.id) {
                return Err(format!("[{index}].id: there is a fault {} already", scheduled.id));
            }
        }
        for scheduled in schedule {
            self.standings.insert(scheduled.id, Standing::Waiting);
            self.begun.insert(scheduled.id, now);
            self.await_moment(now, now, &scheduled.when.clone(), Action::Strike(Box::new(scheduled)));
        }
        self.advance(now);
        Ok(())
    }

    /// How every fault stands, by id.
    pub(super) fn standings(&self) -> &BTreeMap<u32, Standing> {
        &self.standings
    }

    /// Decides what becomes of a frame.
    pub(super) fn see(&mut self, now: Instant, way: &Way) -> Verdict {
        self.advance(now);
        let mut due = VecDeque::new();
        self.pending.retain_mut(|(trigger, action)| match trigger {
            Trigger::Frame(pattern, seen) if meets(pattern, way) => {
                *seen += 1;
                let fires = *seen == pattern.nth;
                if fires {
                    due.push_back(action.clone());
                }
                !fires
            }
            _ => true,
        });
        let mut caught = None;
        for (index, catch) in self.catches.iter_mut().enumerate() {
            if meets(&catch.pattern, way) {
                catch.seen += 1;
                match caught {
                    _ if catch.seen != catch.pattern.nth => {}
                    None => caught = Some(index),
                    // One fault catches a frame. This one waits for the next such frame.
                    Some(_) => catch.seen -= 1,
                }
            }
        }
        let mut slow = Duration::ZERO;
        for wall in &self.walls {
            if wall.stands_between(way, now) {
                slow += wall.slow_by.unwrap_or_default();
            }
        }
        let mut ticket = Ticket { held_by: None, not_before: (!slow.is_zero()).then(|| now + slow) };
        if let Some(index) = caught {
            let Catch { id, what, .. } = self.catches.remove(index);
            self.standings.insert(id, Standing::Struck);
            match what {
                Caught::Reset => return Verdict::Reset(id),
                Caught::Delay(by) => ticket.not_before = Some(now + slow + by),
                Caught::Hold(until) => {
                    self.standings.insert(id, Standing::Holding);
                    ticket.held_by = Some(id);
                    let begun = self.begun.get(&id).copied().unwrap_or(now);
                    self.await_moment(now, begun, &until, Action::Release(id));
                }
            }
        }
        for action in due {
            self.act(now, action);
        }
        Verdict::Goes(ticket)
    }

    /// Whether a frame that was seen may go on.
    pub(super) fn gate(&mut self, now: Instant, way: &Way, ticket: Ticket) -> Gate {
        self.advance(now);
        if ticket.held_by.is_some_and(|id| self.holds(id)) {
            return Gate::Shut(self.next_moment());
        }
        if let Some(not_before) = ticket.not_before.filter(|not_before| now < *not_before) {
            return Gate::Shut(Some(not_before));
        }
        let stands = |wall: &&Wall| wall.slow_by.is_none() && wall.stands_between(way, now);
        match self.walls.iter().filter(stands).map(|wall| wall.until).max() {
            Some(until) => Gate::Shut(Some(until)),
            None => Gate::Open,
        }
    }

    /// Lets go what fault `id` holds; false if it holds nothing.
    pub(super) fn release(&mut self, id: u32) -> bool {
        let held = self.holds(id);
        if held {
            self.standings.insert(id, Standing::Struck);
            self.pending.retain(|(_, action)| !matches!(action, Action::Release(other) if *other == id));
        }
        held
    }

    fn holds(&self, id: u32) -> bool {
        self.standings.get(&id) == Some(&Standing::Holding)
    }

    /// The next moment at which something happens by itself.
    fn next_moment(&self) -> Option<Instant> {
        let moments = self.pending.iter().filter_map(|(trigger, _)| match trigger {
            Trigger::At(at) => Some(*at),
            Trigger::Frame(..) => None,
        });
        moments.min()
    }

    /// Does what is due.
    fn advance(&mut self, now: Instant) {
        let due = |(trigger, _): &(Trigger, Action)| match trigger {
            Trigger::At(at) if *at <= now => Some(*at),
            _ => None,
        };
        while let Some((index, at)) =
            self.pending.iter().enumerate().find_map(|(i, one)| Some((i, due(one)?)))
        {
            let (_, action) = self.pending.remove(index);
            // What lasts a while does so from its own moment, not from this look.
            self.act(at, action);
        }
        self.walls.retain(|wall| now < wall.until);
    }

    fn await_moment(&mut self, now: Instant, begun: Instant, when: &When, action: Action) {
        match when {
            When::AtMs(at_ms) => {
                let at = (begun + Duration::from_millis(*at_ms)).max(now);
                self.pending.push((Trigger::At(at), action));
            }
            When::Frame(pattern) => self.pending.push((Trigger::Frame(pattern.clone(), 0), action)),
            When::Event(_) | When::Poll { .. } | When::Point { .. } => {
                unreachable!("refused by the alphabet")
            }
        }
    }

    fn act(&mut self, now: Instant, action: Action) {
        match action {
            Action::Release(id) => drop(self.release(id)),
            Action::Strike(scheduled) => self.strike(now, *scheduled),
        }
    }

    fn strike(&mut self, now: Instant, Scheduled { id, fault, .. }: Scheduled) {
        let mut wall = |from: Vec<String>, to: Vec<String>, for_ms: u64, slow_by| {
            self.walls.push(Wall { from, to, until: now + Duration::from_millis(for_ms), slow_by });
            self.standings.insert(id, Standing::Struck);
        };
        match fault {
            Fault::Hold { frame, until } => self.catch(id, frame, Caught::Hold(until)),
            Fault::Delay { frame, by_ms } => {
                self.catch(id, frame, Caught::Delay(Duration::from_millis(by_ms)));
            }
            Fault::Reset { frame } => self.catch(id, frame, Caught::Reset),
            Fault::Pause { node, for_ms } => {
                wall(vec![node.clone()], vec![], for_ms, None);
                wall(vec![], vec![node], for_ms, None);
            }
            Fault::Cut { from, to, both_ways, for_ms } => {
                if both_ways {
                    wall(to.clone(), from.clone(), for_ms, None);
                }
                wall(from, to, for_ms, None);
            }
            Fault::Slow { from, to, by_ms, for_ms } => {
                wall(from, to, for_ms, Some(Duration::from_millis(by_ms)));
            }
            Fault::Crash { .. }
            | Fault::Stop { .. }
            | Fault::Start { .. }
            | Fault::MachineCrash { .. }
            | Fault::Loss { .. }
            | Fault::Narrow { .. }
            | Fault::ClockJump { .. }
            | Fault::ClockReset { .. }
            | Fault::ClockStrobe { .. }
            | Fault::ClockDrift { .. } => unreachable!("refused by the alphabet"),
        }
    }

    fn catch(&mut self, id: u32, pattern: FramePattern, what: Caught) {
        self.catches.push(Catch { id, pattern, seen: 0, what });
    }
}

pub(super) fn meets(pattern: &FramePattern, way: &Way) -> bool {
    let is = |name: &Option<String>, side: &Side| name.as_ref().is_none_or(|name| side.is(name));
    is(&pattern.from, &way.from) && is(&pattern.to, &way.to) && pattern.names(&way.label)
}

#[cfg(test)]
#[path = "faults_tests.rs"]
mod tests;
