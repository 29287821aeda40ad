//! What a connection has to send: written by whoever answers, as far as the peer takes it, and else by one task.

use crate::api::{Response, WatchResponse};
use crate::error::EtcdError;
use crate::wire::{self, Answer};
use rt::net::{FrameWriter, WriteHalf};
use std::io;

/// Frames that may wait for a connection's peer before its watchers fall behind. etcd's watch streams hold 128 messages.
const BACKLOG: usize = 128;

pub(crate) struct Outbox(FrameWriter);

impl Outbox {
    pub(crate) fn new(half: WriteHalf) -> Self {
        Outbox(FrameWriter::new(half))
    }

    /// Sends the answer to a request; `words` are the request's, if somebody listens.
    pub(crate) fn reply(&self, id: u64, result: Result<Response, EtcdError>, words: Option<&str>) {
        let label = words.map(|words| wire::reply_label(words, &result)).unwrap_or_default();
        self.push(&Answer::Reply { id, result }, || label);
    }

    /// Sends a message of a watch.
    pub(crate) fn watch(&self, id: u64, response: WatchResponse) {
        let label = if rt::observe::listens() { wire::watch_label(&response) } else { String::new() };
        self.push(&Answer::Watch { id, response }, || label);
    }

    /// Sends the answer to a progress request, behind every event sent before.
    pub(crate) fn progress(&self, revision: i64) {
        self.push(&Answer::Progress { revision }, || "etcd.watch.progress.reply".to_string());
    }

    /// Sends the answer to a ping.
    pub(crate) fn pong(&self) {
        self.push(&Answer::Pong, || "etcd.pong".to_string());
    }

    /// Whether its watchers may be sent more. Who are not fall behind, and the connection's task lets them catch up.
    pub(crate) fn has_room(&self) -> bool {
        let has_room = self.0.waiting() < BACKLOG;
        if !has_room {
            self.0.wake();
        }
        has_room
    }

    /// A watcher is behind: the connection's task is to let it catch up.
    pub(crate) fn is_behind(&self) {
        self.0.wake();
    }

    /// Waits until everything is written.
    pub(crate) async fn drain(&self) -> io::Result<()> {
        self.0.drain().await
    }

    /// Waits until there is something to write, or somebody to catch up.
    pub(crate) async fn woken(&self) {
        self.0.woken().await;
    }

    /// The connection is over.
    pub(crate) fn close(&self) {
        self.0.close();
    }

    fn push(&self, answer: &Answer, label: impl FnOnce() -> String) {
        self.0.push(&wire::encode(answer), label);
    }
}
