//! One connection: a task that reads and writes, and the calls that wait for it.

use crate::api::Response;
use crate::error::S3Error;
use crate::wire::{self, Answer};
use rt::net::{ReadHalf, TcpStream, WriteHalf};
use rt::time::Instant;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::{Notify, oneshot};

type Reply = Result<Response, S3Error>;

/// Why a call has no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lost {
    /// The connection ended, or the time, before a byte of it was written.
    Unwritten,
    /// The connection ended, or the time, after it was or may have been written.
    Written,
}

struct Waiting {
    reply: oneshot::Sender<Result<Reply, Lost>>,
    written: bool,
}

struct Outgoing {
    /// The call: it may give up before this is written.
    id: u64,
    frame: Vec<u8>,
    label: String,
}

#[derive(Default)]
struct State {
    closed: bool,
    outgoing: VecDeque<Outgoing>,
    waiting: BTreeMap<u64, Waiting>,
}

#[derive(Default)]
pub(super) struct Connection {
    state: Mutex<State>,
    /// Something is to be written.
    outgoing: Notify,
    /// The task is to end.
    closing: Notify,
}

impl Connection {
    /// Starts the task that serves a stream until it ends or [`Connection::close`] is called.
    pub(super) fn start(stream: TcpStream) -> Arc<Self> {
        let connection = Arc::new(Connection::default());
        let (reader, writer) = stream.into_split();
        let task = connection.clone();
        rt::spawn("s3.client.connection", async move {
            let ended = tokio::select! {
                biased;
                () = task.closing.notified() => Ok(()),
                ended = task.read(reader) => ended,
                ended = task.write(writer) => ended,
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
        state.outgoing.clear();
        for (_, call) in std::mem::take(&mut state.waiting) {
            // The caller may be gone.
            let _ = call.reply.send(Err(if call.written { Lost::Written } else { Lost::Unwritten }));
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
            state.waiting.insert(id, Waiting { reply, written: false });
            let label = if rt::observe::listens() { label() } else { String::new() };
            state.outgoing.push_back(Outgoing { id, frame, label });
            self.outgoing.notify_one();
        }
        let abandon = Abandon { connection: self, id };
        match rt::time::timeout_at(deadline, replied).await {
            Ok(outcome) => outcome.unwrap_or(Err(Lost::Written)),
            Err(_) => {
                let written = abandon.now();
                self.close();
                Err(if written { Lost::Written } else { Lost::Unwritten })
            }
        }
    }

    async fn write(&self, mut writer: WriteHalf) -> io::Result<()> {
        loop {
            match self.next_outgoing() {
                Some(next) => writer.write_frame(&next.frame, || next.label).await?,
                None => self.outgoing.notified().await,
            }
        }
    }

    /// The next frame, its call marked as written; skips calls that were given up.
    fn next_outgoing(&self) -> Option<Outgoing> {
        let mut state = self.lock();
        while let Some(next) = state.outgoing.pop_front() {
            if let Some(call) = state.waiting.get_mut(&next.id) {
                call.written = true;
                return Some(next);
            }
        }
        None
    }

    async fn read(&self, mut reader: ReadHalf) -> io::Result<()> {
        while let Some(body) = rt::net::read_frame(&mut reader, wire::MAX_FRAME_BYTES).await? {
            let Answer { id, result } = wire::decode(&body)?;
            if let Some(call) = self.lock().waiting.remove(&id) {
                // The caller may be gone.
                let _ = call.reply.send(Ok(result));
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

impl Abandon<'_> {
    /// Whether it was written by now.
    fn now(&self) -> bool {
        self.connection.lock().waiting.remove(&self.id).is_none_or(|call| call.written)
    }
}

impl Drop for Abandon<'_> {
    fn drop(&mut self) {
        self.now();
    }
}
