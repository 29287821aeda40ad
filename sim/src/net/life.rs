//! Trouble: processes and machines that crash, links that are cut, frames that are let go.

use super::conn::{Conn, DIALLED, DIALLER};
use super::link::Impairment;
use super::slab::Key;
use super::{Cx, Kernel, ListenerId, SocketId};
use crate::tap::HoldId;
use crate::trace::NodeId;
use rt::observe::Value;

impl Kernel {
    /// The process of `node` is gone; its kernel lives on and closes what it held.
    pub(crate) fn process_crashed(&mut self, cx: &mut Cx<'_>, node: NodeId) {
        let listeners: Vec<Key> = self.machines.get(node).listeners.values().copied().collect();
        for listener in listeners {
            self.unbind(cx, ListenerId(listener));
        }
        for (key, side) in self.ends_of(node) {
            self.close(cx, SocketId { key, side: side as u8 });
        }
    }

    /// The machine of `node` is gone, without a word to anyone. What had left it still arrives.
    pub(crate) fn machine_crashed(&mut self, cx: &mut Cx<'_>, node: NodeId) {
        let machine = self.machines.get_mut(node);
        machine.up = false;
        for listener in std::mem::take(&mut machine.listeners).into_values() {
            self.listeners.remove(listener);
        }
        for (key, side) in self.ends_of(node) {
            let Some(conn) = self.conns.get_mut(key) else { continue };
            let end = &mut conn.ends[side];
            end.shut(None);
            end.app = false;
            (end.reader, end.writer) = (None, None);
            conn.flows[1 - side].discard_unread();
            conn.flows[side].abandon();
            if conn.flows[1 - side].waits_for_window() {
                self.arm(cx, key, 1 - side);
            }
            self.free_if_over(key);
        }
    }

    /// The machine of `node` is up again, and knows nothing of what was before.
    pub(crate) fn machine_started(&mut self, _: &mut Cx<'_>, node: NodeId) {
        self.machines.get_mut(node).up = true;
    }

    /// Cuts the link: what is on it is lost, and so is what is sent until it is healed as often as it was cut.
    pub(crate) fn cut(&mut self, cx: &mut Cx<'_>, from: NodeId, to: NodeId) {
        self.links.cut(from, to);
        for (key, side) in self.ends_of(from) {
            let Some(conn) = self.conns.get_mut(key) else { continue };
            if conn.ends[1 - side].node != to {
                continue;
            }
            let Conn { flows, bare, .. } = conn;
            let segments = flows[side].lose_segments(cx.now);
            let acks = flows[1 - side].lose_acks(cx.now);
            let before = bare.len();
            bare.retain(|travelling| travelling.to == side || travelling.arrives_at <= cx.now);
            let bare = bare.len() < before;
            let blocked = [DIALLER, DIALLED].map(|end| flows[end].waits_for_window());
            if segments {
                self.segments_lost(cx, key, side);
            }
            if acks {
                self.arm(cx, key, 1 - side);
            }
            if bare {
                self.bare_lost(cx, key);
            }
            for end in [DIALLER, DIALLED] {
                if blocked[end] {
                    self.arm(cx, key, end);
                }
            }
            self.free_if_over(key);
        }
    }

    /// Heals one cut of the link. What was lost comes again when its sender's timer says so.
    pub(crate) fn heal(&mut self, from: NodeId, to: NodeId) {
        self.links.heal(from, to);
    }

    /// Lays an impairment on the link; it holds for what is sent from now on.
    pub(crate) fn worsen(&mut self, from: NodeId, to: NodeId, impairment: Impairment) {
        self.links.worsen(from, to, impairment);
    }

    /// Takes an impairment off the link again.
    pub(crate) fn mend(&mut self, from: NodeId, to: NodeId, impairment: Impairment) {
        self.links.mend(from, to, impairment);
    }

    /// Lets go every frame that `hold` holds, and what waits behind it.
    pub(crate) fn release(&mut self, cx: &mut Cx<'_>, hold: HoldId) {
        for (key, side) in self.holds.remove(&hold).unwrap_or_default() {
            let Some(conn) = self.conns.get_mut(key) else { continue };
            let Conn { ends, flows, .. } = conn;
            let Some(framing) = &mut flows[side].framing else { continue };
            let Some(frame) = framing.first_held_by(hold) else { continue };
            let to = ("to", Value::Str(&self.machines.get(ends[1 - side].node).name));
            let label = ("label", Value::Str(frame.label.as_deref().unwrap_or_default()));
            let fields = [label, to, ("hold", Value::U64(hold.0))];
            cx.story(ends[side].node, cx.cause.get(), "net.released", &fields);
            framing.release(hold);
            self.transmit(cx, key, side);
            self.free_if_over(key);
        }
    }

    /// The ends of all connections that are on `node`, in the order of their slots.
    fn ends_of(&self, node: NodeId) -> Vec<(Key, usize)> {
        let ends = self.conns.keys().into_iter().flat_map(|key| [(key, DIALLER), (key, DIALLED)]);
        let on_node = |(key, side): &(Key, usize)| {
            self.conns.get(*key).is_some_and(|conn| conn.ends[*side].node == node)
        };
        ends.filter(on_node).collect()
    }
}
