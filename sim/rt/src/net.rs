//! TCP, length-prefixed frames and their labels.
//!
//! Kafka's wire and the fakes' private wires are both sequences of frames: four bytes of big-endian length, then that
//! many bytes. A frame written with [`TcpStream::write_frame`] carries a label, made by the layer that understands it,
//! by which a scenario can catch it ("EndTxn commit txn=2"). Labels do not travel: they are for whoever is watching.

pub use crate::frame_writer::FrameWriter;
use crate::host::{self, Listener, Stream};
use crate::observe;
use bytes::{Bytes, BytesMut};
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

/// A listening socket.
pub struct TcpListener(Box<dyn Listener>);

impl TcpListener {
    /// Listens on `addr` (`host:port`; port 0 lets the host choose).
    pub async fn bind(addr: &str) -> io::Result<Self> {
        host::current().bind(addr).await.map(TcpListener)
    }

    /// Waits for the next connection.
    pub async fn accept(&self) -> io::Result<TcpStream> {
        poll_fn(|cx| self.0.poll_accept(cx)).await.map(TcpStream)
    }

    /// The address it is bound to.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

/// A connected socket. Dropping it closes the socket; bytes already written still go out.
pub struct TcpStream(Arc<dyn Stream>);

impl TcpStream {
    /// Connects to `addr` (`host:port`). Waits as long as the kernel does: bound it with [`crate::time::timeout`].
    pub async fn connect(addr: &str) -> io::Result<Self> {
        host::current().connect(addr).await.map(TcpStream)
    }

    /// Writes one whole frame (length prefix included) under a label; `label` runs only if somebody listens.
    pub async fn write_frame(&mut self, frame: &[u8], label: impl FnOnce() -> String) -> io::Result<()> {
        write_frame(&self.0, frame, label).await
    }

    /// This end's address.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// The other end's address.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.0.peer_addr()
    }

    /// Splits into halves that different tasks may own. Dropping the write half ends the write direction; the socket
    /// closes when both are gone.
    pub fn into_split(self) -> (ReadHalf, WriteHalf) {
        (ReadHalf(self.0.clone()), WriteHalf(self.0))
    }
}

/// The reading half of a [`TcpStream`].
pub struct ReadHalf(Arc<dyn Stream>);

/// The writing half of a [`TcpStream`].
pub struct WriteHalf(pub(crate) Arc<dyn Stream>);

impl WriteHalf {
    /// As [`TcpStream::write_frame`].
    pub async fn write_frame(&mut self, frame: &[u8], label: impl FnOnce() -> String) -> io::Result<()> {
        write_frame(&self.0, frame, label).await
    }
}

impl Drop for WriteHalf {
    fn drop(&mut self) {
        // Nothing to wait for: the kernel sends what is buffered, then FIN.
        let _ = self.0.poll_shutdown(&mut Context::from_waker(std::task::Waker::noop()));
    }
}

async fn write_frame(
    stream: &Arc<dyn Stream>,
    frame: &[u8],
    label: impl FnOnce() -> String,
) -> io::Result<()> {
    if observe::listens() {
        stream.label(label());
    }
    let mut rest = frame;
    while !rest.is_empty() {
        let written = poll_fn(|cx| stream.poll_write(cx, rest)).await?;
        rest = &rest[written..];
    }
    Ok(())
}

/// Reads one frame's body, without its length prefix; `None` at a clean end of file.
///
/// # Errors
/// As [`read_length`] and [`Body::read`].
pub async fn read_frame(
    stream: &mut (impl AsyncRead + Unpin),
    max_bytes: usize,
) -> io::Result<Option<Bytes>> {
    let Some(length) = read_length(stream, max_bytes).await? else { return Ok(None) };
    let mut body = Body::new(length);
    while body.next_bytes() > 0 {
        body.read(stream).await?;
    }
    Ok(Some(body.freeze()))
}

/// Reads a frame's length prefix; `None` at a clean end of file.
///
/// # Errors
/// `InvalidData` when the length is negative or above `max_bytes`, `UnexpectedEof` when the stream ends inside the
/// prefix, and whatever the socket reports.
pub async fn read_length(
    stream: &mut (impl AsyncRead + Unpin),
    max_bytes: usize,
) -> io::Result<Option<usize>> {
    let mut prefix = [0; 4];
    let mut filled = 0;
    while filled < prefix.len() {
        match stream.read(&mut prefix[filled..]).await? {
            0 if filled == 0 => return Ok(None),
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => filled += read,
        }
    }
    let length = i32::from_be_bytes(prefix);
    match usize::try_from(length) {
        Ok(length) if length <= max_bytes => Ok(Some(length)),
        _ => {
            let error = format!("frame of {length} bytes, limit {max_bytes}");
            Err(io::Error::new(io::ErrorKind::InvalidData, error))
        }
    }
}

/// Bytes allocated for a body at once; a longer one doubles its buffer as it arrives.
const BODY_FIRST_BYTES: usize = 64 << 10;

/// A frame's body on its way. What is announced and never comes takes no memory: the buffer is at most twice what has
/// arrived, or 64 KiB.
pub struct Body {
    length: usize,
    bytes: BytesMut,
}

impl Body {
    /// A body of `length` bytes, none of which is there yet.
    pub fn new(length: usize) -> Self {
        Body { length, bytes: BytesMut::new() }
    }

    /// By how many bytes the next [`Body::read`] fills the buffer; 0 when the body is whole.
    pub fn next_bytes(&self) -> usize {
        let size = self.bytes.len();
        (2 * size).max(BODY_FIRST_BYTES).min(self.length) - size
    }

    /// Reads the next part.
    ///
    /// # Errors
    /// `UnexpectedEof` when the stream ends inside it, and whatever the socket reports.
    pub async fn read(&mut self, stream: &mut (impl AsyncRead + Unpin)) -> io::Result<()> {
        let size = self.bytes.len();
        self.bytes.resize(size + self.next_bytes(), 0);
        stream.read_exact(&mut self.bytes[size..]).await?;
        Ok(())
    }

    /// The whole body.
    pub fn freeze(self) -> Bytes {
        self.bytes.freeze()
    }
}

macro_rules! readable {
    ($type:ty) => {
        impl AsyncRead for $type {
            fn poll_read(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buf: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                self.0.poll_read(cx, buf)
            }
        }
    };
}

macro_rules! writable {
    ($type:ty) => {
        impl AsyncWrite for $type {
            fn poll_write(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                bytes: &[u8],
            ) -> Poll<io::Result<usize>> {
                self.0.poll_write(cx, bytes)
            }
            fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(()))
            }
            fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                self.0.poll_shutdown(cx)
            }
        }
    };
}

readable!(TcpStream);
readable!(ReadHalf);
writable!(TcpStream);
writable!(WriteHalf);
