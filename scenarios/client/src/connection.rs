//! One TCP connection: a task that connects, writes frames and reads answers, and tells its owner what happened.
//!
//! The owner closes it by dropping [`Connection`]; bytes already written still go out.

use crate::codec::FRAME_MAX_BYTES;
use bytes::Bytes;
use rt::JoinHandle;
use rt::net::{FrameWriter, ReadHalf, TcpStream, read_frame};
use std::sync::{Arc, OnceLock};
use tokio::sync::mpsc::UnboundedSender;

/// What happened on a connection.
#[derive(Debug)]
pub(crate) enum Signal {
    /// The TCP connection stands.
    Connected,
    /// An answer, without its length prefix.
    Frame(Bytes),
    /// It could not be made, or it ended.
    Closed,
}

/// A signal, and the connection it comes from.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) node: i32,
    /// Which of the node's connections, so that signals of one given up are told apart.
    pub(crate) generation: u64,
    pub(crate) signal: Signal,
}

/// The owner's end of a connection.
pub(crate) struct Connection {
    /// There once it stands.
    writer: Arc<OnceLock<FrameWriter>>,
    task: JoinHandle<()>,
}

impl Connection {
    /// Starts to connect to `address` (`host:port`).
    pub(crate) fn open(address: String, node: i32, generation: u64, events: UnboundedSender<Event>) -> Self {
        let writer = Arc::new(OnceLock::new());
        let cell = writer.clone();
        let task = rt::spawn("client.connection", async move {
            let tell = |signal| {
                // Without an owner there is nobody to tell.
                let _ = events.send(Event { node, generation, signal });
            };
            if let Ok(stream) = TcpStream::connect(&address).await {
                let (reader, half) = stream.into_split();
                let writer = cell.get_or_init(|| FrameWriter::new(half));
                tell(Signal::Connected);
                serve(reader, writer, tell).await;
                writer.close();
            }
            tell(Signal::Closed);
        });
        Connection { writer, task }
    }

    /// Writes a frame, once the connection stands. `label` names it for whoever watches.
    pub(crate) fn write(&self, frame: &[u8], label: impl FnOnce() -> String) {
        // A task that has ended has said `Closed`, or is about to.
        if let Some(writer) = self.writer.get() {
            writer.push(frame, label);
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(mut reader: ReadHalf, writer: &FrameWriter, tell: impl Fn(Signal)) {
    let read = async {
        while let Ok(Some(body)) = read_frame(&mut reader, FRAME_MAX_BYTES).await {
            tell(Signal::Frame(body));
        }
    };
    tokio::select! {
        biased;
        () = read => {}
        _ = writer.run() => {}
    }
}
