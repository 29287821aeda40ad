//! What arrives at a machine.

use super::conn::{Bare, DIALLED, State};
use super::link::NEVER;
use super::slab::Key;
use super::{Cx, Kernel};
use crate::trace::EventId;
use rt::observe::Value;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// What a kernel does with a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reception {
    Taken,
    /// Dropped without a word.
    Lost,
    /// Answered with a RST.
    Refused,
}

impl Kernel {
    /// Delivers what end `side` sent and is due, in order.
    pub(super) fn deliver(&mut self, cx: &mut Cx<'_>, key: Key, side: usize) {
        let Some(conn) = self.conns.get_mut(key) else { return };
        conn.flows[side].deliver_event_at = NEVER;
        self.deliver_due(cx, key, side);
        self.plan_delivery(key, side, cx.now);
    }

    /// As [`Kernel::deliver`], without planning what comes next.
    pub(super) fn deliver_due(&mut self, cx: &mut Cx<'_>, key: Key, side: usize) {
        loop {
            let Some(conn) = self.conns.get_mut(key) else { return };
            let Some(first) = conn.flows[side].segments.front() else { return };
            if first.arrives_at > cx.now {
                return;
            }
            let (bytes, parent) = (first.bytes, first.parent);
            match self.receive(cx, key, 1 - side, bytes, parent) {
                Reception::Taken => self.take(cx, key, side),
                Reception::Lost => {
                    self.drop_first(key, side);
                    return self.segments_lost(cx, key, side);
                }
                Reception::Refused => {
                    self.drop_first(key, side);
                    return self.refuse(cx, key, 1 - side, parent);
                }
            }
        }
    }

    /// Whether end `side` takes a segment of so many bytes.
    fn receive(&mut self, cx: &mut Cx<'_>, key: Key, side: usize, bytes: u32, parent: EventId) -> Reception {
        let Some(conn) = self.conns.get_mut(key) else { return Reception::Lost };
        let end = &mut conn.ends[side];
        let up = self.machines.get(end.node).up;
        match end.state {
            State::SynReceived => {
                if self.establish(cx, key, parent) {
                    Reception::Taken
                } else {
                    Reception::Lost
                }
            }
            State::Open if end.app || bytes == 0 => Reception::Taken,
            State::Open => {
                // Bytes for a socket that no process holds any more: the connection ends here (RFC 1122, 4.2.2.13).
                end.shut(None);
                conn.flows[side].abandon();
                Reception::Refused
            }
            State::SynSent => Reception::Lost,
            State::Closed if up => Reception::Refused,
            State::Closed => Reception::Lost,
        }
    }

    /// Puts the first segment of the flow of end `side` into the receive buffer.
    fn take(&mut self, cx: &mut Cx<'_>, key: Key, side: usize) {
        let Kernel { conns, machines, .. } = self;
        let Some(conn) = conns.get_mut(key) else { return };
        let (flow, end) = (&mut conn.flows[side], &mut conn.ends[1 - side]);
        let Some(segment) = flow.segments.pop_front() else { return };
        let bytes = u64::from(segment.bytes);
        let digest = digest(&flow.ring, flow.unread() as usize, segment.bytes as usize);
        flow.received += bytes;
        let id = ("conn", Value::U64(conn.id));
        let delivered = if let Some(label) = &segment.label {
            let from = ("from", Value::Str(&machines.get(flow.route.from).name));
            let fields = [("label", Value::Str(label)), from, ("digest", Value::U64(digest))];
            cx.story(end.node, segment.parent, "net.frame.delivered", &fields)
        } else if segment.fin {
            end.eof = true;
            cx.detail(end.node, segment.parent, "net.fin", &[id])
        } else {
            let fields = [id, ("bytes", Value::U64(bytes)), ("digest", Value::U64(digest))];
            cx.detail(end.node, segment.parent, "net.deliver", &fields)
        };
        let reader = end.reader.take();
        self.acknowledge(cx, key, side, delivered);
        cx.wake(reader, delivered);
    }

    /// The first segment of the flow of end `side` was not taken.
    fn drop_first(&mut self, key: Key, side: usize) {
        let Some(conn) = self.conns.get_mut(key) else { return };
        let flow = &mut conn.flows[side];
        if let Some(first) = flow.segments.front_mut() {
            first.arrives_at = NEVER;
            flow.lost += 1;
        }
        if conn.ends[side].state != State::Open {
            flow.abandon();
        }
    }

    /// A bare segment arrives at end `side`.
    pub(super) fn bare_arrived(&mut self, cx: &mut Cx<'_>, key: Key, side: usize) {
        let Some(conn) = self.conns.get_mut(key) else { return };
        let Some(arrived) = conn.take_arrived(side, cx.now) else { return };
        let end = &conn.ends[side];
        if !self.machines.get(end.node).up {
            return self.bare_lost(cx, key);
        }
        match arrived.bare {
            Bare::Syn => self.syn_arrived(cx, key, arrived.parent),
            Bare::SynAck => self.synack_arrived(cx, key, arrived.parent),
            Bare::Rst => self.rst_arrived(cx, key, side, arrived.parent),
            Bare::Ack | Bare::Probe => self.asked(cx, key, side, arrived.bare, arrived.parent),
        }
    }

    /// An acknowledgement of the handshake, or a probe, arrives at end `side`.
    fn asked(&mut self, cx: &mut Cx<'_>, key: Key, side: usize, bare: Bare, parent: EventId) {
        let Some(conn) = self.conns.get(key) else { return };
        match conn.ends[side].state {
            State::SynReceived if side == DIALLED => {
                if !self.establish(cx, key, parent) {
                    self.bare_lost(cx, key);
                }
            }
            State::Open if bare == Bare::Probe => self.acknowledge(cx, key, 1 - side, parent),
            State::Closed => self.refuse(cx, key, side, parent),
            State::Open | State::SynReceived | State::SynSent => {}
        }
    }
}

/// The digest of `len` bytes of `ring` from `start`.
fn digest(ring: &std::collections::VecDeque<u8>, start: usize, len: usize) -> u64 {
    let (first, second) = ring.as_slices();
    if start + len <= first.len() {
        return xxh3_64(&first[start..start + len]);
    }
    if start >= first.len() {
        let start = start - first.len();
        return xxh3_64(&second[start..start + len]);
    }
    let mut hash = Xxh3::new();
    hash.update(&first[start..]);
    hash.update(&second[..start + len - first.len()]);
    hash.digest()
}
