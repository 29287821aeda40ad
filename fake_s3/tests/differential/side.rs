//! One of the two stores that are compared, and what it answered, in words that both have.

use crate::ops::{Conditions, Mode, Op, Since, Step, Tag};
use crate::raw;
use chrono::{DateTime, TimeDelta, Utc};
use fake_s3::Client;
use fake_s3::api::{ListUploadsRequest, PartInfo};
use fake_s3::client::Failure;
use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::aws::AmazonS3;
use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::signer::Method;
use object_store::{
    Attribute, Attributes, CopyMode, CopyOptions, Error, GetOptions, ListResult, ObjectMeta, ObjectStore,
    PutMode, PutMultipartOptions, PutOptions, UpdateVersion,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// An ETag that no object has.
const WRONG: &str = "\"00000000000000000000000000000000\"";
const FILLING: &str = "filling";

/// What S3 clients do with a store.
pub(crate) trait Full: ObjectStore + MultipartStore + PaginatedListStore {}
impl<T: ObjectStore + MultipartStore + PaginatedListStore> Full for T {}

/// How a side is asked for what `object_store` has no call for.
pub(crate) enum Rest {
    Ours(Client),
    Theirs(AmazonS3),
}

/// An ETag without its quotes. Equal here when it speaks of as many parts: stores have different digests.
#[derive(Clone, Debug, Eq)]
pub(crate) struct ETag(pub(crate) String);

impl PartialEq for ETag {
    fn eq(&self, other: &Self) -> bool {
        let parts = |tag: &Self| tag.0.split_once('-').map(|(_, parts)| parts.to_string());
        parts(self) == parts(other)
    }
}

impl ETag {
    fn new(text: Option<String>) -> Self {
        ETag(text.unwrap_or_default().trim_matches('"').to_string())
    }
}

/// What an operation came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    Copied(Vec<u8>),
    Written(ETag),
    Object {
        size: u64,
        start: u64,
        body: Vec<u8>,
        tag: ETag,
        filling: Option<String>,
    },
    Deleted(Vec<String>),
    Pages(Vec<Page>),
    Created,
    Part(ETag),
    Parts(Vec<Vec<(u32, u64, ETag)>>),
    /// Keys and the steps that created the uploads, and common prefixes.
    Uploads(Vec<(Vec<(String, u32)>, Vec<String>)>),
    Failed {
        variant: &'static str,
        code: Option<String>,
    },
    /// It refers to an upload or a part that could not be made.
    Nothing,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Page {
    pub(crate) objects: Vec<(String, u64, ETag)>,
    pub(crate) prefixes: Vec<String>,
}

impl Outcome {
    /// The ETags in it, in order.
    pub(crate) fn tags(&self) -> Vec<&ETag> {
        match self {
            Outcome::Written(tag) | Outcome::Part(tag) | Outcome::Object { tag, .. } => vec![tag],
            Outcome::Pages(pages) => {
                pages.iter().flat_map(|page| page.objects.iter().map(|one| &one.2)).collect()
            }
            Outcome::Parts(pages) => pages.iter().flatten().map(|part| &part.2).collect(),
            _ => Vec::new(),
        }
    }
}

pub(crate) struct Side {
    store: Arc<dyn Full>,
    /// Deletes objects one by one.
    single: Arc<dyn Full>,
    /// Copies unless there is something, by a multipart upload where that is how.
    copier: Arc<dyn Full>,
    rest: Rest,
    tag_of: BTreeMap<u32, String>,
    uploads: BTreeMap<u32, (Path, String)>,
    parts: BTreeMap<(u32, usize), PartId>,
}

impl Side {
    pub(crate) fn new(stores: [Arc<dyn Full>; 3], rest: Rest) -> Self {
        let [store, single, copier] = stores;
        let (tag_of, uploads, parts) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Side { store, single, copier, rest, tag_of, uploads, parts }
    }

    /// Forgets the ETag a step learnt: the other side did not.
    pub(crate) fn forget(&mut self, step: u32) {
        self.tag_of.remove(&step);
    }

    pub(crate) async fn take(&mut self, step: &Step) -> Outcome {
        self.try_take(step).await.unwrap_or_else(|error| failed(&error))
    }

    async fn try_take(&mut self, Step { id, op }: &Step) -> Result<Outcome, Error> {
        match op {
            Op::Put { key, body, mode } => {
                let mode = match mode {
                    Mode::Overwrite => PutMode::Overwrite,
                    Mode::Create => PutMode::Create,
                    Mode::Update(tag) => {
                        PutMode::Update(UpdateVersion { e_tag: Some(self.tag(*tag)), version: None })
                    }
                };
                let attributes = filling(body.filling);
                let options = PutOptions { mode, attributes, ..Default::default() };
                let put = self.store.put_opts(&path(key), body.bytes().into(), options).await?;
                Ok(Outcome::Written(self.learn(*id, put.e_tag)))
            }
            Op::Get { key, range, conditions, head } => {
                let options = self.options(key, conditions).await;
                let options = GetOptions { range: range.clone(), head: *head, ..options };
                let got = self.store.get_opts(&path(key), options).await?;
                let (size, start) = (got.meta.size, got.range.start);
                let filling = got.attributes.get(&Attribute::Metadata(FILLING.into()));
                let filling = filling.map(|value| value.to_string());
                let tag = self.learn(*id, got.meta.e_tag.clone());
                let body = if *head { Vec::new() } else { got.bytes().await?.to_vec() };
                Ok(Outcome::Object { size, start, body, tag, filling })
            }
            Op::Delete { key } => delete(&self.single, std::slice::from_ref(key)).await,
            Op::DeleteMany { keys } => delete(&self.store, keys).await,
            Op::Pages { prefix, delimiter, offset, max_keys } => {
                self.pages(prefix, *delimiter, offset.as_deref(), *max_keys).await
            }
            Op::Directory { prefix } => {
                let prefix = prefix.as_deref().map(path);
                let listed = self.store.list_with_delimiter(prefix.as_ref()).await?;
                Ok(Outcome::Pages(vec![page(listed)]))
            }
            Op::Copy { from, to, create } => {
                let mode = if *create { CopyMode::Create } else { CopyMode::Overwrite };
                let options = CopyOptions { mode, ..Default::default() };
                self.store.copy_opts(&path(from), &path(to), options).await?;
                Ok(Outcome::Done)
            }
            Op::CopyByParts { from, to } => {
                let options = CopyOptions { mode: CopyMode::Create, ..Default::default() };
                self.copier.copy_opts(&path(from), &path(to), options).await?;
                // Copied so an object has another ETag and no attributes: look at its bytes, and away with it.
                let got = self.store.get_opts(&path(to), GetOptions::default()).await?.bytes().await?;
                delete(&self.store, std::slice::from_ref(to)).await?;
                Ok(Outcome::Copied(got.to_vec()))
            }
            Op::ListParts { upload, max_parts } => self.list_parts(*upload, *max_parts).await,
            Op::ListUploads { prefix, delimiter, max_uploads } => {
                self.list_uploads(prefix, *delimiter, *max_uploads).await
            }
            _ => self.multipart(*id, op).await,
        }
    }

    async fn multipart(&mut self, id: u32, op: &Op) -> Result<Outcome, Error> {
        let upload = match op {
            Op::CreateUpload { key } => {
                let attributes = filling(9);
                let options = PutMultipartOptions { attributes, ..Default::default() };
                let upload = self.store.create_multipart_opts(&path(key), options).await?;
                self.uploads.insert(id, (path(key), upload));
                return Ok(Outcome::Created);
            }
            Op::Part { upload, .. } | Op::Complete { upload, .. } | Op::Abort { upload } => upload,
            other => unreachable!("{other:?} is none of an upload's"),
        };
        let Some((path, upload_id)) = self.uploads.get(upload).cloned() else { return Ok(Outcome::Nothing) };
        match op {
            Op::Part { index, body, .. } => {
                let part = self.store.put_part(&path, &upload_id, *index, body.bytes().into()).await?;
                self.parts.insert((*upload, *index), part.clone());
                Ok(Outcome::Part(ETag::new(Some(part.content_id))))
            }
            Op::Complete { parts, .. } => {
                let named = parts.iter().map(|index| {
                    let taken = index.and_then(|index| self.parts.get(&(*upload, index)).cloned());
                    taken.unwrap_or_else(|| PartId { content_id: WRONG.to_string() })
                });
                let put = self.store.complete_multipart(&path, &upload_id, named.collect()).await?;
                Ok(Outcome::Written(self.learn(id, put.e_tag)))
            }
            _ => self.store.abort_multipart(&path, &upload_id).await.map(|()| Outcome::Done),
        }
    }

    async fn pages(
        &mut self,
        prefix: &str,
        delimiter: Option<&'static str>,
        offset: Option<&str>,
        max_keys: usize,
    ) -> Result<Outcome, Error> {
        let (mut pages, mut token) = (Vec::new(), None);
        loop {
            let options = PaginatedListOptions {
                offset: offset.map(str::to_string),
                delimiter: delimiter.map(Into::into),
                max_keys: Some(max_keys),
                page_token: token,
                ..Default::default()
            };
            let listed = self.store.list_paginated(Some(prefix), options).await?;
            pages.push(page(listed.result));
            token = listed.page_token;
            // A list that does not end is a difference, and not to hang on.
            if token.is_none() || pages.len() > 50 {
                return Ok(Outcome::Pages(pages));
            }
        }
    }

    async fn list_parts(&mut self, upload: u32, max_parts: u32) -> Result<Outcome, Error> {
        let Some((path, id)) = self.uploads.get(&upload).cloned() else { return Ok(Outcome::Nothing) };
        let (mut pages, mut marker) = (Vec::new(), 0);
        loop {
            let (parts, next) = match &self.rest {
                Rest::Ours(client) => match client.list_parts(&path, &id, marker, Some(max_parts)).await {
                    Ok(page) => page,
                    Err(failure) => return Ok(refused(&failure)),
                },
                Rest::Theirs(store) => {
                    let (max, marker) = (max_parts.to_string(), marker.to_string());
                    let query = [("max-parts", &*max), ("part-number-marker", &*marker), ("uploadId", &*id)];
                    match raw_list(store, &path, &query).await {
                        Ok(xml) => parts_of(&xml),
                        Err(outcome) => return Ok(outcome),
                    }
                }
            };
            pages.push(
                parts.into_iter().map(|part| (part.number, part.size, ETag::new(Some(part.etag)))).collect(),
            );
            match next {
                Some(next) if pages.len() < 50 => marker = next,
                _ => return Ok(Outcome::Parts(pages)),
            }
        }
    }

    async fn list_uploads(
        &mut self,
        prefix: &str,
        delimiter: Option<&str>,
        max_uploads: u32,
    ) -> Result<Outcome, Error> {
        let (mut pages, mut markers) = (Vec::new(), None::<(String, String)>);
        loop {
            let (uploads, prefixes, next) = match &self.rest {
                Rest::Ours(client) => {
                    let (key_marker, upload_id_marker) = markers.clone().unzip();
                    let request = ListUploadsRequest {
                        prefix: prefix.to_string(),
                        delimiter: delimiter.map(str::to_string),
                        key_marker,
                        upload_id_marker,
                        max_uploads: Some(max_uploads),
                    };
                    match client.list_uploads(request).await {
                        Ok(page) => {
                            let uploads = page.uploads.into_iter().map(|one| (one.key, one.upload_id));
                            (uploads.collect(), page.common_prefixes, page.next_markers)
                        }
                        Err(failure) => return Ok(refused(&failure)),
                    }
                }
                Rest::Theirs(store) => {
                    let (key, id) = markers.clone().unwrap_or_default();
                    let query = [
                        ("delimiter", delimiter.unwrap_or_default()),
                        ("key-marker", &*key),
                        ("max-uploads", &*max_uploads.to_string()),
                        ("prefix", prefix),
                        ("upload-id-marker", &*id),
                        ("uploads", ""),
                    ];
                    let query: Vec<_> = query
                        .into_iter()
                        .filter(|(name, value)| !value.is_empty() || *name == "uploads")
                        .collect();
                    match raw_list(store, &Path::default(), &query).await {
                        Ok(xml) => uploads_of(&xml),
                        Err(outcome) => return Ok(outcome),
                    }
                }
            };
            pages.push((self.created_by(uploads), prefixes));
            match next {
                Some(next) if pages.len() < 50 => markers = Some(next),
                _ => return Ok(Outcome::Uploads(pages)),
            }
        }
    }

    /// Upload ids as the steps that created them; 0 for one that none did.
    fn created_by(&self, uploads: Vec<(String, String)>) -> Vec<(String, u32)> {
        let step =
            |id: &str| self.uploads.iter().find(|(_, (_, known))| known == id).map_or(0, |(step, _)| *step);
        uploads.into_iter().map(|(key, id)| (key, step(&id))).collect()
    }

    /// Conditions in this side's own ETags and times.
    async fn options(&self, key: &str, conditions: &Conditions) -> GetOptions {
        let Conditions { if_match, if_none_match, if_modified, if_unmodified } = *conditions;
        let mut written = DateTime::<Utc>::UNIX_EPOCH;
        if if_modified.is_some() || if_unmodified.is_some() {
            let head = GetOptions { head: true, ..Default::default() };
            if let Ok(got) = self.store.get_opts(&path(key), head).await {
                written = got.meta.last_modified;
            }
        }
        let date = |since| match since {
            Since::Before => written - TimeDelta::seconds(1),
            Since::Then => written,
        };
        GetOptions {
            if_match: if_match.map(|tag| self.tag(tag)),
            if_none_match: if_none_match.map(|tag| self.tag(tag)),
            if_modified_since: if_modified.map(date),
            if_unmodified_since: if_unmodified.map(date),
            ..Default::default()
        }
    }

    fn tag(&self, tag: Tag) -> String {
        match tag {
            Tag::Of(step) => self.tag_of.get(&step).cloned().unwrap_or_else(|| WRONG.to_string()),
            Tag::Wrong => WRONG.to_string(),
            Tag::Any => "*".to_string(),
        }
    }

    fn learn(&mut self, step: u32, etag: Option<String>) -> ETag {
        self.tag_of.extend(etag.clone().map(|etag| (step, etag)));
        ETag::new(etag)
    }
}

fn page(listed: ListResult) -> Page {
    let object = |object: ObjectMeta| (object.location.to_string(), object.size, ETag::new(object.e_tag));
    let objects = listed.objects.into_iter().map(object).collect();
    Page { objects, prefixes: listed.common_prefixes.iter().map(Path::to_string).collect() }
}

fn path(key: &str) -> Path {
    Path::parse(key).expect("keys of cases are paths")
}

fn filling(filling: u8) -> Attributes {
    [(Attribute::Metadata(FILLING.into()), filling.to_string())].into_iter().collect()
}

async fn delete(store: &Arc<dyn Full>, keys: &[String]) -> Result<Outcome, Error> {
    let paths: Vec<_> = keys.iter().map(|key| Ok(path(key))).collect();
    let deleted: Vec<Path> = store.delete_stream(stream::iter(paths).boxed()).try_collect().await?;
    Ok(Outcome::Deleted(deleted.iter().map(Path::to_string).collect()))
}

async fn raw_list(store: &AmazonS3, path: &Path, query: &[(&str, &str)]) -> Result<String, Outcome> {
    match raw::request(store, Method::GET, path, query).await {
        Ok((200, body)) => Ok(body),
        Ok((status, body)) => {
            let variant = if status == 404 { "NotFound" } else { "Generic" };
            Err(Outcome::Failed { variant, code: raw::elements(&body, "Code").pop() })
        }
        Err(error) => Err(Outcome::Failed { variant: "Io", code: Some(error.to_string()) }),
    }
}

fn first<T: std::str::FromStr>(xml: &str, name: &str) -> Option<T> {
    raw::elements(xml, name).first()?.parse().ok()
}

fn is_truncated(xml: &str) -> bool {
    first(xml, "IsTruncated").unwrap_or(false)
}

fn parts_of(xml: &str) -> (Vec<PartInfo>, Option<u32>) {
    let part = |part: &String| {
        Some(PartInfo {
            number: first(part, "PartNumber")?,
            size: first(part, "Size")?,
            etag: first(part, "ETag")?,
            last_modified_ms: 0,
        })
    };
    let next = is_truncated(xml).then(|| first(xml, "NextPartNumberMarker")).flatten();
    (raw::elements(xml, "Part").iter().filter_map(part).collect(), next)
}

/// Keys and ids, common prefixes, and the markers of the next page.
type Uploads = (Vec<(String, String)>, Vec<String>, Option<(String, String)>);

fn uploads_of(xml: &str) -> Uploads {
    let upload = |upload: &String| Some((first(upload, "Key")?, first(upload, "UploadId")?));
    let uploads = raw::elements(xml, "Upload").iter().filter_map(upload).collect();
    let prefixes =
        raw::elements(xml, "CommonPrefixes").iter().filter_map(|one| first(one, "Prefix")).collect();
    let next = is_truncated(xml).then(|| {
        (
            first(xml, "NextKeyMarker").unwrap_or_default(),
            first(xml, "NextUploadIdMarker").unwrap_or_default(),
        )
    });
    (uploads, prefixes, next)
}

fn refused(failure: &Failure) -> Outcome {
    match failure {
        Failure::Refused(error) => {
            let variant = if error.status() == 404 { "NotFound" } else { "Generic" };
            Outcome::Failed { variant, code: Some(error.to_string()) }
        }
        other => Outcome::Failed { variant: "Client", code: Some(other.to_string()) },
    }
}

fn failed(error: &Error) -> Outcome {
    let variant = match error {
        Error::NotFound { .. } => "NotFound",
        Error::AlreadyExists { .. } => "AlreadyExists",
        Error::Precondition { .. } => "Precondition",
        Error::NotModified { .. } => "NotModified",
        Error::PermissionDenied { .. } => "PermissionDenied",
        Error::NotImplemented { .. } | Error::NotSupported { .. } => "NotImplemented",
        _ => "Generic",
    };
    let mut code = None;
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        match error.downcast_ref::<Failure>() {
            Some(Failure::Refused(refused)) => code = Some(refused.to_string()),
            Some(other) => code = Some(other.to_string()),
            None => {
                let text = error.to_string();
                code = raw::elements(&text, "Code").pop().or(code);
            }
        }
        cause = error.source();
    }
    Outcome::Failed { variant, code }
}
