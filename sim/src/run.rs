//! One run: a world, its main loop, and what came of it.
//!
//! The whole run is one poll of one madsim task on a thread of its own. madsim seals the room (entropy and clocks of
//! whatever third-party code does); this loop gives the order.

use crate::choice::{Choices, Override, WORLD};
use crate::exec::{Exec, ProcessId};
use crate::fault::{Action, Scheduled};
use crate::host::SIM;
use crate::net::{Kernel, NetConfig};
use crate::node::Nodes;
use crate::property::{Failure, Marks};
use crate::timer::Due;
use crate::trace::{Entry, EventId, Fingerprint, Keep, NodeId, Trace};
use crate::trouble::{self, Trouble};
use crate::world::{self, Here, World};
use crate::{panics, room};
use serde::{Deserialize, Serialize};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::future::Future;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

/// How long preemption points hold a process up, by chance (see [`rt::preempt`]).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preempt {
    /// The probability that a point holds the process up, 0 to 1.
    pub chance: f64,
    /// For how long at most, in microseconds.
    pub hold_us_max: u64,
}

impl Default for Preempt {
    fn default() -> Self {
        Preempt { chance: 0.0, hold_us_max: 0 }
    }
}

impl Preempt {
    pub(crate) fn hold_ns(&self, choices: &Choices, node: u64, point: &str, ordinal: u64) -> u64 {
        if self.chance <= 0.0 {
            return 0;
        }
        let entity = rt::choice::stable_hash(point.as_bytes());
        if !choices.draw("preempt", node, entity, ordinal).chance(self.chance) {
            return 0;
        }
        choices.draw("preempt.hold", node, entity, ordinal).between(1_000, self.hold_us_max.max(1) * 1_000)
    }
}

/// What a run needs to know beside its script.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The seed of all choices.
    pub seed: u64,
    /// Choices forced to a value.
    pub overrides: Vec<Override>,
    /// The faults that strike.
    pub faults: Vec<Scheduled>,
    /// The network.
    pub net: NetConfig,
    /// Ports whose connections carry length-prefixed frames.
    pub frame_ports: Vec<u16>,
    /// Chance at preemption points.
    pub preempt: Preempt,
    /// How much of the trace is kept for reading.
    pub keep: Keep,
    /// The run ends at this simulated time even if its script has not; 0 means one simulated day.
    pub limit_ms: u64,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The script finished.
    Done,
    /// The script had not finished at the time limit.
    TimeLimit,
    /// The script waits and nothing can happen any more.
    Deadlock,
    /// Tasks went on for ever without time passing.
    Livelock,
    /// The script panicked.
    Panic,
}

/// What came of a run.
#[derive(Debug)]
pub struct Run<T> {
    /// What the script returned, if it finished.
    pub value: Option<T>,
    /// How it ended.
    pub end: End,
    /// The rolling hash of its trace.
    pub fingerprint: Fingerprint,
    /// The part of the trace that was kept.
    pub trace: Vec<Entry>,
    /// Names of the nodes by [`NodeId`].
    pub nodes: Vec<String>,
    /// Broken claims and panics.
    pub failures: Vec<Failure>,
    /// Marks reached.
    pub marks: Marks,
    /// Ids of the faults that had an effect.
    pub landed: BTreeSet<u32>,
    /// Events in the trace, kept or not.
    pub events: u64,
    /// Polls of tasks.
    pub steps: u64,
    /// Simulated time it took, in nanoseconds.
    pub simulated_ns: u64,
}

impl<T> Run<T> {
    /// The name of a node.
    pub fn node(&self, id: NodeId) -> &str {
        self.nodes.get(id.0 as usize).map_or("?", String::as_str)
    }
}

/// Polls at one instant after which a run counts as a livelock.
const STEPS_PER_INSTANT_MAX: u64 = 1_000_000;

const DAY_MS: u64 = 86_400_000;

/// Runs `script` in a world of its own, on a thread of its own. The script runs outside every machine: it adds nodes
/// ([`crate::node::add`]), waits with [`rt::time`], and returns what it saw.
pub fn run<T, F, S>(config: &Config, script: S) -> Run<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
    S: FnOnce() -> F + Send,
{
    room::sealed(config.seed, || in_room(config, script))
}

fn in_room<T, F>(config: &Config, script: impl FnOnce() -> F) -> Run<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let world = Rc::new(new_world(config));
    world::set(Some(world.clone()));
    let entered = rt::host::enter(&SIM);
    let result = rt::spawn("script", script());
    trouble::install(&world);

    let mut turn = MainLoop::new(&world, config);
    let (end, value) = turn.run(result);
    let steps = turn.steps;

    let (fingerprint, trace, events) = {
        let trace = world.trace.replace(Trace::new(Keep::Nothing));
        let events = trace.len();
        let (fingerprint, kept) = trace.finish();
        (fingerprint, kept, events)
    };
    let run = Run {
        value,
        end,
        fingerprint,
        trace,
        nodes: world.nodes.borrow().names(),
        failures: world.failures.take(),
        marks: world.marks.take(),
        landed: world.trouble.borrow().landed(),
        events,
        steps,
        simulated_ns: world.now.get(),
    };
    tear_down(&world);
    world::set(None);
    drop(entered);
    run
}

fn new_world(config: &Config) -> World {
    let mut kernel = Kernel::new(config.net.clone());
    for port in &config.frame_ports {
        kernel.frame_port(*port);
    }
    let node_key = crate::choice::node_key(WORLD);
    let mut exec = Exec::default();
    exec.add_process(NodeId::WORLD, node_key);
    World {
        choices: Choices::new(config.seed, &config.overrides),
        now: Cell::new(0),
        cause: Cell::new(EventId::NONE),
        here: Cell::new(Here { node: NodeId::WORLD, node_key, process: ProcessId::WORLD }),
        trace: RefCell::new(Trace::new(config.keep)),
        exec: RefCell::new(exec),
        timers: RefCell::default(),
        kernel: RefCell::new(kernel),
        nodes: RefCell::new(Nodes::new()),
        trouble: RefCell::new(Trouble::new(&config.faults)),
        actions: RefCell::new(VecDeque::new()),
        preempt: config.preempt,
        marks: RefCell::default(),
        failures: RefCell::default(),
    }
}

/// Drops every future while the world still stands, since their `Drop` may call back.
fn tear_down(world: &Rc<World>) {
    let processes = world.exec.borrow().processes();
    for process in processes {
        let futures = world.exec.borrow_mut().kill(process);
        world.as_world(|| drop(futures));
    }
    drop(world.timers.take());
}

struct MainLoop<'a> {
    world: &'a Rc<World>,
    /// The room's clock.
    room: madsim::time::TimeHandle,
    limit_ns: u64,
    steps: u64,
    /// Steps at the present instant.
    steps_now: u64,
}

impl<'a> MainLoop<'a> {
    fn new(world: &'a Rc<World>, config: &Config) -> Self {
        let limit_ms = if config.limit_ms == 0 { DAY_MS } else { config.limit_ms };
        let room = madsim::time::TimeHandle::current();
        MainLoop { world, room, limit_ns: limit_ms * 1_000_000, steps: 0, steps_now: 0 }
    }

    fn run<T>(&mut self, mut script: rt::JoinHandle<T>) -> (End, Option<T>) {
        let end = loop {
            if let Some(end) = self.run_ready() {
                break end;
            }
            match std::pin::Pin::new(&mut script).poll(&mut Context::from_waker(std::task::Waker::noop())) {
                Poll::Ready(Ok(value)) => return (End::Done, Some(value)),
                Poll::Ready(Err(_)) => break End::Panic,
                Poll::Pending => {}
            }
            if let Some(end) = self.advance() {
                break end;
            }
        };
        (end, None)
    }

    /// Runs everything that is ready at this instant.
    fn run_ready(&mut self) -> Option<End> {
        loop {
            self.do_actions();
            let process = self.world.exec.borrow_mut().next_process();
            let process = process?;
            loop {
                let turn = self.world.exec.borrow_mut().next_turn(process);
                let Some(turn) = turn else { break };
                self.step(process, turn);
                self.do_actions();
                if self.steps_now > STEPS_PER_INSTANT_MAX {
                    self.world.fail(format!("no time passed in {STEPS_PER_INSTANT_MAX} steps"));
                    return Some(End::Livelock);
                }
            }
        }
    }

    fn do_actions(&self) {
        loop {
            let action = self.world.actions.borrow_mut().pop_front();
            let Some(action) = action else { return };
            self.world.act(action);
        }
    }

    /// One poll of one task.
    fn step(&mut self, process: ProcessId, turn: crate::exec::Turn) {
        let world = self.world;
        self.steps += 1;
        self.steps_now += 1;
        let node_key = world.nodes.borrow().key(turn.node);
        world.here.set(Here { node: turn.node, node_key, process });
        let task = (u64::from(process.0) << 32) | u64::from(turn.ordinal);
        let id = world.trace.borrow_mut().step(world.now.get(), turn.node, turn.cause, task);
        world.cause.set(id);

        let mut future = turn.future;
        let polled = panics::caught(|| future.as_mut().poll(&mut Context::from_waker(&turn.waker)));
        let left = match polled {
            Ok(Poll::Pending) => world.exec.borrow_mut().put_back(process, turn.slot, future),
            Ok(Poll::Ready(())) => {
                world.exec.borrow_mut().finish(process, turn.slot);
                Some(future)
            }
            Err(panic) => {
                world.exec.borrow_mut().finish(process, turn.slot);
                world.fail(format!("panic: {panic}"));
                if process != ProcessId::WORLD {
                    world.actions.borrow_mut().push_back(Action::Crash(turn.node));
                }
                Some(future)
            }
        };
        drop(left);
        world.see_poll(turn.node, process);
    }

    /// Moves the clock to the next event and lets it happen.
    fn advance(&mut self) -> Option<End> {
        let world = self.world;
        let timer = world.timers.borrow_mut().next_at();
        let packet = world.kernel.borrow().next_at();
        let next = match (timer, packet) {
            (Some(a), Some(b)) => a.min(b),
            (Some(at), None) | (None, Some(at)) => at,
            (None, None) => return Some(End::Deadlock),
        };
        if next > self.limit_ns {
            return Some(End::TimeLimit);
        }
        let passed = next.saturating_sub(world.now.get());
        if passed > 0 {
            world.now.set(next);
            self.steps_now = 0;
            self.room.advance(Duration::from_nanos(passed));
        }
        if packet == Some(next) {
            world.kernel(|kernel, cx| kernel.run_next(cx));
            return None;
        }
        loop {
            let due = world.timers.borrow_mut().pop_due(next);
            let armed = due?;
            let id = world.trace.borrow_mut().timer(next, armed.node, armed.armed_by);
            world.cause.set(id);
            match armed.due {
                Due::Wake(waker) => waker.wake(),
                Due::Act(action) => world.act(action),
            }
        }
    }
}
