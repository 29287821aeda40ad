//! One connection: a task that reads and writes, and the calls that wait for it.

use crate::api::Response;
use crate::error::S3Error;
use crate::wire::{self, Answer};
use rt::net::{FrameWriter, ReadHalf, TcpStream};
use rt::time::Instant;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::{Notify, oneshot};

type Reply = Result<Response, S3Error>;

/// Why a call has no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lost {
    /// The connection had ended before.
    Unwritten,
    /// The connection ended, or the time, after it was or may have been written.
    Written,
}

type Waiting = oneshot::Sender<Result<Reply, Lost>>;

#[derive(Default)]
struct State {
    closed: bool,
    waiting: BTreeMap<u64, Waiting>,
}

pub(super) struct Connection {
    state: Mutex<State>,
    writer: FrameWriter,
    /// The task is to end.
    closing: Notify,
}

impl Connection {
    /// Starts the task that serves a stream until it ends or [`Connection::close`] is called.
    pub(super) fn start(stream: TcpStream) -> Arc<Self> {
        let (reader, writer) = stream.into_split();
        let (writer, closing) = (FrameWriter::new(writer), Notify::new());
        let connection = Arc::new(Connection { state: Mutex::default(), writer, closing });
        let task = connection.clone();
        rt::spawn("s3.client.connection", async move {
            let ended = tokio::select! {
                biased;
                () = task.closing.notified() => Ok(()),
                ended = task.read(reader) => ended,
                ended = task.writer.run() => ended,
            };
            if let Err(error) = ended {
                tracing::debug!(target: "wavetank", %error, "s3 client connection ended");
            }
            task.close();
        });
        connection
    }

    pub(super) fn is_open(&self) -> bool {
        !self.lock().closed
    }

    /// Ends the connection and every call on it.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        self.writer.close();
        for (_, call) in std::mem::take(&mut state.waiting) {
            // The caller may be gone.
            let _ = call.send(Err(Lost::Written));
        }
        self.closing.notify_one();
    }

    /// Sends a call and waits for its reply until `deadline`, after which the connection is closed: hung, it would hold
    /// up every later call too.
    pub(super) async fn exchange(
        &self,
        id: u64,
        frame: Vec<u8>,
        label: impl FnOnce() -> String,
        deadline: Instant,
    ) -> Result<Reply, Lost> {
        let (reply, replied) = oneshot::channel();
        {
            let mut state = self.lock();
            if state.closed {
                return Err(Lost::Unwritten);
            }
            state.waiting.insert(id, reply);
            self.writer.push(&frame, label);
        }
        let abandon = Abandon { connection: self, id };
        match rt::time::timeout_at(deadline, replied).await {
            Ok(outcome) => outcome.unwrap_or(Err(Lost::Written)),
            Err(_) => {
                drop(abandon);
                self.close();
                Err(Lost::Written)
            }
        }
    }

    async fn read(&self, mut reader: ReadHalf) -> io::Result<()> {
        while let Some(body) = rt::net::read_frame(&mut reader, wire::MAX_FRAME_BYTES).await? {
            let Answer { id, result } = wire::decode(&body)?;
            if let Some(call) = self.lock().waiting.remove(&id) {
                // The caller may be gone.
                let _ = call.send(Ok(result));
            }
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Forgets a call whose caller stops waiting.
struct Abandon<'a> {
    connection: &'a Connection,
    id: u64,
}

impl Drop for Abandon<'_> {
    fn drop(&mut self) {
        self.connection.lock().waiting.remove(&self.id);
    }
}
