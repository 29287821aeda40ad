//! The state machine: what the object store holds, and what each request does to it.
//!
//! Pure: no runtime, no clock of its own, no chance. Reads see every write before them. Conditions and answers follow
//! S3's REST API.

mod journal;
mod list;
mod multipart;
#[cfg(test)]
mod tests;

use crate::api::{
    ByteRange, GetConditions, Headers, ListRequest, ObjectInfo, PutCondition, Request, Response,
};
use crate::error::S3Error;
use bytes::Bytes;
use journal::Journal;
use list::View;
use multipart::Uploads;
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;
use xxhash_rust::xxh3::xxh3_128;

/// The longest key, in bytes.
const MAX_KEY_BYTES: usize = 1024;
/// The most keys of one bulk deletion.
const MAX_DELETE_KEYS: usize = 1000;

#[derive(Clone, Debug)]
struct Object {
    body: Bytes,
    headers: Headers,
    etag: String,
    last_modified_ms: i64,
}

impl Object {
    fn info(&self, key: &str) -> ObjectInfo {
        ObjectInfo {
            key: key.to_string(),
            size: self.body.len() as u64,
            etag: self.etag.clone(),
            last_modified_ms: self.last_modified_ms,
        }
    }
}

/// One bucket.
#[derive(Debug, Default)]
pub struct Store {
    objects: BTreeMap<String, Object>,
    uploads: Uploads,
    journal: Journal,
}

impl Store {
    /// An empty bucket.
    pub fn new() -> Self {
        Store::default()
    }

    /// Does what a request asks, the server's wall clock showing `now` (since the Unix epoch).
    pub fn apply(&mut self, now: Duration, request: &Request) -> Result<Response, S3Error> {
        match request {
            Request::Put { key, body, headers, condition } => {
                let etag = format!("\"{}\"", digest(body));
                self.write(now, key, body.clone(), headers.clone(), etag, condition)
            }
            Request::Get { key, range, conditions, head } => self.get(key, range.as_ref(), conditions, *head),
            Request::Delete { key } => {
                self.delete(key);
                Ok(Response::Deleted)
            }
            Request::DeleteMany { keys } => {
                if keys.is_empty() || keys.len() > MAX_DELETE_KEYS {
                    return Err(S3Error::MalformedXml);
                }
                for key in keys {
                    self.delete(key);
                }
                Ok(Response::Deleted)
            }
            Request::List(request) => self.list_behind(request, 0),
            Request::Copy { from, to, if_none_match } => self.copy(now, from, to, *if_none_match),
            Request::CreateUpload { key, headers } => {
                check_key(key)?;
                Ok(Response::Upload { id: self.uploads.create(whole_seconds_ms(now), key, headers) })
            }
            Request::UploadPart { key, upload_id, number, body } => {
                let etag = self.uploads.part(whole_seconds_ms(now), key, upload_id, *number, body)?;
                Ok(Response::Part { etag })
            }
            Request::CompleteUpload { key, upload_id, parts, condition } => {
                let whole = self.uploads.assemble(key, upload_id, parts)?;
                let written = self.write(now, key, whole.body, whole.headers, whole.etag, condition)?;
                self.uploads.remove(key, upload_id)?;
                Ok(written)
            }
            Request::AbortUpload { key, upload_id } => {
                self.uploads.remove(key, upload_id)?;
                Ok(Response::Deleted)
            }
            Request::ListParts { key, upload_id, number_marker, max_parts } => {
                self.uploads.list_parts(key, upload_id, *number_marker, *max_parts)
            }
            Request::ListUploads(request) => self.uploads.list(request),
        }
    }

    /// A list of the bucket as it was before its last `unseen` changes, as far as [`Store::remember`] goes.
    pub fn list_behind(&self, request: &ListRequest, unseen: u64) -> Result<Response, S3Error> {
        list::list(&View { objects: &self.objects, before: self.journal.before(unseen) }, request)
    }

    /// Objects, and bytes of their bodies.
    pub fn size(&self) -> (u64, u64) {
        let bytes = self.objects.values().map(|object| object.body.len() as u64).sum();
        (self.objects.len() as u64, bytes)
    }

    /// Remembers so many of the latest changes from now on, for [`Store::list_behind`]. None at first.
    pub fn remember(&mut self, changes: usize) {
        self.journal.keep(changes);
    }

    /// How often an object was written or deleted so far.
    pub fn changes(&self) -> u64 {
        self.journal.count
    }

    fn delete(&mut self, key: &str) {
        if let Some(before) = self.objects.remove(key) {
            self.journal.note(key, Some(before));
        }
    }

    fn write(
        &mut self,
        now: Duration,
        key: &str,
        body: Bytes,
        headers: Headers,
        etag: String,
        condition: &PutCondition,
    ) -> Result<Response, S3Error> {
        check_key(key)?;
        match (condition, self.objects.get(key)) {
            (PutCondition::Always, _) | (PutCondition::IfNoneMatch, None) => {}
            (PutCondition::IfMatch(wanted), Some(there)) if bare(wanted) == bare(&there.etag) => {}
            (PutCondition::IfMatch(_), None) => return Err(S3Error::NoSuchKey),
            _ => return Err(S3Error::PreconditionFailed),
        }
        let object = Object { body, headers, etag: etag.clone(), last_modified_ms: whole_seconds_ms(now) };
        let before = self.objects.insert(key.to_string(), object);
        self.journal.note(key, before);
        Ok(Response::Written { etag })
    }

    fn get(
        &self,
        key: &str,
        range: Option<&ByteRange>,
        conditions: &GetConditions,
        head: bool,
    ) -> Result<Response, S3Error> {
        let object = self.objects.get(key).ok_or(S3Error::NoSuchKey)?;
        check_conditions(conditions, object)?;
        let size = object.body.len() as u64;
        let range = match range {
            Some(range) => resolve(range, size)?,
            None => 0..size,
        };
        let body =
            if head { Bytes::new() } else { object.body.slice(range.start as usize..range.end as usize) };
        Ok(Response::Object { info: object.info(key), headers: object.headers.clone(), range, body })
    }

    fn copy(
        &mut self,
        now: Duration,
        from: &str,
        to: &str,
        if_none_match: bool,
    ) -> Result<Response, S3Error> {
        let Object { body, headers, .. } = self.objects.get(from).ok_or(S3Error::NoSuchKey)?.clone();
        if from == to {
            return Err(S3Error::InvalidRequest);
        }
        let condition = if if_none_match { PutCondition::IfNoneMatch } else { PutCondition::Always };
        // Copied in one piece, an object uploaded in parts gets a plain ETag.
        let etag = format!("\"{}\"", digest(&body));
        self.write(now, to, body, headers, etag, &condition)
    }
}

/// S3 tells times in whole seconds.
fn whole_seconds_ms(now: Duration) -> i64 {
    now.as_secs() as i64 * 1000
}

fn check_key(key: &str) -> Result<(), S3Error> {
    match key.len() {
        0 => Err(S3Error::InvalidArgument),
        bytes if bytes > MAX_KEY_BYTES => Err(S3Error::KeyTooLong),
        _ => Ok(()),
    }
}

/// Whether a read's list of ETags names this one. A write names one ETag, and `*` is none.
fn matches(list: &str, etag: &str) -> bool {
    list == "*" || list.split(',').any(|one| bare(one.trim()) == bare(etag))
}

/// S3 takes ETags with and without their quotes.
fn bare(etag: &str) -> &str {
    etag.trim_matches('"')
}

fn check_conditions(conditions: &GetConditions, object: &Object) -> Result<(), S3Error> {
    let fails = match (&conditions.if_match, conditions.if_unmodified_since_ms) {
        (Some(list), _) => !matches(list, &object.etag),
        (None, Some(since)) => object.last_modified_ms > since,
        (None, None) => false,
    };
    if fails {
        return Err(S3Error::PreconditionFailed);
    }
    let known = match (&conditions.if_none_match, conditions.if_modified_since_ms) {
        (Some(list), _) => matches(list, &object.etag),
        (None, Some(since)) => object.last_modified_ms <= since,
        (None, None) => false,
    };
    if known { Err(S3Error::NotModified) } else { Ok(()) }
}

/// Where a range lies in an object of `size` bytes.
fn resolve(range: &ByteRange, size: u64) -> Result<Range<u64>, S3Error> {
    let range = match range {
        ByteRange::Bounded(range) => range.start..range.end.min(size),
        ByteRange::From(start) => *start..size,
        ByteRange::Last(bytes) => size.saturating_sub(*bytes)..size,
    };
    if range.start < range.end { Ok(range) } else { Err(S3Error::InvalidRange) }
}

/// A 128-bit digest in hex.
fn digest(bytes: &[u8]) -> String {
    format!("{:032x}", xxh3_128(bytes))
}
