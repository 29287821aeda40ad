//! Whole runs a second, and memory over many of them, in one process on one core.
//!
//! Run: `cargo bench -p scenarios --bench runs [-- RUNS]`; 1,000 runs unless said otherwise. Each run is a seed of
//! torn-transaction-random with the verdict and the white-box oracle: agents, coordinator, store and clients from start to
//! final reads. Memory is the process's peak (VmHWM), after a tenth of the runs and at the end: it must not grow.
#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a benchmark reads the machine's clock and memory"
)]

use scenarios::Keep;
use std::time::Instant;

fn main() {
    let runs = std::env::args().skip(1).find_map(|arg| arg.parse().ok()).unwrap_or(1000u64);
    let scenario = scenarios::find("torn-transaction-random").expect("a known scenario");
    let config = (scenario.config)();
    let (mut events, mut steps, mut simulated_ns, mut caught) = (0, 0, 0, 0);
    let mut early_kib = 0;
    let started = Instant::now();
    for seed in 0..runs {
        let outcome = scenarios::execute(&(scenario.plan)(seed, &config), Keep::Events);
        assert!(outcome.failures.is_empty(), "seed {seed}: {:?}", outcome.failures);
        events += outcome.events;
        steps += outcome.steps;
        simulated_ns += outcome.simulated_ns;
        caught += u64::from(outcome.signature.contains("torn-transaction"));
        if seed == runs / 10 {
            early_kib = peak_kib();
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    let rate = runs as f64 / seconds;
    println!(
        "runs: {rate:.1} runs/s ({runs} runs, {caught} torn; a run has {} events, {} steps, {:.1} simulated s)",
        events / runs,
        steps / runs,
        simulated_ns as f64 / runs as f64 / 1e9
    );
    println!("memory: peak {} KiB after {} runs, {} KiB after {runs}", early_kib, runs / 10, peak_kib());
}

/// The process's peak resident memory; 0 where the system does not say.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or_default()
}
