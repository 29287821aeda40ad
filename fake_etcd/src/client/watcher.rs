//! A watch that outlives its connections.

use super::connection::Connection;
use super::{Client, Error};
use crate::api::{Event, WatchRequest, WatchResponse};
use crate::error::{Code, EtcdError};
use std::sync::Arc;
use tokio::sync::mpsc;

/// Tells of changes without gap or repeat, whatever happens to the connection or the server.
#[derive(Debug)]
pub struct Watcher {
    client: Client,
    /// What is watched, from the first revision not yet told.
    request: WatchRequest,
    stream: Option<Stream>,
    over: bool,
}

struct Stream {
    connection: Arc<Connection>,
    id: u64,
    responses: mpsc::UnboundedReceiver<WatchResponse>,
    /// The events of a message of which more follows.
    partial: Vec<Event>,
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stream").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Stream {
    /// A whole message, once its last fragment is here.
    fn merge(&mut self, mut response: WatchResponse) -> Option<WatchResponse> {
        if response.fragment {
            self.partial.append(&mut response.events);
            return None;
        }
        if !self.partial.is_empty() {
            self.partial.append(&mut response.events);
            response.events = std::mem::take(&mut self.partial);
        }
        Some(response)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.connection.unwatch(self.id);
    }
}

impl Watcher {
    pub(super) fn new(client: Client, request: WatchRequest) -> Self {
        Watcher { client, request, stream: None, over: false }
    }

    /// Waits for the next changes, or for progress: a response without events says that nothing up to its revision is
    /// still to come. Connects again as often as needed. Safe to drop and call again.
    ///
    /// When the watch cannot go on because what it lacks was compacted, the response is `canceled` and names the
    /// `compact_revision`.
    ///
    /// # Errors
    /// When the server refuses the watch, and always after it was canceled.
    pub async fn next(&mut self) -> Result<WatchResponse, Error> {
        if self.over {
            return Err(EtcdError::WATCH_CANCELED.into());
        }
        loop {
            let stream = match &mut self.stream {
                Some(stream) => stream,
                None => {
                    let connection = self.client.0.dialer.connection().await;
                    let id = self.client.next_id();
                    let Some(responses) = connection.watch(id, self.request.clone()) else { continue };
                    self.stream.insert(Stream { connection, id, responses, partial: Vec::new() })
                }
            };
            let Some(response) = stream.responses.recv().await else {
                rt::event!("etcd.client.watch-resumes", from = self.request.start_revision);
                self.stream = None;
                continue;
            };
            let Some(response) = stream.merge(response) else { continue };
            if response.canceled {
                self.over = true;
                self.stream = None;
                return if response.created { Err(refused(response.cancel_reason)) } else { Ok(response) };
            }
            if response.created {
                // From here on a resumed watch starts where this one did.
                if self.request.start_revision == 0 {
                    self.request.start_revision = response.revision + 1;
                }
                continue;
            }
            let told = response.events.last().map_or(response.revision, |event| event.kv.mod_revision);
            self.request.start_revision = self.request.start_revision.max(told + 1);
            return Ok(response);
        }
    }

    /// Asks for progress: [`Watcher::next`] then returns a response without events, unless the watch is behind or its
    /// connection is lost.
    pub fn request_progress(&self) {
        if let Some(stream) = &self.stream {
            stream.connection.request_progress();
        }
    }
}

fn refused(reason: String) -> Error {
    let code = if reason == EtcdError::COMPACTED.message { Code::OutOfRange } else { Code::InvalidArgument };
    Error::Etcd { code, message: reason.into() }
}
