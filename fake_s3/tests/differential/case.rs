//! One case: the same steps at a server and at the fake.

use crate::explained::explain;
use crate::ops::{Keys, Step};
use crate::outcome::Outcome;
use crate::raw;
use crate::side::{Rest, Side};
use fake_s3::{Client, ClientConfig, Disk, Latency, ServerConfig, serve};
use object_store::aws::{AmazonS3, AmazonS3Builder, S3CopyIfNotExists};
use object_store::path::Path;
use object_store::signer::Method;
use object_store::{ClientOptions, RetryConfig};
use rt::net::TcpListener;
use std::collections::BTreeMap;
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
    started_ms: i64,
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
        let (name, address, started_ms) = (name.to_string(), address.to_string(), rt::time::wall_ms());
        Server { name, address, keys, started_ms, buckets: Arc::default() }
    }

    /// A side with a fresh bucket.
    async fn side(&self) -> Side {
        // A server may still hold the buckets of an earlier run.
        let number = self.buckets.fetch_add(1, Ordering::Relaxed);
        let bucket = format!("case-{}-{number}", self.started_ms);
        let store = self.client(&bucket, false, false);
        let created = raw::request(&store, Method::PUT, &Path::default(), &[]).await;
        assert!(matches!(created, Ok((200, _))), "{}: no bucket: {created:?}", self.name);
        let (single, copier) = (self.client(&bucket, true, false), self.client(&bucket, false, true));
        Side::new([Arc::new(store.clone()), Arc::new(single), Arc::new(copier)], Rest::Theirs(store))
    }

    fn client(&self, bucket: &str, disable_bulk_delete: bool, copy_by_parts: bool) -> AmazonS3 {
        let copy = match copy_by_parts {
            true => S3CopyIfNotExists::Multipart,
            false => S3CopyIfNotExists::Header("if-none-match".into(), "*".into()),
        };
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
            .with_copy_if_not_exists(copy)
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
    let mut ours = Side::new([store.clone(), store.clone(), store], Rest::Ours(client));
    let mut theirs = server.side().await;
    let verdict = compare(&server.name, steps, &mut ours, &mut theirs).await;
    fake.abort();
    verdict
}

async fn compare(server: &str, steps: &[Step], ours: &mut Side, theirs: &mut Side) -> Verdict {
    let mut verdict = Verdict { compared: 0, explained: Vec::new(), difference: None };
    let mut pairs = Pairs::default();
    for step in steps {
        let (a, b) = (ours.take(step).await, theirs.take(step).await);
        verdict.compared += 1;
        if same(&a, &b) && pairs.hold(&a, &b) {
            continue;
        }
        ours.forget(step.id);
        theirs.forget(step.id);
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
        (Outcome::Failed { variant: a, code: Some(_) }, Outcome::Failed { variant: b, code: None })
            if matches!(*a, "NotFound" | "Precondition" | "NotModified") =>
        {
            a == b
        }
        (a, b) => a == b,
    }
}

/// Which ETag of theirs stands for which of ours: two are equal at one store when they are at the other.
#[derive(Default)]
struct Pairs {
    theirs: BTreeMap<String, String>,
    ours: BTreeMap<String, String>,
}

impl Pairs {
    /// Whether the outcomes' ETags are in such pairs; new ones become pairs.
    fn hold(&mut self, ours: &Outcome, theirs: &Outcome) -> bool {
        ours.tags().iter().zip(theirs.tags()).all(|(a, b)| {
            let b_known = self.theirs.entry(a.0.clone()).or_insert_with(|| b.0.clone()) == &b.0;
            let a_known = self.ours.entry(b.0.clone()).or_insert_with(|| a.0.clone()) == &a.0;
            a_known && b_known
        })
    }
}
