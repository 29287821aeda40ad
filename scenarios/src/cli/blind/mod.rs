//! `wavetank blind`

mod cpu;
mod fixed;
mod search;
mod tell;

use super::options::{no_fix, scenario, switch_on};
use super::{CliResult, Ending, Unusable, finding, seeds};
use scenarios::finding::{Class, Finding};
use scenarios::{Config, Expect, Scenario};

#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(super) struct Args {
    /// The finding: its number or its name (see `wavetank list`); all of them, as a table, if absent
    #[arg(value_name = "N")]
    which: Option<String>,
    /// Search this scenario, not the one that the catalogue names
    #[arg(long, value_name = "SCENARIO", requires = "which")]
    on: Option<String>,
    /// Change the world by a switch beside those of the catalogue (see `wavetank list`)
    #[arg(long, value_name = "SWITCH", requires = "which")]
    with: Vec<String>,
    /// Searches, each from a seed of its own on
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    searches: u64,
    /// Seeds after which one search gives up; it gives up before when it is over its limit of CPU seconds
    #[arg(long, value_name = "N", default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// Put the fix in, and see that seeds which no search has seen are clean
    #[arg(long)]
    fixed: bool,
    /// For so many CPU seconds
    #[arg(long, value_name = "S", requires = "fixed", default_value_t = 120, value_parser = clap::value_parser!(u32).range(1..))]
    cpu_seconds: u32,
    /// Print one JSON object a finding
    #[arg(long)]
    json: bool,
    /// Seeds to run at the same time
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
}

const HELP: &str = "\
A search runs one seed after the other of a general workload under random trouble, with what the finding takes (a planted \
defect, a client, a setting) and nothing that points at it, until a seed shows what the catalogue says the finding shows. A \
seed that shows anything that the catalogue does not name for it is a failure. CPU seconds are those of the whole process \
during a search; with more than one job that is a little too much, as seeds behind the catch have begun.";

/// What is searched.
struct Ground {
    finding: &'static Finding,
    workload: &'static Scenario,
    config: Config,
    /// The options that make that world: `queue-short --with no-txn`.
    words: String,
}

pub(super) fn run(args: &Args) -> CliResult {
    let findings: Vec<&'static Finding> = match &args.which {
        Some(which) => vec![finding::known(which)?],
        // What has no fix is not searched for with it.
        None => scenarios::finding::all()
            .iter()
            .filter(|finding| !args.fixed || finding.fixed.is_some())
            .collect(),
    };
    let grounds = findings.into_iter().map(|finding| ground(args, finding)).collect::<Result<Vec<_>, _>>()?;
    let jobs = args.jobs.unwrap_or_else(seeds::default_jobs).max(1);
    let is_table = args.which.is_none() && !args.json;
    if is_table {
        tell::table_head(args.fixed);
    }
    let mut is_expected = true;
    for ground in &grounds {
        is_expected &= match args.fixed {
            true => fixed::run(args, ground, jobs, is_table),
            false => search::run(args, ground, jobs, is_table),
        };
    }
    Ok(if is_expected { Ending::Expected } else { Ending::Unexpected })
}

/// The world of a finding's searches, with its fix if that is asked for.
fn ground(args: &Args, finding: &'static Finding) -> Result<Ground, Unusable> {
    let workload = match &args.on {
        Some(name) => scenario(name)?,
        None => finding.blind.workload(),
    };
    if let (Class::Defect { .. }, Some(mut config)) = (finding.class, finding.blind_world(workload, true)) {
        switch_on(&mut config, &args.with)?;
        if (workload.expect)(&config) != Expect::Clean {
            let name = workload.name;
            return Err(Unusable::new(format!("--on: {name} shows something by itself: use safe-ground")));
        }
    }
    let mut config = finding.blind_world(workload, args.fixed).ok_or_else(|| no_fix(finding))?;
    switch_on(&mut config, &args.with)?;
    let with = finding.blind.with.iter().copied().chain(args.with.iter().map(String::as_str));
    let words = with.fold(workload.name.to_string(), |words, switch| words + " --with " + switch);
    Ok(Ground { finding, workload, config, words })
}
