//! Multipart uploads: parts kept aside until they are made one object.

use super::digest;
use super::list::{MAX_KEYS, rolled_up, successor};
use crate::api::{Headers, ListUploadsRequest, PartInfo, Response, UploadInfo};
use crate::error::S3Error;
use bytes::{Bytes, BytesMut};
use std::collections::BTreeMap;
use std::ops::Bound;

/// The least size of a part other than the last, in bytes.
const MIN_PART_BYTES: usize = 5 * 1024 * 1024;
/// The highest part number.
const MAX_PART: u32 = 10_000;

#[derive(Debug)]
struct Upload {
    headers: Headers,
    initiated_ms: i64,
    parts: BTreeMap<u32, Part>,
}

#[derive(Debug)]
struct Part {
    body: Bytes,
    etag: String,
    last_modified_ms: i64,
}

/// What parts make together.
pub(super) struct Whole {
    pub(super) body: Bytes,
    pub(super) headers: Headers,
    pub(super) etag: String,
}

/// A key and the number of an upload: the order in which uploads are listed.
type Place = (String, u64);

#[derive(Debug, Default)]
pub(super) struct Uploads {
    uploads: BTreeMap<Place, Upload>,
    created: u64,
}

impl Uploads {
    pub(super) fn create(&mut self, now_ms: i64, key: &str, headers: &Headers) -> String {
        self.created += 1;
        let upload = Upload { headers: headers.clone(), initiated_ms: now_ms, parts: BTreeMap::new() };
        self.uploads.insert((key.to_string(), self.created), upload);
        to_id(self.created)
    }

    /// Takes a part, in place of one with the same number; returns its ETag.
    pub(super) fn part(
        &mut self,
        now_ms: i64,
        key: &str,
        id: &str,
        number: u32,
        body: &Bytes,
    ) -> Result<String, S3Error> {
        if !(1..=MAX_PART).contains(&number) {
            return Err(S3Error::InvalidArgument);
        }
        let upload = self.uploads.get_mut(&place(key, id)?).ok_or(S3Error::NoSuchUpload)?;
        let etag = format!("\"{}\"", digest(body));
        let part = Part { body: body.clone(), etag: etag.clone(), last_modified_ms: now_ms };
        upload.parts.insert(number, part);
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
        self.uploads.remove(&place(key, id)?).map(drop).ok_or(S3Error::NoSuchUpload)
    }

    /// A page of an upload's parts.
    pub(super) fn list_parts(
        &self,
        key: &str,
        id: &str,
        number_marker: u32,
        max_parts: Option<u32>,
    ) -> Result<Response, S3Error> {
        let most = max_parts.map_or(MAX_KEYS, |parts| (parts as usize).min(MAX_KEYS));
        let mut rest = self.get(key, id)?.parts.range((Bound::Excluded(number_marker), Bound::Unbounded));
        let info = |(number, part): (&u32, &Part)| PartInfo {
            number: *number,
            size: part.body.len() as u64,
            etag: part.etag.clone(),
            last_modified_ms: part.last_modified_ms,
        };
        let parts: Vec<PartInfo> = rest.by_ref().take(most).map(info).collect();
        let last = parts.last().map(|part| part.number);
        Ok(Response::Parts { parts, next_number_marker: last.filter(|_| rest.next().is_some()) })
    }

    /// A page of uploads.
    pub(super) fn list(&self, request: &ListUploadsRequest) -> Result<Response, S3Error> {
        let most = request.max_uploads.map_or(MAX_KEYS, |uploads| (uploads as usize).min(MAX_KEYS));
        let mut start = first_place(request)?;
        let (mut uploads, mut common_prefixes, mut last) = (Vec::new(), Vec::new(), None);
        while let Some((place, upload)) = self.next(&request.prefix, &start) {
            let (key, number) = place;
            if uploads.len() + common_prefixes.len() >= most {
                return Ok(Response::Uploads { uploads, common_prefixes, next_markers: last });
            }
            match rolled_up(key, &request.prefix, request.delimiter.as_deref()) {
                Some(prefix) => {
                    common_prefixes.push(prefix.to_string());
                    last = Some((prefix.to_string(), String::new()));
                    let Some(after) = successor(prefix) else { break };
                    start = Bound::Included((after, 0));
                }
                None => {
                    let upload_id = to_id(*number);
                    last = Some((key.clone(), upload_id.clone()));
                    let initiated_ms = upload.initiated_ms;
                    uploads.push(UploadInfo { key: key.clone(), upload_id, initiated_ms });
                    start = Bound::Excluded(place.clone());
                }
            }
        }
        Ok(Response::Uploads { uploads, common_prefixes, next_markers: None })
    }

    /// The first upload with the prefix, from a place on.
    fn next(&self, prefix: &str, start: &Bound<Place>) -> Option<(&Place, &Upload)> {
        self.uploads
            .range((start.clone(), Bound::Unbounded))
            .next()
            .filter(|((key, _), _)| key.starts_with(prefix))
    }

    fn get(&self, key: &str, id: &str) -> Result<&Upload, S3Error> {
        self.uploads.get(&place(key, id)?).ok_or(S3Error::NoSuchUpload)
    }
}

/// Where a list of uploads begins.
fn first_place(request: &ListUploadsRequest) -> Result<Bound<Place>, S3Error> {
    let from_prefix = Bound::Included((request.prefix.clone(), 0));
    let Some(key) = &request.key_marker else { return Ok(from_prefix) };
    if *key < request.prefix {
        return Ok(from_prefix);
    }
    // A marker that ends with the delimiter stands for the whole common prefix.
    let rolled = rolled_up_marker(key, request);
    match request.upload_id_marker.as_deref().filter(|id| !id.is_empty()) {
        Some(id) => Ok(Bound::Excluded((key.clone(), number(id).ok_or(S3Error::InvalidArgument)?))),
        None => match rolled.and_then(successor) {
            Some(after) => Ok(Bound::Included((after, 0))),
            None => Ok(Bound::Excluded((key.clone(), u64::MAX))),
        },
    }
}

fn rolled_up_marker<'k>(key: &'k str, request: &ListUploadsRequest) -> Option<&'k str> {
    let starts = key.starts_with(&request.prefix);
    let rolled = starts.then(|| rolled_up(key, &request.prefix, request.delimiter.as_deref()))?;
    rolled.filter(|prefix| *prefix == key)
}

fn place(key: &str, id: &str) -> Result<Place, S3Error> {
    Ok((key.to_string(), number(id).ok_or(S3Error::NoSuchUpload)?))
}

/// An upload's id; ids have the order of their numbers.
fn to_id(number: u64) -> String {
    format!("upload-{number:020}")
}

fn number(id: &str) -> Option<u64> {
    id.strip_prefix("upload-")?.parse().ok()
}
