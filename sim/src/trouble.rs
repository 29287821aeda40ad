//! The faults of a plan at work: what is armed, what struck, what is held.

use crate::exec::ProcessId;
use crate::fault::{Action, EventPattern, Fault, FramePattern, Scheduled, When, matches};
use crate::net::Impairment;
use crate::node::{self, End};
use crate::tap::{FrameSeen, HoldId, Verdict};
use crate::timer::Due;
use crate::trace::{Field, NodeId, Weight};
use crate::world::World;
use rt::observe::{Event, Value};
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

/// One end of a link fault, by node.
fn links(world: &World, from: &[String], to: &[String]) -> Option<Vec<(NodeId, NodeId)>> {
    let nodes = world.nodes.borrow();
    let find = |names: &[String]| names.iter().map(|name| nodes.find(name)).collect::<Option<Vec<_>>>();
    let (from, to) = (find(from)?, find(to)?);
    Some(from.iter().flat_map(|a| to.iter().map(|b| (*a, *b))).filter(|(a, b)| a != b).collect())
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

    /// Does what is due, between two polls.
    pub(crate) fn act(self: &Rc<Self>, action: Action) {
        self.as_world(|| match action {
            Action::Strike(index) => self.strike(index),
            Action::Resume(id, process) => node::resume(self, id, process),
            Action::Start(id) => node::start(self, id),
            Action::Exit(id) => node::stop(self, id, End::Exit),
            Action::Crash(id) => node::stop(self, id, End::Crash),
            Action::Heal { from, to } => {
                self.on_links("fault.heal", &from, &to, |kernel, _, a, b| kernel.heal(a, b))
            }
            Action::Mend { from, to, impairment } => {
                self.on_links("fault.mend", &from, &to, |kernel, _, a, b| kernel.mend(a, b, impairment));
            }
            Action::SetDrift { node, ppm } => {
                self.nodes.borrow_mut().get_mut(node).clock.set_drift(self.now.get(), ppm)
            }
            Action::Release(hold) => self.kernel(|kernel, cx| kernel.release(cx, hold)),
        });
    }

    fn on_links(
        &self,
        what: &'static str,
        from: &[String],
        to: &[String],
        mut change: impl FnMut(&mut crate::net::Kernel, &mut crate::net::Cx<'_>, NodeId, NodeId),
    ) {
        let (from_names, to_names) = (from.join(","), to.join(","));
        let event = self.record(
            Weight::Event,
            what,
            &[("from", Value::Str(&from_names)), ("to", Value::Str(&to_names))],
        );
        let before = self.cause.replace(event);
        for (a, b) in links(self, from, to).unwrap_or_default() {
            self.kernel(|kernel, cx| change(kernel, cx, a, b));
        }
        self.cause.set(before);
    }

    /// The fault at `index` strikes.
    fn strike(self: &Rc<Self>, index: usize) {
        let Scheduled { id, fault, .. } = self.trouble.borrow().schedule[index].clone();
        // A frame's ends may yet be added, and are only compared with.
        let named = if fault.is_on_frames() { Vec::new() } else { fault.nodes() };
        if let Some(unknown) = named.into_iter().find(|name| self.nodes.borrow().find(name).is_none()) {
            self.fail(format!("fault {id} names the node {unknown}, which does not exist"));
            return;
        }
        let words = fault.describe();
        self.cause.set(self.record(
            Weight::Event,
            "fault",
            &[("id", Value::from(id)), ("what", Value::Str(&words))],
        ));
        if self.apply(id, fault) {
            self.trouble.borrow_mut().landed.insert(id);
        }
    }

    /// Does what the fault says; whether that had an effect at once.
    fn apply(self: &Rc<Self>, id: u32, fault: Fault) -> bool {
        match fault {
            Fault::Pause { node, for_ms } => node::pause(self, self.id(&node), for_ms),
            Fault::Crash { node, restart_after_ms } => self.crash(&node, End::Crash, restart_after_ms),
            Fault::MachineCrash { node, restart_after_ms } => {
                self.crash(&node, End::MachineCrash, restart_after_ms)
            }
            Fault::Cut { from, to, both_ways, for_ms } => {
                self.cut(&from, &to, for_ms);
                if both_ways {
                    self.cut(&to, &from, for_ms);
                }
                true
            }
            Fault::Loss { from, to, probability, for_ms } => {
                self.worsen("fault.loss", from, to, Impairment::Loss(probability), for_ms)
            }
            Fault::Slow { from, to, by_ms, for_ms } => {
                self.worsen("fault.slow", from, to, Impairment::Latency(by_ms * 1_000_000), for_ms)
            }
            Fault::Narrow { from, to, bytes_per_s, for_ms } => {
                self.worsen("fault.narrow", from, to, Impairment::Bandwidth(bytes_per_s), for_ms)
            }
            Fault::ClockJump { node, by_ms } => {
                let node = self.id(&node);
                self.nodes.borrow_mut().get_mut(node).clock.jump(by_ms);
                true
            }
            Fault::ClockDrift { node, ppm, for_ms } => {
                let node = self.id(&node);
                self.nodes.borrow_mut().get_mut(node).clock.set_drift(self.now.get(), ppm);
                node::later(self, for_ms, Action::SetDrift { node, ppm: 0 });
                true
            }
            Fault::Hold { frame, until } => {
                let mut trouble = self.trouble.borrow_mut();
                trouble.holds += 1;
                let hold = HoldId(trouble.holds);
                trouble.frames.push(ArmedFrame {
                    pattern: frame,
                    seen: 0,
                    response: Response::Hold { fault: id, hold, until },
                });
                false
            }
            Fault::Delay { frame, by_ms } => self.await_frame(frame, Response::Delay { fault: id, by_ms }),
            Fault::Reset { frame } => self.await_frame(frame, Response::Reset { fault: id }),
        }
    }

    fn worsen(
        &self,
        what: &'static str,
        from: Vec<String>,
        to: Vec<String>,
        impairment: Impairment,
        for_ms: u64,
    ) -> bool {
        self.on_links(what, &from, &to, |kernel, _, a, b| kernel.worsen(a, b, impairment));
        node::later(self, for_ms, Action::Mend { from, to, impairment });
        true
    }

    fn await_frame(&self, pattern: FramePattern, response: Response) -> bool {
        self.trouble.borrow_mut().frames.push(ArmedFrame { pattern, seen: 0, response });
        false
    }

    /// The id of a node that is known to exist.
    fn id(&self, name: &str) -> NodeId {
        self.nodes.borrow().find(name).expect("checked when the fault struck")
    }

    fn crash(self: &Rc<Self>, name: &str, end: End, restart_after_ms: Option<u64>) -> bool {
        let was_up = node::is_up(name);
        let id = self.id(name);
        if was_up {
            node::stop(self, id, end);
        }
        if let Some(after_ms) = restart_after_ms {
            node::later(self, after_ms, Action::Start(id));
        }
        was_up
    }

    fn cut(&self, from: &[String], to: &[String], for_ms: u64) {
        self.on_links("fault.cut", from, to, |kernel, cx, a, b| kernel.cut(cx, a, b));
        node::later(self, for_ms, Action::Heal { from: from.to_vec(), to: to.to_vec() });
    }

    /// Decides what becomes of a frame. Called by the kernel, so neither kernel nor trace can be used here.
    pub(crate) fn see_frame(&self, frame: &FrameSeen<'_>) -> Verdict {
        let mut trouble = self.trouble.borrow_mut();
        if trouble.frames.is_empty() {
            return Verdict::Pass;
        }
        let nodes = self.nodes.borrow();
        let mut matched = None;
        for (index, armed) in trouble.frames.iter_mut().enumerate() {
            let pattern = &armed.pattern;
            let is_end = |end: &Option<String>, id| end.as_ref().is_none_or(|name| name == nodes.name(id));
            if is_end(&pattern.from, frame.from)
                && is_end(&pattern.to, frame.to)
                && matches(&pattern.words, frame.label)
            {
                armed.seen += 1;
                if armed.seen == pattern.nth && matched.is_none() {
                    matched = Some(index);
                }
            }
        }
        let Some(index) = matched else { return Verdict::Pass };
        let (verdict, fault) = match trouble.frames.remove(index).response {
            Response::Act(action) => {
                self.actions.borrow_mut().push_back(action);
                return Verdict::Pass;
            }
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
