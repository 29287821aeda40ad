//! Planted leaks: each way in which chance can seep in is caught by the determinism check, which names the first event
//! at which the traces part.
//!
//! What differs within a process shows by running twice in it. What differs between processes (process id, environment)
//! shows by running the same in two: this test starts itself again, with another environment, as the `child` test.
#![expect(clippy::disallowed_methods, reason = "plants what the walls forbid, and starts other processes")]

use sim::determinism::{Difference, check, first_difference, lines};
use sim::run::Config;
use sim::trace::Keep;
use std::collections::BTreeMap;
use std::io::Read;
use std::process::Command;

type Leak = fn() -> u64;

/// Every leak, by name.
fn leaks() -> BTreeMap<&'static str, Leak> {
    BTreeMap::from([
        ("address-order", address_order as Leak),
        ("ahash-order", ahash_order),
        ("environment", environment),
        ("pid", pid),
        ("raw-clock", raw_clock),
        ("thread-id", thread_id),
        ("urandom", urandom),
    ])
}

/// Whether the order of two allocations by address is not the order in which they were made, over 64 of them of many
/// sizes: depends on the allocator's state and on address randomisation.
fn address_order() -> u64 {
    let boxes: Vec<Vec<u8>> = (0..64).map(|n| Vec::with_capacity(16 + (n % 7) * 1000)).collect();
    let mut order: Vec<(usize, u64)> =
        boxes.iter().zip(0..).map(|(bytes, n)| (bytes.as_ptr() as usize % 65_521, n)).collect();
    order.sort_unstable();
    order.iter().fold(0, |hash: u64, (_, n)| hash.wrapping_mul(31).wrapping_add(*n))
}

fn ahash_order() -> u64 {
    let state = ahash::RandomState::new();
    (0..64).fold(0, |hash: u64, n: u64| hash.wrapping_mul(31).wrapping_add(state.hash_one(n)))
}

fn environment() -> u64 {
    std::env::var("WAVETANK_LEAKED").map_or(0, |value| rt::choice::stable_hash(value.as_bytes()))
}

fn pid() -> u64 {
    u64::from(std::process::id())
}

fn raw_clock() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid clock id and a valid pointer; the system call itself, which libc's interposed wrapper does not see.
    unsafe { libc::syscall(libc::SYS_clock_gettime, libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn thread_id() -> u64 {
    rt::choice::stable_hash(format!("{:?}", std::thread::current().id()).as_bytes())
}

fn urandom() -> u64 {
    let mut bytes = [0; 8];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut bytes))
        .expect("the machine has entropy");
    u64::from_le_bytes(bytes)
}

fn config() -> Config {
    Config { seed: 3, keep: Keep::Everything, ..Config::default() }
}

/// A script in which one event, after some innocent ones, carries what leaked in.
async fn script(leak: Leak) {
    for n in 0..5 {
        rt::time::sleep(std::time::Duration::from_millis(1)).await;
        rt::event!("innocent", n = n);
    }
    rt::event!("leaked", value = leak());
}

fn names_the_leak(difference: &Difference) {
    let first = difference.first.as_deref().unwrap_or_default();
    assert!(first.contains("leaked"), "the check names another event: {difference}");
}

#[test]
fn what_differs_within_a_process_is_caught_by_running_twice() {
    for name in ["address-order", "ahash-order", "raw-clock", "thread-id", "urandom"] {
        let leak = leaks()[name];
        let difference = check(&config(), || script(leak)).expect_err(name);
        names_the_leak(&difference);
    }
}

#[test]
fn an_unbiased_select_is_caught_by_running_twice() {
    let script = || async {
        for n in 0..64 {
            let first = tokio::select! { () = async {} => true, () = async {} => false };
            rt::event!("selected", n = n, first = first);
        }
    };
    let difference = check(&config(), script).expect_err("select! without biased draws its order");
    assert!(difference.first.unwrap_or_default().contains("selected"));
}

#[test]
fn what_differs_between_processes_is_caught_by_another_process() {
    // A thread id is the same in two fresh processes: only the check within one shows it.
    for name in leaks().into_keys().filter(|name| *name != "thread-id") {
        let difference = first_difference(child(name, "one"), child(name, "other")).expect(name);
        names_the_leak(&difference);
    }
}

#[test]
fn without_a_leak_there_is_no_difference() {
    assert!(check(&config(), || script(|| 7)).is_ok());
    assert_eq!(first_difference(child("none", "one"), child("none", "other")), None);
}

/// The trace of a child process with `leak` planted and an environment of its own.
fn child(leak: &str, environment: &str) -> impl Iterator<Item = String> {
    let program = std::env::current_exe().expect("the test knows its own file");
    let output = Command::new(program)
        .args(["--exact", "in_a_child_process", "--nocapture"])
        .env("WAVETANK_LEAK", leak)
        .env("WAVETANK_LEAKED", environment)
        .output()
        .expect("the test can start itself");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("trace: "), "the child wrote no trace: {text}");
    text.lines()
        .filter_map(|line| Some(line.split_once("trace: ")?.1.to_string()))
        .collect::<Vec<_>>()
        .into_iter()
}

/// Not a test of its own: prints the trace of the leak that its parent asks for.
#[test]
fn in_a_child_process() {
    let Ok(name) = std::env::var("WAVETANK_LEAK") else { return };
    let leak = leaks().get(name.as_str()).copied().unwrap_or(|| 7);
    let run = sim::run(&config(), || script(leak));
    let mut text = String::from("\n");
    for line in lines(&run) {
        text += &format!("trace: {line}\n");
    }
    print!("{text}");
}
