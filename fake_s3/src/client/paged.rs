//! The S3 traits below [`ObjectStore`](object_store::ObjectStore): pages of a list, and multipart uploads whose parts
//! may come from many processes. And what is listed of uploads, for which there is no trait.

use super::convert;
use super::store::written;
use super::{Client, Failure};
use crate::api::{ListRequest, ListUploadsRequest, PartInfo, PutCondition, Request, Response, UploadInfo};
use async_trait::async_trait;
use object_store::list::{PaginatedListOptions, PaginatedListResult, PaginatedListStore};
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{Error, ListResult, MultipartId, PutMultipartOptions, PutPayload, PutResult, Result};

/// A page of uploads that were neither completed nor aborted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UploadsPage {
    /// The uploads, by key and then by creation.
    pub uploads: Vec<UploadInfo>,
    /// Rolled-up keys, in order.
    pub common_prefixes: Vec<String>,
    /// `key_marker` and `upload_id_marker` of the next page, if there is one.
    pub next_markers: Option<(String, String)>,
}

impl Client {
    /// A page of an upload's parts (`ListParts`), and the marker of the next page if there is one.
    ///
    /// # Errors
    /// What the server refuses (`NoSuchUpload`), and what [`Failure`] says of lost answers.
    pub async fn list_parts(
        &self,
        path: &Path,
        id: &MultipartId,
        number_marker: u32,
        max_parts: Option<u32>,
    ) -> Result<(Vec<PartInfo>, Option<u32>), Failure> {
        let (key, upload_id) = (path.to_string(), id.clone());
        match self.call(Request::ListParts { key, upload_id, number_marker, max_parts }).await? {
            Response::Parts { parts, next_number_marker } => Ok((parts, next_number_marker)),
            _ => Err(convert::another_kind()),
        }
    }

    /// A page of uploads (`ListMultipartUploads`).
    ///
    /// # Errors
    /// As [`Client::list_parts`].
    pub async fn list_uploads(&self, request: ListUploadsRequest) -> Result<UploadsPage, Failure> {
        match self.call(Request::ListUploads(request)).await? {
            Response::Uploads { uploads, common_prefixes, next_markers } => {
                Ok(UploadsPage { uploads, common_prefixes, next_markers })
            }
            _ => Err(convert::another_kind()),
        }
    }

    /// One page of a list.
    pub(super) async fn page(&self, request: ListRequest) -> Result<(ListResult, Option<String>)> {
        let prefix = request.prefix.clone();
        match self.call(Request::List(request)).await {
            Ok(Response::List { objects, common_prefixes, next_token }) => {
                let common_prefixes = common_prefixes.iter().map(Path::parse).collect::<Result<_, _>>()?;
                let objects = objects.into_iter().map(convert::meta).collect::<Result<_>>()?;
                Ok((ListResult { common_prefixes, objects, extensions: Default::default() }, next_token))
            }
            Ok(_) => Err(convert::unexpected()),
            Err(failure) => Err(convert::error(failure, &prefix)),
        }
    }
}

#[async_trait]
impl PaginatedListStore for Client {
    async fn list_paginated(
        &self,
        prefix: Option<&str>,
        opts: PaginatedListOptions,
    ) -> Result<PaginatedListResult> {
        let request = ListRequest {
            prefix: prefix.unwrap_or_default().to_string(),
            delimiter: opts.delimiter.map(|delimiter| delimiter.into_owned()),
            start_after: opts.offset,
            continuation_token: opts.page_token,
            max_keys: opts.max_keys.map(|keys| u32::try_from(keys).unwrap_or(u32::MAX)),
        };
        let (result, page_token) = self.page(request).await?;
        Ok(PaginatedListResult { result, page_token })
    }
}

#[async_trait]
impl MultipartStore for Client {
    async fn create_multipart(&self, path: &Path) -> Result<MultipartId> {
        self.create_multipart_opts(path, PutMultipartOptions::default()).await
    }

    async fn create_multipart_opts(&self, path: &Path, opts: PutMultipartOptions) -> Result<MultipartId> {
        let headers = convert::headers(&opts.attributes, &opts.tags)?;
        match self.call(Request::CreateUpload { key: path.to_string(), headers }).await {
            Ok(Response::Upload { id }) => Ok(id),
            Ok(_) => Err(convert::unexpected()),
            Err(failure) => Err(convert::error(failure, path.as_ref())),
        }
    }

    async fn put_part(
        &self,
        path: &Path,
        id: &MultipartId,
        part_idx: usize,
        data: PutPayload,
    ) -> Result<PartId> {
        let request = Request::UploadPart {
            key: path.to_string(),
            upload_id: id.clone(),
            number: number(part_idx)?,
            body: convert::body(data),
        };
        match self.call(request).await {
            Ok(Response::Part { etag }) => Ok(PartId { content_id: etag }),
            Ok(_) => Err(convert::unexpected()),
            Err(failure) => Err(convert::error(failure, path.as_ref())),
        }
    }

    async fn complete_multipart(
        &self,
        path: &Path,
        id: &MultipartId,
        parts: Vec<PartId>,
    ) -> Result<PutResult> {
        // S3 has no upload without parts; an empty object is one empty part.
        let parts = if parts.is_empty() {
            vec![self.put_part(path, id, 0, PutPayload::default()).await?]
        } else {
            parts
        };
        let named = parts.into_iter().enumerate().map(|(idx, part)| Ok((number(idx)?, part.content_id)));
        let request = Request::CompleteUpload {
            key: path.to_string(),
            upload_id: id.clone(),
            parts: named.collect::<Result<_>>()?,
            condition: PutCondition::Always,
        };
        match self.call(request).await {
            Ok(Response::Written { etag }) => Ok(written(etag)),
            Ok(_) => Err(convert::unexpected()),
            Err(failure) => Err(convert::error(failure, path.as_ref())),
        }
    }

    async fn abort_multipart(&self, path: &Path, id: &MultipartId) -> Result<()> {
        let request = Request::AbortUpload { key: path.to_string(), upload_id: id.clone() };
        self.call(request).await.map(drop).map_err(|failure| convert::error(failure, path.as_ref()))
    }
}

/// The number of the part with this index: S3 counts from 1.
fn number(part_idx: usize) -> Result<u32> {
    u32::try_from(part_idx + 1)
        .map_err(|source| Error::Generic { store: convert::STORE, source: source.into() })
}
