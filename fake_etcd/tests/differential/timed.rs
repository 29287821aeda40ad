//! Scripts about time: leases and watches while the server or the client is stopped and continued. Each runs at a real
//! server and at the fake as processes of their own; what is observed must be the same, in the same class of time.

use crate::real;
use crate::server::{Process, free_port, kill_and_restart_etcd, start_etcd};
use crate::side::Side;
use fake_etcd::api::*;
use fake_etcd::{Client, ClientConfig};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{sleep, timeout};

/// A server process and how to reach it.
pub(crate) struct Served {
    process: Process,
    endpoint: String,
    side: Side,
    /// The real server's program.
    program: Option<PathBuf>,
}

pub(crate) async fn real_server(program: &Path) -> Served {
    let (process, endpoint) = start_etcd(program);
    let client = real::connect(&endpoint).await;
    crate::version(&client).await;
    Served { process, endpoint, side: Side::Real(client), program: Some(program.to_path_buf()) }
}

/// This very program, as the fake's server.
pub(crate) async fn fake_server() -> Served {
    let endpoint = format!("127.0.0.1:{}", free_port());
    let mut command = Command::new(std::env::current_exe().expect("it runs"));
    command.args(["serve", &endpoint]).stdout(Stdio::null());
    let process = Process::spawn(&mut command, None);
    let client = fake_client(&endpoint);
    client.status().await.expect("the fake comes up");
    Served { process, endpoint, side: Side::Fake(client), program: None }
}

/// Patient enough to outwait every stop.
pub(crate) fn fake_client(endpoint: &str) -> Client {
    let config = ClientConfig {
        request_timeout_ms: 30_000,
        keep_alive_time_ms: 30_000,
        keep_alive_timeout_ms: 30_000,
        ..Default::default()
    };
    Client::new(endpoint.to_string(), config)
}

/// Every script at one server; the observations, by script.
pub(crate) async fn observe(mut served: Served) -> Vec<(&'static str, String)> {
    let server = &mut served;
    vec![
        ("a lease that runs out", runs_out(server).await),
        ("a server stopped for longer than a lease", stopped_past_a_lease(server).await),
        ("a server stopped for less than a lease", stopped_within_a_lease(server).await),
        ("a renewal and a write while the server is stopped", sent_while_stopped(server).await),
        ("a client that renews, stopped for longer than its lease", stopped_renewer(server).await),
        ("a client that watches, stopped while much happens", stopped_watcher(server).await),
        ("a server killed and started again", restarted(server).await),
    ]
}

/// The next events, `count` of them, and how long the first took in classes of seconds.
async fn told(events: &mut UnboundedReceiver<Event>, count: usize) -> String {
    let started = Instant::now();
    let mut seen = Vec::new();
    let mut class = "never";
    for _ in 0..count {
        let Ok(Some(event)) = timeout(Duration::from_secs(8), events.recv()).await else { break };
        if seen.is_empty() {
            class = match started.elapsed().as_millis() {
                0..1_500 => "at once",
                1_500..4_500 => "after the lease",
                _ => "late",
            };
        }
        seen.push(format!("{:?} {} at {}", event.kind, key(&event), event.kv.mod_revision));
    }
    format!("{class}: {}", seen.join(", "))
}

fn key(event: &Event) -> String {
    String::from_utf8_lossy(&event.kv.key).into_owned()
}

async fn runs_out(server: &Served) -> String {
    let side = &server.side;
    let mut events = side.watch(WatchRequest { no_put: true, ..WatchRequest::prefix("", 0) }).await;
    // Below the least TTL, which is two seconds.
    side.grant(1, 1).await;
    side.grant(2, 300).await;
    side.put("b", 1).await;
    side.put("a", 1).await;
    side.put("kept", 2).await;
    let told = told(&mut events, 2).await;
    format!("{told}; left {}, renewed for {}", side.ttl_s(1).await, side.renew(1).await)
}

async fn stopped_past_a_lease(server: &Served) -> String {
    let side = &server.side;
    let mut events = side.watch(WatchRequest { no_put: true, ..WatchRequest::prefix("", 0) }).await;
    side.grant(3, 2).await;
    side.put("c", 3).await;
    server.process.stop();
    sleep(Duration::from_secs(4)).await;
    server.process.signal("CONT");
    let told = told(&mut events, 1).await;
    format!("{told}; left {}, renewed for {}", side.ttl_s(3).await, side.renew(3).await)
}

async fn stopped_within_a_lease(server: &Served) -> String {
    let side = &server.side;
    side.grant(4, 10).await;
    server.process.stop();
    sleep(Duration::from_millis(2_500)).await;
    server.process.signal("CONT");
    // The time it was stopped counts: 7.5 seconds are left.
    format!("left {}, renewed for {}", side.ttl_s(4).await, side.renew(4).await)
}

async fn sent_while_stopped(server: &Served) -> String {
    let side = &server.side;
    side.grant(5, 2).await;
    side.put("d", 5).await;
    server.process.stop();
    let (renewing, writing) = (side.clone(), side.clone());
    let renewal = tokio::spawn(async move { renewing.renew(5).await });
    let write = tokio::spawn(async move { writing.put("e", 0).await });
    sleep(Duration::from_secs(4)).await;
    let early = (renewal.is_finished(), write.is_finished());
    server.process.signal("CONT");
    let renewed = renewal.await.expect("it is answered");
    write.await.expect("it is applied");
    sleep(Duration::from_secs(1)).await;
    let left = side.call(Request::Range(RangeRequest { keys_only: true, ..RangeRequest::prefix("") })).await;
    let Ok(Response::Range(left)) = left else { panic!("{left:?}") };
    let left: Vec<_> = left.kvs.iter().map(|kv| String::from_utf8_lossy(&kv.key).into_owned()).collect();
    format!("answered while stopped: {early:?}; renewed for {renewed}; keys {left:?}")
}

/// This very program as a client, and the lines it prints.
fn client(server: &Served, role: &str) -> (Process, UnboundedReceiver<String>) {
    let kind = if server.program.is_some() { "real" } else { "fake" };
    let mut command = Command::new(std::env::current_exe().expect("it runs"));
    command.args([role, kind, &server.endpoint]).stdout(Stdio::piped());
    let mut process = Process::spawn(&mut command, None);
    let lines = BufReader::new(process.stdout()).lines();
    let (told, received) = tokio::sync::mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            if told.send(line).is_err() {
                return;
            }
        }
    });
    (process, received)
}

async fn line(lines: &mut UnboundedReceiver<String>) -> String {
    let line = timeout(Duration::from_secs(10), lines.recv()).await;
    line.ok().flatten().unwrap_or_else(|| "nothing".to_string())
}

async fn stopped_renewer(server: &Served) -> String {
    let side = &server.side;
    let mut events = side.watch(WatchRequest { no_put: true, ..WatchRequest::prefix("", 0) }).await;
    side.grant(6, 2).await;
    side.put("f", 6).await;
    let (process, mut lines) = client(server, "renew");
    let mut observed = vec![line(&mut lines).await];
    // Longer than the lease: it is kept alive.
    sleep(Duration::from_secs(4)).await;
    observed.push(format!("left while it runs: {}", side.ttl_s(6).await >= 0));
    process.stop();
    observed.push(told(&mut events, 1).await);
    process.signal("CONT");
    while observed.last().is_some_and(|line| line != "gone" && line != "nothing") {
        let line = line(&mut lines).await;
        // How many renewals it made before it was stopped does not matter.
        if line != "renewed" {
            observed.push(line);
        }
    }
    observed.join("; ")
}

async fn stopped_watcher(server: &Served) -> String {
    const WRITES: usize = 3_000;
    let side = &server.side;
    let (process, mut lines) = client(server, "watch");
    let mut observed = vec![line(&mut lines).await];
    side.put("g", 0).await;
    observed.push(line(&mut lines).await);
    process.stop();
    for _ in 0..WRITES {
        side.call(Request::Put(PutRequest::new("g", vec![b'x'; 2_000]))).await.unwrap();
    }
    process.signal("CONT");
    side.call(Request::DeleteRange(DeleteRangeRequest::key("g"))).await.unwrap();
    observed.push(line(&mut lines).await);
    observed.join("; ")
}

async fn restarted(server: &mut Served) -> String {
    let side = server.side.clone();
    side.grant(7, 10).await;
    side.put("h", 7).await;
    side.put("i", 0).await;
    sleep(Duration::from_secs(3)).await;
    match server.program.clone() {
        Some(program) => kill_and_restart_etcd(&mut server.process, &program, &server.endpoint),
        // The fake's disk is memory, so its process lives and what it serves begins anew.
        None => server.process.signal("HUP"),
    }
    sleep(Duration::from_secs(3)).await;
    let answered = async {
        loop {
            // A connection that broke is no answer.
            match side.call(Request::LeaseTimeToLive { id: 7, keys: true }).await {
                Ok(Response::LeaseTimeToLive(response)) => return response,
                _ => sleep(Duration::from_millis(100)).await,
            }
        }
    };
    let response = timeout(Duration::from_secs(10), answered).await.expect("it comes up again");
    // Without the restart four seconds would be left.
    let full_again = (7..=9).contains(&response.ttl_s);
    format!("full time again: {full_again}, {:?} at {}", response.keys, response.revision)
}
