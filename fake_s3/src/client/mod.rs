//! What the system under test holds: a client of one endpoint behind [`object_store::ObjectStore`].
//!
//! It keeps a few connections and sends the requests for one key over one of them. It retries as `object_store`'s own
//! S3 client does: answers of 5xx always, lost or late answers only where doing the request twice is doing it once.

mod connection;
mod convert;
mod paged;
mod store;
mod upload;

use crate::api::{PutCondition, Request, Response};
use crate::error::S3Error;
use crate::wire::{self, Call};
use connection::{Connection, Lost};
pub use paged::UploadsPage;
use rt::net::TcpStream;
use rt::time::Instant;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Mutex;

/// How a client behaves. All times in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ClientConfig {
    /// How long one attempt to connect may take.
    pub connect_timeout_ms: u64,
    /// How long one attempt at a request may take, connecting included.
    pub request_timeout_ms: u64,
    /// How often a request is tried again at most.
    pub max_retries: u32,
    /// Wait before the first retry; it doubles with each further one.
    pub backoff_min_ms: u64,
    /// Longest wait before a retry.
    pub backoff_max_ms: u64,
    /// How many connections are kept.
    pub connections: usize,
}

impl Default for ClientConfig {
    fn default() -> Self {
        ClientConfig {
            connect_timeout_ms: 1_000,
            request_timeout_ms: 2_000,
            max_retries: 3,
            backoff_min_ms: 50,
            backoff_max_ms: 1_000,
            connections: 4,
        }
    }
}

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// Refused by the server, after retries where it is of the 5xx kind. Only `InternalError` may have been done.
    #[error("{0}")]
    Refused(S3Error),
    /// Certainly not done: it was never written.
    #[error("no connection")]
    Unreachable,
    /// It may or may not have been done, or yet be.
    #[error("no answer; the outcome is unknown")]
    UnknownOutcome,
    /// The server does not speak this protocol, or the message is too large for it.
    #[error("protocol: {0}")]
    Protocol(String),
}

/// A client. Clones share the connections.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    endpoint: String,
    config: ClientConfig,
    /// Each held while connecting, so that all who wait share one attempt.
    connections: Vec<Mutex<Option<Arc<Connection>>>>,
    /// Numbers attempts over the client's whole life.
    last_id: AtomicU64,
}

impl Drop for Inner {
    /// The last client is gone; the connections' tasks would stay.
    fn drop(&mut self) {
        for slot in &mut self.connections {
            if let Some(connection) = slot.get_mut().take() {
                connection.close();
            }
        }
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Client").field(&self.0.endpoint).finish()
    }
}

impl std::fmt::Display for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "fake_s3({})", self.0.endpoint)
    }
}

impl Client {
    /// A client of the server at `endpoint` (`host:port`). Connects when first used.
    pub fn new(endpoint: String, config: ClientConfig) -> Self {
        let connections = (0..config.connections.max(1)).map(|_| Mutex::new(None)).collect();
        Client(Arc::new(Inner { endpoint, config, connections, last_id: AtomicU64::new(0) }))
    }

    /// Sends a request, and sends it again within bounds where that is safe.
    async fn call(&self, request: Request) -> Result<Response, Failure> {
        let Inner { config, connections, last_id, .. } = &*self.0;
        let (kind, key) = wire::kind_and_key(&request);
        let entity = rt::choice::stable_hash(format!("{kind} {key}").as_bytes());
        let slot = &connections[(entity % connections.len() as u64) as usize];
        let label = wire::call_label(&request);
        let repeatable = is_idempotent(&request);
        let mut call = Call { id: 0, request };
        let mut attempt = 0;
        // Whether an earlier attempt may have been done, or may yet be: then a later one cannot tell that nothing was.
        let mut maybe_done = false;
        loop {
            call.id = last_id.fetch_add(1, Ordering::Relaxed) + 1;
            let Some(frame) = wire::encode(&call) else {
                return Err(Failure::Protocol("the message is 2 GiB or more".to_string()));
            };
            let deadline = Instant::now() + Duration::from_millis(config.request_timeout_ms);
            let failure = match self.attempt(slot, call.id, frame, &label, deadline).await {
                Ok(Ok(response)) => return Ok(response),
                Ok(Err(error)) if error.status() < 500 => return Err(Failure::Refused(error)),
                Ok(Err(error)) => Failure::Refused(error),
                Err(Lost::Unwritten) => Failure::Unreachable,
                Err(Lost::Written) if repeatable => Failure::UnknownOutcome,
                Err(Lost::Written) => return Err(Failure::UnknownOutcome),
            };
            maybe_done |=
                matches!(failure, Failure::UnknownOutcome | Failure::Refused(S3Error::InternalError));
            if attempt >= config.max_retries {
                let is_not_done =
                    matches!(failure, Failure::Unreachable | Failure::Refused(S3Error::SlowDown));
                return Err(if maybe_done && is_not_done { Failure::UnknownOutcome } else { failure });
            }
            rt::time::sleep(self.backoff(entity, attempt)).await;
            attempt += 1;
        }
    }

    async fn attempt(
        &self,
        slot: &Mutex<Option<Arc<Connection>>>,
        id: u64,
        frame: Vec<u8>,
        label: &str,
        deadline: Instant,
    ) -> Result<Result<Response, S3Error>, Lost> {
        let connected = rt::time::timeout_at(deadline, self.connection(slot)).await;
        let connection = connected.ok().flatten().ok_or(Lost::Unwritten)?;
        connection.exchange(id, frame, || label.to_string(), deadline).await
    }

    /// The slot's connection, or a new one; `None` if none can be made.
    async fn connection(&self, slot: &Mutex<Option<Arc<Connection>>>) -> Option<Arc<Connection>> {
        let mut slot = slot.lock().await;
        if let Some(connection) = slot.as_ref().filter(|connection| connection.is_open()) {
            return Some(connection.clone());
        }
        let limit = Duration::from_millis(self.0.config.connect_timeout_ms);
        let stream = rt::time::timeout(limit, TcpStream::connect(&self.0.endpoint)).await.ok()?.ok()?;
        let connection = Connection::start(stream);
        *slot = Some(connection.clone());
        Some(connection)
    }

    fn backoff(&self, entity: u64, attempt: u32) -> Duration {
        let ClientConfig { backoff_min_ms, backoff_max_ms, .. } = self.0.config;
        let high = backoff_min_ms.saturating_mul(1 << attempt.min(16)).min(backoff_max_ms);
        let high = Duration::from_millis(high);
        rt::choice("s3.client.backoff", entity, u64::from(attempt)).duration(high / 2, high)
    }
}

/// Whether doing it twice is doing it once. A conditional write is not: the second fails on the first. A completion is
/// not either: its upload is gone.
fn is_idempotent(request: &Request) -> bool {
    match request {
        Request::Put { condition, .. } => *condition == PutCondition::Always,
        Request::Copy { if_none_match, .. } => !if_none_match,
        Request::CreateUpload { .. } | Request::CompleteUpload { .. } => false,
        Request::Get { .. }
        | Request::Delete { .. }
        | Request::DeleteMany { .. }
        | Request::List(_)
        | Request::ListParts { .. }
        | Request::ListUploads(_)
        | Request::UploadPart { .. }
        | Request::AbortUpload { .. } => true,
    }
}
