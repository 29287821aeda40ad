//! `wavetank check`

use super::histories::{self, Entry, Told};
use super::{CliResult, Ending, Unusable};
use check::jepsen::{self, SubVia};
use check::{FinalReads, exercised, strict};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Errors of one type that are shown in words.
const SHOWN: usize = 5;

#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(super) struct Args {
    /// Histories: kq-case/1 (JSON, one object a file or a line) or Jepsen's history.edn; - is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Print one JSON object a line for each history: id, valid, types, errors, strict
    #[arg(long)]
    json: bool,
    /// Do not infer dependencies from the order of writes: cycles of the family G1c are then not allowed
    #[arg(long)]
    no_ww_deps: bool,
    /// How clients were given their partitions
    #[arg(long, value_name = "HOW")]
    sub_via: Option<How>,
}

const HELP: &str = "\
Two verdicts on each history: that of Jepsen's Kafka checker, with its names and rules, and a strict one, which adds what \
that checker lacks. The options override what a file says of itself; where it says nothing, dependencies between writes \
are inferred, and partitions were assigned unless some event is a subscription. docs/check.md has every anomaly's meaning.

Exit status: 0 every history is valid in both verdicts; 1 some history is not, or proves nothing; 2 unusable input.";

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum How {
    Assign,
    Subscribe,
}

pub(super) fn run(args: &Args) -> CliResult {
    let mut ending = Ending::Expected;
    for file in &args.files {
        for entry in histories::read_all(file)? {
            let is_valid = match entry {
                Entry::History(told) => judge(args, &told),
                Entry::Aborts(aborts) => super::aborts::tell(&aborts, args.json)
                    .map(|()| true)
                    .map_err(|problem| Unusable::new(format!("{}: {problem}", file.display())))?,
            };
            if !is_valid {
                ending = Ending::Unexpected;
            }
        }
    }
    Ok(ending)
}

/// Prints both verdicts; whether both are valid.
fn judge(args: &Args, told: &Told) -> bool {
    let history = &told.history;
    let sub_via = match args.sub_via {
        Some(How::Assign) => SubVia::Assign,
        Some(How::Subscribe) => SubVia::Subscribe,
        None => told.sub_via,
    };
    let ww_deps = !args.no_ww_deps && told.ww_deps.unwrap_or(true);
    let jepsen = jepsen::verdict(history, jepsen::Options { ww_deps, sub_via });
    let strict = strict(history, &FinalReads::new());
    if args.json {
        let theirs = jepsen.to_json(history);
        let ours = strict.to_json(history);
        say!(
            "{}",
            json!({"id": told.id, "valid": theirs["valid"], "types": theirs["types"], "errors": theirs["errors"],
                "strict": ours})
        );
    } else {
        say!("{}: {} events; {}", told.id, history.len(), exercised(history));
        tell_jepsen(&jepsen, sub_via, history);
        tell_strict(&strict, history);
    }
    jepsen.is_valid() && strict.is_valid()
}

fn tell_jepsen(verdict: &jepsen::Verdict, sub_via: SubVia, history: &check::History) {
    let bad = verdict.bad_types(sub_via);
    let allowed: Vec<_> = verdict.types().into_iter().filter(|name| !bad.contains(name)).collect();
    let allowed =
        if allowed.is_empty() { String::new() } else { format!("   allowed: {}", allowed.join(", ")) };
    let names: Vec<_> = bad.iter().copied().collect();
    let valid = if names.is_empty() { "valid".to_string() } else { format!("INVALID: {}", names.join(", ")) };
    say!("  jepsen  {valid}{allowed}");
    let encoded = verdict.to_json(history);
    for name in names {
        for line in in_words(&encoded["errors"][name]) {
            say!("    {name}: {line}");
        }
    }
}

fn tell_strict(verdict: &strict::Verdict, history: &check::History) {
    let names: Vec<_> = verdict.signature().into_iter().collect();
    let valid = match (verdict.is_valid(), names.is_empty()) {
        (true, _) => "valid".to_string(),
        (false, true) => "PROVES NOTHING".to_string(),
        (false, false) => format!("INVALID: {}", names.join(", ")),
    };
    say!("  strict  {valid}");
    for vacuity in &verdict.vacuous {
        say!("    vacuous: {vacuity}");
    }
    let found = verdict.anomalies(history);
    for name in names {
        let of_type: Vec<_> = found.iter().filter(|found| found.name == name).collect();
        for found in of_type.iter().take(SHOWN) {
            say!("    {name}: {} (decided by event {})", found.words, found.event);
        }
        if of_type.len() > SHOWN {
            say!("    {name}: and {} more", of_type.len() - SHOWN);
        }
    }
}

/// The errors of one type, a line each; their fields say what they are.
fn in_words(errors: &Value) -> Vec<String> {
    let Value::Array(list) = errors else { return vec![fields(errors)] };
    let mut lines: Vec<String> = list.iter().take(SHOWN).map(fields).collect();
    if list.len() > SHOWN {
        lines.push(format!("and {} more", list.len() - SHOWN));
    }
    lines
}

fn fields(value: &Value) -> String {
    match value {
        Value::Object(fields_of) => {
            let all =
                fields_of.iter().map(|(name, value)| format!("{} {}", name.replace('_', " "), fields(value)));
            all.collect::<Vec<_>>().join(", ")
        }
        Value::Array(items) => format!("[{}]", items.iter().map(fields).collect::<Vec<_>>().join(" ")),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
