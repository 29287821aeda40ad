//! One case: the same steps at a server and at the fake.

use crate::explained::explain;
use crate::ops::{Keys, Step};
use crate::raw;
use crate::side::{Outcome, Rest, Side};
use fake_s3::{Client, ClientConfig, Disk, Latency, ServerConfig, serve};
use object_store::aws::{AmazonS3, AmazonS3Builder, S3CopyIfNotExists};
use object_store::path::Path;
use object_store::signer::Method;
use object_store::{ClientOptions, RetryConfig};
use rt::net::TcpListener;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Access key and secret of every server.
const KEY: &str = "wavetank";

/// A real server.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) name: String,
    address: String,
    pub(crate) keys: Keys,
    buckets: Arc<AtomicU64>,
}

/// What came of a case.
pub(crate) struct Verdict {
    pub(crate) compared: usize,
    /// Names of the explained differences met, in order.
    pub(crate) explained: Vec<&'static str>,
    pub(crate) difference: Option<Difference>,
}

pub(crate) struct Difference {
    step: Step,
    ours: Outcome,
    theirs: Outcome,
}

impl fmt::Debug for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}\n    ours:   {:?}\n    theirs: {:?}", self.step, self.ours, self.theirs)
    }
}

impl Server {
    pub(crate) fn new(name: &str, address: &str) -> Self {
        let keys = if name == "moto" { Keys::Free } else { Keys::Files };
        Server { name: name.to_string(), address: address.to_string(), keys, buckets: Arc::default() }
    }

    /// A side with a fresh bucket.
    async fn side(&self) -> Side {
        let bucket = format!("case-{:08}", self.buckets.fetch_add(1, Ordering::Relaxed));
        let (store, single) = (self.client(&bucket, false), self.client(&bucket, true));
        let created = raw::request(&store, Method::PUT, &Path::default(), &[]).await;
        assert!(matches!(created, Ok((200, _))), "{}: no bucket: {created:?}", self.name);
        Side::new(Arc::new(store.clone()), Arc::new(single), Rest::Theirs(store))
    }

    fn client(&self, bucket: &str, disable_bulk_delete: bool) -> AmazonS3 {
        // A retry would hide an answer.
        let retry = RetryConfig { max_retries: 0, ..Default::default() };
        AmazonS3Builder::new()
            .with_endpoint(format!("http://{}", self.address))
            .with_region("us-east-1")
            .with_bucket_name(bucket)
            .with_access_key_id(KEY)
            .with_secret_access_key(KEY)
            .with_retry(retry)
            .with_client_options(
                ClientOptions::new().with_allow_http(true).with_timeout(Duration::from_secs(30)),
            )
            .with_copy_if_not_exists(S3CopyIfNotExists::Header("if-none-match".into(), "*".into()))
            .with_disable_bulk_delete(disable_bulk_delete)
            .build()
            .expect("the configuration is whole")
    }
}

/// Runs the steps until they are through or the stores differ.
pub(crate) async fn run(server: &Server, steps: &[Step]) -> Verdict {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let endpoint = listener.local_addr().expect("an address").to_string();
    let quick = Latency { base_us: 0, jitter_us: 0 };
    let config = ServerConfig {
        write: quick,
        read: quick,
        head: quick,
        list: quick,
        delete: quick,
        ..Default::default()
    };
    let fake = rt::spawn("s3", async move { serve(listener, Disk::default(), config).await });
    let client = Client::new(
        endpoint,
        ClientConfig { request_timeout_ms: 30_000, connections: 1, ..Default::default() },
    );
    let store = Arc::new(client.clone());
    let mut ours = Side::new(store.clone(), store, Rest::Ours(client));
    let mut theirs = server.side().await;
    let verdict = compare(&server.name, steps, &mut ours, &mut theirs).await;
    fake.abort();
    verdict
}

async fn compare(server: &str, steps: &[Step], ours: &mut Side, theirs: &mut Side) -> Verdict {
    let mut verdict = Verdict { compared: 0, explained: Vec::new(), difference: None };
    for step in steps {
        let (a, b) = (ours.take(step).await, theirs.take(step).await);
        verdict.compared += 1;
        if same(&a, &b) {
            continue;
        }
        match explain(server, &step.op, &a, &b) {
            Some(one) => {
                verdict.explained.push(one.name);
                if one.ends {
                    break;
                }
            }
            None => {
                verdict.difference = Some(Difference { step: step.clone(), ours: a, theirs: b });
                break;
            }
        }
    }
    verdict
}

/// Equal, where both tell a code for an error; answers without a body have none.
fn same(ours: &Outcome, theirs: &Outcome) -> bool {
    match (ours, theirs) {
        (Outcome::Failed { variant: a, code: Some(_) }, Outcome::Failed { variant: b, code: None }) => a == b,
        (a, b) => a == b,
    }
}
