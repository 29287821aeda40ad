//! The proxy's sockets: tokio's, because they can be reset.
#![expect(
    clippy::disallowed_types,
    reason = "the proxy lives on the real network only, and resets connections, which `rt` does not offer"
)]

use std::io;
use std::time::Duration;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

pub(super) type Listener = tokio::net::TcpListener;
pub(super) type Stream = tokio::net::TcpStream;

/// The longest wait for a connection to a broker.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// Listens on `address` (`host:port`).
pub(super) async fn listen(address: &str) -> io::Result<Listener> {
    Listener::bind(address).await
}

/// Connects to `address` (`host:port`).
pub(super) async fn connect(address: &str) -> io::Result<Socket> {
    let connected = rt::time::timeout(CONNECT_LIMIT, Stream::connect(address)).await;
    Socket::new(connected.unwrap_or(Err(io::ErrorKind::TimedOut.into()))?)
}

/// A connected socket in halves.
pub(super) struct Socket {
    pub(super) reader: OwnedReadHalf,
    pub(super) writer: OwnedWriteHalf,
}

impl Socket {
    pub(super) fn new(stream: Stream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        let (reader, writer) = stream.into_split();
        Ok(Socket { reader, writer })
    }

    /// Closes it so that its peer gets a RST.
    pub(super) fn reset(self) {
        // If this fails the socket is closed already, and the peer knows.
        let _ = self.writer.as_ref().set_zero_linger();
        // Dropped as it is, this half would say FIN first.
        self.writer.forget();
    }
}
