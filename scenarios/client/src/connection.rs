//! One TCP connection: a task that connects, writes frames and reads answers, and tells its owner what happened.
//!
//! The owner closes it by dropping [`Connection`]; bytes already written still go out.

use crate::codec::FRAME_MAX_BYTES;
use bytes::Bytes;
use rt::JoinHandle;
use rt::net::{TcpStream, read_frame};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

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

struct Outgoing {
    frame: Bytes,
    label: String,
}

/// The owner's end of a connection.
pub(crate) struct Connection {
    frames: UnboundedSender<Outgoing>,
    task: JoinHandle<()>,
}

impl Connection {
    /// Starts to connect to `address` (`host:port`).
    pub(crate) fn open(address: String, node: i32, generation: u64, events: UnboundedSender<Event>) -> Self {
        let (frames, outgoing) = unbounded_channel();
        let task = rt::spawn("client.connection", async move {
            let tell = |signal| {
                // Without an owner there is nobody to tell.
                let _ = events.send(Event { node, generation, signal });
            };
            if let Ok(stream) = TcpStream::connect(&address).await {
                tell(Signal::Connected);
                serve(stream, outgoing, tell).await;
            }
            tell(Signal::Closed);
        });
        Connection { frames, task }
    }

    /// Queues a frame. `label` names it for whoever watches.
    pub(crate) fn write(&self, frame: Bytes, label: String) {
        // A task that has ended has said `Closed`, or is about to.
        let _ = self.frames.send(Outgoing { frame, label });
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(stream: TcpStream, mut outgoing: UnboundedReceiver<Outgoing>, tell: impl Fn(Signal)) {
    let (mut reader, mut writer) = stream.into_split();
    let read = async {
        while let Ok(Some(body)) = read_frame(&mut reader, FRAME_MAX_BYTES).await {
            tell(Signal::Frame(body));
        }
    };
    let write = async {
        while let Some(Outgoing { frame, label }) = outgoing.recv().await {
            if writer.write_frame(&frame, || label).await.is_err() {
                break;
            }
        }
    };
    tokio::select! {
        biased;
        () = read => {}
        () = write => {}
    }
}
