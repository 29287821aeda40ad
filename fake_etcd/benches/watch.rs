//! What a watch costs in stores of 10^3 to 10^6 keys: from asking for the past of ten keys to having it, over loopback,
//! and from a put to its event.
//!
//! Run: `cargo bench -p fake_etcd --bench watch`. Each tells of ten events or of one, so the cost should not grow with
//! the store.
#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a benchmark reads the machine's clock"
)]

use fake_etcd::api::*;
use fake_etcd::{Client, ClientConfig, Disk, ServerConfig, serve};
use rt::net::TcpListener;
use std::time::Instant;

const ROUNDS: u64 = 2_000;

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let costs = [1_000, 10_000, 100_000, 1_000_000].map(|keys| runtime.block_on(costs(keys)));
    let line = |each: fn(&(f64, f64)) -> f64| {
        costs.iter().map(|cost| format!("{:.0} us", each(cost))).collect::<Vec<_>>().join(", ")
    };
    println!("etcd watch: the past of 10 keys among 10^3, 10^4, 10^5, 10^6: {}", line(|cost| cost.0));
    println!("etcd watch: a put to its event among 10^3, 10^4, 10^5, 10^6: {}", line(|cost| cost.1));
}

/// Microseconds of a watch of the past, and of one of the present.
async fn costs(keys: u64) -> (f64, f64) {
    let disk = Disk::default();
    for n in 0..keys {
        let put = Request::Put(PutRequest::new(format!("key/{n:07}"), "value"));
        disk.lock().expect("nobody panics").apply(rt::time::Instant::now(), &put).response.expect("taken");
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has ports");
    let endpoint = listener.local_addr().expect("it is bound").to_string();
    let config = ServerConfig { fsync_min_us: 0, fsync_max_us: 0, ..Default::default() };
    let server = rt::spawn("etcd", async move { serve(listener, disk, config).await });
    let client = Client::new(endpoint, ClientConfig::default());
    client.status().await.expect("it serves");

    let started = Instant::now();
    for n in 0..ROUNDS {
        let group = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (keys / 10);
        let mut watcher = client.watch(WatchRequest::prefix(format!("key/{group:06}"), 1));
        assert_eq!(watcher.next().await.expect("it is told").events.len(), 10);
    }
    let past = started.elapsed().as_secs_f64() * 1e6 / ROUNDS as f64;

    let mut watcher = client.watch(WatchRequest::key("key/0000000", keys as i64 + 2));
    let started = Instant::now();
    for _ in 0..ROUNDS {
        let (put, told) = tokio::join!(client.put(PutRequest::new("key/0000000", "value")), watcher.next());
        assert_eq!(told.expect("it is told").events[0].kv.mod_revision, put.expect("it is taken").revision);
    }
    let present = started.elapsed().as_secs_f64() * 1e6 / ROUNDS as f64;
    server.abort();
    (past, present)
}
