//! Between `object_store`'s types and S3's.

use super::Failure;
use crate::api::{ByteRange, Headers, ObjectInfo};
use crate::error::S3Error;
use bytes::Bytes;
use chrono::{DateTime, Utc};
use object_store::path::Path;
use object_store::{
    Attribute, AttributeValue, Attributes, Error, GetRange, ObjectMeta, PutPayload, Result, TagSet,
};
use std::borrow::Cow;

pub(super) const STORE: &str = "fake_s3";
const USER_METADATA: &str = "x-amz-meta-";

/// The error a failure at `path` is.
pub(super) fn error(failure: Failure, path: &str) -> Error {
    let path = path.to_string();
    match failure {
        Failure::Refused(S3Error::NoSuchKey | S3Error::NoSuchUpload) => {
            Error::NotFound { path, source: failure.into() }
        }
        Failure::Refused(S3Error::PreconditionFailed) => Error::Precondition { path, source: failure.into() },
        Failure::Refused(S3Error::NotModified) => Error::NotModified { path, source: failure.into() },
        _ => Error::Generic { store: STORE, source: failure.into() },
    }
}

/// A response of another kind than the request has.
pub(super) fn unexpected() -> Error {
    error(another_kind(), "")
}

pub(super) fn another_kind() -> Failure {
    Failure::Protocol("a response of another kind".to_string())
}

pub(super) fn meta(info: ObjectInfo) -> Result<ObjectMeta> {
    Ok(ObjectMeta {
        location: Path::parse(&info.key)?,
        last_modified: DateTime::from_timestamp_millis(info.last_modified_ms)
            .unwrap_or(DateTime::<Utc>::MIN_UTC),
        size: info.size,
        e_tag: Some(info.etag),
        version: None,
    })
}

/// The payload in one piece; without a copy where it is one already.
pub(super) fn body(payload: PutPayload) -> Bytes {
    payload.into()
}

pub(super) fn range(range: GetRange) -> ByteRange {
    match range {
        GetRange::Bounded(range) => ByteRange::Bounded(range),
        GetRange::Offset(offset) => ByteRange::From(offset),
        GetRange::Suffix(bytes) => ByteRange::Last(bytes),
    }
}

/// Attributes as headers, in order of name: theirs is a hash map's.
pub(super) fn headers(attributes: &Attributes, tags: &TagSet) -> Result<Headers> {
    if !tags.encoded().is_empty() {
        return Err(not_implemented("object tags"));
    }
    let mut headers = Headers::new();
    for (attribute, value) in attributes {
        let name = match attribute {
            Attribute::ContentDisposition => "Content-Disposition",
            Attribute::ContentEncoding => "Content-Encoding",
            Attribute::ContentLanguage => "Content-Language",
            Attribute::ContentType => "Content-Type",
            Attribute::CacheControl => "Cache-Control",
            Attribute::StorageClass => "x-amz-storage-class",
            Attribute::Metadata(name) => &format!("{USER_METADATA}{name}"),
            _ => return Err(not_implemented("an attribute of a kind unknown here")),
        };
        headers.push((name.to_string(), value.to_string()));
    }
    headers.sort();
    Ok(headers)
}

pub(super) fn attributes(headers: Headers) -> Attributes {
    let attribute = |(name, value): (String, String)| {
        let attribute = match name.as_str() {
            "Content-Disposition" => Attribute::ContentDisposition,
            "Content-Encoding" => Attribute::ContentEncoding,
            "Content-Language" => Attribute::ContentLanguage,
            "Content-Type" => Attribute::ContentType,
            "Cache-Control" => Attribute::CacheControl,
            "x-amz-storage-class" => Attribute::StorageClass,
            name => Attribute::Metadata(Cow::Owned(name.strip_prefix(USER_METADATA)?.to_string())),
        };
        Some((attribute, AttributeValue::from(value)))
    };
    headers.into_iter().filter_map(attribute).collect()
}

fn not_implemented(operation: &str) -> Error {
    Error::NotImplemented { operation: operation.to_string(), implementer: STORE.to_string() }
}
