//! `wavetank diff`

use super::options::{read, read_recording};
use super::{CliResult, Ending, Unusable};
use scenarios::Keep;
use sim::determinism::{first_difference, line};
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub(super) struct Args {
    /// A recording, or a trace that `wavetank trace --all` of some build wrote
    a: PathBuf,
    /// The other
    b: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> CliResult {
    let (a, b) = (lines(&args.a)?, lines(&args.b)?);
    let difference = first_difference(a.into_iter(), b.into_iter());
    match &difference {
        _ if args.json => {
            let parts = difference
                .as_ref()
                .map(|d| serde_json::json!({"event": d.event, "a": d.first, "b": d.second}));
            say!("{}", serde_json::json!({"a": args.a, "b": args.b, "difference": parts}));
        }
        None => say!("the traces are the same"),
        Some(difference) => say!("{difference}"),
    }
    Ok(if difference.is_none() { Ending::Expected } else { Ending::Unexpected })
}

/// The whole trace of a recording, run now, or a trace as it was written.
fn lines(file: &Path) -> Result<Vec<String>, Unusable> {
    let text = read(file)?;
    if text.trim_start().starts_with('{') {
        let recording = read_recording(file)?;
        let outcome = scenarios::execute(&recording.plan, Keep::Everything);
        return Ok(outcome.trace.iter().map(|entry| line(entry, outcome.node(entry.node))).collect());
    }
    let is_event = |line: &str| line.split_whitespace().next().is_some_and(|id| id.parse::<u64>().is_ok());
    match text.lines().find(|line| !is_event(line)) {
        Some(_) => Err(Unusable::new(format!(
            "{}: neither a recording (JSON) nor a trace: write a trace with `wavetank trace --all FILE`",
            file.display()
        ))),
        None => Ok(text.lines().map(str::to_string).collect()),
    }
}
