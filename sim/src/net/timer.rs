//! Retransmission (RFC 6298, with Linux's limits).
//!
//! A timer runs only when something was lost, or when its answer cannot come: as long as everything is on its way,
//! nothing would come of it. So every loss arms one.

use super::config::ms;
use super::conn::{Bare, DIALLED, DIALLER, State};
use super::event::What;
use super::link::{NEVER, Ordinal};
use super::slab::Key;
use super::{Cx, Kernel};
use crate::trace::{EventId, Weight};
use rt::observe::Value;
use std::io;

impl Kernel {
    /// Segments that end `side` sent are lost. They come again by its timer, if its kernel still knows the socket.
    pub(super) fn segments_lost(&mut self, cx: &mut Cx<'_>, key: Key, side: usize) {
        let Some(conn) = self.conns.get_mut(key) else { return };
        if conn.ends[side].state == State::Open {
            self.arm(cx, key, side);
        } else {
            conn.flows[side].abandon();
        }
    }

    /// A bare segment is lost: whoever waits for what it would have brought about tries again.
    pub(super) fn bare_lost(&mut self, cx: &mut Cx<'_>, key: Key) {
        for side in [DIALLER, DIALLED] {
            let Some(conn) = self.conns.get(key) else { return };
            let flow = &conn.flows[side];
            let waits = flow.lost > 0 || flow.acked < flow.acknowledgeable() || flow.waits_for_window();
            if conn.ends[side].state != State::Open || waits {
                self.arm(cx, key, side);
            }
        }
    }

    /// Sets the timer of end `side`, unless it runs already.
    pub(super) fn arm(&mut self, cx: &mut Cx<'_>, key: Key, side: usize) {
        let Kernel { conns, links, config, heap, .. } = self;
        let Some(conn) = conns.get_mut(key) else { return };
        let route = conn.flows[side].route;
        let end = &mut conn.ends[side];
        if end.timer.at != NEVER {
            return;
        }
        end.timer.at = match end.state {
            State::Closed => return,
            State::SynSent | State::SynReceived => end.timer.handshake_at.max(cx.now),
            State::Open => {
                let timeout_ns = ms(config.rto_min_ms) + links.round_trip_ns(route.from, route.to);
                cx.now + config.backoff_ns(timeout_ns, conn.flows[side].timeouts)
            }
        };
        end.timer.fast = false;
        heap.plan(end.timer.at, key, side, What::Timer);
    }

    /// A later segment arrives at `arrives_at` while an earlier one is missing: its acknowledgement says so, and the
    /// missing one is sent again without waiting for the timeout (RFC 8985).
    pub(super) fn hurry(&mut self, key: Key, side: usize, arrives_at: u64) {
        let Kernel { conns, links, heap, .. } = self;
        let Some(conn) = conns.get_mut(key) else { return };
        let route = conn.flows[side].route;
        let timer = &mut conn.ends[side].timer;
        let at = arrives_at + links.one_way_ns(route.to, route.from);
        if at < timer.at && !links.is_cut(route.to, route.from) {
            timer.at = at;
            timer.fast = true;
            heap.plan(at, key, side, What::Timer);
        }
    }

    /// End `side` waits for the peer's window. As long as both ways are open and the peer lives, news of it will come;
    /// otherwise only probes bring it, or the certainty that nobody is there.
    pub(super) fn watch_window(&mut self, cx: &mut Cx<'_>, key: Key, side: usize) {
        let Some(conn) = self.conns.get(key) else { return };
        let route = conn.flows[side].route;
        let cut = self.links.is_cut(route.from, route.to) || self.links.is_cut(route.to, route.from);
        if cut || conn.ends[1 - side].state != State::Open {
            self.arm(cx, key, side);
        }
    }

    /// The timer of end `side` fires.
    pub(super) fn timer_fired(&mut self, cx: &mut Cx<'_>, key: Key, side: usize) {
        let Some(conn) = self.conns.get_mut(key) else { return };
        let end = &mut conn.ends[side];
        if end.timer.at != cx.now {
            return;
        }
        end.timer.at = NEVER;
        match end.state {
            State::Closed => {}
            State::SynSent | State::SynReceived => self.handshake_timed_out(cx, key, side),
            State::Open => self.data_timed_out(cx, key, side),
        }
    }

    fn data_timed_out(&mut self, cx: &mut Cx<'_>, key: Key, side: usize) {
        let Some(conn) = self.conns.get_mut(key) else { return };
        let (end, flow) = (&mut conn.ends[side], &mut conn.flows[side]);
        flow.settle(cx.now);
        let on_its_way = flow.segments.len() > flow.lost as usize;
        let unanswered = flow.acked < flow.acknowledgeable() && !on_its_way && flow.next_ack_at().is_none();
        let fast = std::mem::take(&mut end.timer.fast);
        if flow.lost == 0 && !unanswered && !flow.waits_for_window() {
            return;
        }
        if !fast {
            let since = *flow.timeouts_since.get_or_insert(cx.now);
            let patience_ms =
                if end.app { self.config.user_timeout_ms } else { self.config.orphan_timeout_ms };
            if cx.now - since >= ms(patience_ms) {
                self.give_up(cx, key, side);
                return;
            }
            flow.timeouts += 1;
        }
        if flow.lost > 0 {
            self.send_again(cx, key, side);
        } else {
            let parent = flow.write;
            self.send_bare(cx, key, side, Bare::Probe, parent);
        }
    }

    /// Sends all lost segments of end `side` again.
    fn send_again(&mut self, cx: &mut Cx<'_>, key: Key, side: usize) {
        let Kernel { conns, links, .. } = self;
        let Some(conn) = conns.get_mut(key) else { return };
        let (id, flow) = (conn.id, &mut conn.flows[side]);
        let mut parent = EventId::NONE;
        let mut again = 0u64;
        flow.lost = 0;
        for segment in flow.segments.iter_mut().filter(|segment| segment.arrives_at == NEVER) {
            if again == 0 {
                parent = segment.parent;
            }
            again += 1;
            segment.attempt += 1;
            let ordinal = Ordinal { number: segment.number, part: segment.part, attempt: segment.attempt };
            segment.arrives_at = links.fly(cx, flow.route, ordinal, segment.bytes);
            flow.lost += u32::from(segment.arrives_at == NEVER);
        }
        let lost = flow.lost > 0;
        let fields = [("conn", Value::U64(id)), ("segments", Value::U64(again))];
        cx.detail(flow.route.from, parent, "net.retransmit", &fields);
        self.plan_delivery(key, side, cx.now);
        if lost {
            self.segments_lost(cx, key, side);
        }
    }

    /// End `side` has waited long enough: the socket fails, the peer hears nothing.
    pub(super) fn give_up(&mut self, cx: &mut Cx<'_>, key: Key, side: usize) {
        let Some(conn) = self.conns.get_mut(key) else { return };
        let peer = conn.ends[1 - side].node;
        let end = &mut conn.ends[side];
        end.shut(Some(io::ErrorKind::TimedOut));
        conn.flows[side].abandon();
        let fields = [("conn", Value::U64(conn.id)), ("to", Value::Str(&self.machines.get(peer).name))];
        let weight = if end.app { Weight::Story } else { Weight::Detail };
        let parent = conn.flows[side].write;
        let timeout = cx.trace.record(cx.now, end.node, parent, weight, "net.timeout", &fields);
        let (reader, writer) = (end.reader.take(), end.writer.take());
        cx.wake(reader, timeout);
        cx.wake(writer, timeout);
    }
}
