//! One of the two stores that are compared: takes a step and tells what it came to.

use crate::ops::{Conditions, Mode, Op, Since, Step, Tag};
use crate::outcome::{ETag, Outcome, Page, failed};
use chrono::{DateTime, TimeDelta, Utc};
use fake_s3::Client;
use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::aws::AmazonS3;
use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{
    Attribute, Attributes, CopyMode, CopyOptions, Error, GetOptions, ListResult, ObjectMeta, ObjectStore,
    PutMode, PutMultipartOptions, PutOptions, UpdateVersion,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// An ETag that no object has.
const WRONG: &str = "\"00000000000000000000000000000000\"";
const FILLING: &str = "filling";
/// What uploads say of their filling.
pub(crate) const UPLOAD_FILLING: u8 = 9;

/// What S3 clients do with a store.
pub(crate) trait Full: ObjectStore + MultipartStore + PaginatedListStore {}
impl<T: ObjectStore + MultipartStore + PaginatedListStore> Full for T {}

/// How a side is asked for what `object_store` has no call for.
pub(crate) enum Rest {
    Ours(Client),
    Theirs(AmazonS3),
}

pub(crate) struct Side {
    store: Arc<dyn Full>,
    /// Deletes objects one by one.
    single: Arc<dyn Full>,
    /// Copies unless there is something, by a multipart upload where that is how.
    copier: Arc<dyn Full>,
    pub(crate) rest: Rest,
    tag_of: BTreeMap<u32, String>,
    pub(crate) uploads: BTreeMap<u32, (Path, String)>,
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
                let attributes = filling(UPLOAD_FILLING);
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
