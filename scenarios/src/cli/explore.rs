//! `wavetank explore`

use super::options::{self, switch_on};
use super::{CliResult, Ending, seeds};
use indicatif::ProgressBar;
use scenarios::explore::{self, Class, Schedule};
use scenarios::{Config, Keep, Outcome, Recording};
use std::collections::BTreeMap;
use std::path::PathBuf;

#[derive(clap::Args)]
pub(super) struct Args {
    /// Change the world by a switch (see `wavetank list`)
    #[arg(long, value_name = "SWITCH")]
    with: Vec<String>,
    /// Print one JSON object a class
    #[arg(long)]
    json: bool,
    /// Where recordings of the first schedule of each class go
    #[arg(long, value_name = "DIR", default_value = "out")]
    out: PathBuf,
    /// Schedules to run at the same time
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
}

/// What is known of a class.
struct Known {
    schedules: usize,
    first: usize,
    recording: Recording,
}

pub(super) fn run(args: &Args) -> CliResult {
    let scenario = options::scenario("three-transactions")?;
    let mut config = (scenario.config)();
    switch_on(&mut config, &args.with)?;
    let (schedules, requests) = explore::schedules(&config);
    let progress = ProgressBar::new(schedules.len() as u64);
    let jobs = args.jobs.unwrap_or_else(seeds::default_jobs).max(1);
    let mut found: BTreeMap<Class, Known> = BTreeMap::new();
    let mut broken = Vec::new();
    let execute = |n| scenarios::execute(&schedules[n as usize].plan, Keep::Events);
    seeds::run(0..schedules.len() as u64, jobs, execute, |n, outcome| {
        progress.inc(1);
        note(&schedules, n as usize, &outcome, &mut found, &mut broken);
        true
    });
    progress.finish_and_clear();
    let count = |is_exempt| {
        let of_kind = harmful(&found).filter(|(class, _)| class.is_exempt() == is_exempt);
        of_kind.map(|(_, known)| known.schedules).sum::<usize>()
    };
    let (harm, exempt) = (count(false), count(true));
    if !args.json {
        headline(&config, requests);
        match harm {
            0 => say!("none of {} schedules does harm", schedules.len()),
            _ => say!("{harm} of {} schedules do harm", schedules.len()),
        }
        if exempt > 0 {
            say!(
                "{exempt} more do what no client can prevent: a stale InitProducerId fences the live producer (finding 19), or an \
                 offset that comes as its transaction ends stays pending (S9)"
            );
        }
    }
    for (number, (class, known)) in harmful(&found).enumerate() {
        let name = format!("explore-{}{}.json", with(&args.with), number + 1);
        let file = options::write(&args.out, &name, &known.recording.to_json())?;
        let (signature, first) = (class.signature.join(" "), &schedules[known.first]);
        if args.json {
            let object = serde_json::json!({
                "class": class.to_string(), "signature": class.signature, "schedules": known.schedules,
                "first": first.to_string(), "recording": file,
            });
            say!("{object}");
        } else {
            say!("{:6}  {class}: {signature}", known.schedules);
            say!("        {first}: wavetank replay {}", file.display());
        }
    }
    for line in &broken {
        say!("BROKEN  {line}");
    }
    let expected = broken.is_empty() && (harm == 0) == explore::promises_safety(&config);
    if !args.json {
        say!("expected: {}", if expected { "yes" } else { "NO" });
    }
    Ok(if expected { Ending::Expected } else { Ending::Unexpected })
}

fn note(
    schedules: &[Schedule],
    n: usize,
    outcome: &Outcome,
    found: &mut BTreeMap<Class, Known>,
    broken: &mut Vec<String>,
) {
    let schedule = &schedules[n];
    // What a copy does may leave nothing to be read; one that was not held proves nothing.
    let not_held = outcome.vacuous.iter().filter(|reason| reason.starts_with("fault "));
    broken.extend(outcome.failures.iter().chain(not_held).map(|problem| format!("{schedule}: {problem}")));
    let recording = || {
        let signature = outcome.signature.iter().cloned().collect();
        Recording::new(outcome.complete(schedule.plan.clone()), signature, outcome.fingerprint)
    };
    let known = found.entry(schedule.class(outcome));
    known.or_insert_with(|| Known { schedules: 0, first: n, recording: recording() }).schedules += 1;
}

/// Classes that show an anomaly.
fn harmful(found: &BTreeMap<Class, Known>) -> impl Iterator<Item = (&Class, &Known)> {
    found.iter().filter(|(class, _)| !class.signature.is_empty())
}

fn headline(config: &Config, requests: usize) {
    let client = scenarios::variant_name(config.client);
    say!(
        "three transactions of one producer, two partitions, client {client}; a stale copy of each of {requests} requests"
    );
}

fn with(switches: &[String]) -> String {
    switches.iter().map(|switch| format!("{switch}-")).collect()
}
