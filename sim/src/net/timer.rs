//! Retransmission (RFC 6298, with Linux's limits).
//!
//! A timer runs only when something was lost, or when its answer cannot come: as long as everything is on its way,
//! nothing would come of it. So every loss arms one. The first time it is a tail loss probe (RFC 8985, section 7), which
//! sends again and counts as no timeout.

use super::config::ms;
use super::conn::{Bare, DIALLED, DIALLER, State};
use super::event::What;
use super::link::{NEVER, Ordinal};
use super::slab::Key;
use super::{Cx, Kernel};
use crate::trace::{EventId, Weight};
use rt::observe::Value;
use std::io;

/// How many probes of a closed window may stay unanswered: Linux counts them (tcp_probe_timer), by the number of
/// retries of which it makes `patience_ms` (tcp_model_timeout).
fn probes_max(patience_ms: u64) -> u32 {
    let mut left_ms = patience_ms;
    for doublings in 0..LINUX_RTO_DOUBLINGS {
        let wait_ms = LINUX_RTO_MIN_MS << doublings;
        if left_ms <= wait_ms {
            return doublings;
        }
        left_ms -= wait_ms;
    }
    let longest = left_ms.div_ceil(LINUX_RTO_MAX_MS) - 1;
    LINUX_RTO_DOUBLINGS.saturating_add(longest.try_into().unwrap_or(u32::MAX))
}

const LINUX_RTO_MIN_MS: u64 = 200;
const LINUX_RTO_MAX_MS: u64 = 120_000;
/// Waits of the least timeout, doubled, that are shorter than the greatest.
const LINUX_RTO_DOUBLINGS: u32 = 10;

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
        let (end, flow) = (&mut conn.ends[side], &conn.flows[side]);
        let probes_tail = end.state == State::Open && flow.may_probe_tail();
        // A second packet behind the first brings a tail loss probe forward; nothing else moves a timer that runs.
        if end.timer.at != NEVER && !(end.timer.probe && probes_tail) {
            return;
        }
        let round_trip_ns = links.round_trip_ns(flow.route.from, flow.route.to);
        let timeout_ns = ms(config.rto_min_ms) + round_trip_ns;
        let at = match end.state {
            State::Closed => return,
            State::SynSent | State::SynReceived => end.timer.handshake_at.max(cx.now),
            State::Open if probes_tail && flow.packets_out() > 1 => cx.now + 2 * round_trip_ns,
            State::Open => cx.now + config.backoff_ns(timeout_ns, flow.timeouts),
        };
        if at < end.timer.at {
            (end.timer.at, end.timer.fast, end.timer.probe) = (at, false, probes_tail);
            heap.plan(at, key, side, What::Timer);
        }
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
            (timer.fast, timer.probe) = (true, false);
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
        let probe = std::mem::take(&mut end.timer.probe);
        if flow.lost == 0 && !unanswered && !flow.waits_for_window() {
            return;
        }
        flow.tail_probed |= probe;
        if !fast && !probe {
            let since = *flow.timeouts_since.get_or_insert(cx.now);
            let patience_ms =
                if end.app { self.config.user_timeout_ms } else { self.config.orphan_timeout_ms };
            let persists = flow.lost == 0 && !unanswered;
            let over = if persists {
                flow.timeouts >= probes_max(patience_ms)
            } else {
                cx.now - since >= ms(patience_ms)
            };
            if over {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_are_counted_as_retries_are() {
        // tcp_retries2 and tcp_orphan_retries by default, and the former as 3.
        assert_eq!([924_600, 102_200, 3_000].map(probes_max), [15, 8, 3]);
        assert_eq!([0, 200, 201, 600, 601, u64::MAX].map(probes_max), [0, 0, 1, 1, 2, u32::MAX]);
    }
}
