//! Client and server over real tokio and loopback TCP.

use fake_etcd::api::*;
use fake_etcd::error::Code;
use fake_etcd::{Client, ClientConfig, Disk, Error, ServerConfig, Watcher, serve};
use rt::net::TcpListener;
use rt::{JoinHandle, time};
use std::time::Duration;

struct Server {
    task: JoinHandle<()>,
    endpoint: String,
}

async fn start(disk: &Disk, addr: &str, config: ServerConfig) -> Server {
    let listener = TcpListener::bind(addr).await.unwrap();
    let endpoint = listener.local_addr().unwrap().to_string();
    let disk = disk.clone();
    let task = rt::spawn("etcd", async move { serve(listener, disk, config).await.unwrap() });
    Server { task, endpoint }
}

async fn stop(server: Server) -> String {
    server.task.abort();
    let _ = server.task.await;
    server.endpoint
}

fn client(endpoint: &str) -> Client {
    let config = ClientConfig { request_timeout_ms: 500, backoff_max_ms: 50, ..Default::default() };
    Client::new(endpoint.to_string(), config)
}

async fn revisions(watcher: &mut Watcher, count: usize) -> Vec<i64> {
    let mut revisions = Vec::new();
    while revisions.len() < count {
        let response = time::timeout(Duration::from_secs(5), watcher.next()).await.unwrap().unwrap();
        revisions.extend(response.events.iter().map(|event| event.kv.mod_revision));
    }
    revisions
}

fn put(key: &str, value: &str) -> PutRequest {
    PutRequest::new(key.to_string(), value.to_string())
}

#[tokio::test]
async fn requests_and_watches_go_round() {
    let disk = Disk::default();
    let server = start(&disk, "127.0.0.1:0", ServerConfig::default()).await;
    let client = client(&server.endpoint);
    assert_eq!(client.put(put("k", "1")).await.unwrap().revision, 2);
    let mut past = client.watch(WatchRequest::prefix("", 1));
    assert_eq!(revisions(&mut past, 1).await, [2]);
    let txn = TxnRequest {
        compare: vec![Compare::new("k", CompareOp::Equal, CompareTarget::ModRevision(2))],
        success: vec![Op::Put(put("k", "2")), Op::Put(put("l", "2"))],
        failure: vec![],
    };
    let response = client.txn(txn.clone()).await.unwrap();
    assert_eq!((response.succeeded, response.revision), (true, 3));
    assert!(!client.txn(txn).await.unwrap().succeeded);
    assert_eq!(revisions(&mut past, 2).await, [3, 3]);
    assert_eq!(client.delete_range(DeleteRangeRequest::prefix("")).await.unwrap().deleted, 2);
    assert_eq!(client.range(RangeRequest::prefix("")).await.unwrap().count, 0);
    let refused = client.put(PutRequest { lease: 4, ..put("k", "") }).await.unwrap_err();
    let want = Error::Etcd { code: Code::NotFound, message: "etcdserver: requested lease not found".into() };
    assert_eq!(refused, want);
    past.request_progress();
    let progress = loop {
        let response = past.next().await.unwrap();
        if response.events.is_empty() {
            break response;
        }
    };
    assert_eq!(progress.revision, 4);
    let Error::Etcd { code, .. } = client.put(PutRequest::new("k", vec![0; 2 << 20])).await.unwrap_err()
    else {
        panic!("sent")
    };
    assert_eq!(code, Code::ResourceExhausted);
    assert_eq!(client.compact(4).await.unwrap(), 4);
    let mut lost = client.watch(WatchRequest::key("k", 2));
    let canceled = lost.next().await.unwrap();
    assert!(canceled.canceled && canceled.compact_revision == 4);
    assert!(lost.next().await.is_err());
}

#[tokio::test]
async fn a_lease_runs_out_by_the_servers_clock_unless_kept_alive() {
    let disk = Disk::default();
    let config = ServerConfig { lease_check_ms: 50, ..Default::default() };
    let server = start(&disk, "127.0.0.1:0", config).await;
    let client = client(&server.endpoint);
    let (kept, ttl_s) = client.lease_grant(2, None).await.unwrap();
    let (lost, _) = client.lease_grant(1, Some(77)).await.unwrap();
    assert_eq!((lost, ttl_s), (77, 2));
    client.put(PutRequest { lease: kept, ..put("kept", "") }).await.unwrap();
    client.put(PutRequest { lease: lost, ..put("lost", "") }).await.unwrap();
    let mut watcher = client.watch(WatchRequest::prefix("", 4));
    time::sleep(Duration::from_millis(1_200)).await;
    assert_eq!(client.lease_keep_alive(kept).await.unwrap(), 2);
    let event = watcher.next().await.unwrap().events.remove(0);
    assert_eq!((event.kind, event.kv.key.as_ref()), (EventKind::Delete, &b"lost"[..]));
    assert_eq!(client.lease_keep_alive(lost).await.unwrap(), 0);
    assert_eq!(client.leases().await.unwrap(), [kept]);
    assert!(client.lease_time_to_live(kept, true).await.unwrap().keys == ["kept"]);
    client.lease_revoke(kept).await.unwrap();
    assert_eq!(client.range(RangeRequest::prefix("")).await.unwrap().count, 0);
}

#[tokio::test]
async fn a_watch_goes_on_over_a_restart_without_gap_or_repeat() {
    let disk = Disk::default();
    let server = start(&disk, "127.0.0.1:0", ServerConfig::default()).await;
    let writer = client(&server.endpoint);
    let reader = client(&server.endpoint);
    let mut watcher = reader.watch(WatchRequest::key("k", 2));
    writer.put(put("k", "2")).await.unwrap();
    assert_eq!(revisions(&mut watcher, 1).await, [2]);
    let endpoint = stop(server).await;
    // The client's own task sees the end of the connection; what is written before that has an unknown outcome.
    time::sleep(Duration::from_millis(100)).await;
    // The write that nobody was there to take is certainly not applied.
    assert!(matches!(writer.put(put("k", "x")).await, Err(Error::Unavailable(_))));
    let _server = start(&disk, &endpoint, ServerConfig::default()).await;
    for _ in 3..6 {
        writer.put(put("k", "")).await.unwrap();
    }
    assert_eq!(revisions(&mut watcher, 3).await, [3, 4, 5]);
}

/// A server that takes connections and requests and never answers.
async fn mute() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = listener.local_addr().unwrap().to_string();
    (listener, endpoint)
}

#[tokio::test]
async fn a_hung_connection_is_replaced_and_a_write_on_it_has_unknown_outcome() {
    let (listener, endpoint) = mute().await;
    let client = client(&endpoint);
    let hung = rt::spawn("mute", async move {
        let stream = listener.accept().await.unwrap();
        (stream, listener)
    });
    assert!(matches!(client.put(put("k", "1")).await, Err(Error::UnknownOutcome(_))));
    let (_stream, listener) = hung.await.unwrap();
    // The same client goes on, over a new connection to the server that now serves.
    let disk = Disk::default();
    let server = disk.clone();
    rt::spawn("etcd", async move { serve(listener, server, ServerConfig::default()).await });
    assert_eq!(client.put(put("k", "2")).await.unwrap().revision, 2);
}

#[tokio::test]
async fn a_read_is_sent_again_when_the_connection_is_lost_and_a_write_is_not() {
    let (listener, endpoint) = mute().await;
    let client = client(&endpoint);
    let disk = Disk::default();
    rt::spawn("reset then serve", async move {
        for _ in 0..2 {
            let mut stream = listener.accept().await.unwrap();
            rt::net::read_frame(&mut stream, 1 << 20).await.unwrap();
        }
        serve(listener, disk, ServerConfig::default()).await
    });
    assert!(matches!(client.put(put("k", "1")).await, Err(Error::UnknownOutcome(_))));
    assert_eq!(client.range(RangeRequest::key("k")).await.unwrap().revision, 1);
}

#[tokio::test]
async fn a_watch_on_a_hung_connection_is_found_out_by_a_ping() {
    let (listener, endpoint) = mute().await;
    let config = ClientConfig { keep_alive_time_ms: 50, keep_alive_timeout_ms: 50, ..Default::default() };
    let client = Client::new(endpoint, config);
    let mut watcher = client.watch(WatchRequest::key("k", 2));
    let disk = Disk::default();
    disk.lock().unwrap().apply(time::Instant::now(), &Request::Put(put("k", "2"))).response.unwrap();
    rt::spawn("mute then serve", async move {
        let _hung = listener.accept().await.unwrap();
        serve(listener, disk, ServerConfig::default()).await
    });
    assert_eq!(revisions(&mut watcher, 1).await, [2]);
}

#[tokio::test]
async fn an_endpoint_that_is_away_is_passed_over() {
    let disk = Disk::default();
    let gone = start(&disk, "127.0.0.1:0", ServerConfig::default()).await;
    let away = stop(gone).await;
    let server = start(&disk, "127.0.0.1:0", ServerConfig::default()).await;
    let client = client(&format!("{away}, {}", server.endpoint));
    assert_eq!(client.put(put("k", "1")).await.unwrap().revision, 2);
    // The one that served goes, the other comes back.
    stop(server).await;
    let _back = start(&disk, &away, ServerConfig::default()).await;
    let read = time::timeout(Duration::from_secs(5), async {
        loop {
            if let Ok(read) = client.range(RangeRequest::key("k")).await {
                return read;
            }
        }
    });
    assert_eq!(read.await.unwrap().kvs.len(), 1);
}
