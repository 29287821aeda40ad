//! The three-way handshake, which kernels do by themselves: a connection is established while the listening process is
//! paused, or busy elsewhere.

use super::conn::{Bare, DIALLED, DIALLER, State};
use super::slab::Key;
use super::{Cx, Kernel};
use crate::trace::EventId;
use rt::observe::Value;

impl Kernel {
    /// The dialler sends a SYN.
    pub(super) fn send_syn(&mut self, cx: &mut Cx<'_>, key: Key, parent: EventId) {
        let Some(conn) = self.conns.get_mut(key) else { return };
        let timer = &mut conn.ends[DIALLER].timer;
        timer.handshake_at = cx.now + self.config.syn_wait_ns(timer.attempts);
        self.send_bare(cx, key, DIALLER, Bare::Syn, parent);
    }

    fn send_synack(&mut self, cx: &mut Cx<'_>, key: Key, parent: EventId) {
        let Some(conn) = self.conns.get_mut(key) else { return };
        let timer = &mut conn.ends[DIALLED].timer;
        timer.handshake_at = cx.now + self.config.synack_wait_ns(timer.attempts);
        self.send_bare(cx, key, DIALLED, Bare::SynAck, parent);
    }

    /// A SYN arrives at the dialled machine, which is up.
    pub(super) fn syn_arrived(&mut self, cx: &mut Cx<'_>, key: Key, parent: EventId) {
        let Some(conn) = self.conns.get(key) else { return };
        let end = &conn.ends[DIALLED];
        match end.state {
            // A repeated SYN: the answer to the first was lost.
            State::SynReceived | State::Open => return self.send_synack(cx, key, parent),
            State::SynSent => return,
            State::Closed => {}
        }
        let listener = self.machines.get(end.node).listeners.get(&end.address.port()).copied();
        let Some(listener) = listener else { return self.refuse(cx, key, DIALLED, parent) };
        let queued = self.listeners.get(listener).map_or(0, |listener| listener.queue.len());
        if queued > self.config.backlog as usize {
            // Dropped without a word: the dialler tries again.
            return self.bare_lost(cx, key);
        }
        let Some(conn) = self.conns.get_mut(key) else { return };
        conn.ends[DIALLED].state = State::SynReceived;
        conn.ends[DIALLED].timer.attempts = 0;
        conn.listener = Some(listener);
        self.send_synack(cx, key, parent);
    }

    /// A SYN-ACK arrives at the dialling machine, which is up.
    pub(super) fn synack_arrived(&mut self, cx: &mut Cx<'_>, key: Key, parent: EventId) {
        let Some(conn) = self.conns.get_mut(key) else { return };
        let end = &mut conn.ends[DIALLER];
        match end.state {
            State::SynSent => {
                end.state = State::Open;
                end.timer = super::conn::Timer::OFF;
                let writer = end.writer.take();
                let fields = [("conn", Value::U64(conn.id))];
                let connected = cx.detail(end.node, parent, "net.connected", &fields);
                self.send_bare(cx, key, DIALLER, Bare::Ack, connected);
                cx.wake(writer, connected);
            }
            State::Open => self.send_bare(cx, key, DIALLER, Bare::Ack, parent),
            State::SynReceived => {}
            State::Closed => self.refuse(cx, key, DIALLER, parent),
        }
    }

    /// The dialled end hears from the dialler, by whatever segment, and establishes the connection if there is room in
    /// the accept queue. Says whether it is established.
    pub(super) fn establish(&mut self, cx: &mut Cx<'_>, key: Key, parent: EventId) -> bool {
        let backlog = self.config.backlog as usize;
        let Some(conn) = self.conns.get_mut(key) else { return false };
        let end = &mut conn.ends[DIALLED];
        let Some(listener) = conn.listener.and_then(|listener| self.listeners.get_mut(listener)) else {
            // The listener it was meant for is gone, though there may be a new one on its port.
            end.shut(None);
            self.refuse(cx, key, DIALLED, parent);
            return false;
        };
        if listener.queue.len() > backlog {
            return false;
        }
        end.state = State::Open;
        end.app = true;
        end.timer = super::conn::Timer::OFF;
        let fields = [("conn", Value::U64(conn.id))];
        let established = cx.detail(end.node, parent, "net.established", &fields);
        listener.queue.push_back(key);
        let waker = listener.waker.take();
        cx.wake(waker, established);
        true
    }

    /// No answer to the SYN or SYN-ACK of end `side`: it goes out again, a bounded number of times.
    pub(super) fn handshake_timed_out(&mut self, cx: &mut Cx<'_>, key: Key, side: usize) {
        let Some(conn) = self.conns.get_mut(key) else { return };
        let end = &mut conn.ends[side];
        let retries = match side {
            DIALLER => self.config.syn_retries + self.config.syn_linear_timeouts,
            _ => self.config.synack_retries,
        };
        if end.timer.attempts >= retries {
            return self.give_up(cx, key, side);
        }
        end.timer.attempts += 1;
        let attempt = u64::from(end.timer.attempts);
        let fields = [("conn", Value::U64(conn.id)), ("attempt", Value::U64(attempt))];
        if side == DIALLER {
            let again = cx.detail(end.node, EventId::NONE, "net.retransmit.syn", &fields);
            self.send_syn(cx, key, again);
        } else {
            let again = cx.detail(end.node, EventId::NONE, "net.retransmit.synack", &fields);
            self.send_synack(cx, key, again);
        }
    }
}
