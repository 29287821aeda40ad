//! `wavetank shrink`

use super::options::{self, read_recording};
use super::{CliResult, Ending, Unusable, report};
use indicatif::ProgressBar;
use scenarios::{Keep, Recording};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub(super) struct Args {
    /// The recording
    file: PathBuf,
    /// Where the small one goes; beside the recording, as NAME.small.json, if absent
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> CliResult {
    let recording = read_recording(&args.file)?;
    if recording.signature.is_empty() {
        return Err(Unusable::new(format!(
            "{}: signature: the recording shows no anomaly, so there is nothing to keep: record a failing seed",
            args.file.display()
        )));
    }
    let wanted: BTreeSet<String> = recording.signature.iter().cloned().collect();
    let shows = |plan: &scenarios::Plan| scenarios::execute(plan, Keep::Events).signature == wanted;
    if !shows(&recording.plan) {
        say!("the recording does not show its signature any more: wavetank replay {}", args.file.display());
        return Ok(Ending::Unexpected);
    }
    let progress = ProgressBar::new_spinner();
    let small = sim::shrink::shrink(&recording.plan, |candidate| {
        progress.inc(1);
        progress.set_message(format!(
            "{} items left, run {}",
            sim::shrink::size(candidate),
            progress.position()
        ));
        shows(candidate)
    });
    progress.finish_and_clear();
    let outcome = scenarios::execute(&small, Keep::Story);
    let (before, after) = (sim::shrink::size(&recording.plan), sim::shrink::size(&small));
    let small = Recording::new(outcome.complete(small), recording.signature.clone(), outcome.fingerprint);
    let out = args.out.clone().unwrap_or_else(|| args.file.with_extension("small.json"));
    let name = out.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let out = options::write(out.parent().unwrap_or(Path::new("")), &name, &small.to_json())?;
    if args.json {
        say!("{}", serde_json::json!({"recording": out, "items_before": before, "items": after}));
    } else {
        let plan = &small.plan;
        say!("{}", report::headline(&plan.scenario, plan.seed, &plan.config, &outcome));
        report::body(&outcome);
        say!("shrunk: {before} faults and operations to {after}");
        say!("replay: wavetank replay {}", out.display());
    }
    Ok(Ending::Expected)
}
