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
    Strike(Scheduled),
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
            self.await_moment(now, now, &scheduled.when.clone(), Action::Strike(scheduled));
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
                if catch.seen == catch.pattern.nth && caught.is_none() {
                    caught = Some(index);
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
            Action::Strike(scheduled) => self.strike(now, scheduled),
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
            | Fault::MachineCrash { .. }
            | Fault::Loss { .. }
            | Fault::Narrow { .. }
            | Fault::ClockJump { .. }
            | Fault::ClockDrift { .. } => unreachable!("refused by the alphabet"),
        }
    }

    fn catch(&mut self, id: u32, pattern: FramePattern, what: Caught) {
        self.catches.push(Catch { id, pattern, seen: 0, what });
    }
}

fn meets(pattern: &FramePattern, way: &Way) -> bool {
    let is = |name: &Option<String>, side: &Side| name.as_ref().is_none_or(|name| side.is(name));
    is(&pattern.from, &way.from) && is(&pattern.to, &way.to) && pattern.names(&way.label)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    fn to_broker(label: &str) -> Way {
        Way { from: Side::Client("c1".into()), to: Side::Broker("broker-1".into()), label: label.into() }
    }

    fn from_broker(label: &str) -> Way {
        let Way { from, to, label } = to_broker(label);
        Way { from: to, to: from, label }
    }

    fn armed(json: &str) -> Faults {
        let mut faults = Faults::default();
        faults.arm(at(100), serde_json::from_str(json).unwrap()).unwrap();
        faults
    }

    fn ticket(verdict: Verdict) -> Ticket {
        let Verdict::Goes(ticket) = verdict else { panic!("{verdict:?}") };
        ticket
    }

    #[test]
    fn the_first_of_its_name_is_held_until_another_frame_comes_and_the_next_is_not() {
        let mut faults = armed(
            r#"[{"id": 7, "fault": {"hold": {"frame": {"words": "EndTxn id=a", "from": "client"},
                "until": {"frame": {"words": "Produce id=a", "nth": 2}}}}}]"#,
        );
        let end = to_broker("EndTxn commit id=a");
        assert_eq!(ticket(faults.see(at(101), &to_broker("EndTxn commit id=b"))), Ticket::default());
        assert_eq!(ticket(faults.see(at(101), &from_broker("EndTxn id=a"))), Ticket::default());
        // What comes before the frame is caught does not count.
        faults.see(at(101), &to_broker("Produce id=a"));
        let held = ticket(faults.see(at(102), &end));
        assert_eq!(held.held_by, Some(7));
        assert_eq!(faults.standings()[&7], Standing::Holding);
        assert_eq!(ticket(faults.see(at(103), &end)), Ticket::default(), "only one");
        faults.see(at(104), &to_broker("Produce id=a"));
        assert_eq!(faults.gate(at(104), &end, held), Gate::Shut(None));
        faults.see(at(105), &to_broker("Produce id=a"));
        assert_eq!(faults.gate(at(105), &end, held), Gate::Open);
        assert_eq!(faults.standings()[&7], Standing::Struck);
    }

    #[test]
    fn what_is_held_until_a_time_goes_then_or_by_hand() {
        let json = r#"[{"id": 1, "fault": {"hold": {"frame": {"words": "A"}, "until": {"at_ms": 50}}}},
            {"id": 2, "fault": {"hold": {"frame": {"words": "B"}, "until": {"at_ms": 1000}}}}]"#;
        let mut faults = armed(json);
        assert!(!faults.release(1), "it holds nothing yet");
        let (a, b) = (to_broker("A"), to_broker("B"));
        let (held_a, held_b) = (ticket(faults.see(at(110), &a)), ticket(faults.see(at(110), &b)));
        assert_eq!(
            faults.gate(at(149), &a, held_a),
            Gate::Shut(Some(at(150))),
            "since the schedule was armed"
        );
        assert_eq!(faults.gate(at(150), &a, held_a), Gate::Open);
        assert_eq!(faults.gate(at(150), &b, held_b), Gate::Shut(Some(at(1100))));
        assert!(faults.release(2));
        assert_eq!(faults.gate(at(151), &b, held_b), Gate::Open);
        assert!(!faults.release(2));
    }

    #[test]
    fn delays_resets_and_moments() {
        let mut faults = armed(
            r#"[{"id": 1, "when": {"at_ms": 20}, "fault": {"delay": {"frame": {"words": "A"}, "by_ms": 30}}},
                {"id": 2, "when": {"frame": {"words": "go"}}, "fault": {"reset": {"frame": {"words": "B", "nth": 2}}}}]"#,
        );
        let (a, b) = (to_broker("A"), from_broker("B"));
        assert_eq!(ticket(faults.see(at(119), &a)), Ticket::default(), "not armed yet");
        let late = ticket(faults.see(at(120), &a));
        assert_eq!(faults.gate(at(149), &a, late), Gate::Shut(Some(at(150))));
        assert_eq!(faults.gate(at(150), &a, late), Gate::Open);
        faults.see(at(150), &b);
        faults.see(at(150), &to_broker("go"));
        assert_eq!(ticket(faults.see(at(151), &b)), Ticket::default());
        assert_eq!(faults.see(at(152), &b), Verdict::Reset(2));
        assert_eq!(ticket(faults.see(at(153), &b)), Ticket::default());
    }

    #[test]
    fn pauses_cuts_and_slow_links_end() {
        let mut faults = armed(
            r#"[{"id": 1, "fault": {"pause": {"node": "broker-1", "for_ms": 10}}},
                {"id": 2, "when": {"at_ms": 20}, "fault": {"cut": {"from": ["c1"], "to": ["broker-1"], "both_ways": false, "for_ms": 10}}},
                {"id": 3, "when": {"at_ms": 40}, "fault": {"slow": {"from": ["client"], "to": ["broker-1"], "by_ms": 5, "for_ms": 10}}}]"#,
        );
        let (there, back) = (to_broker("A"), from_broker("A.reply"));
        let free = Ticket::default();
        assert_eq!(faults.gate(at(105), &there, free), Gate::Shut(Some(at(110))));
        assert_eq!(faults.gate(at(105), &back, free), Gate::Shut(Some(at(110))));
        assert_eq!(faults.gate(at(110), &there, free), Gate::Open);
        assert_eq!(faults.gate(at(125), &there, free), Gate::Shut(Some(at(130))));
        assert_eq!(faults.gate(at(125), &back, free), Gate::Open, "one way only");
        let slow = ticket(faults.see(at(141), &there));
        assert_eq!(faults.gate(at(141), &there, slow), Gate::Shut(Some(at(146))));
        assert_eq!(ticket(faults.see(at(141), &back)), free);
        assert_eq!(ticket(faults.see(at(150), &there)), free);
    }

    #[test]
    fn an_id_is_used_once() {
        let reset = r#"[{"id": 1, "fault": {"reset": {"frame": {"words": "A"}}}}]"#;
        let mut faults = armed(reset);
        let again = faults.arm(at(100), serde_json::from_str(reset).unwrap());
        assert_eq!(again.unwrap_err(), "[0].id: there is a fault 1 already");
    }
}
