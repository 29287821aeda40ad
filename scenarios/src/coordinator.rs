//! The broker's coordinator port over `fake_etcd`'s client.

use async_trait::async_trait;
use broker::coordinator::{
    Compare, CompareOp, Coordinator, CoordinatorError, Event, EventKind, KeyValue, Op, OpResponse, Range,
    RangeResponse, Target, Txn, TxnResponse, Watch, WatchError,
};
use bytes::Bytes;
use fake_etcd::api;
use std::sync::Arc;

/// Serves the port from a fake etcd.
pub struct EtcdCoordinator(pub fake_etcd::Client);

#[async_trait]
impl Coordinator for EtcdCoordinator {
    async fn range(&self, range: Range) -> Result<RangeResponse, CoordinatorError> {
        self.0.range(range_request(range)).await.map(range_response).map_err(error)
    }

    async fn txn(&self, txn: Txn) -> Result<TxnResponse, CoordinatorError> {
        let request = api::TxnRequest {
            compare: txn.compares.into_iter().map(compare).collect(),
            success: txn.success.into_iter().map(op).collect(),
            failure: txn.failure.into_iter().map(op).collect(),
        };
        let response = self.0.txn(request).await.map_err(error)?;
        Ok(TxnResponse {
            succeeded: response.succeeded,
            revision: response.revision,
            responses: response.responses.into_iter().map(op_response).collect(),
        })
    }

    async fn lease_grant(&self, ttl_s: i64) -> Result<i64, CoordinatorError> {
        self.0.lease_grant(ttl_s, None).await.map(|(id, _)| id).map_err(error)
    }

    async fn lease_keep_alive(&self, id: i64) -> Result<i64, CoordinatorError> {
        self.0.lease_keep_alive(id).await.map_err(error)
    }

    async fn lease_revoke(&self, id: i64) -> Result<(), CoordinatorError> {
        self.0.lease_revoke(id).await.map_err(error)
    }

    async fn watch(&self, prefix: Bytes, from_revision: i64) -> Result<Box<dyn Watch>, CoordinatorError> {
        Ok(Box::new(EtcdWatch(self.0.watch(api::WatchRequest::prefix(prefix, from_revision)))))
    }
}

struct EtcdWatch(fake_etcd::Watcher);

#[async_trait]
impl Watch for EtcdWatch {
    async fn next(&mut self) -> Result<Vec<Event>, WatchError> {
        loop {
            let response = self.0.next().await.map_err(|_| WatchError::Broken)?;
            if response.compact_revision > 0 {
                return Err(WatchError::Compacted { compact_revision: response.compact_revision });
            }
            if response.canceled {
                return Err(WatchError::Broken);
            }
            if !response.events.is_empty() {
                return Ok(response.events.into_iter().map(event).collect());
            }
        }
    }
}

fn event(event: api::Event) -> Event {
    let kind = match event.kind {
        api::EventKind::Put => EventKind::Put,
        api::EventKind::Delete => EventKind::Delete,
    };
    Event { kind, kv: key_value(event.kv) }
}

fn range_request(range: Range) -> api::RangeRequest {
    api::RangeRequest {
        key: range.key,
        range_end: range.range_end,
        revision: range.revision,
        limit: range.limit,
        // The port has no count.
        uncounted: true,
        ..api::RangeRequest::default()
    }
}

fn range_response(response: api::RangeResponse) -> RangeResponse {
    RangeResponse {
        kvs: response.kvs.into_iter().map(key_value).collect(),
        more: response.more,
        revision: response.revision,
    }
}

fn key_value(kv: Arc<api::KeyValue>) -> KeyValue {
    let kv = Arc::unwrap_or_clone(kv);
    KeyValue {
        key: kv.key,
        value: kv.value,
        create_revision: kv.create_revision,
        mod_revision: kv.mod_revision,
        version: kv.version,
        lease: kv.lease,
    }
}

fn compare(compare: Compare) -> api::Compare {
    let op = match compare.op {
        CompareOp::Equal => api::CompareOp::Equal,
        CompareOp::NotEqual => api::CompareOp::NotEqual,
        CompareOp::Greater => api::CompareOp::Greater,
        CompareOp::Less => api::CompareOp::Less,
    };
    let target = match compare.target {
        Target::Version(version) => api::CompareTarget::Version(version),
        Target::CreateRevision(revision) => api::CompareTarget::CreateRevision(revision),
        Target::ModRevision(revision) => api::CompareTarget::ModRevision(revision),
        Target::Value(value) => api::CompareTarget::Value(value),
        Target::Lease(lease) => api::CompareTarget::Lease(lease),
    };
    api::Compare::new(compare.key, op, target)
}

fn op(op: Op) -> api::Op {
    match op {
        Op::Put { key, value, lease } => {
            api::Op::Put(api::PutRequest { key, value, lease, ..api::PutRequest::default() })
        }
        Op::Delete { key, range_end } => {
            api::Op::DeleteRange(api::DeleteRangeRequest { key, range_end, prev_kv: false })
        }
        Op::Range(range) => api::Op::Range(range_request(range)),
    }
}

fn op_response(response: api::OpResponse) -> OpResponse {
    match response {
        api::OpResponse::Put(_) => OpResponse::Put,
        api::OpResponse::DeleteRange(response) => OpResponse::Delete { deleted: response.deleted },
        api::OpResponse::Range(response) => OpResponse::Range(range_response(response)),
        api::OpResponse::Txn(_) => unreachable!("the port has no nested transactions to ask for"),
    }
}

fn error(error: fake_etcd::Error) -> CoordinatorError {
    match error {
        fake_etcd::Error::Unavailable(_) => CoordinatorError::Unavailable,
        fake_etcd::Error::UnknownOutcome(_) => CoordinatorError::Unknown,
        fake_etcd::Error::Etcd { message, .. } => CoordinatorError::Refused(message.into_owned()),
    }
}
