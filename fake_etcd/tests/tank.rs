//! Client and server in the tank, under crashes, pauses and cuts: what a client is told of its writes is true, a
//! watch tells everything once, and the same plan gives the same trace.

use fake_etcd::api::*;
use fake_etcd::{Client, ClientConfig, Disk, Error, ServerConfig, serve};
use rt::net::TcpListener;
use rt::time::sleep;
use sim::choice::Choices;
use sim::fault::{Fault, Scheduled, When};
use sim::node::{self, Role};
use sim::run::{Config, End};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const WRITERS: u64 = 3;
const WRITES: u64 = 40;

/// What a writer was told: certainly done, certainly not, or neither.
type Told = Arc<Mutex<BTreeMap<String, Option<bool>>>>;

fn client() -> Client {
    let config = ClientConfig { request_timeout_ms: 300, connect_timeout_ms: 300, ..Default::default() };
    Client::new("etcd:2379".to_string(), config)
}

async fn write(name: String, told: Told) {
    let client = client();
    for n in 0..WRITES {
        let key = format!("{name}/{n:02}");
        let request = TxnRequest {
            compare: vec![Compare::new(key.clone(), CompareOp::Equal, CompareTarget::Version(0))],
            success: vec![Op::Put(PutRequest::new(key.clone(), "v"))],
            failure: vec![],
        };
        let outcome = match client.txn(request).await {
            Ok(response) => {
                assert!(response.succeeded, "nobody else writes {key}: it was sent twice");
                Some(true)
            }
            Err(Error::Unavailable(_)) => Some(false),
            Err(Error::UnknownOutcome(_)) => None,
            Err(refused) => panic!("{refused}"),
        };
        told.lock().unwrap().insert(key, outcome);
        sleep(Duration::from_millis(20)).await;
    }
}

/// Runs writers and a watcher; returns what writers were told and the keys the watcher saw and a last read found.
async fn script() -> (BTreeMap<String, Option<bool>>, Vec<String>, Vec<String>) {
    let disk = Disk::default();
    let (told, seen) = (Told::default(), Arc::new(Mutex::new(Vec::new())));
    node::add("etcd", Role::Coordinator, None, move |_| {
        let disk = disk.clone();
        Box::pin(async move {
            let listener = TcpListener::bind("etcd:2379").await.unwrap();
            serve(listener, disk, ServerConfig::default()).await.unwrap();
        })
    });
    for n in 1..=WRITERS {
        let (told, name) = (told.clone(), format!("w{n}"));
        node::add(&name.clone(), Role::Agent, None, move |_| Box::pin(write(name.clone(), told.clone())));
    }
    let log = seen.clone();
    node::add("watcher", Role::Agent, None, move |_| {
        let log = log.clone();
        Box::pin(async move {
            let mut watcher = client().watch(WatchRequest::prefix("w", 1));
            loop {
                let response = watcher.next().await.unwrap();
                let keys =
                    response.events.iter().map(|event| String::from_utf8_lossy(&event.kv.key).into_owned());
                log.lock().unwrap().extend(keys);
            }
        })
    });
    while told.lock().unwrap().len() < (WRITERS * WRITES) as usize {
        sleep(Duration::from_millis(100)).await;
    }
    let found = Arc::new(Mutex::new(None));
    let result = found.clone();
    node::add("reader", Role::Agent, None, move |_| {
        let result = result.clone();
        Box::pin(async move {
            let client = client();
            // Longer than any fault, and than the watcher needs to find out that its connection is dead.
            sleep(Duration::from_secs(10)).await;
            let range = RangeRequest {
                sort: Some((SortTarget::CreateRevision, SortOrder::Ascend)),
                ..RangeRequest::prefix("w")
            };
            let response = client.range(range).await.unwrap();
            let keys = response.kvs.iter().map(|kv| String::from_utf8_lossy(&kv.key).into_owned());
            *result.lock().unwrap() = Some(keys.collect());
        })
    });
    while found.lock().unwrap().is_none() {
        sleep(Duration::from_millis(100)).await;
    }
    let keys = found.lock().unwrap().take().unwrap();
    let (told, seen) = (told.lock().unwrap().clone(), seen.lock().unwrap().clone());
    (told, seen, keys)
}

/// Faults of the coordinator drawn by the seed: by the clock, and in the middle of a request.
fn config(seed: u64) -> Config {
    let draw = Choices::new(seed, &[]);
    let faults = (1..=6u32).map(|id| {
        let roll = |name: &str, n: u64| draw.draw(name, 0, u64::from(id), 0).below(n);
        let node = "etcd".to_string();
        let restart_after_ms = Some(10 + roll("down", 500));
        let point = |point: &str| When::Point {
            node: None,
            point: point.to_string(),
            nth: 1 + roll("nth", 60) as u32,
        };
        let at = When::AtMs(100 + roll("at", 1500));
        let (when, fault) = match roll("kind", 5) {
            0 => (at, Fault::Pause { node, for_ms: 50 + roll("for", 800) }),
            1 => (point("etcd.before-apply"), Fault::Crash { node, restart_after_ms }),
            2 => (point("etcd.before-reply"), Fault::Crash { node, restart_after_ms }),
            3 => (at, Fault::MachineCrash { node, restart_after_ms }),
            _ => {
                let (from, to) = (vec![node], vec!["w1".to_string(), "watcher".to_string()]);
                (at, Fault::Cut { from, to, both_ways: true, for_ms: 50 + roll("for", 800) })
            }
        };
        Scheduled { id, when, fault }
    });
    Config { seed, faults: faults.collect(), frame_ports: vec![2379], ..Config::default() }
}

#[test]
fn what_a_client_is_told_of_its_writes_is_true_and_a_watch_misses_and_repeats_nothing() {
    let (mut unknown, mut failed, mut kept) = (0, 0, 0);
    for seed in 1..=300 {
        let run = sim::run(&config(seed), script);
        assert_eq!((run.end, run.failures.len()), (End::Done, 0), "seed {seed}: {:?}", run.failures);
        let (told, seen, found) = run.value.unwrap();
        assert_eq!(seen, found, "seed {seed}: the watcher saw something else than was written");
        for (key, outcome) in told {
            let there = found.contains(&key);
            match outcome {
                Some(done) => assert_eq!(there, done, "seed {seed}: {key}"),
                None => kept += u32::from(there),
            }
            unknown += u32::from(outcome.is_none());
            failed += u32::from(outcome == Some(false));
        }
    }
    // The faults landed: writes failed both ways, and of those with unknown outcome some were done and some not.
    assert!(
        failed > 0 && 0 < kept && kept < unknown,
        "{failed} failed, {unknown} unknown, {kept} of them done"
    );
}

#[test]
fn the_same_plan_gives_the_same_trace() {
    for seed in 1..=10 {
        if let Err(difference) = sim::determinism::check(&config(seed), script) {
            panic!("seed {seed}: {difference}");
        }
    }
}
