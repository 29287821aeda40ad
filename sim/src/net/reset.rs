//! Ends that are not orderly: RST sent, received, and injected.

use super::conn::{Bare, Conn, DIALLED, DIALLER, State};
use super::flow::Fin;
use super::link::NEVER;
use super::slab::Key;
use super::{Cx, Kernel};
use crate::trace::EventId;
use rt::observe::Value;
use std::io;

impl Kernel {
    /// End `side` sends a RST, behind what is held in its direction; one at a time is enough.
    pub(super) fn refuse(&mut self, cx: &mut Cx<'_>, key: Key, side: usize, parent: EventId) {
        let Some(conn) = self.conns.get_mut(key) else { return };
        let flow = &mut conn.flows[side];
        if flow.holds() {
            flow.rst_behind.get_or_insert(parent);
        } else if !conn.is_being_reset(1 - side) {
            self.send_bare(cx, key, side, Bare::Rst, parent);
        }
    }

    /// End `side` is closed with bytes unread, or nobody accepted it: the peer gets a RST, after what has left and after
    /// what is held.
    pub(super) fn abort(&mut self, cx: &mut Cx<'_>, key: Key, side: usize) {
        let Some(conn) = self.conns.get_mut(key) else { return };
        let Conn { id, ends, flows, .. } = conn;
        let end = &mut ends[side];
        end.app = false;
        if end.state == State::Closed {
            return;
        }
        end.shut(None);
        flows[1 - side].discard_unread();
        flows[side].abandon();
        let aborted = cx.detail(end.node, cx.cause.get(), "net.abort", &[("conn", Value::U64(*id))]);
        self.refuse(cx, key, side, aborted);
    }

    /// A RST arrives at end `side`.
    pub(super) fn rst_arrived(&mut self, cx: &mut Cx<'_>, key: Key, side: usize, parent: EventId) {
        self.deliver_due(cx, key, 1 - side);
        let Some(conn) = self.conns.get_mut(key) else { return };
        let node = conn.ends[side].node;
        let from = ("from", Value::Str(&self.machines.get(conn.ends[1 - side].node).name));
        let fields = [("conn", Value::U64(conn.id)), from];
        let reset = match conn.ends[side].state {
            State::Closed => return,
            State::SynSent => cx.story(node, parent, "net.refused", &fields),
            State::SynReceived => cx.detail(node, parent, "net.reset", &fields),
            State::Open => cx.story(node, parent, "net.reset", &fields),
        };
        // tcp_reset: which error depends on the state.
        let error = match conn.ends[side].state {
            State::SynSent => io::ErrorKind::ConnectionRefused,
            _ if conn.ends[side].eof && conn.flows[side].fin == Fin::No => io::ErrorKind::BrokenPipe,
            _ => io::ErrorKind::ConnectionReset,
        };
        self.end_at_once(cx, key, side, error, reset);
    }

    /// The network resets the connection at both ends.
    pub(super) fn break_off(&mut self, cx: &mut Cx<'_>, key: Key, reset: EventId) {
        for side in [DIALLER, DIALLED] {
            self.end_at_once(cx, key, side, io::ErrorKind::ConnectionReset, reset);
        }
        self.free_if_over(key);
    }

    fn end_at_once(&mut self, cx: &mut Cx<'_>, key: Key, side: usize, error: io::ErrorKind, reset: EventId) {
        let Some(conn) = self.conns.get_mut(key) else { return };
        let Conn { ends, flows, .. } = conn;
        let end = &mut ends[side];
        if end.state == State::Closed {
            return;
        }
        end.shut(Some(error));
        for flow in flows.iter_mut() {
            flow.clear();
            flow.deliver_event_at = NEVER;
        }
        let (reader, writer) = (end.reader.take(), end.writer.take());
        cx.wake(reader, reset);
        cx.wake(writer, reset);
    }
}
