//! The faults of a plan at work: what is armed, what has landed, what is held.

use crate::exec::ProcessId;
use crate::fault::{Action, EventPattern, Fault, FramePattern, Scheduled, When, matches};
use crate::node;
use crate::tap::{FrameSeen, HoldId, Verdict};
use crate::timer::Due;
use crate::trace::{Field, NodeId};
use crate::world::World;
use rt::observe::Event;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::rc::Rc;

/// What a matching frame brings about.
enum Response {
    Act(Action),
    Hold { fault: u32, hold: HoldId, until: When },
    Delay { fault: u32, by_ms: u64 },
    Reset { fault: u32 },
}

struct ArmedFrame {
    pattern: FramePattern,
    seen: u32,
    response: Response,
}

struct ArmedEvent {
    pattern: EventPattern,
    seen: u32,
    action: Action,
}

struct ArmedPoint {
    node: Option<String>,
    point: String,
    nth: u32,
    seen: u32,
    action: Action,
}

struct ArmedPoll {
    node: String,
    nth: u64,
    action: Action,
}

/// Everything armed and done.
pub(crate) struct Trouble {
    schedule: Rc<[Scheduled]>,
    frames: Vec<ArmedFrame>,
    events: Vec<ArmedEvent>,
    points: Vec<ArmedPoint>,
    polls: Vec<ArmedPoll>,
    /// Preemption points reached, by node and name.
    reached: BTreeMap<(NodeId, &'static str), u64>,
    holds: u64,
    landed: BTreeSet<u32>,
}

impl Trouble {
    pub(crate) fn new(schedule: &[Scheduled]) -> Self {
        Trouble {
            schedule: schedule.into(),
            frames: Vec::new(),
            events: Vec::new(),
            points: Vec::new(),
            polls: Vec::new(),
            reached: BTreeMap::new(),
            holds: 0,
            landed: BTreeSet::new(),
        }
    }

    /// Ids of the faults that did something.
    pub(crate) fn landed(&self) -> BTreeSet<u32> {
        self.landed.clone()
    }

    /// The fault at `index` of the schedule.
    pub(crate) fn scheduled(&self, index: usize) -> Scheduled {
        self.schedule[index].clone()
    }

    /// Notes that a fault did something.
    pub(crate) fn land(&mut self, fault: u32) {
        self.landed.insert(fault);
    }
}

/// Arms every fault of the plan.
pub(crate) fn install(world: &Rc<World>) {
    let schedule = world.trouble.borrow().schedule.clone();
    for (index, scheduled) in schedule.iter().enumerate() {
        let on_frames =
            matches!(scheduled.fault, Fault::Hold { .. } | Fault::Delay { .. } | Fault::Reset { .. });
        if on_frames && scheduled.when == When::default() {
            world.act(Action::Strike(index));
        } else {
            world.arm(&scheduled.when, Action::Strike(index));
        }
    }
}

impl World {
    /// Arms `when` to bring about `action`.
    fn arm(&self, when: &When, action: Action) {
        let mut trouble = self.trouble.borrow_mut();
        match when {
            When::AtMs(at_ms) => {
                let at = (at_ms * 1_000_000).max(self.now.get());
                self.timers.borrow_mut().arm(at, NodeId::WORLD, self.cause.get(), Due::Act(action));
            }
            When::Event(pattern) => {
                trouble.events.push(ArmedEvent { pattern: pattern.clone(), seen: 0, action })
            }
            When::Frame(pattern) => {
                let response = Response::Act(action);
                trouble.frames.push(ArmedFrame { pattern: pattern.clone(), seen: 0, response });
            }
            When::Poll { node, nth } => {
                trouble.polls.push(ArmedPoll { node: node.clone(), nth: *nth, action })
            }
            When::Point { node, point, nth } => {
                let (node, point, nth) = (node.clone(), point.clone(), *nth);
                trouble.points.push(ArmedPoint { node, point, nth, seen: 0, action });
            }
        }
    }

    /// Arms a hold.
    pub(crate) fn hold_frame(&self, fault: u32, frame: FramePattern, until: When) {
        let mut trouble = self.trouble.borrow_mut();
        trouble.holds += 1;
        let hold = HoldId(trouble.holds);
        trouble.frames.push(ArmedFrame {
            pattern: frame,
            seen: 0,
            response: Response::Hold { fault, hold, until },
        });
    }

    /// Arms a delay.
    pub(crate) fn delay_frame(&self, fault: u32, frame: FramePattern, by_ms: u64) {
        self.await_frame(frame, Response::Delay { fault, by_ms });
    }

    /// Arms a reset.
    pub(crate) fn reset_frame(&self, fault: u32, frame: FramePattern) {
        self.await_frame(frame, Response::Reset { fault });
    }

    fn await_frame(&self, pattern: FramePattern, response: Response) {
        self.trouble.borrow_mut().frames.push(ArmedFrame { pattern, seen: 0, response });
    }

    /// Decides what becomes of a frame. Called by the kernel, so neither kernel nor trace can be used here.
    pub(crate) fn see_frame(&self, frame: &FrameSeen<'_>) -> Verdict {
        let mut trouble = self.trouble.borrow_mut();
        if trouble.frames.is_empty() {
            return Verdict::Pass;
        }
        let mut caught = None;
        for armed in self.matched(&mut trouble, frame) {
            match armed.response {
                Response::Act(action) => self.actions.borrow_mut().push_back(action),
                response if caught.is_none() => caught = Some(response),
                // One fault catches a frame. Another that would have waits for the next such frame.
                response => {
                    let seen = armed.pattern.nth - 1;
                    trouble.frames.push(ArmedFrame { seen, response, ..armed });
                }
            }
        }
        let Some(response) = caught else { return Verdict::Pass };
        let (verdict, fault) = match response {
            Response::Act(_) => return Verdict::Pass,
            Response::Hold { fault, hold, until } => {
                drop(trouble);
                self.arm(&until, Action::Release(hold));
                (Verdict::Hold(hold), fault)
            }
            Response::Delay { fault, by_ms } => {
                drop(trouble);
                (Verdict::Delay(by_ms * 1_000_000), fault)
            }
            Response::Reset { fault } => {
                drop(trouble);
                (Verdict::Reset, fault)
            }
        };
        self.trouble.borrow_mut().landed.insert(fault);
        verdict
    }

    /// Takes out what waits for this very frame.
    fn matched(&self, trouble: &mut Trouble, frame: &FrameSeen<'_>) -> Vec<ArmedFrame> {
        let nodes = self.nodes.borrow();
        let is_end = |end: &Option<String>, id| end.as_ref().is_none_or(|name| name == nodes.name(id));
        let is_due = |armed: &mut ArmedFrame| {
            let pattern = &armed.pattern;
            let fits = is_end(&pattern.from, frame.from)
                && is_end(&pattern.to, frame.to)
                && matches(&pattern.words, frame.label);
            armed.seen += u32::from(fits);
            fits && armed.seen == pattern.nth
        };
        trouble.frames.extract_if(.., is_due).collect()
    }

    /// Strikes what waits for this event.
    pub(crate) fn see_event(&self, event: &Event<'_>) {
        let mut trouble = self.trouble.borrow_mut();
        let name_is = |pattern: &str| pattern.split_whitespace().next() == Some(event.name);
        if !trouble.events.iter().any(|armed| name_is(&armed.pattern.words)) {
            return;
        }
        let text = in_words(event);
        let nodes = self.nodes.borrow();
        let here = nodes.name(self.here.get().node);
        let mut due = Vec::new();
        trouble.events.retain_mut(|armed| {
            let pattern = &armed.pattern;
            if pattern.node.as_ref().is_none_or(|node| node == here) && matches(&pattern.words, &text) {
                armed.seen += 1;
            }
            let fires = armed.seen == pattern.nth;
            if fires {
                due.push((pattern.after_ms, armed.action.clone()));
            }
            !fires
        });
        for (after_ms, action) in due {
            match after_ms {
                0 => self.actions.borrow_mut().push_back(action),
                _ => node::later(self, after_ms, action),
            }
        }
    }

    /// Counts one arrival at a preemption point: which it is, and whether something strikes there.
    pub(crate) fn see_point(&self, point: &'static str) -> (u64, bool) {
        let mut trouble = self.trouble.borrow_mut();
        let node = self.here.get().node;
        let reached = trouble.reached.entry((node, point)).or_default();
        *reached += 1;
        let ordinal = *reached;
        let nodes = self.nodes.borrow();
        let before = trouble.points.len();
        trouble.points.retain_mut(|armed| {
            if armed.point == point && armed.node.as_ref().is_none_or(|name| name == nodes.name(node)) {
                armed.seen += 1;
            }
            let fires = armed.seen == armed.nth;
            if fires {
                self.actions.borrow_mut().push_back(armed.action.clone());
            }
            !fires
        });
        (ordinal, trouble.points.len() < before)
    }

    /// Counts one poll of a process, and strikes what waits for it.
    pub(crate) fn see_poll(&self, node: NodeId, process: ProcessId) {
        if process == ProcessId::WORLD || self.trouble.borrow().polls.is_empty() {
            return;
        }
        let nth = self.nodes.borrow_mut().count_poll(node);
        let nodes = self.nodes.borrow();
        self.trouble.borrow_mut().polls.retain(|armed| {
            let fires = armed.nth == nth && armed.node == nodes.name(node);
            if fires {
                self.actions.borrow_mut().push_back(armed.action.clone());
            }
            !fires
        });
    }
}

/// An event as the words that patterns match: its name, then `field=value`.
fn in_words(event: &Event<'_>) -> String {
    let mut text = event.name.to_string();
    for (field, value) in event.fields {
        let value = Field::from(*value).to_string().replace(char::is_whitespace, "_");
        // Writing to a String cannot fail.
        let _ = write!(text, " {field}={value}");
    }
    text
}
