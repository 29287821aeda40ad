//! A real coordinator and a real store, in builds that have them.

use broker::Coordinator;
use object_store::ObjectStore;
use std::sync::Arc;

/// Where a real coordinator and a real store are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Real {
    /// etcd's endpoints, separated by commas: `http://HOST:PORT`.
    pub etcd: String,
    /// The bucket, and a prefix in it: `s3://BUCKET/PREFIX`.
    pub store: String,
}

/// A client of the real etcd.
#[cfg(feature = "etcd")]
pub(super) async fn coordinator(endpoints: &str) -> Result<Arc<dyn Coordinator>, String> {
    let connected = super::etcd::connect(endpoints).await;
    connected
        .map(|etcd| Arc::new(etcd) as Arc<dyn Coordinator>)
        .map_err(|problem| format!("--etcd: {endpoints}: {problem}"))
}

/// A build without it says how to get it.
#[cfg(not(feature = "etcd"))]
pub(super) async fn coordinator(_endpoints: &str) -> Result<Arc<dyn Coordinator>, String> {
    Err("--etcd: this build has no client of a real etcd: build with cargo build --release --features etcd,s3".into())
}

/// A client of the real store. Credentials, region and endpoint are taken from the `AWS_` variables, as the
/// `object_store` crate reads them.
#[cfg(feature = "s3")]
pub(super) fn store(url: &str) -> Result<Arc<dyn ObjectStore>, String> {
    use object_store::aws::AmazonS3Builder;
    use object_store::prefix::PrefixStore;
    let rest =
        url.strip_prefix("s3://").ok_or_else(|| format!("--store: {url}: write s3://BUCKET/PREFIX"))?;
    let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    let built = AmazonS3Builder::from_env().with_bucket_name(bucket).build();
    let store = built.map_err(|error| format!("--store: {url}: {error}"))?;
    Ok(Arc::new(PrefixStore::new(store, prefix)))
}

/// A build without it says how to get it.
#[cfg(not(feature = "s3"))]
pub(super) fn store(_url: &str) -> Result<Arc<dyn ObjectStore>, String> {
    Err("--store: this build has no client of a real S3: build with cargo build --release --features etcd,s3"
        .into())
}
