//! The private wire: frames of a four-byte big-endian length and a postcard-encoded message, and the words by which a
//! scenario can catch one.
//!
//! One connection carries what etcd's clients carry over one HTTP/2 connection: calls, a stream of watches, and pings.
//! A label reads `etcd.txn KEY ...`, with every key touched up to a few, and its answer's `etcd.txn.reply KEY ...`.

use crate::api::{Op, Request, Response, TxnRequest, WatchRequest, WatchResponse};
use crate::error::EtcdError;
use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io;

/// The largest message a client sends: the default of etcd's Go client.
pub(crate) const MAX_SEND_BYTES: usize = 2 * 1024 * 1024;
/// The largest frame a server reads: any message a client sends.
pub(crate) const MAX_REQUEST_FRAME_BYTES: usize = MAX_SEND_BYTES + 1024;
/// The largest frame a client reads. etcd's clients set no limit below this.
pub(crate) const MAX_RESPONSE_FRAME_BYTES: usize = i32::MAX as usize;
/// How many keys a label names.
const LABEL_KEYS: usize = 4;

/// What a client sends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Call {
    Request { id: u64, request: Request },
    Watch { id: u64, request: WatchRequest },
    Unwatch { id: u64 },
    Progress,
    Ping,
}

/// What a server sends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Answer {
    Reply { id: u64, result: Result<Response, EtcdError> },
    Watch { id: u64, response: WatchResponse },
    Progress { revision: i64 },
    Pong,
}

/// A whole frame, length prefix included.
pub(crate) fn encode(message: &impl Serialize) -> Vec<u8> {
    let mut frame = postcard::to_extend(message, vec![0; 4]).expect("plain data encodes");
    let length = i32::try_from(frame.len() - 4).expect("a frame is below 2 GiB");
    frame[..4].copy_from_slice(&length.to_be_bytes());
    frame
}

/// Decodes a frame's body.
pub(crate) fn decode<T: DeserializeOwned>(body: &[u8]) -> io::Result<T> {
    postcard::from_bytes(body).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// The words of a call.
pub(crate) fn call_label(call: &Call) -> String {
    match call {
        Call::Request { request, .. } => format!("etcd.{}", request_words(request)),
        Call::Watch { request, .. } => {
            format!("etcd.watch {} from={}", text(&request.key), request.start_revision)
        }
        Call::Unwatch { .. } => "etcd.unwatch".to_string(),
        Call::Progress => "etcd.watch.progress".to_string(),
        Call::Ping => "etcd.ping".to_string(),
    }
}

/// The words of the reply to a request whose own words are `words`.
pub(crate) fn reply_label(words: &str, result: &Result<Response, EtcdError>) -> String {
    let (kind, rest) = words.split_once(' ').unwrap_or((words, ""));
    match result {
        Ok(Response::Txn(txn)) => {
            format!("etcd.{kind}.reply {rest} succeeded={} revision={}", txn.succeeded, txn.revision)
        }
        Ok(_) => format!("etcd.{kind}.reply {rest}"),
        Err(error) => format!("etcd.{kind}.reply {rest} error={error}"),
    }
}

/// The words of a watch's message.
pub(crate) fn watch_label(response: &WatchResponse) -> String {
    match response.events.first() {
        _ if response.canceled => format!("etcd.watch.canceled revision={}", response.revision),
        _ if response.created => format!("etcd.watch.created revision={}", response.revision),
        None => format!("etcd.watch.progress.reply revision={}", response.revision),
        Some(first) => {
            let keys = response.events.iter().map(|event| &event.kv.key);
            format!("etcd.watch.event {} revision={}", words(keys), first.kv.mod_revision)
        }
    }
}

/// A request's kind and the first key it touches.
pub(crate) fn kind_and_key(request: &Request) -> (&'static str, &[u8]) {
    match request {
        Request::Range(range) => ("range", &range.key),
        Request::Put(put) => ("put", &put.key),
        Request::DeleteRange(delete) => ("delete", &delete.key),
        Request::Txn(txn) => ("txn", first_key(txn).map_or(&[], |key| key)),
        Request::Compact { .. } => ("compact", &[]),
        Request::LeaseGrant { .. } => ("lease.grant", &[]),
        Request::LeaseRevoke { .. } => ("lease.revoke", &[]),
        Request::LeaseKeepAlive { .. } => ("lease.keepalive", &[]),
        Request::LeaseTimeToLive { .. } => ("lease.ttl", &[]),
        Request::LeaseLeases => ("lease.list", &[]),
        Request::Status => ("status", &[]),
    }
}

/// A request's kind and what it is about.
pub(crate) fn request_words(request: &Request) -> String {
    let (kind, key) = kind_and_key(request);
    match request {
        Request::Txn(txn) => format!("{kind} {}", words(txn_keys(txn).into_iter())),
        Request::Compact { revision } => format!("{kind} {revision}"),
        Request::LeaseGrant { ttl_s, id } => format!("{kind} {id} ttl={ttl_s}"),
        Request::LeaseRevoke { id }
        | Request::LeaseKeepAlive { id }
        | Request::LeaseTimeToLive { id, .. } => {
            format!("{kind} {id}")
        }
        Request::LeaseLeases | Request::Status => kind.to_string(),
        Request::Range(_) | Request::Put(_) | Request::DeleteRange(_) => format!("{kind} {}", text(key)),
    }
}

/// The first of a transaction's own keys.
fn first_key(txn: &TxnRequest) -> Option<&Bytes> {
    let compared = txn.compare.iter().map(|compare| &compare.key);
    let touched = txn.success.iter().chain(&txn.failure).filter_map(|op| match op {
        Op::Range(range) => Some(&range.key),
        Op::Put(put) => Some(&put.key),
        Op::DeleteRange(delete) => Some(&delete.key),
        Op::Txn(_) => None,
    });
    compared.chain(touched).next()
}

/// The keys a transaction may touch: those compared, then those of its operations.
fn txn_keys(txn: &TxnRequest) -> Vec<&Bytes> {
    let mut keys: Vec<_> = txn.compare.iter().map(|compare| &compare.key).collect();
    for op in txn.success.iter().chain(&txn.failure) {
        match op {
            Op::Range(range) => keys.push(&range.key),
            Op::Put(put) => keys.push(&put.key),
            Op::DeleteRange(delete) => keys.push(&delete.key),
            Op::Txn(nested) => keys.extend(txn_keys(nested)),
        }
    }
    keys
}

/// The distinct keys, in order of appearance, up to a few.
fn words<'a>(keys: impl Iterator<Item = &'a Bytes>) -> String {
    let mut distinct: Vec<&Bytes> = Vec::new();
    for key in keys {
        if !distinct.contains(&key) {
            distinct.push(key);
        }
    }
    let named: Vec<_> = distinct.iter().take(LABEL_KEYS).map(|key| text(key)).collect();
    match distinct.len().saturating_sub(LABEL_KEYS) {
        0 => named.join(" "),
        more => format!("{} +{more}", named.join(" ")),
    }
}

fn text(key: &[u8]) -> String {
    String::from_utf8_lossy(key).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{Compare, CompareOp, CompareTarget, PutRequest, TxnResponse};

    #[test]
    fn frames_decode_to_what_was_encoded() {
        let call = Call::Request { id: 7, request: Request::Put(PutRequest::new("k", vec![0u8; 300])) };
        let frame = encode(&call);
        assert_eq!(frame[..4], i32::to_be_bytes(frame.len() as i32 - 4));
        assert_eq!(decode::<Call>(&frame[4..]).unwrap(), call);
        assert!(decode::<Call>(&frame[4..frame.len() - 1]).is_err());
    }

    #[test]
    fn labels_name_the_keys_touched_and_the_outcome() {
        let put = |key: &'static str| Op::Put(PutRequest::new(key, "v"));
        let txn = Request::Txn(TxnRequest {
            compare: vec![Compare::new("head/0", CompareOp::Equal, CompareTarget::ModRevision(3))],
            success: ["head/0", "a", "b", "c", "d"].map(put).to_vec(),
            failure: vec![],
        });
        let words = request_words(&txn);
        assert_eq!(words, "txn head/0 a b c +1");
        let done = Ok(Response::Txn(TxnResponse { revision: 4, succeeded: true, responses: vec![] }));
        assert_eq!(reply_label(&words, &done), "etcd.txn.reply head/0 a b c +1 succeeded=true revision=4");
    }
}
