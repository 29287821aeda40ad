//! Processes, tasks and whose turn it is.
//!
//! Each process has a queue of woken tasks, first in, first out. Processes that are ready at one instant take turns in
//! an order drawn by a choice keyed by (node, time), so that an extra task in one process moves no other. A process runs
//! until its queue is empty; it meets other processes only through the network, which takes time.
//!
//! The parent of a step is the event during which its waker was called: the waker holds it in one cell.

use crate::trace::{EventId, NodeId};
use crate::world;
use rt::host::BoxFuture;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Wake, Waker};

/// A process: one start of a node. Ids are not reused in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ProcessId(pub(crate) u32);

impl ProcessId {
    /// The script's own process, outside every machine.
    pub(crate) const WORLD: ProcessId = ProcessId(0);
}

/// A task's waker. Its cells are atomic only because wakers must be `Sync`; one thread uses them.
pub(crate) struct TaskWaker {
    process: ProcessId,
    slot: u32,
    /// The task's place among all tasks of its process, from 1.
    ordinal: u32,
    queued: AtomicBool,
    cause: AtomicU64,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.load(Ordering::Relaxed) {
            self.queued.store(true, Ordering::Relaxed);
            world::if_running(|world| {
                self.cause.store(world.cause.get().0, Ordering::Relaxed);
                world.exec.borrow_mut().wake(world, self.process, self.slot, self.ordinal);
            });
        }
    }
}

struct Slot {
    future: Option<BoxFuture<()>>,
    waker: Waker,
    state: Arc<TaskWaker>,
}

struct Process {
    node: NodeId,
    node_key: u64,
    /// Woken tasks: (slot, ordinal).
    queue: VecDeque<(u32, u32)>,
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
    tasks: u32,
    alive: bool,
    /// Overlapping pauses; it runs at 0.
    pauses: u32,
    /// Whether it has an entry in the ready heap.
    ready: bool,
}

/// A task taken out for a poll.
pub(crate) struct Turn {
    pub(crate) node: NodeId,
    pub(crate) slot: u32,
    pub(crate) ordinal: u32,
    pub(crate) cause: EventId,
    pub(crate) future: BoxFuture<()>,
    pub(crate) waker: Waker,
}

/// All processes of a world.
#[derive(Default)]
pub(crate) struct Exec {
    processes: Vec<Process>,
    /// (drawn order, process)
    ready: BinaryHeap<Reverse<(u64, ProcessId)>>,
}

impl Exec {
    pub(crate) fn add_process(&mut self, node: NodeId, node_key: u64) -> ProcessId {
        self.processes.push(Process {
            node,
            node_key,
            queue: VecDeque::new(),
            slots: Vec::new(),
            free: Vec::new(),
            tasks: 0,
            alive: true,
            pauses: 0,
            ready: false,
        });
        ProcessId((self.processes.len() - 1) as u32)
    }

    /// Adds a task and makes it ready. A dead process takes none: the future comes back to be dropped by the caller,
    /// outside any borrow, since its `Drop` may call back into the world.
    pub(crate) fn spawn(
        &mut self,
        world: &world::World,
        process: ProcessId,
        future: BoxFuture<()>,
    ) -> Option<BoxFuture<()>> {
        let owner = &mut self.processes[process.0 as usize];
        if !owner.alive {
            return Some(future);
        }
        owner.tasks += 1;
        let ordinal = owner.tasks;
        let slot = owner.free.pop().unwrap_or_else(|| {
            owner.slots.push(None);
            (owner.slots.len() - 1) as u32
        });
        let state = Arc::new(TaskWaker {
            process,
            slot,
            ordinal,
            queued: AtomicBool::new(true),
            cause: AtomicU64::new(world.cause.get().0),
        });
        owner.slots[slot as usize] =
            Some(Slot { future: Some(future), waker: Waker::from(state.clone()), state });
        self.wake(world, process, slot, ordinal);
        None
    }

    fn wake(&mut self, world: &world::World, process: ProcessId, slot: u32, ordinal: u32) {
        let owner = &mut self.processes[process.0 as usize];
        if owner.alive {
            owner.queue.push_back((slot, ordinal));
            self.make_ready(world, process);
        }
    }

    fn make_ready(&mut self, world: &world::World, process: ProcessId) {
        let owner = &mut self.processes[process.0 as usize];
        if owner.alive && owner.pauses == 0 && !owner.ready && !owner.queue.is_empty() {
            owner.ready = true;
            let order =
                world.choices.draw("exec.order", owner.node_key, u64::from(process.0), world.now.get());
            self.ready.push(Reverse((order.raw(), process)));
        }
    }

    /// The process whose turn it is, if any is ready.
    pub(crate) fn next_process(&mut self) -> Option<ProcessId> {
        let Reverse((_, process)) = self.ready.pop()?;
        self.processes[process.0 as usize].ready = false;
        Some(process)
    }

    /// Takes the process's next woken task; none if it has none, is paused or is dead.
    pub(crate) fn next_turn(&mut self, process: ProcessId) -> Option<Turn> {
        let owner = &mut self.processes[process.0 as usize];
        if owner.pauses > 0 || !owner.alive {
            return None;
        }
        while let Some((slot, ordinal)) = owner.queue.pop_front() {
            // A task that ended may have been woken before: its slot is empty, or another task's.
            let Some(task) = owner.slots[slot as usize].as_mut().filter(|task| task.state.ordinal == ordinal)
            else {
                continue;
            };
            let Some(future) = task.future.take() else { continue };
            task.state.queued.store(false, Ordering::Relaxed);
            let cause = EventId(task.state.cause.load(Ordering::Relaxed));
            return Some(Turn { node: owner.node, slot, ordinal, cause, future, waker: task.waker.clone() });
        }
        None
    }

    /// Puts a pending task back. If its process died meanwhile, the future comes back to be dropped by the caller.
    pub(crate) fn put_back(
        &mut self,
        process: ProcessId,
        slot: u32,
        future: BoxFuture<()>,
    ) -> Option<BoxFuture<()>> {
        match self.processes[process.0 as usize].slots.get_mut(slot as usize).and_then(Option::as_mut) {
            Some(task) => {
                task.future = Some(future);
                None
            }
            None => Some(future),
        }
    }

    /// Forgets a finished task.
    pub(crate) fn finish(&mut self, process: ProcessId, slot: u32) {
        let owner = &mut self.processes[process.0 as usize];
        if let Some(entry) = owner.slots.get_mut(slot as usize)
            && entry.take().is_some()
        {
            owner.free.push(slot);
        }
    }

    pub(crate) fn pause(&mut self, process: ProcessId) {
        self.processes[process.0 as usize].pauses += 1;
    }

    /// Ends one pause. Wakes that came meanwhile are delivered in their order.
    pub(crate) fn resume(&mut self, world: &world::World, process: ProcessId) {
        let owner = &mut self.processes[process.0 as usize];
        owner.pauses = owner.pauses.saturating_sub(1);
        self.make_ready(world, process);
    }

    pub(crate) fn is_paused(&self, process: ProcessId) -> bool {
        self.processes[process.0 as usize].pauses > 0
    }

    /// Ends a process. Its futures come back to be dropped by the caller, outside any borrow.
    pub(crate) fn kill(&mut self, process: ProcessId) -> Vec<BoxFuture<()>> {
        let owner = &mut self.processes[process.0 as usize];
        owner.alive = false;
        owner.queue = VecDeque::new();
        owner.free = Vec::new();
        std::mem::take(&mut owner.slots).into_iter().flatten().filter_map(|task| task.future).collect()
    }

    /// All processes, dead ones included.
    pub(crate) fn processes(&self) -> impl Iterator<Item = ProcessId> + use<> {
        (0..self.processes.len() as u32).map(ProcessId)
    }
}
