//! The broker's coordinator port over a real etcd.
//!
//! What a failed call has done is what matters. A refusal is certain: nothing was applied. A connection that was refused
//! carried nothing. Of a write, everything else is unknown: it may have been applied, or may yet be.
//!
//! Limits. Plain HTTP, no authentication.

use async_trait::async_trait;
use broker::coordinator::{
    Compare, CompareOp, Coordinator, CoordinatorError, Event, EventKind, KeyValue, Op, OpResponse, Range,
    RangeResponse, Target, Txn, TxnResponse, Watch, WatchError,
};
use bytes::Bytes;
use etcd_client as etcd;
use std::error::Error;
use std::io;
use std::time::Duration;

/// A connection on which nothing was heard for so long is pinged.
const KEEP_ALIVE_TIME: Duration = Duration::from_secs(2);
/// One that does not answer a ping within this is closed.
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(2);
/// The longest wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// Serves the port from an etcd.
pub(super) struct RealEtcd(etcd::Client);

/// A client of `endpoints`, separated by commas. It connects when it is first used.
///
/// # Errors
/// What is wrong with an endpoint.
pub(super) async fn connect(endpoints: &str) -> Result<RealEtcd, String> {
    let options = etcd::ConnectOptions::new()
        .with_connect_timeout(CONNECT_TIMEOUT)
        .with_keep_alive(KEEP_ALIVE_TIME, KEEP_ALIVE_TIMEOUT)
        .with_keep_alive_while_idle(true)
        .with_require_leader(true);
    let endpoints: Vec<&str> = endpoints.split(',').collect();
    let client = etcd::Client::connect(endpoints, Some(options)).await;
    client.map(RealEtcd).map_err(|error| error.to_string())
}

#[async_trait]
impl Coordinator for RealEtcd {
    async fn range(&self, range: Range) -> Result<RangeResponse, CoordinatorError> {
        let options = range_options(&range);
        let answer = self.0.kv_client().get(range.key, Some(options)).await;
        answer.map(|answer| range_response(&answer)).map_err(|error| failure(&error, Kind::Read))
    }

    async fn txn(&self, txn: Txn) -> Result<TxnResponse, CoordinatorError> {
        let is_read = |op: &Op| matches!(op, Op::Range(_));
        let kind = match txn.success.iter().chain(&txn.failure).all(is_read) {
            true => Kind::Read,
            false => Kind::Write,
        };
        let ops = |ops: Vec<Op>| ops.into_iter().map(op).collect::<Vec<_>>();
        let compares: Vec<_> = txn.compares.into_iter().map(compare).collect();
        let request = etcd::Txn::new().when(compares).and_then(ops(txn.success)).or_else(ops(txn.failure));
        let answer = self.0.kv_client().txn(request).await.map_err(|error| failure(&error, kind))?;
        Ok(TxnResponse {
            succeeded: answer.succeeded(),
            revision: revision(answer.header()),
            responses: answer.op_responses().into_iter().map(op_response).collect(),
        })
    }

    async fn lease_grant(&self, ttl_s: i64) -> Result<i64, CoordinatorError> {
        let granted = self.0.lease_client().grant(ttl_s, None).await;
        granted.map(|granted| granted.id()).map_err(|error| failure(&error, Kind::Write))
    }

    async fn lease_keep_alive(&self, id: i64) -> Result<i64, CoordinatorError> {
        // The client takes the first answer for itself, and one that the lease is gone for an error.
        let (mut keeper, mut answers) = match self.0.lease_client().keep_alive(id).await {
            Ok(opened) => opened,
            Err(etcd::Error::LeaseKeepAliveError(reason)) if reason == "lease not found" => return Ok(0),
            Err(error) => return Err(failure(&error, Kind::Write)),
        };
        keeper.keep_alive().await.map_err(|error| failure(&error, Kind::Write))?;
        match answers.message().await {
            Ok(Some(answer)) => Ok(answer.ttl()),
            Ok(None) => Err(CoordinatorError::Unknown),
            Err(error) => Err(failure(&error, Kind::Write)),
        }
    }

    async fn lease_revoke(&self, id: i64) -> Result<(), CoordinatorError> {
        let revoked = self.0.lease_client().revoke(id).await;
        revoked.map(drop).map_err(|error| failure(&error, Kind::Write))
    }

    async fn watch(&self, prefix: Bytes, from_revision: i64) -> Result<Box<dyn Watch>, CoordinatorError> {
        let options = etcd::WatchOptions::new().with_prefix().with_start_revision(from_revision);
        let stream = self.0.watch_client().watch(prefix, Some(options)).await;
        stream
            .map(|stream| Box::new(RealWatch(stream)) as Box<dyn Watch>)
            .map_err(|error| failure(&error, Kind::Read))
    }
}

struct RealWatch(etcd::WatchStream);

#[async_trait]
impl Watch for RealWatch {
    async fn next(&mut self) -> Result<Vec<Event>, WatchError> {
        loop {
            let Ok(Some(answer)) = self.0.message().await else { return Err(WatchError::Broken) };
            if answer.compact_revision() > 0 {
                return Err(WatchError::Compacted { compact_revision: answer.compact_revision() });
            }
            if answer.canceled() {
                return Err(WatchError::Broken);
            }
            if !answer.events().is_empty() {
                return Ok(answer.events().iter().filter_map(event).collect());
            }
        }
    }
}

/// Whether a call can change anything.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Read,
    Write,
}

/// gRPC's codes of refusals: InvalidArgument, NotFound, AlreadyExists, PermissionDenied, FailedPrecondition, OutOfRange,
/// Unimplemented, Unauthenticated.
const REFUSALS: [i32; 8] = [3, 5, 6, 7, 9, 11, 12, 16];
const RESOURCE_EXHAUSTED: i32 = 8;
/// What etcd says, before it proposes anything, while it has more to do than it can.
const TOO_MANY_REQUESTS: &str = "etcdserver: too many requests";

/// What a failed call means for whoever made it.
fn failure(error: &etcd::Error, kind: Kind) -> CoordinatorError {
    if kind == Kind::Write && !is_certain(error) {
        return CoordinatorError::Unknown;
    }
    match error {
        etcd::Error::GRpcStatus(status) if is_refusal(status.code() as i32, status.message()) => {
            CoordinatorError::Refused(status.message().to_string())
        }
        _ => CoordinatorError::Unavailable,
    }
}

/// A message above a limit is refused by its sender, and will be again.
fn is_refusal(code: i32, message: &str) -> bool {
    REFUSALS.contains(&code) || (code == RESOURCE_EXHAUSTED && message != TOO_MANY_REQUESTS)
}

/// Whether nothing was applied, for certain.
fn is_certain(error: &etcd::Error) -> bool {
    match error {
        etcd::Error::GRpcStatus(status) => {
            let code = status.code() as i32;
            REFUSALS.contains(&code) || code == RESOURCE_EXHAUSTED || was_refused_a_connection(status)
        }
        other => was_refused_a_connection(other),
    }
}

/// Whether somewhere below it lies a connection that was refused, which carried nothing.
fn was_refused_a_connection(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error
            .downcast_ref()
            .is_some_and(|error: &io::Error| error.kind() == io::ErrorKind::ConnectionRefused)
        {
            return true;
        }
        cause = error.source();
    }
    false
}

fn range_options(range: &Range) -> etcd::GetOptions {
    let options = etcd::GetOptions::new().with_limit(range.limit).with_revision(range.revision);
    options.with_range(range.range_end.clone())
}

fn revision(header: Option<&etcd::ResponseHeader>) -> i64 {
    header.map_or(0, etcd::ResponseHeader::revision)
}

fn range_response(answer: &etcd::GetResponse) -> RangeResponse {
    let kvs = answer.kvs().iter().map(key_value).collect();
    RangeResponse { kvs, more: answer.more(), revision: revision(answer.header()) }
}

fn key_value(kv: &etcd::KeyValue) -> KeyValue {
    KeyValue {
        key: Bytes::copy_from_slice(kv.key()),
        value: Bytes::copy_from_slice(kv.value()),
        create_revision: kv.create_revision(),
        mod_revision: kv.mod_revision(),
        version: kv.version(),
        lease: kv.lease(),
    }
}

fn event(event: &etcd::Event) -> Option<Event> {
    let kind = match event.event_type() {
        etcd::EventType::Put => EventKind::Put,
        etcd::EventType::Delete => EventKind::Delete,
    };
    Some(Event { kind, kv: key_value(event.kv()?) })
}

fn compare(compare: Compare) -> etcd::Compare {
    let op = match compare.op {
        CompareOp::Equal => etcd::CompareOp::Equal,
        CompareOp::NotEqual => etcd::CompareOp::NotEqual,
        CompareOp::Greater => etcd::CompareOp::Greater,
        CompareOp::Less => etcd::CompareOp::Less,
    };
    match compare.target {
        Target::Version(version) => etcd::Compare::version(compare.key, op, version),
        Target::CreateRevision(revision) => etcd::Compare::create_revision(compare.key, op, revision),
        Target::ModRevision(revision) => etcd::Compare::mod_revision(compare.key, op, revision),
        Target::Value(value) => etcd::Compare::value(compare.key, op, value),
        Target::Lease(lease) => etcd::Compare::lease(compare.key, op, lease),
    }
}

fn op(op: Op) -> etcd::TxnOp {
    match op {
        Op::Put { key, value, lease } => {
            etcd::TxnOp::put(key, value, Some(etcd::PutOptions::new().with_lease(lease)))
        }
        Op::Delete { key, range_end } => {
            etcd::TxnOp::delete(key, Some(etcd::DeleteOptions::new().with_range(range_end)))
        }
        Op::Range(range) => {
            let options = range_options(&range);
            etcd::TxnOp::get(range.key, Some(options))
        }
    }
}

fn op_response(answer: etcd::TxnOpResponse) -> OpResponse {
    match answer {
        etcd::TxnOpResponse::Put(_) => OpResponse::Put,
        etcd::TxnOpResponse::Delete(answer) => OpResponse::Delete { deleted: answer.deleted() },
        etcd::TxnOpResponse::Get(answer) => OpResponse::Range(range_response(&answer)),
        etcd::TxnOpResponse::Txn(_) => unreachable!("the port has no nested transactions to ask for"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rt::net::TcpListener;

    fn write() -> Txn {
        Txn { success: vec![Op::put("k".into(), "v".into())], ..Txn::default() }
    }

    #[test]
    fn refusals_are_told_from_overload() {
        assert!(is_refusal(3, "etcdserver: too many operations in txn request"));
        assert!(is_refusal(RESOURCE_EXHAUSTED, "trying to send message larger than max"));
        assert!(!is_refusal(RESOURCE_EXHAUSTED, TOO_MANY_REQUESTS));
        assert!(!is_refusal(14, "etcdserver: request timed out"));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_refused_connection_carried_nothing_and_a_lost_one_may_have() {
        // A port on which nobody listens any more.
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        drop(listener);
        let away = connect(&format!("http://{address}")).await.unwrap();
        assert_eq!(away.txn(write()).await, Err(CoordinatorError::Unavailable));
        // One that takes the connection and drops it.
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        rt::spawn("drops", async move {
            while let Ok(mut stream) = listener.accept().await {
                let mut some = [0; 64];
                let _ = tokio::io::AsyncReadExt::read(&mut stream, &mut some).await;
            }
        });
        let lost = connect(&format!("http://{address}")).await.unwrap();
        assert_eq!(lost.txn(write()).await, Err(CoordinatorError::Unknown));
        assert_eq!(lost.range(Range::key("k".into())).await, Err(CoordinatorError::Unavailable));
    }
}
