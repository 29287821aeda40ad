//! Parts and uploads, listed by pages to the end: the calls `object_store` does not have.

use crate::outcome::{ETag, Outcome, refused};
use crate::raw;
use crate::side::{Rest, Side};
use fake_s3::api::{ListUploadsRequest, PartInfo};
use object_store::Error;
use object_store::aws::AmazonS3;
use object_store::path::Path;
use object_store::signer::Method;

impl Side {
    pub(crate) async fn list_parts(&mut self, upload: u32, max_parts: u32) -> Result<Outcome, Error> {
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

    pub(crate) async fn list_uploads(
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
