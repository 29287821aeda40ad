//! What a connection has to send: frames queued by whoever answers, written by one task.

use crate::api::{Response, WatchResponse};
use crate::error::EtcdError;
use crate::wire::{self, Answer};
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};
use tokio::sync::Notify;

/// Watch messages a connection may have queued before its watchers fall behind. etcd's watch streams hold 128.
const WATCH_BACKLOG: usize = 128;

pub(crate) struct Frame {
    pub(crate) bytes: Vec<u8>,
    pub(crate) label: String,
    is_watch: bool,
}

#[derive(Default)]
struct Queue {
    frames: VecDeque<Frame>,
    watch_frames: usize,
}

#[derive(Default)]
pub(crate) struct Outbox {
    queue: Mutex<Queue>,
    wake: Notify,
}

impl Outbox {
    /// Queues the answer to a request; `words` are the request's, if somebody listens.
    pub(crate) fn reply(&self, id: u64, result: Result<Response, EtcdError>, words: Option<&str>) {
        let label = words.map_or_else(String::new, |words| wire::reply_label(words, &result));
        self.push(&Answer::Reply { id, result }, label, false);
    }

    /// Queues a message of a watch.
    pub(crate) fn watch(&self, id: u64, response: WatchResponse) {
        let label = if rt::observe::listens() { wire::watch_label(&response) } else { String::new() };
        self.push(&Answer::Watch { id, response }, label, true);
    }

    /// Queues the answer to a progress request, behind every event queued before.
    pub(crate) fn progress(&self, revision: i64) {
        self.push(&Answer::Progress { revision }, "etcd.watch.progress.reply".to_string(), true);
    }

    /// Queues the answer to a ping.
    pub(crate) fn pong(&self) {
        self.push(&Answer::Pong, "etcd.pong".to_string(), false);
    }

    /// Whether its watchers may be sent more.
    pub(crate) fn has_room(&self) -> bool {
        self.lock().watch_frames < WATCH_BACKLOG
    }

    /// Takes the next frame.
    pub(crate) fn pop(&self) -> Option<Frame> {
        let mut queue = self.lock();
        let frame = queue.frames.pop_front()?;
        queue.watch_frames -= usize::from(frame.is_watch);
        Some(frame)
    }

    /// Waits for the next push, or returns at once if there was one since the last wait.
    pub(crate) async fn pushed(&self) {
        self.wake.notified().await;
    }

    fn push(&self, answer: &Answer, label: String, is_watch: bool) {
        let frame = Frame { bytes: wire::encode(answer), label, is_watch };
        let mut queue = self.lock();
        queue.watch_frames += usize::from(is_watch);
        queue.frames.push_back(frame);
        self.wake.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
