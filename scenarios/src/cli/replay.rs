//! `wavetank replay`

use super::options::{self, read_recording};
use super::{CliResult, Ending, report};
use std::path::PathBuf;

#[derive(clap::Args)]
pub(super) struct Args {
    /// The recording
    file: PathBuf,
    /// Write the history of the run, for any checker: Jepsen's EDN if FILE ends in .edn, polls alone (kq-abort/1) if in
    /// .abort.json, else kq-case/1
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> CliResult {
    let recording = read_recording(&args.file)?;
    let outcome = scenarios::execute_to_tell(&recording.plan);
    let comparison = scenarios::compare(&recording, &outcome);
    let name = &recording.plan.scenario;
    if let Some(history) = &args.history {
        options::write_history(history, &recording.plan, &outcome)?;
    }
    if args.json {
        say!(
            "{}",
            serde_json::json!({
                "recording": args.file,
                "scenario": name,
                "expected": comparison.as_recorded,
                "signature": outcome.signature,
                "anomalies": outcome.anomalies,
                "fingerprint": outcome.fingerprint.to_string(),
                "comparison": comparison.words,
            })
        );
    } else {
        say!("{}", report::headline(name, recording.plan.seed, &recording.plan.config, &outcome));
        report::body(&outcome);
        say!("replay: {}", comparison.words);
    }
    Ok(if comparison.as_recorded { Ending::Expected } else { Ending::Unexpected })
}
