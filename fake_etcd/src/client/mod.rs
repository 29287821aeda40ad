//! What the system under test holds: a client of one endpoint, over one connection that is made when needed and made
//! anew when it is lost.
//!
//! A request is never written twice unless it is read-only, and its error says whether it may have been applied. A
//! request that gets no answer in time closes the connection, for a hung connection would hold up every later request
//! too.

mod connection;
mod dial;
mod watcher;

pub use watcher::Watcher;

use crate::api::{
    DeleteRangeRequest, DeleteRangeResponse, LeaseTimeToLiveResponse, PutRequest, PutResponse, RangeRequest,
    RangeResponse, Request, Response, StatusResponse, TxnRequest, TxnResponse, WatchRequest,
};
use crate::error::{Code, EtcdError};
use crate::wire::{self, Call};
use connection::Lost;
use dial::Dialer;
use rt::time::Instant;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How a client behaves. All times in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ClientConfig {
    /// How long one attempt to connect may take.
    pub connect_timeout_ms: u64,
    /// How long a request may take, connecting included.
    pub request_timeout_ms: u64,
    /// Wait before the second attempt to connect; it doubles with each further one.
    pub backoff_min_ms: u64,
    /// Longest wait between attempts to connect.
    pub backoff_max_ms: u64,
    /// A connection in use on which nothing was heard for so long is pinged; 0 for never.
    pub keep_alive_time_ms: u64,
    /// A connection that does not answer a ping within this is closed.
    pub keep_alive_timeout_ms: u64,
}

impl Default for ClientConfig {
    fn default() -> Self {
        ClientConfig {
            connect_timeout_ms: 1_000,
            request_timeout_ms: 2_000,
            backoff_min_ms: 50,
            backoff_max_ms: 1_000,
            keep_alive_time_ms: 2_000,
            keep_alive_timeout_ms: 2_000,
        }
    }
}

/// Why a request failed, and whether it may have been applied all the same.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Certainly not applied: it was never written, or it only reads.
    #[error("etcd unavailable: {0}")]
    Unavailable(String),
    /// It may or may not have been applied, or yet be: it was written, and its answer was lost or is late.
    #[error("outcome unknown: {0}")]
    UnknownOutcome(String),
    /// Refused, and so not applied.
    #[error("{message} ({code:?})")]
    Etcd {
        /// The gRPC code.
        code: Code,
        /// etcd's own text.
        message: Cow<'static, str>,
    },
}

impl From<EtcdError> for Error {
    fn from(error: EtcdError) -> Self {
        Error::Etcd { code: error.code, message: error.message }
    }
}

/// A client. Clones share the connection.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    dialer: Dialer,
    config: ClientConfig,
    /// Numbers requests and watches over the client's whole life.
    last_id: AtomicU64,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Client").field(&self.0.dialer.endpoints()).finish()
    }
}

macro_rules! call {
    ($client:expr, $request:expr, $response:pat => $result:expr) => {
        match $client.call($request).await? {
            $response => Ok($result),
            other => Err(unexpected(&other)),
        }
    };
}

impl Client {
    /// A client of the server at `endpoints`: `host:port`, or several separated by commas, as `etcdctl --endpoints` takes
    /// them. Connects when first used, to one endpoint after the other until one takes the connection.
    pub fn new(endpoints: String, config: ClientConfig) -> Self {
        Client(Arc::new(Inner {
            dialer: Dialer::new(endpoints, config.clone()),
            config,
            last_id: AtomicU64::new(0),
        }))
    }

    /// Reads keys.
    pub async fn range(&self, request: RangeRequest) -> Result<RangeResponse, Error> {
        call!(self, Request::Range(request), Response::Range(response) => response)
    }

    /// Writes a key.
    pub async fn put(&self, request: PutRequest) -> Result<PutResponse, Error> {
        call!(self, Request::Put(request), Response::Put(response) => response)
    }

    /// Deletes keys.
    pub async fn delete_range(&self, request: DeleteRangeRequest) -> Result<DeleteRangeResponse, Error> {
        call!(self, Request::DeleteRange(request), Response::DeleteRange(response) => response)
    }

    /// Does one transaction.
    pub async fn txn(&self, request: TxnRequest) -> Result<TxnResponse, Error> {
        call!(self, Request::Txn(request), Response::Txn(response) => response)
    }

    /// Forgets what was superseded before `revision`; returns the current revision.
    pub async fn compact(&self, revision: i64) -> Result<i64, Error> {
        call!(self, Request::Compact { revision }, Response::Compact { revision } => revision)
    }

    /// Grants a lease of `ttl_s` seconds (at least 2) and returns its id and TTL. Without `id` the server chooses one.
    pub async fn lease_grant(&self, ttl_s: i64, id: Option<i64>) -> Result<(i64, i64), Error> {
        let request = Request::LeaseGrant { ttl_s, id: id.unwrap_or(0) };
        call!(self, request, Response::LeaseGrant { id, ttl_s, .. } => (id, ttl_s))
    }

    /// Renews a lease; returns the TTL in seconds that it has again, 0 when it is gone.
    pub async fn lease_keep_alive(&self, id: i64) -> Result<i64, Error> {
        call!(self, Request::LeaseKeepAlive { id }, Response::LeaseKeepAlive { ttl_s, .. } => ttl_s)
    }

    /// Ends a lease, which deletes its keys.
    pub async fn lease_revoke(&self, id: i64) -> Result<(), Error> {
        call!(self, Request::LeaseRevoke { id }, Response::LeaseRevoke { .. } => ())
    }

    /// Asks how a lease stands, and with `keys` which keys it has.
    pub async fn lease_time_to_live(&self, id: i64, keys: bool) -> Result<LeaseTimeToLiveResponse, Error> {
        call!(self, Request::LeaseTimeToLive { id, keys }, Response::LeaseTimeToLive(response) => response)
    }

    /// Lists the ids of all leases.
    pub async fn leases(&self) -> Result<Vec<i64>, Error> {
        call!(self, Request::LeaseLeases, Response::LeaseLeases { ids, .. } => ids)
    }

    /// Asks how the server stands.
    pub async fn status(&self) -> Result<StatusResponse, Error> {
        call!(self, Request::Status, Response::Status(response) => response)
    }

    /// Watches keys. Nothing is sent before [`Watcher::next`]: a watch without start revision begins then.
    pub fn watch(&self, request: WatchRequest) -> Watcher {
        Watcher::new(self.clone(), request)
    }

    fn next_id(&self) -> u64 {
        self.0.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Does any request.
    ///
    /// # Errors
    /// As the error says, applied or not.
    pub async fn call(&self, request: Request) -> Result<Response, Error> {
        let timeout = Duration::from_millis(self.0.config.request_timeout_ms);
        let deadline = Instant::now() + timeout;
        let repeatable = request.is_read_only();
        let call = Call::Request { id: self.next_id(), request };
        let frame = wire::encode(&call);
        if frame.len() > wire::MAX_SEND_BYTES {
            return Err(too_large(frame.len()));
        }
        loop {
            let connected = rt::time::timeout_at(deadline, self.0.dialer.connection()).await;
            let Ok(connection) = connected else {
                return Err(Error::Unavailable(format!("no connection within {timeout:?}")));
            };
            let Call::Request { id, .. } = &call else { unreachable!("made above") };
            let lost = match connection.exchange(*id, &frame, || wire::call_label(&call), deadline).await {
                Ok(result) => return result.map_err(Error::from),
                Err(lost) => lost,
            };
            match lost {
                Lost::Unwritten => {}
                Lost::Written if repeatable => {}
                Lost::Written => return Err(Error::UnknownOutcome("the connection was lost".to_string())),
                Lost::Late => {
                    let why = format!("no answer within {timeout:?}");
                    return Err(if repeatable {
                        Error::Unavailable(why)
                    } else {
                        Error::UnknownOutcome(why)
                    });
                }
            }
        }
    }
}

/// What gRPC says of a message above the client's limit; it is not sent.
fn too_large(bytes: usize) -> Error {
    let limit = wire::MAX_SEND_BYTES;
    Error::Etcd {
        code: Code::ResourceExhausted,
        message: format!("trying to send message larger than max ({bytes} vs. {limit})").into(),
    }
}

fn unexpected(response: &Response) -> Error {
    Error::UnknownOutcome(format!("a response of another kind: {response:?}"))
}
