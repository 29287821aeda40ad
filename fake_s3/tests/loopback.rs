//! Errors, retries and timeouts, over real tokio and loopback TCP.

use fake_s3::{Client, ClientConfig, Disk, Latency, Quirks, ServerConfig, Store, serve};
use object_store::path::Path;
use object_store::{Error, GetOptions, ObjectStore, ObjectStoreExt, PutMode, PutPayload};
use rt::net::TcpListener;
use rt::time::{self, Instant};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const QUICK: Latency = Latency { base_us: 0, jitter_us: 200 };

fn quick() -> ServerConfig {
    ServerConfig { write: QUICK, read: QUICK, head: QUICK, list: QUICK, delete: QUICK, ..Default::default() }
}

fn client_of(endpoint: &str) -> Client {
    let config =
        ClientConfig { request_timeout_ms: 200, backoff_min_ms: 5, connections: 1, ..Default::default() };
    Client::new(endpoint.to_string(), config)
}

async fn bind() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = listener.local_addr().unwrap().to_string();
    (listener, endpoint)
}

async fn start(config: ServerConfig) -> (Client, Disk) {
    let (listener, endpoint) = bind().await;
    let disk = Arc::new(Mutex::new(Store::new()));
    let served = disk.clone();
    rt::spawn("s3", async move { serve(listener, served, config).await });
    (client_of(&endpoint), disk)
}

fn payload(text: &'static str) -> PutPayload {
    PutPayload::from_static(text.as_bytes())
}

#[tokio::test]
async fn errors_have_their_own_variants() {
    let (client, _disk) = start(quick()).await;
    let path = Path::from("a/b");
    assert!(matches!(client.get(&path).await, Err(Error::NotFound { path, .. }) if path == "a/b"));
    let created = client.put_opts(&path, payload("1"), PutMode::Create.into()).await.unwrap();
    let again = client.put_opts(&path, payload("2"), PutMode::Create.into()).await;
    assert!(matches!(again, Err(Error::AlreadyExists { .. })));
    client.put(&path, payload("2")).await.unwrap();
    let update = PutMode::Update(created.clone().into());
    let stale = client.put_opts(&path, payload("3"), update.into()).await;
    assert!(matches!(stale, Err(Error::Precondition { .. })));
    let etag = client.head(&path).await.unwrap().e_tag;
    let known = client.get_opts(&path, GetOptions { if_none_match: etag, ..Default::default() }).await;
    assert!(matches!(known, Err(Error::NotModified { .. })));
    let other = client.get_opts(&path, GetOptions { if_match: created.e_tag, ..Default::default() }).await;
    assert!(matches!(other, Err(Error::Precondition { .. })));
    assert!(matches!(client.get_range(&path, 5..6).await, Err(Error::Generic { .. })));
    assert_eq!(client.get_range(&path, 0..1).await.unwrap(), "2");
}

#[tokio::test]
async fn requests_on_one_connection_proceed_concurrently() {
    let slow = Latency { base_us: 100_000, jitter_us: 0 };
    let (client, _disk) = start(ServerConfig { write: slow, ..quick() }).await;
    let began = Instant::now();
    let put = |n: usize| {
        let client = client.clone();
        async move { client.put(&Path::from(format!("k{n}")), payload("v")).await.map(drop) }
    };
    futures_util::future::try_join_all((0..20).map(put)).await.unwrap();
    let took = began.elapsed();
    assert!(took >= Duration::from_millis(100) && took < Duration::from_millis(1_000), "{took:?}");
}

#[tokio::test]
async fn errors_of_5xx_are_retried_and_a_conditional_put_may_fail_on_itself() {
    let always = Quirks { slow_down_per_mille: 1000, ..Default::default() };
    let (client, disk) = start(ServerConfig { quirks: always, ..quick() }).await;
    let error = client.put(&Path::from("k"), payload("v")).await.unwrap_err();
    assert!(matches!(&error, Error::Generic { .. }) && error.to_string().contains("SlowDown"), "{error}");
    let served = fake_s3::api::Request::List(Default::default());
    let list = disk.lock().unwrap().apply(Duration::ZERO, &served).unwrap();
    assert!(matches!(list, fake_s3::api::Response::List { objects, .. } if objects.is_empty()));

    // Done, answered 500, sent again: the second attempt meets the object of the first.
    let always = Quirks { applied_but_failed_per_mille: 1000, ..Default::default() };
    let (client, _disk) = start(ServerConfig { quirks: always, ..quick() }).await;
    let created = client.put_opts(&Path::from("k"), payload("v"), PutMode::Create.into()).await;
    assert!(matches!(created, Err(Error::AlreadyExists { .. })), "{created:?}");
}

#[tokio::test]
async fn a_hung_connection_is_replaced_and_only_what_is_idempotent_is_sent_again() {
    let (listener, endpoint) = bind().await;
    let client = client_of(&endpoint);
    rt::spawn("mute twice, then serve", async move {
        let _hung = [listener.accept().await.unwrap(), listener.accept().await.unwrap()];
        serve(listener, Disk::default(), quick()).await
    });
    let path = Path::from("k");
    let conditional = client.put_opts(&path, payload("1"), PutMode::Create.into()).await.unwrap_err();
    assert!(conditional.to_string().contains("outcome is unknown"), "{conditional}");
    client.put(&path, payload("2")).await.unwrap();
    assert_eq!(client.get(&path).await.unwrap().bytes().await.unwrap(), "2");
}

#[tokio::test]
async fn an_outcome_stays_unknown_when_the_retries_find_nobody() {
    let (listener, endpoint) = bind().await;
    let client = client_of(&endpoint);
    rt::spawn("mute once, then gone", async move {
        let hung = listener.accept().await.unwrap();
        drop(listener);
        time::sleep(Duration::from_secs(5)).await;
        drop(hung);
    });
    let error = client.put(&Path::from("k"), payload("v")).await.unwrap_err();
    assert!(error.to_string().contains("outcome is unknown"), "{error}");
}

#[tokio::test]
async fn retries_are_bounded_when_nobody_listens() {
    let (listener, endpoint) = bind().await;
    drop(listener);
    let client = client_of(&endpoint);
    let got = time::timeout(Duration::from_secs(5), client.get(&Path::from("k"))).await.expect("bounded");
    assert!(matches!(got, Err(Error::Generic { .. })));
}

#[tokio::test]
async fn what_was_written_survives_the_server() {
    let (listener, endpoint) = bind().await;
    let disk = Disk::default();
    let served = disk.clone();
    let first = rt::spawn("s3", async move { serve(listener, served, quick()).await });
    let client = client_of(&endpoint);
    client.put(&Path::from("k"), payload("v")).await.unwrap();
    first.abort();
    let _ = first.await;
    let listener = TcpListener::bind(&endpoint).await.unwrap();
    rt::spawn("s3", async move { serve(listener, disk, quick()).await });
    assert_eq!(client.get(&Path::from("k")).await.unwrap().bytes().await.unwrap(), "v");
}
