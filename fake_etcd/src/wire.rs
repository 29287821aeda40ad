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
use std::borrow::Cow;
use std::fmt::Write;
use std::io;

/// The largest message a client sends: the default of etcd's Go client.
pub(crate) const MAX_SEND_BYTES: usize = 2 * 1024 * 1024;
/// The largest frame a server reads: any message a client sends.
pub(crate) const MAX_REQUEST_FRAME_BYTES: usize = MAX_SEND_BYTES + 1024;
/// The largest frame a client reads. etcd's clients set no limit below this.
pub(crate) const MAX_RESPONSE_FRAME_BYTES: usize = i32::MAX as usize;
/// What most frames need.
const FRAME_BYTES: usize = 512;
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
    let mut empty = Vec::with_capacity(FRAME_BYTES);
    empty.extend([0; 4]);
    let mut frame = postcard::serialize_with_flavor(message, Appending(empty)).expect("plain data encodes");
    let length = i32::try_from(frame.len() - 4).expect("a frame is below 2 GiB");
    frame[..4].copy_from_slice(&length.to_be_bytes());
    frame
}

/// Appends to a vector, a slice at a time where postcard's own flavour goes byte by byte.
struct Appending(Vec<u8>);

impl postcard::ser_flavors::Flavor for Appending {
    type Output = Vec<u8>;

    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.0.push(byte);
        Ok(())
    }

    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn finalize(self) -> postcard::Result<Vec<u8>> {
        Ok(self.0)
    }
}

/// Decodes a frame's body.
pub(crate) fn decode<T: DeserializeOwned>(body: &[u8]) -> io::Result<T> {
    postcard::from_bytes(body).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// The words of a call.
pub(crate) fn call_label(call: &Call) -> String {
    match call {
        Call::Request { request, .. } => {
            let mut label = named("etcd.");
            push_request(&mut label, request);
            label
        }
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
    let mut label = named("etcd.");
    for part in [kind, ".reply ", rest] {
        label.push_str(part);
    }
    // Writing to a String cannot fail.
    let _ = match result {
        Ok(Response::Txn(txn)) => {
            write!(label, " succeeded={} revision={}", txn.succeeded, txn.revision)
        }
        Ok(_) => Ok(()),
        Err(error) => write!(label, " error={error}"),
    };
    label
}

/// The words of a watch's message.
pub(crate) fn watch_label(response: &WatchResponse) -> String {
    match response.events.first() {
        _ if response.canceled => format!("etcd.watch.canceled revision={}", response.revision),
        _ if response.created => format!("etcd.watch.created revision={}", response.revision),
        None => format!("etcd.watch.progress.reply revision={}", response.revision),
        Some(first) => {
            let mut label = named("etcd.watch.event ");
            push_words(&mut label, response.events.iter().map(|event| &event.kv.key));
            // Writing to a String cannot fail.
            let _ = write!(label, " revision={}", first.kv.mod_revision);
            label
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
    let mut words = named("");
    push_request(&mut words, request);
    words
}

/// The beginning of a label, with room for most: there are two labels to every call.
fn named(beginning: &str) -> String {
    let mut label = String::with_capacity(192);
    label.push_str(beginning);
    label
}

fn push_request(out: &mut String, request: &Request) {
    let (kind, key) = kind_and_key(request);
    out.push_str(kind);
    // Writing to a String cannot fail.
    let _ = match request {
        Request::LeaseLeases | Request::Status => Ok(()),
        Request::Compact { revision } => write!(out, " {revision}"),
        Request::LeaseGrant { ttl_s, id } => write!(out, " {id} ttl={ttl_s}"),
        Request::LeaseRevoke { id }
        | Request::LeaseKeepAlive { id }
        | Request::LeaseTimeToLive { id, .. } => write!(out, " {id}"),
        Request::Txn(txn) => {
            out.push(' ');
            push_words(out, txn_keys(txn).into_iter());
            Ok(())
        }
        Request::Range(_) | Request::Put(_) | Request::DeleteRange(_) => {
            out.push(' ');
            out.push_str(&text(key));
            Ok(())
        }
    };
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

/// Names the distinct keys, in order of appearance, up to a few.
fn push_words<'a>(out: &mut String, keys: impl Iterator<Item = &'a Bytes>) {
    let mut distinct: Vec<&Bytes> = Vec::new();
    for key in keys {
        if !distinct.contains(&key) {
            distinct.push(key);
        }
    }
    for (n, key) in distinct.iter().take(LABEL_KEYS).enumerate() {
        if n > 0 {
            out.push(' ');
        }
        out.push_str(&text(key));
    }
    if let more @ 1.. = distinct.len().saturating_sub(LABEL_KEYS) {
        // Writing to a String cannot fail.
        let _ = write!(out, " +{more}");
    }
}

fn text(key: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(key)
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
