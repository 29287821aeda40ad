//! The real host: tokio, real TCP, the machine's clocks and entropy.
#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "the one place that meets the real world"
)]

use crate::host::{BoxFuture, Host, Listener, Stream};
use crate::observe::{Event, Kind};
use crate::time::Instant;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::{Duration, SystemTime};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

/// Serves every thread on which no other host was entered.
pub(crate) struct Tokio;

/// The origin of [`Instant`]: the first time anybody asked.
fn origin() -> tokio::time::Instant {
    static ORIGIN: OnceLock<tokio::time::Instant> = OnceLock::new();
    *ORIGIN.get_or_init(tokio::time::Instant::now)
}

impl Host for Tokio {
    fn spawn(&self, _name: &'static str, task: BoxFuture<()>) {
        tokio::spawn(task);
    }

    fn now(&self) -> Instant {
        Instant::from_nanos(origin().elapsed().as_nanos() as u64)
    }

    fn wall(&self) -> Duration {
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
    }

    fn sleep_until(&self, deadline: Instant) -> BoxFuture<()> {
        Box::pin(tokio::time::sleep_until(origin() + Duration::from_nanos(deadline.as_nanos())))
    }

    fn bind(&self, addr: &str) -> BoxFuture<io::Result<Box<dyn Listener>>> {
        let addr = addr.to_string();
        Box::pin(async move {
            let listener = tokio::net::TcpListener::bind(addr).await?;
            Ok(Box::new(RealListener(listener)) as Box<dyn Listener>)
        })
    }

    fn connect(&self, addr: &str) -> BoxFuture<io::Result<Arc<dyn Stream>>> {
        let addr = addr.to_string();
        Box::pin(async move { RealStream::wrap(tokio::net::TcpStream::connect(addr).await?) })
    }

    fn draw(&self, _name: &'static str, _entity: u64, _ordinal: u64) -> u64 {
        getrandom::u64().expect("the machine has entropy")
    }

    fn preempt(&self, _point: &'static str) -> Option<BoxFuture<()>> {
        None
    }

    fn stop_requested(&self) -> BoxFuture<()> {
        Box::pin(std::future::pending())
    }

    fn listens(&self) -> bool {
        tracing::enabled!(target: "wavetank", tracing::Level::DEBUG)
    }

    fn observe(&self, event: &Event<'_>) {
        match event.kind {
            Kind::Always(false) => tracing::error!(target: "wavetank", name = event.name, "claim broken"),
            _ => tracing::debug!(target: "wavetank", name = event.name, fields = ?event.fields),
        }
    }
}

struct RealListener(tokio::net::TcpListener);

impl Listener for RealListener {
    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<Arc<dyn Stream>>> {
        let (stream, _) = ready!(self.0.poll_accept(cx))?;
        Poll::Ready(RealStream::wrap(stream))
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

/// Each half under its own lock, held only inside a poll, so that reader and writer never wait for each other.
struct RealStream {
    read: Mutex<OwnedReadHalf>,
    /// There until the socket is dropped.
    write: Mutex<Option<OwnedWriteHalf>>,
}

impl Drop for RealStream {
    fn drop(&mut self) {
        // Dropped as it is, tokio's half would shut the socket down first, and a close with unread bytes would be an
        // end of file to the peer before it is a reset.
        let write = self.write.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        write.expect(UNTIL_DROPPED).forget();
    }
}

const UNTIL_DROPPED: &str = "the half is there until the socket is dropped";

impl RealStream {
    fn wrap(stream: tokio::net::TcpStream) -> io::Result<Arc<dyn Stream>> {
        stream.set_nodelay(true)?;
        let (read, write) = stream.into_split();
        Ok(Arc::new(RealStream { read: Mutex::new(read), write: Mutex::new(Some(write)) }))
    }

    fn reader(&self) -> MutexGuard<'_, OwnedReadHalf> {
        self.read.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Does something with the write half.
    fn write<T>(&self, f: impl FnOnce(Pin<&mut OwnedWriteHalf>) -> T) -> T {
        let mut write = self.write.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        f(Pin::new(write.as_mut().expect(UNTIL_DROPPED)))
    }
}

impl Stream for RealStream {
    fn poll_read(&self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.reader()).poll_read(cx, buf)
    }

    fn poll_write(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.write(|write| write.poll_write(cx, bytes))
    }

    fn poll_shutdown(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.write(|write| write.poll_shutdown(cx))
    }

    fn label(&self, _label: String) {}

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.reader().local_addr()
    }

    fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.reader().peer_addr()
    }
}
