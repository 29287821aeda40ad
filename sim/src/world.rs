//! One simulated world, and the thread-local through which wakers and hosts reach it.
//!
//! Each part sits in a cell of its own, borrowed for as long as one operation takes and never while a future is polled
//! or dropped: futures call back.

use crate::choice::Choices;
use crate::exec::{Exec, ProcessId};
use crate::fault::Action;
use crate::net::{Cx, Kernel};
use crate::node::Nodes;
use crate::property::{Failure, Marks};
use crate::run::Preempt;
use crate::tap::{FrameSeen, Verdict};
use crate::timer::Timers;
use crate::trace::{EventId, NodeId, Trace, Weight};
use crate::trouble::Trouble;
use rt::observe::Value;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

/// Whose code is running.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Here {
    pub(crate) node: NodeId,
    pub(crate) node_key: u64,
    pub(crate) process: ProcessId,
}

pub(crate) struct World {
    pub(crate) choices: Choices,
    /// Simulated nanoseconds since the start.
    pub(crate) now: Cell<u64>,
    /// The event during which code is running: the parent of what it causes.
    pub(crate) cause: Cell<EventId>,
    pub(crate) here: Cell<Here>,
    pub(crate) trace: RefCell<Trace>,
    pub(crate) exec: RefCell<Exec>,
    pub(crate) timers: RefCell<Timers>,
    pub(crate) kernel: RefCell<Kernel>,
    pub(crate) nodes: RefCell<Nodes>,
    pub(crate) trouble: RefCell<Trouble>,
    /// What to do as soon as the running task yields.
    pub(crate) actions: RefCell<VecDeque<Action>>,
    pub(crate) preempt: Preempt,
    pub(crate) marks: RefCell<Marks>,
    pub(crate) failures: RefCell<Vec<Failure>>,
}

thread_local! {
    static WORLD: RefCell<Option<Rc<World>>> = const { RefCell::new(None) };
}

/// The world of this thread.
pub(crate) fn current() -> Rc<World> {
    WORLD.with_borrow(|world| world.clone()).expect("called outside a simulation")
}

/// Calls `f` with the world of this thread, if there is one.
pub(crate) fn if_running<T>(f: impl FnOnce(&World) -> T) -> Option<T> {
    // Not `with`: what a broken run leaves behind is dropped while the thread's locals are.
    WORLD.try_with(|world| world.borrow().as_deref().map(f)).ok().flatten()
}

/// Sets the world of this thread, or takes it away.
pub(crate) fn set(world: Option<Rc<World>>) {
    // Dropped after the borrow ends.
    let _before = WORLD.replace(world);
}

/// Fails the run at this point.
pub(crate) fn fail(claim: String) {
    if_running(|world| world.fail(claim));
}

impl World {
    /// Records an event caused by what runs now, at the node that runs now.
    pub(crate) fn record(
        &self,
        weight: Weight,
        name: &'static str,
        fields: &[(&'static str, Value<'_>)],
    ) -> EventId {
        self.record_at(self.here.get().node, weight, name, fields)
    }

    /// Records an event caused by what runs now, at `node`.
    pub(crate) fn record_at(
        &self,
        node: NodeId,
        weight: Weight,
        name: &'static str,
        fields: &[(&'static str, Value<'_>)],
    ) -> EventId {
        self.trace.borrow_mut().record(self.now.get(), node, self.cause.get(), weight, name, fields)
    }

    /// Runs `f` on the kernel network.
    pub(crate) fn kernel<T>(&self, f: impl FnOnce(&mut Kernel, &mut Cx<'_>) -> T) -> T {
        let mut tap = |frame: &FrameSeen<'_>| -> Verdict { self.see_frame(frame) };
        let mut trace = self.trace.borrow_mut();
        let mut cx = Cx {
            now: self.now.get(),
            choices: &self.choices,
            trace: &mut trace,
            cause: &self.cause,
            tap: &mut tap,
        };
        f(&mut self.kernel.borrow_mut(), &mut cx)
    }

    /// Runs `f` as the world itself, outside every machine.
    pub(crate) fn as_world<T>(&self, f: impl FnOnce() -> T) -> T {
        self.as_node(Here { node: NodeId::WORLD, node_key: self.world_key(), process: ProcessId::WORLD }, f)
    }

    /// Runs `f` as a process of a node.
    pub(crate) fn as_node<T>(&self, here: Here, f: impl FnOnce() -> T) -> T {
        let before = self.here.replace(here);
        let result = f();
        self.here.set(before);
        result
    }

    pub(crate) fn world_key(&self) -> u64 {
        crate::choice::node_key(crate::choice::WORLD)
    }

    pub(crate) fn fail(&self, claim: String) {
        let node = self.nodes.borrow().name(self.here.get().node).to_string();
        let event = self.record(Weight::Event, "failure", &[("claim", Value::Str(&claim))]);
        self.failures.borrow_mut().push(Failure { claim, node, at_ns: self.now.get(), event });
    }
}
