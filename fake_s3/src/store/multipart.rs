//! Multipart uploads: parts kept aside until they are made one object.

use super::digest;
use crate::api::Headers;
use crate::error::S3Error;
use bytes::{Bytes, BytesMut};
use std::collections::BTreeMap;

/// The least size of a part other than the last, in bytes.
const MIN_PART_BYTES: usize = 5 * 1024 * 1024;
/// The highest part number.
const MAX_PART: u32 = 10_000;

#[derive(Debug)]
struct Upload {
    key: String,
    headers: Headers,
    parts: BTreeMap<u32, Part>,
}

#[derive(Debug)]
struct Part {
    body: Bytes,
    etag: String,
}

/// What parts make together.
pub(super) struct Whole {
    pub(super) body: Bytes,
    pub(super) headers: Headers,
    pub(super) etag: String,
}

#[derive(Debug, Default)]
pub(super) struct Uploads {
    uploads: BTreeMap<String, Upload>,
    created: u64,
}

impl Uploads {
    pub(super) fn create(&mut self, key: &str, headers: &Headers) -> String {
        self.created += 1;
        let id = format!("upload-{:08}", self.created);
        let upload = Upload { key: key.to_string(), headers: headers.clone(), parts: BTreeMap::new() };
        self.uploads.insert(id.clone(), upload);
        id
    }

    /// Takes a part, in place of one with the same number; returns its ETag.
    pub(super) fn part(&mut self, key: &str, id: &str, number: u32, body: &Bytes) -> Result<String, S3Error> {
        if !(1..=MAX_PART).contains(&number) {
            return Err(S3Error::InvalidArgument);
        }
        let upload =
            self.uploads.get_mut(id).filter(|upload| upload.key == key).ok_or(S3Error::NoSuchUpload)?;
        let etag = format!("\"{}\"", digest(body));
        upload.parts.insert(number, Part { body: body.clone(), etag: etag.clone() });
        Ok(etag)
    }

    /// Puts the named parts together; the upload stays until it is removed.
    pub(super) fn assemble(&self, key: &str, id: &str, named: &[(u32, String)]) -> Result<Whole, S3Error> {
        let upload = self.get(key, id)?;
        if named.is_empty() {
            return Err(S3Error::MalformedXml);
        }
        if named.windows(2).any(|pair| pair[0].0 >= pair[1].0) {
            return Err(S3Error::InvalidPartOrder);
        }
        let (mut body, mut tags) = (BytesMut::new(), String::new());
        for (position, (number, etag)) in named.iter().enumerate() {
            let part =
                upload.parts.get(number).filter(|part| part.etag == *etag).ok_or(S3Error::InvalidPart)?;
            if position + 1 < named.len() && part.body.len() < MIN_PART_BYTES {
                return Err(S3Error::EntityTooSmall);
            }
            body.extend_from_slice(&part.body);
            tags.push_str(&part.etag);
        }
        let etag = format!("\"{}-{}\"", digest(tags.as_bytes()), named.len());
        Ok(Whole { body: body.freeze(), headers: upload.headers.clone(), etag })
    }

    pub(super) fn remove(&mut self, key: &str, id: &str) -> Result<(), S3Error> {
        self.get(key, id)?;
        self.uploads.remove(id);
        Ok(())
    }

    fn get(&self, key: &str, id: &str) -> Result<&Upload, S3Error> {
        self.uploads.get(id).filter(|upload| upload.key == key).ok_or(S3Error::NoSuchUpload)
    }
}
