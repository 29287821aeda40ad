//! `wavetank run`

use super::options::{self, scenario, switch_on};
use super::report::{self, Tally};
use super::{CliResult, Ending, Unusable, seeds};
use indicatif::{ProgressBar, ProgressStyle};
use scenarios::{Config, Expect, Keep, Outcome, Reading, Recording, Scenario};
use std::ops::Range;
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(super) struct Args {
    /// The scenario, or the finding whose script it is (see `wavetank list`)
    name: String,
    /// Run the script of a finding with its fix
    #[arg(long)]
    fixed: bool,
    /// Run this one seed
    #[arg(long, value_name = "N", conflicts_with = "seeds")]
    seed: Option<u64>,
    /// Run every seed from A up to, not including, B
    #[arg(long, value_name = "A..B", value_parser = options::seeds)]
    seeds: Option<Range<u64>>,
    /// Stop at the first seed that shows an anomaly
    #[arg(long)]
    until_failure: bool,
    /// Change the world by a switch (see `wavetank list`)
    #[arg(long, value_name = "SWITCH")]
    with: Vec<String>,
    /// Plant the defects that a build of Bufstream had (see `wavetank list`)
    #[arg(long = "as", value_name = "BUILD")]
    build: Option<String>,
    /// Print one JSON object a run
    #[arg(long)]
    json: bool,
    /// Where recordings go
    #[arg(long, value_name = "DIR", default_value = "out")]
    out: PathBuf,
    /// Write the history of the run, for any checker: Jepsen's EDN if FILE ends in .edn, polls alone (kq-abort/1) if in
    /// .abort.json, else kq-case/1
    #[arg(long, value_name = "FILE", requires = "seed", conflicts_with = "seeds")]
    history: Option<PathBuf>,
    /// Seeds to run at the same time
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
}

const HELP: &str = "\
The script of a finding runs in the world that fails, with its defect planted if that is what it takes, and is expected to \
show it; with --fixed it runs in the same world with the fix, and is expected to be clean. Every other scenario runs without \
planted defects, unless --with or --as plants them; what they show is as expected only where the scenario knows of them.";

/// The seed when none is named.
const DEFAULT_SEED: u64 = 1;
/// The seeds searched when none are named and one run is not sure to show anything.
const DEFAULT_SEARCH: Range<u64> = 0..500;
/// Recordings written for one call, beyond the first catch.
const RECORDINGS_MAX: u64 = 10;

pub(super) fn run(args: &Args) -> CliResult {
    let scenario = scenario(&args.name)?;
    let mut config = options::world(scenario, args.fixed)?;
    if let Some(build) = &args.build {
        switch_on(&mut config, &options::switches_of(build)?)?;
    }
    switch_on(&mut config, &args.with)?;
    let expect = (scenario.expect)(&config);
    let search = matches!(expect, Expect::Finds { .. });
    match (args.seed, &args.seeds) {
        (Some(seed), _) => single(args, scenario, &config, seed),
        (None, Some(seeds)) => many(args, scenario, &config, seeds.clone(), args.until_failure),
        (None, None) if search => many(args, scenario, &config, DEFAULT_SEARCH, true),
        (None, None) => single(args, scenario, &config, DEFAULT_SEED),
    }
}

fn single(args: &Args, scenario: &Scenario, config: &Config, seed: u64) -> CliResult {
    let expect = (scenario.expect)(config);
    let plan = (scenario.plan)(seed, config);
    let outcome = scenarios::execute_to_tell(&plan);
    let reading = outcome.reading(&expect);
    let file = record(args, scenario, config, seed, &outcome)?;
    if let Some(history) = &args.history {
        options::write_history(history, &plan, &outcome)?;
    }
    if args.json {
        say!("{}", report::json(scenario.name, seed, &outcome, reading, Some(&file)));
    } else {
        report::single(scenario.name, seed, config, &outcome, &expect, &file);
    }
    Ok(if reading == Reading::Unexpected { Ending::Unexpected } else { Ending::Expected })
}

fn many(
    args: &Args,
    scenario: &Scenario,
    config: &Config,
    range: Range<u64>,
    until_failure: bool,
) -> CliResult {
    let expect = (scenario.expect)(config);
    let jobs = args.jobs.unwrap_or_else(seeds::default_jobs).max(1);
    let progress = progress(range.end - range.start);
    let mut tally = Tally::default();
    let mut trouble: Option<Unusable> = None;
    let execute = |seed| scenarios::execute(&(scenario.plan)(seed, config), Keep::Events);
    seeds::run(range, jobs, execute, |seed, outcome| {
        progress.inc(1);
        let reading = outcome.reading(&expect);
        tally.add(seed, &outcome, reading);
        let first_catch = reading == Reading::Caught && tally.caught == 1;
        let mut file = None;
        if first_catch || (reading == Reading::Unexpected && tally.unexpected <= RECORDINGS_MAX) {
            match record(args, scenario, config, seed, &outcome) {
                Ok(path) => file = Some(path),
                Err(unusable) => trouble = Some(unusable),
            }
        }
        if args.json {
            say!("{}", report::json(scenario.name, seed, &outcome, reading, file.as_ref()));
        } else if let Some(file) = &file {
            progress.suspend(|| tell(scenario, config, seed, &expect, file));
        }
        trouble.is_none() && !(until_failure && reading != Reading::Quiet)
    });
    progress.finish_and_clear();
    if let Some(unusable) = trouble {
        return Err(unusable);
    }
    let ending = tally.ending(&expect, until_failure);
    if !args.json {
        report::tally(scenario.name, &options(args), &tally, &expect, ending);
    }
    Ok(ending)
}

/// The options that make the world what it is.
fn options(args: &Args) -> String {
    let fixed = if args.fixed { " --fixed" } else { "" }.to_string();
    let build = args.build.iter().fold(fixed, |options, build| options + " --as " + build);
    args.with.iter().fold(build, |options, switch| options + " --with " + switch)
}

/// Runs a seed again with all that a story needs, and tells it.
fn tell(scenario: &Scenario, config: &Config, seed: u64, expect: &Expect, file: &Path) {
    let outcome = scenarios::execute(&(scenario.plan)(seed, config), Keep::Story);
    report::single(scenario.name, seed, config, &outcome, expect, file);
}

fn record(
    args: &Args,
    scenario: &Scenario,
    config: &Config,
    seed: u64,
    outcome: &Outcome,
) -> Result<PathBuf, Unusable> {
    let plan = outcome.complete((scenario.plan)(seed, config));
    let signature = outcome.signature.iter().cloned().collect();
    let recording = Recording::new(plan, signature, outcome.fingerprint);
    let mut name = scenario.name.to_string();
    if args.fixed {
        name += "-fixed";
    }
    for part in args.build.iter().chain(&args.with) {
        name += &format!("-{part}");
    }
    options::write(&args.out, &format!("{name}-{seed}.json"), &recording.to_json())
}

fn progress(length: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} seeds  {per_sec}  {eta} left");
    ProgressBar::new(length).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
