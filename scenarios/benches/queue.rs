//! What a run as large as Jepsen's costs: CPU seconds of one core, and the share of judging it.
//!
//! Run: `cargo bench -p scenarios --bench queue [-- RUNS]`; 5 seeds of each kind unless said otherwise. The first kind is
//! what Jepsen ran for 100 simulated seconds: 15 clients, transactions, trouble for every role, final reads, both verdicts.
//! The second is 300 simulated seconds outside transactions, with about 16,700 records acknowledged (finding 5's run).
//! Judging is measured by doing it again: Jepsen's verdict and the strict one on the same history.
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the process's CPU time")]

use check::{Event, FinalReads, Status, jepsen};
use scenarios::{Config, Keep};

fn main() {
    let runs = std::env::args().skip(1).find_map(|arg| arg.parse().ok()).unwrap_or(5u64);
    let scenario = scenarios::find("queue").expect("a known scenario");
    let jepsen = (scenario.config)();
    measure("100 s, transactions", &jepsen, runs);
    let mut long = jepsen;
    let queue = long.queue.as_mut().expect("it is the queue workload");
    (queue.txn, queue.until_ms, queue.think_ms_max) = (false, 300_000, 950);
    measure("300 s, no transactions", &long, runs);
}

fn measure(name: &str, config: &Config, runs: u64) {
    let scenario = scenarios::find("queue").expect("a known scenario");
    for seed in 1..=runs {
        let before_s = cpu_s();
        let plan = (scenario.plan)(seed, config);
        let outcome = scenarios::execute(&plan, Keep::Events);
        let run_s = cpu_s() - before_s;
        let before_s = cpu_s();
        let jepsen = jepsen::verdict(&outcome.history, jepsen::Options::default());
        let strict = check::strict(&outcome.history, &FinalReads::new());
        let judged_s = cpu_s() - before_s;
        assert!(jepsen.is_valid() && strict.is_valid(), "seed {seed}: {:?}", outcome.anomalies);
        let writes = |event: &Event<'_>| event.status() == Status::Ok && event.sends().next().is_some();
        let events = outcome.history.events();
        let written = events.filter(writes).map(|event| event.sends().count());
        let (operations, records) =
            written.fold((0, 0), |(operations, records), sends| (operations + 1, records + sends));
        println!(
            "{name}, seed {seed}: {run_s:.2} s of CPU, of which both verdicts {judged_s:.2} s; {operations} writing operations and \
             {records} records acknowledged; {} events in the history, {} in the trace, {:.0} simulated s; memory {} MiB",
            outcome.history.len(),
            outcome.events,
            outcome.simulated_ns as f64 / 1e9,
            peak_kib() / 1024
        );
    }
}

/// CPU time of this process, user and system, in seconds.
fn cpu_s() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    // Linux counts them in hundredths of a second whatever the kernel's own rate.
    ticks as f64 / 100.0
}

/// The process's peak resident memory; 0 where the system does not say.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or_default()
}
