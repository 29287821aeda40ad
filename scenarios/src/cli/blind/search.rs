//! Searches: how many seeds, and how much CPU time, until the first catch.

use super::{Args, Ground, cpu, tell};
use crate::cli::seeds;
use scenarios::{Keep, Outcome, Reading};
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

/// How one search went.
struct Search {
    /// Seeds run, up to the catch.
    seeds: u64,
    cpu: Duration,
    /// What the catch shows.
    caught: Option<String>,
}

/// How all searches of a finding went.
#[derive(Default)]
pub(super) struct Searches {
    /// Seeds that found it, the fewest first.
    pub(super) seeds: Vec<u64>,
    /// CPU time of these searches, the least first.
    pub(super) cpu: Vec<Duration>,
    pub(super) missed: u64,
    /// By signature, the number of catches.
    pub(super) signatures: BTreeMap<String, u64>,
    /// Seeds that show what they may not, and what that is.
    pub(super) outside: Vec<(u64, String)>,
}

/// Searches for a finding and tells how it went: whether as it should.
pub(super) fn run(args: &Args, ground: &Ground, jobs: usize, is_row: bool) -> bool {
    let mut searches = Searches::default();
    for first in (0..args.searches).map(|search| search * args.seeds) {
        let search = search(ground, first..first + args.seeds, jobs, &mut searches.outside);
        searches.add(search);
    }
    searches.seeds.sort_unstable();
    searches.cpu.sort_unstable();
    tell::searches(ground, &searches, args.json, is_row);
    searches.is_expected(ground)
}

impl Searches {
    fn add(&mut self, search: Search) {
        match search.caught {
            Some(signature) => {
                self.seeds.push(search.seeds);
                self.cpu.push(search.cpu);
                *self.signatures.entry(signature).or_default() += 1;
            }
            None => self.missed += 1,
        }
    }

    /// All searches found it within its limits, and nothing else was found.
    pub(super) fn is_expected(&self, ground: &Ground) -> bool {
        let limits = ground.finding.blind.limits;
        let within = |cpu: Option<Duration>, limit_s: u32| {
            cpu.is_some_and(|cpu| cpu <= Duration::from_secs(u64::from(limit_s)))
        };
        let (median, worst) = (self.cpu.get(self.cpu.len() / 2).copied(), self.cpu.last().copied());
        let is_quick = within(median, limits.median_s) && within(worst, limits.worst_s);
        self.missed == 0 && self.outside.is_empty() && is_quick
    }
}

fn search(ground: &Ground, range: Range<u64>, jobs: usize, outside: &mut Vec<(u64, String)>) -> Search {
    let (before, first) = (cpu::used(), range.start);
    let limit = Duration::from_secs(u64::from(ground.finding.blind.limits.worst_s));
    let execute = |seed| scenarios::execute(&(ground.workload.plan)(seed, &ground.config), Keep::Events);
    let (mut run, mut caught) = (0, None);
    seeds::run(range, jobs, execute, |seed, outcome| {
        run = seed - first + 1;
        match ground.finding.blind.read(&outcome) {
            Reading::Caught => caught = Some(shown(&outcome)),
            Reading::Unexpected => outside.push((seed, shown(&outcome))),
            Reading::Quiet => {}
        }
        caught.is_none() && cpu::since(before) < limit
    });
    Search { seeds: run, cpu: cpu::since(before), caught }
}

/// What a run shows, and how it failed by itself.
pub(super) fn shown(outcome: &Outcome) -> String {
    let failed = (!outcome.failures.is_empty()).then(|| format!("FAILED {}", outcome.failures.join("; ")));
    outcome.signature.iter().cloned().chain(failed).collect::<Vec<_>>().join(", ")
}
