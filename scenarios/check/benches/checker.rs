//! The checkers on histories as Jepsen's was measured on: 15 clients that read everything as it comes, and fresh ones
//! that read everything again at the end.
//!
//! Run: `cargo bench -p check --bench checker`. Parsing is not part of it. Times are of the processor, so that a busy
//! machine does not matter. The sizes ascend, so that the peak of resident memory, which holds the history too, is that
//! of the size at hand.
//!
//! Jepsen's checker takes 4.4 s and 1.0 GB for 20 k events, 7.2 s and 1.8 GB for 50 k, 76 to 137 s and 19 GB for 500 k;
//! for 50 k with 1,146 swapped offsets 5.9 to 12.5 s and 2.2 GB.
#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a benchmark reads the machine's clock"
)]

#[path = "../tests/common/mod.rs"]
mod common;

use check::jepsen::{self, Options};
use check::{FinalReads, History, strict};
use common::Load;
use std::time::Instant;

fn main() {
    println!("   events  records   polled  cycles  jepsen s  strict s  ns/event  peak MB");
    for events in [20_000, 50_000, 500_000, 2_000_000] {
        measure(events, 0);
    }
    // As many swaps as in the history with cycles everywhere that Jepsen's checker was measured on.
    measure(50_000, 26);
    measure(500_000, 26);
}

fn measure(events: u64, swap_one_in: u64) {
    // The final reads are about one event in thirty.
    let load = Load {
        seed: 1,
        clients: 15,
        operations: events / 2 * 29 / 30,
        records_per_key: 1024,
        records_per_poll: 500,
        swap_one_in,
    };
    let history = common::history(load);
    let (jepsen_s, verdict) = timed(|| jepsen::verdict(&history, Options::default()));
    assert_eq!(verdict.is_valid(), swap_one_in == 0, "{:?}", verdict.types());
    let (strict_s, _) = timed(|| strict(&history, &FinalReads::new()));
    println!(
        "{:>9}  {:>7}  {:>7}  {:>6}  {:>8.3}  {:>8.3}  {:>8.0}  {:>7}",
        history.len(),
        common::sent(&history),
        common::polled(&history),
        verdict.cycles.len(),
        jepsen_s,
        strict_s,
        (jepsen_s + strict_s) * 1e9 / history.len() as f64,
        peak_mb(&history),
    );
}

fn timed<T>(run: impl FnOnce() -> T) -> (f64, T) {
    let (started, used) = (Instant::now(), processor_s());
    let out = run();
    let used = used.and_then(|before| Some(processor_s()? - before));
    (used.unwrap_or(started.elapsed().as_secs_f64()), out)
}

/// How long this process has been running on a processor, if the system says.
fn processor_s() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/schedstat").ok()?;
    Some(stat.split_whitespace().next()?.parse::<u64>().ok()? as f64 / 1e9)
}

/// The most memory that was resident so far; 0 where the system does not say. `_history` must still be there.
fn peak_mb(_history: &History) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or_default() / 1024
}
