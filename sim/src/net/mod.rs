//! The kernel network: TCP between the machines of one world, as their kernels do it.
//!
//! A plain state machine. It holds no task and no clock: processes enter it by system calls, and time by
//! [`Kernel::run_next`], which carries out the next event of its own heap. What it does goes on while a process is
//! paused, and outlives the socket that began it.
//!
//! * [`config`]: latencies, buffers and timeouts, with Linux's defaults
//! * [`link`]: the directed links between machines, and what they suffer
//! * [`machine`]: machines, their addresses and ports
//! * [`conn`], [`flow`], [`frame`]: a connection, one direction of it, the application frames in that
//! * [`socket`], [`listen`]: system calls
//! * [`handshake`], [`send`], [`deliver`], [`timer`], [`reset`]: what the kernels do with segments
//! * [`life`]: crashes of processes and machines, cuts, releases
//! * [`event`], [`slab`]: the heap, and slots with generations
//!
//! Limits. There is no congestion window, no Nagle, no delayed acknowledgement and no keep-alive: within a window a
//! segment leaves when it is written. A whole batch of lost segments is sent again at once. Acknowledgements are looked
//! at when their sender wants to know, and take a link's mean latency. `TIME_WAIT` is not modelled: generations keep
//! old segments from new connections. Probes of a closed window go out only when something was lost, and back off from
//! then on. On ports with frames, bytes of an incomplete frame header wait for the rest.

mod config;
mod conn;
mod deliver;
mod event;
mod flow;
mod frame;
mod handshake;
mod life;
mod link;
mod listen;
mod machine;
mod reset;
mod send;
mod slab;
mod socket;
#[cfg(test)]
mod tests;
mod timer;

pub use config::NetConfig;
pub(crate) use link::Impairment;

use crate::choice::Choices;
use crate::tap::{FrameSeen, HoldId, Verdict};
use crate::trace::{EventId, NodeId, Trace, Weight};
use conn::Conn;
use event::{Event, Heap, What};
use link::Links;
use listen::Listener;
use machine::Machines;
use rt::observe::Value;
use slab::{Key, Slab};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::task::Waker;

/// One end of a connection, as a process holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SocketId {
    key: Key,
    side: u8,
}

/// A listening socket, as a process holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ListenerId(Key);

/// What the kernel needs of the world while it does one thing.
pub(crate) struct Cx<'a> {
    /// Simulated time, in nanoseconds.
    pub(crate) now: u64,
    pub(crate) choices: &'a Choices,
    pub(crate) trace: &'a mut Trace,
    /// The event during which things happen now; a waker that is called reads it.
    pub(crate) cause: &'a Cell<EventId>,
    /// Asked once per frame.
    pub(crate) tap: &'a mut dyn FnMut(&FrameSeen<'_>) -> Verdict,
}

impl Cx<'_> {
    fn detail(
        &mut self,
        node: NodeId,
        parent: EventId,
        name: &'static str,
        fields: &[(&'static str, Value<'_>)],
    ) -> EventId {
        self.trace.record(self.now, node, parent, Weight::Detail, name, fields)
    }

    fn story(
        &mut self,
        node: NodeId,
        parent: EventId,
        name: &'static str,
        fields: &[(&'static str, Value<'_>)],
    ) -> EventId {
        self.trace.record(self.now, node, parent, Weight::Story, name, fields)
    }

    /// Calls a waker that was taken from its slot, as part of event `during`.
    fn wake(&self, waker: Option<Waker>, during: EventId) {
        if let Some(waker) = waker {
            let before = self.cause.replace(during);
            waker.wake_by_ref();
            self.cause.set(before);
        }
    }
}

/// The kernels of all machines, and the network between them.
pub(crate) struct Kernel {
    config: NetConfig,
    machines: Machines,
    links: Links,
    listeners: Slab<Listener>,
    conns: Slab<Conn>,
    connected: u64,
    framed_ports: BTreeSet<u16>,
    /// Which directions of which connections a hold may hold.
    holds: BTreeMap<HoldId, Vec<(Key, usize)>>,
    heap: Heap,
}

impl Kernel {
    pub(crate) fn new(config: NetConfig) -> Self {
        Kernel {
            config,
            machines: Machines::default(),
            links: Links::new(),
            listeners: Slab::new(),
            conns: Slab::new(),
            connected: 0,
            framed_ports: BTreeSet::new(),
            holds: BTreeMap::new(),
            heap: Heap::default(),
        }
    }

    /// Adds a machine, which is up; its address is 10.0.x.y, made of `node`, and `name` resolves to it.
    pub(crate) fn add_machine(&mut self, node: NodeId, name: &str) -> std::net::Ipv4Addr {
        self.links.grow(node.0 as usize + 1, &self.config);
        self.machines.add(node, name)
    }

    /// Says that connections to `port` carry frames: both directions are sequences of four bytes of big-endian length
    /// and so many bytes. Holds for connections dialled from now on.
    pub(crate) fn frame_port(&mut self, port: u16) {
        self.framed_ports.insert(port);
    }

    /// When the next event is due, in nanoseconds.
    pub(crate) fn next_at(&self) -> Option<u64> {
        self.heap.peek().map(|event| event.at)
    }

    /// Carries out the next event; `cx.now` is its time. Does nothing if there is none.
    pub(crate) fn run_next(&mut self, cx: &mut Cx<'_>) {
        let Some(Event { at, key, side, what, .. }) = self.heap.pop() else { return };
        debug_assert_eq!(at, cx.now, "an event is carried out at its time");
        let side = usize::from(side);
        match what {
            What::Deliver => self.deliver(cx, key, side),
            What::Bare => self.bare_arrived(cx, key, side),
            What::Ack => self.look_at_acks(cx, key, side),
            What::Timer => self.timer_fired(cx, key, side),
        }
        self.free_if_over(key);
        while self.heap.peek().is_some_and(|event| self.is_stale(event)) {
            self.heap.pop();
        }
    }

    /// Whether nothing can come of an event: its connection is gone, or its timer was stopped or set anew.
    fn is_stale(&self, event: &Event) -> bool {
        let conn = self.conns.get(event.key);
        conn.is_none_or(|conn| {
            matches!(event.what, What::Timer) && conn.ends[usize::from(event.side)].timer.at != event.at
        })
    }

    /// How many connections exist, established or not.
    #[cfg(test)]
    fn connections(&self) -> usize {
        self.conns.len()
    }

    /// Frees a connection that nobody can notice any more.
    fn free_if_over(&mut self, key: Key) {
        if !self.conns.get(key).is_some_and(Conn::is_over) {
            return;
        }
        if let Some(conn) = self.conns.remove(key) {
            let dialler = &conn.ends[conn::DIALLER];
            self.machines.get_mut(dialler.node).free_port(dialler.address.port());
        }
        if !self.holds.is_empty() {
            self.holds.retain(|_, held| {
                held.retain(|(of, _)| *of != key);
                !held.is_empty()
            });
        }
    }
}
