//! One connection: a task that reads, writes and pings, and the calls that wait for it.

use super::ClientConfig;
use crate::api::{Response, WatchRequest, WatchResponse};
use crate::error::EtcdError;
use crate::wire::{self, Answer, Call};
use rt::net::{FrameWriter, ReadHalf, TcpStream};
use rt::time::Instant;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::{Notify, mpsc, oneshot};

type Reply = Result<Response, EtcdError>;

/// Why a call has no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lost {
    /// The connection had ended before.
    Unwritten,
    /// The connection ended after it was, or may have been, written.
    Written,
    /// Its time ran out, and the connection was closed for it.
    Late,
}

type Waiting = oneshot::Sender<Result<Reply, Lost>>;

#[derive(Default)]
struct State {
    closed: bool,
    /// When the server was last heard.
    heard: Option<Instant>,
    waiting: BTreeMap<u64, Waiting>,
    watches: BTreeMap<u64, mpsc::UnboundedSender<WatchResponse>>,
}

pub(super) struct Connection {
    state: Mutex<State>,
    writer: FrameWriter,
    /// The task is to end.
    closing: Notify,
}

impl Connection {
    /// Starts the task that serves a stream until it ends or [`Connection::close`] is called.
    pub(super) fn start(stream: TcpStream, config: &ClientConfig) -> Arc<Self> {
        let (reader, writer) = stream.into_split();
        let (writer, closing) = (FrameWriter::new(writer), Notify::new());
        let connection = Arc::new(Connection { state: Mutex::default(), writer, closing });
        let task = connection.clone();
        let config = config.clone();
        rt::spawn("etcd.client.connection", async move {
            let ended = tokio::select! {
                biased;
                () = task.closing.notified() => Ok(()),
                ended = task.read(reader) => ended,
                ended = task.writer.run() => ended,
                ended = task.keep_alive(&config) => ended,
            };
            if let Err(error) = ended {
                tracing::debug!(target: "wavetank", %error, "etcd client connection ended");
            }
            task.close();
        });
        connection
    }

    pub(super) fn is_open(&self) -> bool {
        !self.lock().closed
    }

    /// Whether the server ever said anything on it.
    pub(super) fn was_heard(&self) -> bool {
        self.heard().is_some()
    }

    /// Ends the connection and every call and watch on it.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        self.writer.close();
        state.watches.clear();
        for (_, call) in std::mem::take(&mut state.waiting) {
            // The caller may be gone.
            let _ = call.send(Err(Lost::Written));
        }
        self.closing.notify_one();
    }

    /// Sends a call and waits for its reply until `deadline`, after which the connection is closed.
    pub(super) async fn exchange(
        &self,
        id: u64,
        frame: &[u8],
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
            self.writer.push(frame, label);
        }
        let abandon = Abandon { connection: self, id };
        match rt::time::timeout_at(deadline, replied).await {
            Ok(outcome) => outcome.unwrap_or(Err(Lost::Written)),
            Err(_) => {
                drop(abandon);
                self.close();
                Err(Lost::Late)
            }
        }
    }

    /// Begins a watch; `None` if the connection is closed. Its messages end when the connection does.
    pub(super) fn watch(
        &self,
        id: u64,
        request: WatchRequest,
    ) -> Option<mpsc::UnboundedReceiver<WatchResponse>> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut state = self.lock();
        if state.closed {
            return None;
        }
        state.watches.insert(id, sender);
        self.send(&Call::Watch { id, request });
        Some(receiver)
    }

    /// Ends a watch.
    pub(super) fn unwatch(&self, id: u64) {
        let mut state = self.lock();
        if state.watches.remove(&id).is_some() {
            self.send(&Call::Unwatch { id });
        }
    }

    /// Asks for a progress message to every watch on this connection.
    pub(super) fn request_progress(&self) {
        let state = self.lock();
        if !state.closed {
            self.send(&Call::Progress);
        }
    }

    fn send(&self, call: &Call) {
        self.writer.push(&wire::encode(call), || wire::call_label(call));
    }

    async fn read(&self, mut reader: ReadHalf) -> io::Result<()> {
        while let Some(body) = rt::net::read_frame(&mut reader, wire::MAX_RESPONSE_FRAME_BYTES).await? {
            let answer = wire::decode(&body)?;
            let mut state = self.lock();
            state.heard = Some(Instant::now());
            match answer {
                Answer::Reply { id, result } => {
                    if let Some(call) = state.waiting.remove(&id) {
                        // The caller may be gone.
                        let _ = call.send(Ok(result));
                    }
                }
                Answer::Watch { id, response } => {
                    if let Some(watch) = state.watches.get(&id) {
                        // The watcher may be gone; it unwatches when dropped.
                        let _ = watch.send(response);
                    }
                }
                Answer::Progress { revision } => {
                    for watch in state.watches.values() {
                        let _ = watch.send(WatchResponse { revision, ..Default::default() });
                    }
                }
                Answer::Pong => {}
            }
        }
        Ok(())
    }

    /// Pings a connection in use on which nothing is heard, as gRPC does; ends when a ping is not answered.
    async fn keep_alive(&self, config: &ClientConfig) -> io::Result<()> {
        if config.keep_alive_time_ms == 0 {
            return std::future::pending().await;
        }
        let time = Duration::from_millis(config.keep_alive_time_ms);
        let timeout = Duration::from_millis(config.keep_alive_timeout_ms);
        // One timer per period, not one per message.
        let mut quiet_since = Instant::now();
        loop {
            rt::time::sleep_until(quiet_since + time).await;
            if let Some(heard) = self.heard().filter(|heard| *heard > quiet_since) {
                quiet_since = heard;
                continue;
            }
            let pinged = Instant::now();
            quiet_since = pinged;
            {
                let state = self.lock();
                if state.waiting.is_empty() && state.watches.is_empty() {
                    continue;
                }
                self.send(&Call::Ping);
            }
            rt::time::sleep_until(pinged + timeout).await;
            if self.heard().is_none_or(|heard| heard < pinged) {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "a ping was not answered"));
            }
        }
    }

    fn heard(&self) -> Option<Instant> {
        self.lock().heard
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
