//! What leaves a machine: segments, FINs, bare segments, and acknowledgements.

use super::conn::{BARE_NUMBERS, Bare, Conn, FIN_NUMBER, State, Travelling};
use super::event::What;
use super::flow::{Fin, Segment};
use super::link::{NEVER, Ordinal};
use super::slab::Key;
use super::{Cx, Kernel};
use crate::trace::EventId;

impl Kernel {
    /// Sends what end `side` has written and may send: as far as the peer's window reaches, up to a held frame.
    pub(super) fn transmit(&mut self, cx: &mut Cx<'_>, key: Key, side: usize) {
        let Kernel { conns, links, .. } = self;
        let Some(conn) = conns.get_mut(key) else { return };
        let gone = conn.ends[side].state != State::Open;
        let flow = &mut conn.flows[side];
        let mut lost = false;
        let mut last_arrival = NEVER;
        while let Some(piece) = flow.take_piece(gone) {
            let ordinal = Ordinal { number: piece.number, part: piece.part, attempt: 0 };
            let mut arrives_at = links.fly(cx, flow.route, ordinal, piece.bytes);
            if arrives_at == NEVER {
                flow.lost += 1;
                lost = true;
            } else {
                arrives_at = arrives_at.saturating_add(piece.slow_ns);
                last_arrival = arrives_at;
            }
            flow.segments.push_back(Segment {
                bytes: piece.bytes,
                fin: false,
                part: piece.part,
                attempt: 0,
                number: piece.number,
                arrives_at,
                parent: piece.parent,
                label: piece.label,
            });
        }
        if flow.fin == Fin::Queued && flow.sent == flow.written {
            flow.fin = Fin::Sent;
            let ordinal = Ordinal { number: FIN_NUMBER, part: 0, attempt: 0 };
            let arrives_at = links.fly(cx, flow.route, ordinal, 0);
            lost |= arrives_at == NEVER;
            flow.lost += u32::from(arrives_at == NEVER);
            flow.segments.push_back(Segment {
                bytes: 0,
                fin: true,
                part: 0,
                attempt: 0,
                number: FIN_NUMBER,
                arrives_at,
                parent: flow.write,
                label: None,
            });
        }
        let blocked = flow.waits_for_window();
        let earlier_lost = flow.lost > 0 && last_arrival != NEVER;
        let rst = if flow.sent == flow.written { flow.rst_behind.take() } else { None };
        self.plan_delivery(key, side, cx.now);
        if let Some(parent) = rst {
            self.send_bare(cx, key, side, Bare::Rst, parent);
        }
        if lost {
            self.segments_lost(cx, key, side);
        }
        if earlier_lost {
            self.hurry(key, side, last_arrival);
        }
        if blocked {
            self.watch_acks(key, side, cx.now);
            self.watch_window(cx, key, side);
        }
    }

    /// Plans the delivery of the first segment of the flow of end `side`, unless an event comes by then.
    pub(super) fn plan_delivery(&mut self, key: Key, side: usize, now: u64) {
        let Some(conn) = self.conns.get_mut(key) else { return };
        let flow = &mut conn.flows[side];
        if let Some(first) = flow.segments.front()
            && first.arrives_at < flow.deliver_event_at
        {
            flow.deliver_event_at = first.arrives_at.max(now);
            self.heap.plan(flow.deliver_event_at, key, side, What::Deliver);
        }
    }

    /// Sends a bare segment from end `side`.
    pub(super) fn send_bare(&mut self, cx: &mut Cx<'_>, key: Key, side: usize, bare: Bare, parent: EventId) {
        let Kernel { conns, links, heap, .. } = self;
        let Some(conn) = conns.get_mut(key) else { return };
        let number = BARE_NUMBERS + u64::from(conn.bare_sent[side]);
        conn.bare_sent[side] += 1;
        let flow = &conn.flows[side];
        let mut arrives_at = links.fly(cx, flow.route, Ordinal { number, part: 0, attempt: 0 }, 0);
        if arrives_at == NEVER {
            self.bare_lost(cx, key);
            return;
        }
        // What left before a RST arrives before it.
        if bare == Bare::Rst {
            arrives_at = arrives_at.max(flow.last_arrival());
        }
        conn.bare.push(Travelling { bare, to: 1 - side, arrives_at, parent });
        heap.plan(arrives_at, key, 1 - side, What::Bare);
    }

    /// The receiver of the flow of end `side` acknowledges what it has received.
    pub(super) fn acknowledge(&mut self, cx: &mut Cx<'_>, key: Key, side: usize, cause: EventId) {
        let window = u64::from(self.config.receive_window_bytes);
        let Kernel { conns, links, .. } = self;
        let Some(conn) = conns.get_mut(key) else { return };
        if conn.ends[side].state != State::Open {
            // The sender's kernel does not know the socket (any more): it answers the acknowledgement with a RST.
            if !conn.is_being_reset(1 - side) {
                self.send_bare(cx, key, 1 - side, Bare::Probe, cause);
            }
            return;
        }
        let Conn { ends, flows, .. } = conn;
        let back = flows[1 - side].route;
        let flow = &mut flows[side];
        flow.acks_sent += 1;
        let arrives_at = links.fly_ack(cx, back, flow.acks_sent);
        if arrives_at == NEVER {
            self.arm(cx, key, side);
            return;
        }
        flow.tell(cx.now, arrives_at, window, ends[1 - side].eof, cause);
        if ends[side].writer.is_some() || flow.waits_for_window() {
            self.watch_acks(key, side, cx.now);
        }
    }

    /// The receiver of the flow of end `side` has read. It says so when the window it told was at most half open and has
    /// at least doubled (tcp_cleanup_rbuf).
    pub(super) fn tell_window(&mut self, cx: &mut Cx<'_>, key: Key, side: usize) {
        let window = u64::from(self.config.receive_window_bytes);
        let Some(conn) = self.conns.get(key) else { return };
        let flow = &conn.flows[side];
        let told = flow.told.saturating_sub(flow.received);
        let open = flow.window(window);
        if 2 * told <= window
            && open >= (2 * told).max(window / 16)
            && conn.ends[1 - side].state == State::Open
        {
            self.acknowledge(cx, key, side, cx.cause.get());
        }
    }

    /// End `side` wants to know of the next acknowledgement when it arrives, or at once of one that came unwatched.
    pub(super) fn watch_acks(&mut self, key: Key, side: usize, now: u64) {
        let Some(conn) = self.conns.get_mut(key) else { return };
        let flow = &mut conn.flows[side];
        if let Some(at) = flow.next_ack_at().map(|at| at.max(now))
            && at < flow.ack_event_at
        {
            flow.ack_event_at = at;
            self.heap.plan(at, key, side, What::Ack);
        }
    }

    /// Acknowledgements have arrived at end `side`: more may leave, and more may be written.
    pub(super) fn look_at_acks(&mut self, cx: &mut Cx<'_>, key: Key, side: usize) {
        let buffer = u64::from(self.config.send_buffer_bytes);
        let Some(conn) = self.conns.get_mut(key) else { return };
        let flow = &mut conn.flows[side];
        flow.ack_event_at = NEVER;
        flow.settle(cx.now);
        self.transmit(cx, key, side);
        let Some(conn) = self.conns.get_mut(key) else { return };
        let (end, flow) = (&mut conn.ends[side], &mut conn.flows[side]);
        // A third of the buffer must be free (sk_stream_is_writeable), or writers would be woken for every few bytes.
        let free = buffer.saturating_sub(flow.written.saturating_sub(flow.acked));
        let writer = if 3 * free >= buffer { end.writer.take() } else { None };
        let heard = flow.heard;
        if end.writer.is_some() || flow.waits_for_window() {
            self.watch_acks(key, side, cx.now);
        }
        cx.wake(writer, heard);
    }
}
