//! [`ObjectStore`] for the client, mapping errors as `object_store`'s own S3 client does.

use super::convert::{self, STORE};
use super::upload::Upload;
use super::{Client, Failure};
use crate::api::{GetConditions, ListRequest, PutCondition, Request, Response};
use crate::error::S3Error;
use async_trait::async_trait;
use futures_util::stream::{self, BoxStream, StreamExt, TryStreamExt};
use object_store::multipart::MultipartStore;
use object_store::path::{DELIMITER, Path};
use object_store::{
    CopyMode, CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

/// Keys of one bulk deletion, as S3 allows.
const DELETE_BATCH: usize = 1000;

#[async_trait]
impl ObjectStore for Client {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        let headers = convert::headers(&opts.attributes, &opts.tags)?;
        let condition = match &opts.mode {
            PutMode::Overwrite => PutCondition::Always,
            PutMode::Create => PutCondition::IfNoneMatch,
            PutMode::Update(version) => {
                let etag = version.e_tag.clone().ok_or_else(|| Error::Generic {
                    store: STORE,
                    source: "ETag required for conditional put".into(),
                })?;
                PutCondition::IfMatch(etag)
            }
        };
        let key = location.to_string();
        let request = Request::Put { key, body: convert::body(payload), headers, condition };
        match self.call(request).await {
            Ok(Response::Written { etag }) => Ok(written(etag)),
            Ok(_) => Err(convert::unexpected()),
            Err(failure) => Err(put_error(failure, &opts.mode, location)),
        }
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let id = self.create_multipart_opts(location, opts).await?;
        Ok(Box::new(Upload::new(self.clone(), location.clone(), id)))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        if let Some(range) = &options.range {
            range.is_valid().map_err(|source| Error::Generic { store: STORE, source: source.into() })?;
        }
        if options.version.is_some() {
            return Err(Error::NotImplemented {
                operation: "object versions".to_string(),
                implementer: STORE.to_string(),
            });
        }
        let conditions = GetConditions {
            if_match: options.if_match,
            if_none_match: options.if_none_match,
            if_modified_since_ms: options.if_modified_since.map(|time| time.timestamp_millis()),
            if_unmodified_since_ms: options.if_unmodified_since.map(|time| time.timestamp_millis()),
        };
        let (key, range) = (location.to_string(), options.range.map(convert::range));
        match self.call(Request::Get { key, range, conditions, head: options.head }).await {
            Ok(Response::Object { info, headers, range, body }) => Ok(GetResult {
                payload: GetResultPayload::Stream(stream::once(async { Ok(body) }).boxed()),
                meta: convert::meta(info)?,
                range,
                attributes: convert::attributes(headers),
                extensions: Default::default(),
            }),
            Ok(_) => Err(convert::unexpected()),
            Err(failure) => Err(convert::error(failure, location.as_ref())),
        }
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let client = self.clone();
        locations
            .try_chunks(DELETE_BATCH)
            .map(move |batch| {
                let client = client.clone();
                async move {
                    let batch = batch.map_err(|failed| failed.1)?;
                    let keys = batch.iter().map(Path::to_string).collect();
                    client
                        .call(Request::DeleteMany { keys })
                        .await
                        .map_err(|failure| convert::error(failure, ""))?;
                    Ok::<_, Error>(stream::iter(batch.into_iter().map(Ok)))
                }
            })
            .buffered(1)
            .try_flatten()
            .boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.objects(ListRequest { prefix: directory(prefix), ..Default::default() })
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        let start_after = Some(offset.to_string());
        self.objects(ListRequest { prefix: directory(prefix), start_after, ..Default::default() })
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let delimiter = Some(DELIMITER.to_string());
        let first = ListRequest { prefix: directory(prefix), delimiter, ..Default::default() };
        let empty =
            ListResult { common_prefixes: Vec::new(), objects: Vec::new(), extensions: Default::default() };
        let append = |mut all: ListResult, page: ListResult| async move {
            all.common_prefixes.extend(page.common_prefixes);
            all.objects.extend(page.objects);
            Ok(all)
        };
        self.pages(first).try_fold(empty, append).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let if_none_match = options.mode == CopyMode::Create;
        let request = Request::Copy { from: from.to_string(), to: to.to_string(), if_none_match };
        match self.call(request).await {
            Ok(_) => Ok(()),
            Err(failure @ Failure::Refused(S3Error::PreconditionFailed)) => {
                Err(Error::AlreadyExists { path: to.to_string(), source: failure.into() })
            }
            Err(failure) => Err(convert::error(failure, from.as_ref())),
        }
    }
}

impl Client {
    /// Pages from the first on.
    fn pages(&self, first: ListRequest) -> BoxStream<'static, Result<ListResult>> {
        let client = self.clone();
        stream::try_unfold(Some(first), move |next| {
            let client = client.clone();
            async move {
                let Some(request) = next else { return Ok(None) };
                let (page, next_token) = client.page(request.clone()).await?;
                let next = next_token.map(|token| ListRequest { continuation_token: Some(token), ..request });
                Ok(Some((page, next)))
            }
        })
        .boxed()
    }

    fn objects(&self, first: ListRequest) -> BoxStream<'static, Result<ObjectMeta>> {
        self.pages(first).map_ok(|page| stream::iter(page.objects.into_iter().map(Ok))).try_flatten().boxed()
    }
}

pub(super) fn written(etag: String) -> PutResult {
    PutResult { e_tag: Some(etag), version: None, extensions: Default::default() }
}

fn put_error(failure: Failure, mode: &PutMode, location: &Path) -> Error {
    let path = location.to_string();
    match (mode, &failure) {
        (PutMode::Create, Failure::Refused(S3Error::PreconditionFailed)) => {
            Error::AlreadyExists { path, source: failure.into() }
        }
        // S3 says that a missing object is missing; to the caller it is one whose ETag does not match.
        (PutMode::Update(_), Failure::Refused(S3Error::NoSuchKey)) => {
            Error::Precondition { path, source: failure.into() }
        }
        _ => convert::error(failure, location.as_ref()),
    }
}

/// The key prefix of what lies below a path.
fn directory(prefix: Option<&Path>) -> String {
    prefix
        .filter(|path| !path.as_ref().is_empty())
        .map_or_else(String::new, |path| format!("{path}{DELIMITER}"))
}
