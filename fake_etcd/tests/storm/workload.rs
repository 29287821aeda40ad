//! Clients that write, read and hold leases, watchers that listen, and what each was told.

use crate::record::{Call, Record};
use fake_etcd::api::*;
use fake_etcd::{Client, ClientConfig, Disk, Error, Quirks, ServerConfig, Store, serve};
use rt::net::TcpListener;
use rt::time::{Instant, sleep};
use sim::node::{self, Role};
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub(crate) const CLIENTS: u64 = 3;
const CALLS: usize = 30;
const KEYS: u64 = 4;
/// Longer than any fault, than a client needs to find its connection dead, and than a lease that nobody renews lives
/// after a restart of the server.
const QUIET: Duration = Duration::from_secs(12);

/// What a run leaves to be audited.
#[derive(Debug)]
pub(crate) struct Story {
    pub(crate) calls: Vec<Call>,
    /// What the watchers were told: one of everything, one of the first key.
    pub(crate) told: [Vec<Event>; 2],
    /// The changes of each revision from 2 on.
    pub(crate) log: Vec<Vec<Event>>,
    pub(crate) leases_left: usize,
}

fn client() -> Client {
    let config = ClientConfig { request_timeout_ms: 300, connect_timeout_ms: 300, ..Default::default() };
    Client::new("etcd:2379".to_string(), config)
}

pub(crate) async fn script(quirks: Quirks) -> Story {
    let disk: Disk = Arc::new(Mutex::new(Store::with_quirks(quirks)));
    let served = disk.clone();
    node::add("etcd", Role::Coordinator, None, move |_| {
        let disk = served.clone();
        Box::pin(async move {
            let listener = TcpListener::bind("etcd:2379").await.unwrap();
            serve(listener, disk, ServerConfig::default()).await.unwrap();
        })
    });
    let record = Record::default();
    for n in 1..=CLIENTS {
        let record = record.clone();
        node::add(&format!("c{n}"), Role::Agent, None, move |_| Box::pin(work(n, record.clone())));
    }
    let told = [listen("all", WatchRequest::prefix("", 1)), listen("one", WatchRequest::key("k0", 1))];
    while record.begun() < CLIENTS as usize * CALLS {
        sleep(Duration::from_millis(100)).await;
    }
    sleep(QUIET).await;
    let store = disk.lock().unwrap();
    let log = (2..=store.revision()).map(|revision| store.events(revision)).collect();
    let leases_left = usize::from(store.next_expiry().is_some());
    let [all, one] = told;
    let told = [all.lock().unwrap().clone(), one.lock().unwrap().clone()];
    Story { calls: record.take(), told, log, leases_left }
}

/// A node that watches. What it was told survives its crashes, and it goes on where that ends.
fn listen(name: &str, request: WatchRequest) -> Arc<Mutex<Vec<Event>>> {
    let told: Arc<Mutex<Vec<Event>>> = Arc::default();
    let kept = told.clone();
    node::add(name, Role::Agent, None, move |_| {
        let (told, mut request) = (kept.clone(), request.clone());
        Box::pin(async move {
            if let Some(last) = told.lock().unwrap().last() {
                request.start_revision = last.kv.mod_revision + 1;
            }
            request.prev_kv = true;
            let mut watcher = client().watch(request);
            loop {
                let response = watcher.next().await.unwrap();
                told.lock().unwrap().extend(response.events);
            }
        })
    });
    told
}

/// One client: a call after another, each recorded before it is sent, so that a crash leaves it open.
async fn work(n: u64, record: Record) {
    let client = client();
    while record.begun_by(n) < CALLS {
        let ordinal = record.begun_by(n) as u64;
        let request = request(n, ordinal);
        let call = record.begin(n, Instant::now(), request.clone());
        let outcome = client.call(request).await;
        if let Err(Error::Etcd { .. }) = &outcome {
            rt::mark!(reachable, "a request was refused");
        }
        record.end(call, Instant::now(), outcome);
        sleep(Duration::from_millis(10)).await;
    }
}

/// The next request of a client. Each value is written once, so that it names its write.
fn request(n: u64, ordinal: u64) -> Request {
    let draw = |what: &'static str| rt::choice(what, n, ordinal);
    let key = format!("k{}", draw("storm.key").below(KEYS));
    let value = format!("c{n}/{ordinal}");
    let lease = n as i64;
    match draw("storm.kind").below(12) {
        0..3 => Request::Put(PutRequest { prev_kv: true, ..PutRequest::new(key, value) }),
        3..6 => {
            // What the key's version was, more or less, so that some conditions hold and some do not.
            let version = draw("storm.version").below(3) as i64;
            Request::Txn(TxnRequest {
                compare: vec![Compare::new(key.clone(), CompareOp::Equal, CompareTarget::Version(version))],
                success: vec![
                    Op::Put(PutRequest::new(key.clone(), value.clone())),
                    Op::Put(PutRequest::new(format!("{key}/{value}"), value)),
                ],
                failure: vec![Op::Range(RangeRequest::prefix("k"))],
            })
        }
        6 => Request::DeleteRange(DeleteRangeRequest { prev_kv: true, ..DeleteRangeRequest::key(key) }),
        7 | 8 => Request::Range(RangeRequest::prefix("k")),
        9 => Request::LeaseGrant { ttl_s: 2, id: lease },
        10 => Request::Put(PutRequest { lease, ..PutRequest::new(format!("lease/{n}"), value) }),
        _ => Request::LeaseKeepAlive { id: lease },
    }
}
