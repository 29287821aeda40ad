//! Many runs at once: one thread a core, results in the order of the seeds.

use scenarios::Outcome;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;

/// Runs `one` for every seed on `jobs` threads and hands the results to `each` in order of seed; stops when `each`
/// returns false. Results do not depend on `jobs`: every run has a thread and a world of its own.
pub(super) fn run(
    seeds: Range<u64>,
    jobs: usize,
    one: impl Fn(u64) -> Outcome + Sync,
    mut each: impl FnMut(u64, Outcome) -> bool,
) {
    let next = AtomicU64::new(seeds.start);
    let stop = AtomicBool::new(false);
    // Bounded, so that fast workers do not pile up results behind a slow one.
    let (send, results) = mpsc::sync_channel(jobs * 2);
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            let (send, next, stop, one) = (send.clone(), &next, &stop, &one);
            scope.spawn(move || {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end
                        || stop.load(Ordering::Relaxed)
                        || send.send((seed, one(seed))).is_err()
                    {
                        return;
                    }
                }
            });
        }
        drop(send);
        let mut waiting = std::collections::BTreeMap::new();
        let mut due = seeds.start;
        for (seed, outcome) in results {
            waiting.insert(seed, outcome);
            while let Some(outcome) = waiting.remove(&due) {
                if !stop.load(Ordering::Relaxed) && !each(due, outcome) {
                    stop.store(true, Ordering::Relaxed);
                }
                due += 1;
            }
        }
    });
}

/// Threads to use when the user does not say.
pub(super) fn default_jobs() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
