//! Each quirk on, where the deviation shows, and off, where it does not; in the tank, so that time costs nothing.

use fake_s3::{Client, ClientConfig, Disk, Quirks, ServerConfig, serve};
use futures_util::TryStreamExt;
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt, PutMode, PutPayload};
use rt::net::TcpListener;
use rt::time::sleep;
use sim::node::{self, Role};
use sim::run::{Config, End};
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Runs `body` on a client's machine against a server with `quirks`, of which a client that never tries again learns.
fn with<T, F>(quirks: Quirks, body: impl Fn(Client) -> F + Clone + Send + 'static) -> T
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let run = sim::run(&Config { seed: 1, ..Config::default() }, || async move {
        node::add("s3", Role::Storage, None, move |_| {
            let config = ServerConfig { quirks: quirks.clone(), ..ServerConfig::default() };
            Box::pin(async move {
                let listener = TcpListener::bind("s3:9000").await.unwrap();
                serve(listener, Disk::default(), config).await.unwrap();
            })
        });
        let result = Arc::new(Mutex::new(None));
        let told = result.clone();
        node::add("client", Role::Agent, None, move |_| {
            let (told, body) = (told.clone(), body.clone());
            Box::pin(async move {
                let config = ClientConfig { max_retries: 0, ..ClientConfig::default() };
                let value = body(Client::new("s3:9000".to_string(), config)).await;
                *told.lock().unwrap() = Some(value);
            })
        });
        loop {
            if let Some(value) = result.lock().unwrap().take() {
                return value;
            }
            sleep(Duration::from_millis(100)).await;
        }
    });
    assert_eq!((run.end, run.failures.len()), (End::Done, 0), "{:?}", run.failures);
    run.value.unwrap()
}

fn key(n: u32) -> Path {
    Path::from(format!("k/{n:03}"))
}

async fn create(client: &Client, n: u32) -> Result<(), Error> {
    let payload = PutPayload::from_static(b"v");
    client.put_opts(&key(n), payload, PutMode::Create.into()).await.map(drop)
}

/// How many of 200 creations failed as told, and how many of those are there all the same.
fn failures_of(quirks: Quirks, told: &'static str) -> (usize, usize) {
    with(quirks, move |client| async move {
        let (mut failed, mut there) = (0, 0);
        for n in 0..200 {
            let Err(error) = create(&client, n).await else { continue };
            assert!(error.to_string().contains(told), "{error}");
            failed += 1;
            // The quirk may strike the look, too.
            let looked = loop {
                match client.head(&key(n)).await {
                    Ok(_) => break true,
                    Err(Error::NotFound { .. }) => break false,
                    Err(_) => {}
                }
            };
            there += usize::from(looked);
        }
        (failed, there)
    })
}

#[test]
fn slow_down_refuses_its_share_and_does_nothing() {
    let (failed, there) = failures_of(Quirks { slow_down_per_mille: 200, ..Quirks::default() }, "SlowDown");
    assert!((20..70).contains(&failed) && there == 0, "{failed} failed, {there} of them done");
    assert_eq!(failures_of(Quirks::default(), "SlowDown"), (0, 0));
}

#[test]
fn a_failure_does_nothing() {
    let (failed, there) = failures_of(Quirks { failed_per_mille: 200, ..Quirks::default() }, "InternalError");
    assert!((20..70).contains(&failed) && there == 0, "{failed} failed, {there} of them done");
    assert_eq!(failures_of(Quirks::default(), "InternalError"), (0, 0));
}

#[test]
fn applied_but_failed_is_done_all_the_same() {
    let quirks = Quirks { applied_but_failed_per_mille: 200, ..Quirks::default() };
    let (failed, there) = failures_of(quirks, "InternalError");
    assert!((20..70).contains(&failed) && there == failed, "{failed} failed, {there} of them done");
    assert_eq!(failures_of(Quirks::default(), "InternalError"), (0, 0));
}

/// How many lists, each right after a creation or deletion, show the keys there are; and whether the last does, made
/// after `calm`.
fn current_lists(quirks: Quirks, calm: Duration) -> (usize, bool) {
    with(quirks, move |client| async move {
        let (mut current, mut keys) = (0, Vec::new());
        let listed = async || -> Vec<Path> {
            let objects: Vec<_> = client.list(Some(&Path::from("k"))).try_collect().await.unwrap();
            objects.into_iter().map(|object| object.location).collect()
        };
        for n in 0..50 {
            if n % 5 == 4 {
                client.delete(&keys.remove(0)).await.unwrap();
            } else {
                create(&client, n).await.unwrap();
                assert!(client.head(&key(n)).await.is_ok(), "reads do not lag");
                keys.push(key(n));
            }
            current += usize::from(listed().await == keys);
        }
        sleep(calm).await;
        (current, listed().await == keys)
    })
}

#[test]
fn a_lagging_list_shows_a_bucket_of_the_past_and_catches_up() {
    let lagging = Quirks { list_lag_ms_max: 1_000, ..Quirks::default() };
    let (current, at_last) = current_lists(lagging, Duration::from_secs(2));
    assert!(current < 25 && at_last, "{current} of 50 lists were current, at last {at_last}");
    assert_eq!(current_lists(Quirks::default(), Duration::ZERO), (50, true));
}
