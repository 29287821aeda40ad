//! A multipart upload. Parts go up concurrently, in whatever order.

use super::store::written;
use super::{Client, convert};
use crate::api::{PutCondition, Request, Response};
use async_trait::async_trait;
use object_store::multipart::MultipartStore;
use object_store::path::Path;
use object_store::{MultipartUpload, PutPayload, PutResult, Result, UploadPart};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

#[derive(Debug)]
pub(super) struct Upload {
    client: Client,
    location: Path,
    id: String,
    /// Parts begun, and so the number of the last.
    begun: u32,
    done: Arc<Mutex<BTreeMap<u32, String>>>,
}

impl Upload {
    pub(super) fn new(client: Client, location: Path, id: String) -> Self {
        Upload { client, location, id, begun: 0, done: Arc::default() }
    }
}

#[async_trait]
impl MultipartUpload for Upload {
    fn put_part(&mut self, payload: PutPayload) -> UploadPart {
        self.begun += 1;
        let (client, location, number, done) =
            (self.client.clone(), self.location.clone(), self.begun, self.done.clone());
        let request = Request::UploadPart {
            key: location.to_string(),
            upload_id: self.id.clone(),
            number,
            body: convert::body(payload),
        };
        Box::pin(async move {
            match client.call(request).await {
                Ok(Response::Part { etag }) => {
                    lock(&done).insert(number, etag);
                    Ok(())
                }
                Ok(_) => Err(convert::unexpected()),
                Err(failure) => Err(convert::error(failure, location.as_ref())),
            }
        })
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let mut parts: Vec<_> =
            lock(&self.done).iter().map(|(number, etag)| (*number, etag.clone())).collect();
        if parts.is_empty() && self.begun == 0 {
            // S3 has no upload without parts; an empty object is one empty part.
            self.put_part(PutPayload::default()).await?;
            parts = lock(&self.done).iter().map(|(number, etag)| (*number, etag.clone())).collect();
        }
        if parts.len() != self.begun as usize {
            return Err(object_store::Error::Generic {
                store: convert::STORE,
                source: "a part was not uploaded".into(),
            });
        }
        let request = Request::CompleteUpload {
            key: self.location.to_string(),
            upload_id: self.id.clone(),
            parts,
            condition: PutCondition::Always,
        };
        match self.client.call(request).await {
            Ok(Response::Written { etag }) => Ok(written(etag)),
            Ok(_) => Err(convert::unexpected()),
            Err(failure) => Err(convert::error(failure, self.location.as_ref())),
        }
    }

    async fn abort(&mut self) -> Result<()> {
        self.client.abort_multipart(&self.location, &self.id).await
    }
}

fn lock(done: &Mutex<BTreeMap<u32, String>>) -> MutexGuard<'_, BTreeMap<u32, String>> {
    done.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
