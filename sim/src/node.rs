//! Machines and processes.
//!
//! A node is a machine with a kernel and clocks, and at most one process on it. A crash of the process leaves the
//! machine: its kernel closes the sockets. A crash of the machine is silent: it is marked dead before its futures are
//! dropped, so that no FIN escapes. What outlives both is what the node's own `main` keeps outside of itself: a disk.

use crate::choice::node_key;
use crate::clock::Clock;
use crate::exec::ProcessId;
use crate::fault::Action;
use crate::stop::Door;
use crate::timer::Due;
use crate::trace::{NodeId, Weight};
use crate::world::{self, Here, World};
use rt::host::BoxFuture;
use rt::observe::Value;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

/// What a node is for; faults are drawn by role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// A broker process.
    Agent,
    /// The coordinator (etcd).
    Coordinator,
    /// The object store.
    Storage,
    /// A Kafka client.
    Client,
}

/// Starts a process again when it ends by itself or panics, as an init system does. What a fault ended is started again
/// by what the fault says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Supervisor {
    /// How long it waits before a restart, in milliseconds.
    pub restart_after_ms: u64,
    /// After this many restarts it gives up.
    pub give_up_after: u32,
}

type Main = Rc<dyn Fn(u32) -> BoxFuture<()>>;

pub(crate) struct Node {
    name: String,
    key: u64,
    role: Option<Role>,
    pub(crate) clock: Clock,
    main: Option<Main>,
    supervisor: Option<Supervisor>,
    process: Option<ProcessId>,
    machine_up: bool,
    starts: u32,
    /// Polls of all its processes, for faults that strike at the n-th.
    polls: u64,
    /// Through which the process hears that it is to stop.
    door: Arc<Door>,
    /// World time at which a process that was asked to stop is started again.
    restart_at_ns: Option<u64>,
}

/// All nodes of a world, by id; the first is the world itself.
pub(crate) struct Nodes {
    nodes: Vec<Node>,
    by_name: BTreeMap<String, NodeId>,
}

impl Nodes {
    pub(crate) fn new() -> Self {
        let mut nodes = Nodes { nodes: Vec::new(), by_name: BTreeMap::new() };
        let world = nodes.add(crate::choice::WORLD, None, None, None);
        nodes.get_mut(world).process = Some(ProcessId::WORLD);
        nodes
    }

    fn add(
        &mut self,
        name: &str,
        role: Option<Role>,
        main: Option<Main>,
        supervisor: Option<Supervisor>,
    ) -> NodeId {
        let id = NodeId(self.nodes.len() as u32);
        let taken = self.by_name.insert(name.to_string(), id);
        assert!(taken.is_none(), "two nodes are called {name}");
        self.nodes.push(Node {
            name: name.to_string(),
            key: node_key(name),
            role,
            clock: Clock::default(),
            main,
            supervisor,
            process: None,
            machine_up: true,
            starts: 0,
            polls: 0,
            door: Arc::default(),
            restart_at_ns: None,
        });
        id
    }

    pub(crate) fn get(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize]
    }

    pub(crate) fn get_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id.0 as usize]
    }

    pub(crate) fn name(&self, id: NodeId) -> &str {
        &self.get(id).name
    }

    /// The node's name as a choice's key.
    pub(crate) fn key(&self, id: NodeId) -> u64 {
        self.get(id).key
    }

    pub(crate) fn find(&self, name: &str) -> Option<NodeId> {
        self.by_name.get(name).copied()
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.nodes.iter().map(|node| node.name.clone()).collect()
    }

    /// Through which the node's process hears that it is to stop.
    pub(crate) fn door(&self, id: NodeId) -> Arc<Door> {
        self.get(id).door.clone()
    }

    /// Counts one poll of a node's process; which it was.
    pub(crate) fn count_poll(&mut self, id: NodeId) -> u64 {
        let node = self.get_mut(id);
        node.polls += 1;
        node.polls
    }
}

/// Adds a node and starts it. `main` makes the process's first task; it is called at every start with the number of
/// starts so far, from 1. When that task ends, the process ends.
pub fn add<F>(name: &str, role: Role, supervisor: Option<Supervisor>, main: F)
where
    F: Fn(u32) -> BoxFuture<()> + 'static,
{
    let world = world::current();
    let id = register(&world, name, role, supervisor, Rc::new(main));
    start(&world, id);
}

/// Adds a node whose machine is up, but whose process is first started by [`crate::fault::Fault::Start`].
pub fn add_stopped<F>(name: &str, role: Role, supervisor: Option<Supervisor>, main: F)
where
    F: Fn(u32) -> BoxFuture<()> + 'static,
{
    register(&world::current(), name, role, supervisor, Rc::new(main));
}

fn register(world: &World, name: &str, role: Role, supervisor: Option<Supervisor>, main: Main) -> NodeId {
    let id = world.nodes.borrow_mut().add(name, Some(role), Some(main), supervisor);
    world.kernel.borrow_mut().add_machine(id, name);
    id
}

/// Names of the nodes of `role`, in the order they were added.
pub fn named(role: Role) -> Vec<String> {
    let world = world::current();
    let nodes = world.nodes.borrow();
    nodes.nodes.iter().filter(|node| node.role == Some(role)).map(|node| node.name.clone()).collect()
}

/// Whether the node's process exists, paused or not.
pub fn is_up(name: &str) -> bool {
    let world = world::current();
    let nodes = world.nodes.borrow();
    nodes.find(name).is_some_and(|id| nodes.get(id).process.is_some())
}

/// Whether the node's process exists and is paused.
pub fn is_paused(name: &str) -> bool {
    let world = world::current();
    let process = world.nodes.borrow().find(name).and_then(|id| world.nodes.borrow().get(id).process);
    process.is_some_and(|process| world.exec.borrow().is_paused(process))
}

/// How a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Its first task returned.
    Exit,
    /// It panicked.
    Crash,
    /// A fault killed it.
    Kill,
    /// Its machine died.
    MachineCrash,
}

/// Starts the node's process if it has none, and its machine if that is down.
pub(crate) fn start(world: &Rc<World>, id: NodeId) {
    let (main, number, key, machine_was_down) = {
        let mut nodes = world.nodes.borrow_mut();
        let node = nodes.get_mut(id);
        let Some(main) = node.main.clone() else { return };
        if node.process.is_some() {
            return;
        }
        let process = world.exec.borrow_mut().add_process(id, node.key);
        node.process = Some(process);
        node.door = Arc::default();
        node.starts += 1;
        let was_down = !std::mem::replace(&mut node.machine_up, true);
        (main, node.starts, node.key, was_down)
    };
    if machine_was_down {
        world.kernel(|kernel, cx| kernel.machine_started(cx, id));
    }
    let Some(process) = world.nodes.borrow().get(id).process else { return };
    world.record_at(id, Weight::Event, "node.start", &[("starts", Value::from(number))]);
    world.as_node(Here { node: id, node_key: key, process }, || {
        let body = main(number);
        rt::host::current().spawn(
            "main",
            Box::pin(async move {
                body.await;
                world::current().actions.borrow_mut().push_back(Action::Exit(id));
            }),
        );
    });
}

/// Ends the node's process, and its machine if `end` says so.
pub(crate) fn stop(world: &Rc<World>, id: NodeId, end: End) {
    let (process, restart_at_ns) = {
        let mut nodes = world.nodes.borrow_mut();
        let node = nodes.get_mut(id);
        node.machine_up &= end != End::MachineCrash;
        let restart_at_ns = node.restart_at(end, world.now.get());
        (node.process.take(), restart_at_ns)
    };
    let how = match end {
        End::Exit => "node.exit",
        End::Crash | End::Kill => "node.crash",
        End::MachineCrash => "node.machine_crash",
    };
    world.record_at(id, Weight::Event, how, &[]);
    world.kernel(|kernel, cx| match end {
        End::Exit | End::Crash | End::Kill => kernel.process_crashed(cx, id),
        End::MachineCrash => kernel.machine_crashed(cx, id),
    });
    let Some(process) = process else { return };
    let futures = world.exec.borrow_mut().kill(process);
    let here = Here { node: id, node_key: world.nodes.borrow().get(id).key, process };
    world.as_node(here, || drop(futures));
    if let Some(at_ns) = restart_at_ns {
        at(world, at_ns, Action::Start(id));
    }
}

impl Node {
    /// World time at which a process that ends now is started again by whoever asked it to stop, or else by its
    /// supervisor. What a fault killed is started again as that fault says.
    fn restart_at(&mut self, end: End, now_ns: u64) -> Option<u64> {
        let due_ns = self.restart_at_ns.take();
        if matches!(end, End::Kill | End::MachineCrash) {
            return None;
        }
        if self.door.is_asked() {
            return due_ns.map(|at_ns| at_ns.max(now_ns));
        }
        let supervisor = self.supervisor.filter(|supervisor| self.starts <= supervisor.give_up_after);
        supervisor.map(|supervisor| now_ns + supervisor.restart_after_ms * 1_000_000)
    }
}

/// Asks the node's process to stop, on behalf of `fault`. Who is asked again goes on stopping as before.
pub(crate) fn ask_to_stop(world: &World, id: NodeId, fault: u32, restart_after_ms: Option<u64>) {
    let restart_at_ns = restart_after_ms.map(|ms| world.now.get() + ms * 1_000_000);
    let door = {
        let mut nodes = world.nodes.borrow_mut();
        let node = nodes.get_mut(id);
        if node.process.is_some() && !node.door.is_asked() {
            node.restart_at_ns = restart_at_ns;
        }
        node.process.map(|_| node.door.clone())
    };
    match (door, restart_at_ns) {
        (Some(door), _) => {
            world.cause.set(world.record_at(id, Weight::Event, "node.stop", &[]));
            door.ask(fault);
        }
        (None, Some(at_ns)) => at(world, at_ns, Action::Start(id)),
        (None, None) => {}
    }
}

/// Pauses the node's process for `for_ms`; false if it has none.
pub(crate) fn pause(world: &World, id: NodeId, for_ms: u64) -> bool {
    let Some(process) = world.nodes.borrow().get(id).process else { return false };
    world.record_at(id, Weight::Event, "node.pause", &[("for_ms", Value::from(for_ms))]);
    world.exec.borrow_mut().pause(process);
    later(world, for_ms, Action::Resume(id, process));
    true
}

/// Ends one pause of a process; nothing happens if it ended meanwhile.
pub(crate) fn resume(world: &World, id: NodeId, process: ProcessId) {
    if world.nodes.borrow().get(id).process == Some(process) {
        world.cause.set(world.record_at(id, Weight::Event, "node.resume", &[]));
        world.exec.borrow_mut().resume(world, process);
    }
}

/// Has the world act after `after_ms`.
pub(crate) fn later(world: &World, after_ms: u64, action: Action) {
    at(world, world.now.get() + after_ms * 1_000_000, action);
}

/// Has the world act at `at_ns`.
pub(crate) fn at(world: &World, at_ns: u64, action: Action) {
    world.timers.borrow_mut().arm(at_ns, NodeId::WORLD, world.cause.get(), Due::Act(action));
}
