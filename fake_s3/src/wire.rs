//! The private wire: frames of a four-byte big-endian length and a postcard-encoded message, and the words by which a
//! scenario can catch one: `s3.put KEY`, and its answer's `s3.put.reply KEY`.

use crate::api::{Request, Response};
use crate::error::S3Error;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io;

/// The largest frame read.
pub(crate) const MAX_FRAME_BYTES: usize = i32::MAX as usize;

/// What a client sends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Call {
    pub(crate) id: u64,
    pub(crate) request: Request,
}

/// What a server sends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Answer {
    pub(crate) id: u64,
    pub(crate) result: Result<Response, S3Error>,
}

/// A whole frame, length prefix included; `None` when the message is 2 GiB or more.
pub(crate) fn encode(message: &impl Serialize) -> Option<Vec<u8>> {
    let mut frame = postcard::to_extend(message, vec![0; 4]).expect("plain data encodes");
    let length = i32::try_from(frame.len() - 4).ok()?;
    frame[..4].copy_from_slice(&length.to_be_bytes());
    Some(frame)
}

/// Decodes a frame's body.
pub(crate) fn decode<T: DeserializeOwned>(body: &[u8]) -> io::Result<T> {
    postcard::from_bytes(body).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// A request's kind, and the key it is about.
pub(crate) fn kind_and_key(request: &Request) -> (&'static str, &str) {
    match request {
        Request::Put { key, .. } => ("put", key),
        Request::Get { key, head: false, .. } => ("get", key),
        Request::Get { key, head: true, .. } => ("head", key),
        Request::Delete { key } => ("delete", key),
        Request::DeleteMany { keys } => ("delete-many", keys.first().map_or("", String::as_str)),
        Request::List(list) => ("list", &list.prefix),
        Request::Copy { to, .. } => ("copy", to),
        Request::CreateUpload { key, .. } => ("upload.create", key),
        Request::UploadPart { key, .. } => ("upload.part", key),
        Request::CompleteUpload { key, .. } => ("upload.complete", key),
        Request::AbortUpload { key, .. } => ("upload.abort", key),
        Request::ListParts { key, .. } => ("upload.parts", key),
        Request::ListUploads(list) => ("upload.list", &list.prefix),
    }
}

/// The words of a call.
pub(crate) fn call_label(request: &Request) -> String {
    let (kind, key) = kind_and_key(request);
    format!("s3.{kind} {key}")
}

/// The words of the reply to a request.
pub(crate) fn reply_label(request: &Request, result: &Result<Response, S3Error>) -> String {
    let (kind, key) = kind_and_key(request);
    match result {
        Ok(_) => format!("s3.{kind}.reply {key}"),
        Err(error) => format!("s3.{kind}.reply {key} error={error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_decode_to_what_was_encoded_and_labels_name_the_key() {
        let call = Call { id: 3, request: Request::Delete { key: "a/b".to_string() } };
        let frame = encode(&call).unwrap();
        assert_eq!(frame[..4], i32::to_be_bytes(frame.len() as i32 - 4));
        assert_eq!(decode::<Call>(&frame[4..]).unwrap(), call);
        assert_eq!(call_label(&call.request), "s3.delete a/b");
        assert_eq!(reply_label(&call.request, &Err(S3Error::SlowDown)), "s3.delete.reply a/b error=SlowDown");
    }
}
