//! System calls on listening sockets. The kernel completes handshakes and queues connections by itself
//! ([`super::handshake`]); `accept` only takes what is queued.

use super::conn::DIALLED;
use super::slab::Key;
use super::{Cx, Kernel, ListenerId, SocketId};
use crate::trace::NodeId;
use rt::observe::Value;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::task::{Poll, Waker};

/// A listening socket.
pub(super) struct Listener {
    pub(super) node: NodeId,
    pub(super) address: SocketAddr,
    /// Established connections that nobody has accepted yet.
    pub(super) queue: VecDeque<Key>,
    pub(super) waker: Option<Waker>,
}

impl Kernel {
    /// Listens on `address` (`host:port`; port 0 takes a free one) of the machine of `node`.
    ///
    /// # Errors
    /// `AddrInUse`; `AddrNotAvailable` for the address of another machine; those of a malformed or unknown address.
    pub(crate) fn bind(&mut self, cx: &mut Cx<'_>, node: NodeId, address: &str) -> io::Result<ListenerId> {
        let (host, mut port) = self.machines.resolve(node, address)?;
        if host != node {
            return Err(io::ErrorKind::AddrNotAvailable.into());
        }
        let machine = self.machines.get_mut(node);
        if port == 0 {
            port = machine.take_port()?;
            machine.free_port(port);
        }
        if machine.listeners.contains_key(&port) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        let address = SocketAddr::from((machine.ip, port));
        let key = self.listeners.insert(Listener { node, address, queue: VecDeque::new(), waker: None });
        self.machines.get_mut(node).listeners.insert(port, key);
        cx.detail(node, cx.cause.get(), "net.listen", &[("port", Value::U64(port.into()))]);
        Ok(ListenerId(key))
    }

    /// Closes a listening socket: connections that nobody accepted are reset.
    pub(crate) fn unbind(&mut self, cx: &mut Cx<'_>, listener: ListenerId) {
        let Some(listener) = self.listeners.remove(listener.0) else { return };
        self.machines.get_mut(listener.node).listeners.remove(&listener.address.port());
        for key in listener.queue {
            self.abort(cx, key, DIALLED);
            self.free_if_over(key);
        }
    }

    /// Takes the next connection from the accept queue. It may have been reset since: reading tells.
    ///
    /// # Errors
    /// `InvalidInput` if the listener is closed (`EINVAL`).
    pub(crate) fn poll_accept(
        &mut self,
        cx: &mut Cx<'_>,
        listener: ListenerId,
        waker: &Waker,
    ) -> Poll<io::Result<SocketId>> {
        let Some(listener) = self.listeners.get_mut(listener.0) else {
            return Poll::Ready(Err(io::ErrorKind::InvalidInput.into()));
        };
        let Some(key) = listener.queue.pop_front() else {
            listener.waker = Some(waker.clone());
            return Poll::Pending;
        };
        let id = self.conns.get(key).map_or(0, |conn| conn.id);
        cx.detail(listener.node, cx.cause.get(), "net.accepted", &[("conn", Value::U64(id))]);
        Poll::Ready(Ok(SocketId { key, side: DIALLED as u8 }))
    }

    /// The address a listener is bound to.
    pub(crate) fn listener_addr(&self, listener: ListenerId) -> io::Result<SocketAddr> {
        let listener = self.listeners.get(listener.0).ok_or(io::ErrorKind::NotConnected)?;
        Ok(listener.address)
    }
}
