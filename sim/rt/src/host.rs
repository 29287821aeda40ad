//! What a host offers, and which one serves this thread.
//!
//! There are two: the real one (tokio, in this crate) and the simulated one (`sim`).

use crate::observe::Event;
use crate::time::Instant;
use std::cell::Cell;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::ReadBuf;

/// A boxed future that may move between threads, as the real host needs.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The world as a program sees it: tasks, clocks, sockets, chance, and somebody who may be watching.
pub trait Host: Sync {
    /// Starts `task`. `name` is its kind, such as `"agent.connection"`; many tasks may share it.
    fn spawn(&self, name: &'static str, task: BoxFuture<()>);
    /// Monotonic time. It goes on while the process is paused.
    fn now(&self) -> Instant;
    /// Time since the Unix epoch by this node's own clock, which may be wrong and may jump.
    fn wall(&self) -> Duration;
    /// Completes at `deadline`; dropping it cancels the timer.
    fn sleep_until(&self, deadline: Instant) -> BoxFuture<()>;
    /// Listens on `addr` (`host:port`).
    fn bind(&self, addr: &str) -> BoxFuture<io::Result<Box<dyn Listener>>>;
    /// Connects to `addr` (`host:port`), resolving the name.
    fn connect(&self, addr: &str) -> BoxFuture<io::Result<Arc<dyn Stream>>>;
    /// A uniform draw for one choice point. In the tank a pure function of the seed and the arguments.
    fn draw(&self, name: &'static str, entity: u64, ordinal: u64) -> u64;
    /// Some future to wait for if the process is to be held up at `point`.
    fn preempt(&self, point: &'static str) -> Option<BoxFuture<()>>;
    /// Completes when this process is asked to end in order, at once if it was before.
    fn stop_requested(&self) -> BoxFuture<()>;
    /// Whether [`Host::observe`] has a listener now. Callers skip building events when it has none.
    fn listens(&self) -> bool;
    /// Tells the listener what happened.
    fn observe(&self, event: &Event<'_>);
}

/// A listening socket.
pub trait Listener: Send + Sync {
    /// Takes the next connection from the accept queue.
    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<Arc<dyn Stream>>>;
    /// The address it is bound to.
    fn local_addr(&self) -> io::Result<SocketAddr>;
}

/// A connected socket. Methods take `&self`: the two halves of a stream share it. Dropping the last reference closes
/// the socket.
pub trait Stream: Send + Sync {
    /// As [`tokio::io::AsyncRead::poll_read`].
    fn poll_read(&self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>>;
    /// As [`tokio::io::AsyncWrite::poll_write`].
    fn poll_write(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>>;
    /// Ends the write direction; the peer reads end-of-file after the bytes written so far.
    fn poll_shutdown(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;
    /// Names the next frame written. Called only while [`Host::listens`].
    fn label(&self, label: String);
    /// This end's address.
    fn local_addr(&self) -> io::Result<SocketAddr>;
    /// The other end's address.
    fn peer_addr(&self) -> io::Result<SocketAddr>;
}

thread_local! {
    static CURRENT: Cell<Option<&'static dyn Host>> = const { Cell::new(None) };
}

/// Makes `host` serve this thread until the guard is dropped. Without one, the real host serves.
pub fn enter(host: &'static dyn Host) -> Entered {
    Entered { before: CURRENT.replace(Some(host)) }
}

/// Restores the previous host when dropped.
#[must_use = "the host serves only while the guard lives"]
pub struct Entered {
    before: Option<&'static dyn Host>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(self.before);
    }
}

/// The host that serves this thread.
pub fn current() -> &'static dyn Host {
    CURRENT.get().unwrap_or(&crate::real::Tokio)
}
