//! Requests and responses, with the meanings of S3's REST API. One bucket; keys are text, listed in order of their
//! bytes.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// An object's headers that a caller sets: a name (`Content-Type`, `x-amz-meta-...`) and a value.
pub type Headers = Vec<(String, String)>;

/// What is known of an object without its bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectInfo {
    /// Its key.
    pub key: String,
    /// Its length in bytes.
    pub size: u64,
    /// Its entity tag, in quotes: a 128-bit digest in hex, with the number of parts if it was uploaded in parts. S3's
    /// own is an MD5, here it is XXH3; both only promise to differ when the bytes do.
    pub etag: String,
    /// When it was written, in milliseconds since the Unix epoch by the server's clock, whole seconds as in S3.
    pub last_modified_ms: i64,
}

/// Conditions on writing an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum PutCondition {
    /// None: replaces what is there.
    #[default]
    Always,
    /// `If-None-Match: *`: there must be no object.
    IfNoneMatch,
    /// `If-Match`: the object there must have this very ETag.
    IfMatch(String),
}

/// Conditions on reading an object, as RFC 9110 orders them: `If-Match` outweighs `If-Unmodified-Since`, and
/// `If-None-Match` outweighs `If-Modified-Since`. ETags may be a list, or `*`. Times in milliseconds since the epoch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names of RFC 9110 say it")]
pub struct GetConditions {
    pub if_match: Option<String>,
    pub if_none_match: Option<String>,
    pub if_modified_since_ms: Option<i64>,
    pub if_unmodified_since_ms: Option<i64>,
}

/// A part of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ByteRange {
    /// From the first to before the last; may reach beyond the end, but must not start there.
    Bounded(Range<u64>),
    /// From an offset to the end.
    From(u64),
    /// The last so many bytes.
    Last(u64),
}

/// Which keys to list (`ListObjectsV2`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListRequest {
    /// Only keys that begin so.
    pub prefix: String,
    /// Keys that have this after the prefix are rolled up into one common prefix.
    pub delimiter: Option<String>,
    /// Only keys and common prefixes after this one; not looked at together with a token.
    pub start_after: Option<String>,
    /// Goes on where an earlier answer ended.
    pub continuation_token: Option<String>,
    /// At most so many keys and common prefixes; at most, and by default, 1,000.
    pub max_keys: Option<u32>,
}

/// Which uploads to list (`ListMultipartUploads`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListUploadsRequest {
    /// Only uploads for keys that begin so.
    pub prefix: String,
    /// Keys that have this after the prefix are rolled up into one common prefix.
    pub delimiter: Option<String>,
    /// Only uploads for keys after this one; with `upload_id_marker`, also those for this very key after that upload.
    pub key_marker: Option<String>,
    /// See `key_marker`, without which it is not looked at.
    pub upload_id_marker: Option<String>,
    /// At most so many uploads and common prefixes; at most, and by default, 1,000.
    pub max_uploads: Option<u32>,
}

/// A multipart upload that was neither completed nor aborted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UploadInfo {
    /// The key its object will have.
    pub key: String,
    /// The upload.
    pub upload_id: String,
    /// When it was created, in milliseconds since the Unix epoch by the server's clock, whole seconds as in S3.
    pub initiated_ms: i64,
}

/// A part of an upload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartInfo {
    /// 1 to 10,000.
    pub number: u32,
    /// Its length in bytes.
    pub size: u64,
    /// Its ETag.
    pub etag: String,
    /// When it was uploaded, as in [`UploadInfo::initiated_ms`].
    pub last_modified_ms: i64,
}

/// What S3 is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// `PutObject`.
    Put {
        /// The object's key.
        key: String,
        /// Its bytes.
        body: Bytes,
        /// Its headers.
        headers: Headers,
        /// When to refuse.
        condition: PutCondition,
    },
    /// `GetObject`, or with `head` `HeadObject`.
    Get {
        /// The object's key.
        key: String,
        /// A part of it; all when absent.
        range: Option<ByteRange>,
        /// When to refuse.
        conditions: GetConditions,
        /// Leave the bytes out.
        head: bool,
    },
    /// `DeleteObject`. Of a missing object, too, it succeeds.
    Delete {
        /// The object's key.
        key: String,
    },
    /// `DeleteObjects`: up to 1,000.
    DeleteMany {
        /// Their keys.
        keys: Vec<String>,
    },
    /// `ListObjectsV2`.
    List(ListRequest),
    /// `CopyObject`.
    Copy {
        /// The object to copy.
        from: String,
        /// The copy's key.
        to: String,
        /// `If-None-Match: *` on the copy.
        if_none_match: bool,
    },
    /// `CreateMultipartUpload`.
    CreateUpload {
        /// The object's key.
        key: String,
        /// Its headers.
        headers: Headers,
    },
    /// `UploadPart`.
    UploadPart {
        /// The object's key.
        key: String,
        /// The upload.
        upload_id: String,
        /// 1 to 10,000.
        number: u32,
        /// The part's bytes.
        body: Bytes,
    },
    /// `CompleteMultipartUpload`.
    CompleteUpload {
        /// The object's key.
        key: String,
        /// The upload.
        upload_id: String,
        /// Number and ETag of each part, ascending.
        parts: Vec<(u32, String)>,
        /// When to refuse.
        condition: PutCondition,
    },
    /// `AbortMultipartUpload`.
    AbortUpload {
        /// The object's key.
        key: String,
        /// The upload.
        upload_id: String,
    },
    /// `ListParts`.
    ListParts {
        /// The object's key.
        key: String,
        /// The upload.
        upload_id: String,
        /// Only parts above this number; all when 0.
        number_marker: u32,
        /// At most so many; at most, and by default, 1,000.
        max_parts: Option<u32>,
    },
    /// `ListMultipartUploads`.
    ListUploads(ListUploadsRequest),
}

/// What S3 answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Response {
    /// An object was written, by put, copy or completion.
    Written {
        /// Its ETag.
        etag: String,
    },
    /// An object, or part of it.
    Object {
        /// The whole object's size and tags.
        info: ObjectInfo,
        /// Its headers.
        headers: Headers,
        /// Where `body` lies in it.
        range: Range<u64>,
        /// The bytes; empty for `HeadObject`.
        body: Bytes,
    },
    /// It is not there, or no longer.
    Deleted,
    /// A page of keys.
    List {
        /// Objects, in order of key.
        objects: Vec<ObjectInfo>,
        /// Rolled-up keys, in order.
        common_prefixes: Vec<String>,
        /// Where the next page begins, if there is more.
        next_token: Option<String>,
    },
    /// An upload was begun.
    Upload {
        /// The upload.
        id: String,
    },
    /// A part was taken.
    Part {
        /// Its ETag.
        etag: String,
    },
    /// A page of an upload's parts, by number.
    Parts {
        /// The parts.
        parts: Vec<PartInfo>,
        /// The last number, if there are more.
        next_number_marker: Option<u32>,
    },
    /// A page of uploads, by key and then by creation.
    Uploads {
        /// The uploads.
        uploads: Vec<UploadInfo>,
        /// Rolled-up keys, in order.
        common_prefixes: Vec<String>,
        /// The last key (or common prefix) and upload (empty after a common prefix), if there are more.
        next_markers: Option<(String, String)>,
    },
}
