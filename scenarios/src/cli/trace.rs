//! `wavetank trace`

use super::options::read_recording;
use super::{CliResult, Ending, Unusable};
use scenarios::Keep;
use std::io::Write;
use std::path::PathBuf;

#[derive(clap::Args)]
pub(super) struct Args {
    /// The recording
    file: PathBuf,
    /// Only events at this node
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// Only events from this simulated time on, in seconds
    #[arg(long, value_name = "SECONDS")]
    from: Option<f64>,
    /// Only events up to this simulated time, in seconds
    #[arg(long, value_name = "SECONDS")]
    to: Option<f64>,
    /// Every event, down to single task steps, not only the story's
    #[arg(long)]
    all: bool,
}

pub(super) fn run(args: &Args) -> CliResult {
    let recording = read_recording(&args.file)?;
    let keep = if args.all { Keep::Everything } else { Keep::Story };
    let outcome = scenarios::execute(&recording.plan, keep);
    if let Some(name) = args.node.as_ref().filter(|name| !outcome.nodes.contains(name)) {
        return Err(Unusable::new(format!(
            "--node: no node is called {name}: use one of {}",
            outcome.nodes.join(", ")
        )));
    }
    let ns = |seconds: f64| (seconds * 1e9) as u64;
    let (from, to) = (args.from.map_or(0, ns), args.to.map_or(u64::MAX, ns));
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for entry in &outcome.trace {
        let node = outcome.node(entry.node);
        let wanted = args.node.as_ref().is_none_or(|name| name == node) && (from..=to).contains(&entry.at_ns);
        if wanted && writeln!(out, "{}", sim::determinism::line(entry, node)).is_err() {
            // The reader has seen enough (a closed pipe).
            break;
        }
    }
    Ok(Ending::Expected)
}
