//! System calls on connected sockets, as Linux answers them (net/ipv4/tcp.c).
//!
//! An error of the connection is reported once, by whichever call comes first; after it reads see the end of file and
//! writes a broken pipe.

use super::conn::{Conn, DIALLED, DIALLER, End, State};
use super::flow::{Fin, Flow};
use super::frame::Gate;
use super::link::Route;
use super::slab::Key;
use super::{Cx, Kernel, SocketId};
use crate::tap::{FrameSeen, Verdict};
use crate::trace::NodeId;
use rt::observe::Value;
use std::io;
use std::net::SocketAddr;
use std::task::{Poll, Waker};
use tokio::io::ReadBuf;

impl Kernel {
    /// Begins to connect to `address` (`host:port`).
    ///
    /// # Errors
    /// Those of a malformed or unknown address, and `AddrNotAvailable` when no port is free. What becomes of the
    /// connection itself is for [`Kernel::poll_connect`] to say.
    pub(crate) fn connect(&mut self, cx: &mut Cx<'_>, node: NodeId, address: &str) -> io::Result<SocketId> {
        let (peer, port) = self.machines.resolve(node, address)?;
        let from = SocketAddr::from((self.machines.get(node).ip, self.machines.get_mut(node).take_port()?));
        let to = SocketAddr::from((self.machines.get(peer).ip, port));
        let dialled = self.links.dial(node, peer);
        let framed = self.framed_ports.contains(&port);
        let flow = |from, to, direction| {
            let (from_key, to_key) = (self.machines.get(from).key, self.machines.get(to).key);
            let entity = entity(from_key, to_key, dialled, direction);
            let route = Route { from, to, node_key: from_key, entity };
            Flow::new(route, self.config.receive_window_bytes.into(), framed)
        };
        let flows = [flow(node, peer, DIALLER), flow(peer, node, DIALLED)];
        let ends = [End::new(node, from, State::SynSent), End::new(peer, to, State::Closed)];
        let id = self.connected;
        self.connected += 1;
        let conn = Conn { id, ends, flows, bare: Vec::new(), bare_sent: [0; 2], listener: None };
        let key = self.conns.insert(conn);
        let name = &self.machines.get(peer).name;
        let fields = [("conn", Value::U64(id)), ("to", Value::Str(name)), ("port", Value::U64(port.into()))];
        let dialling = cx.detail(node, cx.cause.get(), "net.connect", &fields);
        self.send_syn(cx, key, dialling);
        Ok(SocketId { key, side: DIALLER as u8 })
    }

    /// Waits until the connection is established.
    ///
    /// # Errors
    /// `ConnectionRefused`, `TimedOut`.
    pub(crate) fn poll_connect(
        &mut self,
        _: &mut Cx<'_>,
        socket: SocketId,
        waker: &Waker,
    ) -> Poll<io::Result<()>> {
        let Some((conn, side)) = self.held(socket) else { return not_connected() };
        let end = &mut conn.ends[side];
        match (end.state, end.error.take()) {
            (_, Some(error)) => Poll::Ready(Err(error.into())),
            (State::Open, None) => Poll::Ready(Ok(())),
            (State::SynSent | State::SynReceived, None) => {
                end.writer = Some(waker.clone());
                Poll::Pending
            }
            (State::Closed, None) => not_connected(),
        }
    }

    /// Reads what was received; no bytes at the end of the file.
    ///
    /// # Errors
    /// `ConnectionReset`, `BrokenPipe` (reset after the peer's FIN), `TimedOut`: once, after the bytes received before.
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Cx<'_>,
        socket: SocketId,
        buf: &mut ReadBuf<'_>,
        waker: &Waker,
    ) -> Poll<io::Result<()>> {
        let Some((conn, side)) = self.held(socket) else { return not_connected() };
        let Conn { ends, flows, .. } = conn;
        let (end, flow) = (&mut ends[side], &mut flows[1 - side]);
        if flow.unread() == 0 {
            // Linux looks at the FIN before the error (SOCK_DONE before sk_err).
            if end.eof {
                return Poll::Ready(Ok(()));
            }
            if let Some(error) = end.error.take() {
                return Poll::Ready(Err(error.into()));
            }
            return match end.state {
                State::Closed => Poll::Ready(Ok(())),
                State::SynSent | State::SynReceived => not_connected(),
                State::Open => {
                    set_waker(&mut end.reader, waker);
                    Poll::Pending
                }
            };
        }
        let (first, second) = flow.ring.as_slices();
        let wanted = (buf.remaining() as u64).min(flow.unread()) as usize;
        let split = wanted.min(first.len());
        buf.put_slice(&first[..split]);
        buf.put_slice(&second[..wanted - split]);
        flow.ring.drain(..wanted);
        flow.read += wanted as u64;
        self.tell_window(cx, socket.key, 1 - side);
        Poll::Ready(Ok(()))
    }

    /// Takes as many of `bytes` as the send buffer has room for.
    ///
    /// # Errors
    /// `ConnectionReset`, `TimedOut`: once; `BrokenPipe` after that and after a shutdown.
    pub(crate) fn poll_write(
        &mut self,
        cx: &mut Cx<'_>,
        socket: SocketId,
        bytes: &[u8],
        waker: &Waker,
    ) -> Poll<io::Result<usize>> {
        let room_bytes = u64::from(self.config.send_buffer_bytes);
        let Some((conn, side)) = self.held(socket) else { return not_connected() };
        let (end, flow) = (&mut conn.ends[side], &mut conn.flows[side]);
        if let Some(error) = end.error.take() {
            return Poll::Ready(Err(error.into()));
        }
        match end.state {
            State::Open if flow.fin == Fin::No => {}
            State::SynSent | State::SynReceived => return not_connected(),
            State::Open | State::Closed => return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        }
        if flow.written - flow.acked + bytes.len() as u64 > room_bytes {
            flow.settle(cx.now);
        }
        let room = room_bytes.saturating_sub(flow.written - flow.acked);
        if room == 0 && !bytes.is_empty() {
            set_waker(&mut end.writer, waker);
            self.watch_acks(socket.key, side, cx.now);
            return Poll::Pending;
        }
        let taken = room.min(bytes.len() as u64) as usize;
        let position = flow.written;
        flow.ring.extend(&bytes[..taken]);
        flow.written += taken as u64;
        flow.write = cx.cause.get();
        if flow.framing.is_some() && self.see_frames(cx, socket, &bytes[..taken], position) {
            return Poll::Ready(Ok(taken));
        }
        self.transmit(cx, socket.key, side);
        Poll::Ready(Ok(taken))
    }

    /// Asks the tap about each frame whose header ends in `bytes`; says whether it reset the connection.
    fn see_frames(&mut self, cx: &mut Cx<'_>, socket: SocketId, bytes: &[u8], mut position: u64) -> bool {
        let Kernel { conns, machines, holds, .. } = self;
        let side = usize::from(socket.side);
        let Some(conn) = conns.get_mut(socket.key) else { return false };
        let (from, to) = (conn.ends[side].node, conn.ends[1 - side].node);
        let Some(framing) = &mut conn.flows[side].framing else { return false };
        let mut rest = bytes;
        while !rest.is_empty() {
            let (read, complete) = framing.scan(rest, position);
            position += read as u64;
            rest = &rest[read..];
            let Some(frame) = framing.frames.back_mut().filter(|_| complete) else { continue };
            frame.sent = cx.cause.get();
            let label = frame.label.as_deref().unwrap_or_default();
            let said = [("label", Value::Str(label)), ("to", Value::Str(&machines.get(to).name))];
            if !label.is_empty() {
                let size = ("size", Value::U64(frame.end - frame.start));
                frame.sent = cx.story(from, frame.sent, "net.frame", &[said[0], said[1], size]);
            }
            match (cx.tap)(&FrameSeen { label, from, to }) {
                Verdict::Pass => {}
                Verdict::Delay(ns) => {
                    let by = ("by_ns", Value::U64(ns));
                    cx.story(from, frame.sent, "net.delayed", &[said[0], said[1], by]);
                    frame.gate = Gate::Slow(ns);
                }
                Verdict::Hold(hold) => {
                    let by = ("hold", Value::U64(hold.0));
                    cx.story(from, frame.sent, "net.held", &[said[0], said[1], by]);
                    frame.gate = Gate::Held(hold);
                    holds.entry(hold).or_default().push((socket.key, side));
                }
                Verdict::Reset => {
                    let reset = cx.story(from, frame.sent, "net.reset", &said);
                    self.break_off(cx, socket.key, reset);
                    return true;
                }
            }
        }
        false
    }

    /// Ends the write direction: the peer reads the end of the file after the bytes written so far.
    ///
    /// # Errors
    /// `NotConnected` if the connection is not yet established, or gone: reset, or ended by both sides.
    pub(crate) fn shutdown(&mut self, cx: &mut Cx<'_>, socket: SocketId) -> io::Result<()> {
        let (conn, side) = self.held(socket).ok_or(io::ErrorKind::NotConnected)?;
        let (end, flow) = (&conn.ends[side], &mut conn.flows[side]);
        flow.settle(cx.now);
        let ended = end.eof && flow.fin == Fin::Sent && flow.acked == flow.acknowledgeable();
        if end.state != State::Open || ended {
            return Err(io::ErrorKind::NotConnected.into());
        }
        self.end_writing(cx, socket.key, side);
        Ok(())
    }

    /// The process lets go of the socket. Bytes written still go out, then FIN; if bytes are left unread the connection
    /// is reset instead (RFC 2525, 2.17). Does nothing for a socket that is closed already.
    pub(crate) fn close(&mut self, cx: &mut Cx<'_>, socket: SocketId) {
        let Some((conn, side)) = self.held(socket) else { return };
        let (end, unread) = (&mut conn.ends[side], conn.flows[1 - side].unread());
        end.app = false;
        (end.reader, end.writer) = (None, None);
        match end.state {
            State::Open if unread > 0 => self.abort(cx, socket.key, side),
            State::Open => self.end_writing(cx, socket.key, side),
            _ => end.shut(None),
        }
        self.free_if_over(socket.key);
    }

    /// Names the next frame to be written. Does nothing on a connection without frames.
    pub(crate) fn label(&mut self, socket: SocketId, label: String) {
        if let Some((conn, side)) = self.held(socket)
            && let Some(framing) = &mut conn.flows[side].framing
        {
            framing.label(label);
        }
    }

    /// This end's address.
    pub(crate) fn local_addr(&self, socket: SocketId) -> io::Result<SocketAddr> {
        self.addr(socket, usize::from(socket.side))
    }

    /// The other end's address.
    pub(crate) fn peer_addr(&self, socket: SocketId) -> io::Result<SocketAddr> {
        self.addr(socket, 1 - usize::from(socket.side))
    }

    fn addr(&self, socket: SocketId, side: usize) -> io::Result<SocketAddr> {
        let conn = self.conns.get(socket.key).ok_or(io::ErrorKind::NotConnected)?;
        Ok(conn.ends[side].address)
    }

    /// The connection of a socket that a process still holds.
    fn held(&mut self, socket: SocketId) -> Option<(&mut Conn, usize)> {
        let side = usize::from(socket.side);
        let conn = self.conns.get_mut(socket.key)?;
        conn.ends[side].app.then_some((conn, side))
    }

    /// Queues the FIN, unless that was done.
    fn end_writing(&mut self, cx: &mut Cx<'_>, key: Key, side: usize) {
        let Some(flow) = self.conns.get_mut(key).map(|conn| &mut conn.flows[side]) else { return };
        if flow.fin != Fin::No {
            return;
        }
        flow.fin = Fin::Queued;
        flow.write = cx.cause.get();
        if let Some(framing) = &mut flow.framing {
            framing.finish(flow.written);
        }
        self.transmit(cx, key, side);
    }
}

/// Who draws for one direction of one connection: the machines' names, the connection's place among those that the one
/// dialled to the other, and the direction.
fn entity(from_key: u64, to_key: u64, dialled: u64, direction: usize) -> u64 {
    let mut name = [0u8; 25];
    name[..8].copy_from_slice(&from_key.to_le_bytes());
    name[8..16].copy_from_slice(&to_key.to_le_bytes());
    name[16..24].copy_from_slice(&dialled.to_le_bytes());
    name[24] = direction as u8;
    rt::choice::stable_hash(&name)
}

fn not_connected<T>() -> Poll<io::Result<T>> {
    Poll::Ready(Err(io::ErrorKind::NotConnected.into()))
}

fn set_waker(slot: &mut Option<Waker>, waker: &Waker) {
    match slot {
        Some(current) if current.will_wake(waker) => {}
        _ => *slot = Some(waker.clone()),
    }
}
