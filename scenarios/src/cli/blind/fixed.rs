//! The same workload and settings with the fix: seeds that no search has seen are clean.

use super::search::shown;
use super::{Args, Ground, cpu, tell};
use crate::cli::seeds;
use scenarios::{Keep, Reading};
use std::time::Duration;

/// How it went.
#[derive(Default)]
pub(super) struct Clean {
    pub(super) seeds: u64,
    pub(super) cpu: Duration,
    /// Seeds that show something, and what.
    pub(super) dirty: Vec<(u64, String)>,
}

/// Seeds that are told, beyond which only their number counts.
pub(super) const DIRTY_MAX: usize = 10;

/// Runs fresh seeds for as long as it may take, and tells how it went: whether nothing was shown.
pub(super) fn run(args: &Args, ground: &Ground, jobs: usize, is_row: bool) -> bool {
    let (before, limit) = (cpu::used(), Duration::from_secs(u64::from(args.cpu_seconds)));
    let mut clean = Clean::default();
    let execute = |seed| scenarios::execute(&(ground.workload.plan)(seed, &ground.config), Keep::Events);
    seeds::run(args.searches * args.seeds..u64::MAX, jobs, execute, |seed, outcome| {
        clean.seeds += 1;
        if ground.finding.blind.read_fixed(&outcome) == Reading::Unexpected {
            let vacuous = outcome.vacuous.iter().map(|reason| format!("VACUOUS {reason}"));
            let shown = Some(shown(&outcome)).filter(|shown| !shown.is_empty());
            clean.dirty.push((seed, shown.into_iter().chain(vacuous).collect::<Vec<_>>().join(", ")));
        }
        cpu::since(before) < limit
    });
    clean.cpu = cpu::since(before);
    tell::clean(ground, &clean, args.json, is_row);
    clean.dirty.is_empty()
}
