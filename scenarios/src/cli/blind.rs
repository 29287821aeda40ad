//! `wavetank blind`

use super::options::{scenario, switch_on};
use super::{CliResult, Ending, Unusable, finding, seeds};
use scenarios::finding::Class;
use scenarios::{Config, Expect, Keep, Scenario};
use std::collections::BTreeMap;
use std::ops::Range;

#[derive(clap::Args)]
pub(super) struct Args {
    /// The finding, one that a switch plants: its number or its name (see `wavetank list`)
    #[arg(value_name = "N")]
    which: String,
    /// The scenario to search, in which nothing goes wrong by itself
    #[arg(long, value_name = "SCENARIO", default_value = "safe-ground")]
    on: String,
    /// Searches, each from a seed of its own on
    #[arg(long, value_name = "N", default_value_t = 20)]
    searches: u64,
    /// Seeds after which one search gives up
    #[arg(long, value_name = "N", default_value_t = 200)]
    seeds: u64,
    /// Seeds to run at the same time
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
}

/// Whatever goes wrong where nothing may, with nothing but the defect planted, is the defect's.
pub(super) fn run(args: &Args) -> CliResult {
    let finding = finding::known(&args.which)?;
    let Class::Defect { switch } = finding.class else {
        return Err(Unusable::new(format!("N: no switch plants finding {}: it takes settings", finding.id)));
    };
    let ground = scenario(&args.on)?;
    let mut config = (ground.config)();
    if (ground.expect)(&config) != Expect::Clean {
        return Err(Unusable::new(format!(
            "--on: {} shows something by itself: use safe-ground",
            ground.name
        )));
    }
    switch_on(&mut config, &[switch.to_string()])?;
    let jobs = args.jobs.unwrap_or_else(seeds::default_jobs).max(1);
    let mut counts = Vec::new();
    let mut signatures: BTreeMap<String, usize> = BTreeMap::new();
    for first in (0..args.searches).map(|search| search * args.seeds) {
        if let Some((count, signature)) = search(ground, &config, first..first + args.seeds, jobs) {
            counts.push(count);
            *signatures.entry(signature).or_default() += 1;
        }
    }
    counts.sort_unstable();
    let found = counts.len() as u64;
    say!(
        "finding {}, planted by {switch} in {}: {found} of {} searches find it",
        finding.id,
        ground.name,
        args.searches
    );
    if let (Some(median), Some(worst)) = (counts.get(counts.len() / 2), counts.last()) {
        say!("after {median} seeds in the median, {worst} at worst");
    }
    for (signature, times) in signatures {
        say!("{times:6} times  {signature}");
    }
    Ok(if found == args.searches { Ending::Expected } else { Ending::Unexpected })
}

/// How many seeds it took until something went wrong, and what did.
fn search(ground: &Scenario, config: &Config, range: Range<u64>, jobs: usize) -> Option<(u64, String)> {
    let first = range.start;
    let mut found = None;
    let execute = |seed| scenarios::execute(&(ground.plan)(seed, config), Keep::Events);
    seeds::run(range, jobs, execute, |seed, outcome| {
        if !outcome.signature.is_empty() {
            let signature: Vec<String> = outcome.signature.into_iter().collect();
            found = Some((seed - first + 1, signature.join(", ")));
        }
        found.is_none()
    });
    found
}
