//! The real server through its Rust client, speaking the fake's types.

use crate::outcome::Outcome;
use bytes::Bytes;
use etcd_client as etcd;
use fake_etcd::api::*;
use std::sync::Arc;

pub(crate) async fn connect(endpoint: &str) -> etcd::Client {
    etcd::Client::connect([endpoint], None).await.expect("the endpoint is well formed")
}

pub(crate) async fn call(client: &etcd::Client, request: &Request) -> Outcome {
    execute(client, request).await.map_err(|error| match error {
        etcd::Error::GRpcStatus(status) => (status.code() as i32, status.message().to_string()),
        other => (-1, other.to_string()),
    })
}

async fn execute(client: &etcd::Client, request: &Request) -> Result<Response, etcd::Error> {
    let (mut kv, mut lease) = (client.kv_client(), client.lease_client());
    Ok(match request.clone() {
        Request::Range(range) => {
            let options = range_options(&range);
            Response::Range(range_response(kv.get(range.key, Some(options)).await?))
        }
        Request::Put(put) => {
            let options = put_options(&put);
            Response::Put(put_response(kv.put(put.key, put.value, Some(options)).await?))
        }
        Request::DeleteRange(delete) => {
            let options = delete_options(&delete);
            Response::DeleteRange(delete_response(kv.delete(delete.key, Some(options)).await?))
        }
        Request::Txn(txn) => Response::Txn(txn_response(kv.txn(txn_request(txn)).await?)),
        Request::Compact { revision } => {
            // Else what a watch still sees of the compacted revision depends on the server's background work.
            let physical = etcd::CompactionOptions::new().with_physical();
            Response::Compact { revision: header(kv.compact(revision, Some(physical)).await?.header()) }
        }
        Request::LeaseGrant { ttl_s, id } => {
            let granted = lease.grant(ttl_s, Some(etcd::LeaseGrantOptions::new().with_id(id))).await?;
            Response::LeaseGrant {
                revision: header(granted.header()),
                id: granted.id(),
                ttl_s: granted.ttl(),
            }
        }
        Request::LeaseRevoke { id } => {
            Response::LeaseRevoke { revision: header(lease.revoke(id).await?.header()) }
        }
        Request::LeaseKeepAlive { id } => keep_alive(&mut lease, id).await?,
        Request::LeaseTimeToLive { id, keys } => {
            let options = keys.then(|| etcd::LeaseTimeToLiveOptions::new().with_keys());
            let response = lease.time_to_live(id, options).await?;
            Response::LeaseTimeToLive(LeaseTimeToLiveResponse {
                revision: header(response.header()),
                id: response.id(),
                ttl_s: response.ttl(),
                granted_ttl_s: response.granted_ttl(),
                keys: response.keys().iter().map(|key| Bytes::copy_from_slice(key)).collect(),
            })
        }
        Request::LeaseLeases => {
            let response = lease.leases().await?;
            let ids = response.leases().iter().map(etcd::LeaseStatus::id).collect();
            Response::LeaseLeases { revision: header(response.header()), ids }
        }
        Request::Status => {
            let response = client.maintenance_client().status().await?;
            Response::Status(StatusResponse {
                revision: header(response.header()),
                version: response.version().to_string(),
                db_size_bytes: response.db_size(),
                raft_index: response.raft_index(),
                raft_term: response.raft_term(),
            })
        }
    })
}

/// Its client takes the first answer for itself, and an answer that the lease is gone for an error.
async fn keep_alive(lease: &mut etcd::LeaseClient, id: i64) -> Result<Response, etcd::Error> {
    let (mut keeper, mut answers) = match lease.keep_alive(id).await {
        Ok(opened) => opened,
        Err(etcd::Error::LeaseKeepAliveError(reason)) if reason == "lease not found" => {
            return Ok(Response::LeaseKeepAlive { revision: 0, id, ttl_s: 0 });
        }
        Err(error) => return Err(error),
    };
    keeper.keep_alive().await?;
    let answer = answers.message().await?.expect("the stream is open");
    Ok(Response::LeaseKeepAlive { revision: header(answer.header()), id: answer.id(), ttl_s: answer.ttl() })
}

/// A header that is missing, or never filled, says 0.
fn header(header: Option<&etcd::ResponseHeader>) -> i64 {
    header.map_or(0, etcd::ResponseHeader::revision)
}

pub(crate) fn key_value(kv: &etcd::KeyValue) -> Arc<KeyValue> {
    Arc::new(KeyValue {
        key: Bytes::copy_from_slice(kv.key()),
        value: Bytes::copy_from_slice(kv.value()),
        create_revision: kv.create_revision(),
        mod_revision: kv.mod_revision(),
        version: kv.version(),
        lease: kv.lease(),
    })
}

fn range_options(range: &RangeRequest) -> etcd::GetOptions {
    let mut options = etcd::GetOptions::new()
        .with_range(range.range_end.clone())
        .with_limit(range.limit)
        .with_revision(range.revision)
        .with_min_mod_revision(range.min_mod_revision)
        .with_max_mod_revision(range.max_mod_revision)
        .with_min_create_revision(range.min_create_revision)
        .with_max_create_revision(range.max_create_revision);
    if let Some((target, order)) = range.sort {
        let target = match target {
            SortTarget::Key => etcd::SortTarget::Key,
            SortTarget::Version => etcd::SortTarget::Version,
            SortTarget::CreateRevision => etcd::SortTarget::Create,
            SortTarget::ModRevision => etcd::SortTarget::Mod,
            SortTarget::Value => etcd::SortTarget::Value,
        };
        let order = match order {
            SortOrder::None => etcd::SortOrder::None,
            SortOrder::Ascend => etcd::SortOrder::Ascend,
            SortOrder::Descend => etcd::SortOrder::Descend,
        };
        options = options.with_sort(target, order);
    }
    if range.serializable {
        options = options.with_serializable();
    }
    if range.keys_only {
        options = options.with_keys_only();
    }
    if range.count_only {
        options = options.with_count_only();
    }
    options
}

fn put_options(put: &PutRequest) -> etcd::PutOptions {
    let mut options = etcd::PutOptions::new().with_lease(put.lease);
    if put.prev_kv {
        options = options.with_prev_key();
    }
    if put.ignore_value {
        options = options.with_ignore_value();
    }
    if put.ignore_lease {
        options = options.with_ignore_lease();
    }
    options
}

fn delete_options(delete: &DeleteRangeRequest) -> etcd::DeleteOptions {
    let options = etcd::DeleteOptions::new().with_range(delete.range_end.clone());
    if delete.prev_kv { options.with_prev_key() } else { options }
}

fn compare(compare: Compare) -> etcd::Compare {
    let op = match compare.op {
        CompareOp::Equal => etcd::CompareOp::Equal,
        CompareOp::NotEqual => etcd::CompareOp::NotEqual,
        CompareOp::Greater => etcd::CompareOp::Greater,
        CompareOp::Less => etcd::CompareOp::Less,
    };
    let built = match compare.target {
        CompareTarget::Version(n) => etcd::Compare::version(compare.key, op, n),
        CompareTarget::CreateRevision(n) => etcd::Compare::create_revision(compare.key, op, n),
        CompareTarget::ModRevision(n) => etcd::Compare::mod_revision(compare.key, op, n),
        CompareTarget::Value(value) => etcd::Compare::value(compare.key, op, value),
        CompareTarget::Lease(n) => etcd::Compare::lease(compare.key, op, n),
    };
    built.with_range(compare.range_end)
}

fn txn_request(txn: TxnRequest) -> etcd::Txn {
    let compares: Vec<_> = txn.compare.into_iter().map(compare).collect();
    let ops = |ops: Vec<Op>| ops.into_iter().map(op).collect::<Vec<_>>();
    etcd::Txn::new().when(compares).and_then(ops(txn.success)).or_else(ops(txn.failure))
}

fn op(op: Op) -> etcd::TxnOp {
    match op {
        Op::Range(range) => {
            let options = range_options(&range);
            etcd::TxnOp::get(range.key, Some(options))
        }
        Op::Put(put) => {
            let options = put_options(&put);
            etcd::TxnOp::put(put.key, put.value, Some(options))
        }
        Op::DeleteRange(delete) => {
            let options = delete_options(&delete);
            etcd::TxnOp::delete(delete.key, Some(options))
        }
        Op::Txn(txn) => etcd::TxnOp::txn(txn_request(txn)),
    }
}

fn range_response(response: etcd::GetResponse) -> RangeResponse {
    RangeResponse {
        revision: header(response.header()),
        kvs: response.kvs().iter().map(key_value).collect(),
        more: response.more(),
        count: response.count(),
    }
}

fn put_response(response: etcd::PutResponse) -> PutResponse {
    PutResponse { revision: header(response.header()), prev_kv: response.prev_key().map(key_value) }
}

fn delete_response(response: etcd::DeleteResponse) -> DeleteRangeResponse {
    DeleteRangeResponse {
        revision: header(response.header()),
        deleted: response.deleted(),
        prev_kvs: response.prev_kvs().iter().map(key_value).collect(),
    }
}

fn txn_response(response: etcd::TxnResponse) -> TxnResponse {
    let responses = response.op_responses().into_iter().map(|response| match response {
        etcd::TxnOpResponse::Get(get) => OpResponse::Range(range_response(get)),
        etcd::TxnOpResponse::Put(put) => OpResponse::Put(put_response(put)),
        etcd::TxnOpResponse::Delete(delete) => OpResponse::DeleteRange(delete_response(delete)),
        etcd::TxnOpResponse::Txn(txn) => OpResponse::Txn(txn_response(txn)),
    });
    TxnResponse {
        revision: header(response.header()),
        succeeded: response.succeeded(),
        responses: responses.collect(),
    }
}

pub(crate) fn watch_options(id: i64, request: &WatchRequest) -> etcd::WatchOptions {
    let mut options = etcd::WatchOptions::new()
        .with_range(request.range_end.clone())
        .with_start_revision(request.start_revision)
        .with_watch_id(id);
    let mut filters = Vec::new();
    if request.no_put {
        filters.push(etcd::WatchFilterType::NoPut);
    }
    if request.no_delete {
        filters.push(etcd::WatchFilterType::NoDelete);
    }
    options = options.with_filters(filters);
    if request.prev_kv {
        options = options.with_prev_key();
    }
    if request.fragment {
        options = options.with_fragment();
    }
    options
}

pub(crate) fn event(event: &etcd::Event) -> Event {
    let kind = match event.event_type() {
        etcd::EventType::Put => EventKind::Put,
        etcd::EventType::Delete => EventKind::Delete,
    };
    let kv = event.kv().map(key_value).unwrap_or_default();
    Event { kind, kv, prev_kv: event.prev_kv().map(key_value) }
}
