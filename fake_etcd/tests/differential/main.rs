//! The fake and real etcd servers under the same operations: every answer, revision, error and event is compared.
//!
//! `--etcd PATH` (once a server) names real servers, which are started on loopback with data in memory. `--operations N`
//! (100,000 by default) generated operations are compared with each, from `--seed N` on. A difference is made small and
//! printed, and the exit status is 1. `.ci/etcd-differential` gets the servers and runs this.
//!
//! The fake is asked through its own client and server over loopback, so all of it is under test.
#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "it meets real servers, and so real sockets, files and clocks"
)]

mod child;
mod facts;
mod lockstep;
mod operation;
mod outcome;
mod real;
mod server;
mod side;
mod timed;
mod watches;

use fake_etcd::{Client, ClientConfig, Disk, Quirks, ServerConfig, Store};
use lockstep::Lockstep;
use rt::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Steps of a case.
const CASE_STEPS: u64 = 400;

struct Arguments {
    servers: Vec<PathBuf>,
    operations: u64,
    seed: u64,
}

fn arguments() -> Arguments {
    let mut parsed = Arguments { servers: Vec::new(), operations: 100_000, seed: 1 };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().unwrap_or_else(|| panic!("{name} has no value"));
        match name.as_str() {
            "--etcd" => parsed.servers.push(value.into()),
            "--operations" => parsed.operations = value.parse().expect("a number"),
            "--seed" => parsed.seed = value.parse().expect("a number"),
            _ => panic!("{name} is unknown"),
        }
    }
    parsed
}

fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", endpoint] => runtime.block_on(child::serve(endpoint)),
        ["renew", kind, endpoint] => runtime.block_on(child::renew(kind, endpoint)),
        ["watch", kind, endpoint] => runtime.block_on(child::watch(kind, endpoint)),
        _ => {
            let arguments = arguments();
            if arguments.servers.is_empty() {
                println!(
                    "no real server to compare with: .ci/etcd-differential gets some, or name one with --etcd"
                );
            }
            return runtime.block_on(compare_all(&arguments));
        }
    }
    ExitCode::SUCCESS
}

async fn compare_all(arguments: &Arguments) -> ExitCode {
    let mut differences = 0;
    for program in &arguments.servers {
        differences += compare(program, arguments).await;
    }
    let mut late = compare_timed(&arguments.servers).await;
    if late > 0 {
        println!("{late} differences in time: a busy machine makes some, a real one is there again");
        late = compare_timed(&arguments.servers).await;
    }
    differences += late;
    println!("{differences} differences in all");
    ExitCode::from(u8::from(differences > 0))
}

/// The scripts about time, at all servers at once; returns how many differed.
async fn compare_timed(servers: &[PathBuf]) -> u64 {
    let reals = servers.iter().map(|program| {
        let program = program.clone();
        async move { timed::observe(timed::real_server(&program).await).await }
    });
    let (fake, reals) = tokio::join!(
        async { timed::observe(timed::fake_server().await).await },
        futures_util::future::join_all(reals)
    );
    let mut differences = 0;
    for (program, real) in servers.iter().zip(reals) {
        for ((name, real), (_, fake)) in real.iter().zip(&fake) {
            let same = real == fake;
            differences += u64::from(!same);
            match same {
                true => println!("{}: {name}: both {real}", program.display()),
                false => println!("{}: {name}: DIFFERENT\n  real: {real}\n  fake: {fake}", program.display()),
            }
        }
    }
    differences
}

/// Compares with one server; returns how many cases differed.
async fn compare(program: &Path, arguments: &Arguments) -> u64 {
    let (_process, endpoint) = server::start_etcd(program);
    let real = real::connect(&endpoint).await;
    let version = version(&real).await;
    let fake = start_fake(quirks(&version)).await;
    let mut lockstep =
        Lockstep { real, fake, operations: 0, events: 0, explained: 0, version: version.clone() };
    let (mut seed, mut differences) = (arguments.seed, 0);
    let started = std::time::Instant::now();
    while lockstep.operations < arguments.operations {
        if let Err(difference) = lockstep.case(seed, CASE_STEPS).await {
            differences += 1;
            println!("etcd {version}: {difference}\n");
            if differences == 3 {
                break;
            }
        }
        seed += 1;
    }
    let wrong = facts::check(&mut lockstep).await;
    differences += wrong.len() as u64;
    for wrong in wrong {
        println!("etcd {version}: {wrong}");
    }
    println!(
        "etcd {version}: {} operations and {} events compared in {:?}: {differences} differences, {} more explained",
        lockstep.operations,
        lockstep.events,
        started.elapsed(),
        lockstep.explained
    );
    differences
}

async fn version(real: &etcd_client::Client) -> String {
    for _ in 0..200 {
        if let Ok(fake_etcd::api::Response::Status(status)) =
            real::call(real, &fake_etcd::api::Request::Status).await
        {
            return status.version;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the server does not come up");
}

/// What a version does that later ones no longer do.
fn quirks(version: &str) -> Quirks {
    Quirks { compaction_drops_tombstones: version.starts_with("3.4."), ..Default::default() }
}

async fn start_fake(quirks: Quirks) -> Client {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has ports");
    let endpoint = listener.local_addr().expect("it is bound").to_string();
    let disk: Disk = Arc::new(Mutex::new(Store::with_quirks(quirks)));
    let config = ServerConfig { fsync_min_us: 0, fsync_max_us: 0, ..Default::default() };
    rt::spawn("etcd", async move { fake_etcd::serve(listener, disk, config).await.expect("it serves") });
    Client::new(endpoint, ClientConfig { request_timeout_ms: 10_000, ..Default::default() })
}
