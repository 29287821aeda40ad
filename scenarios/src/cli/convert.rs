//! `wavetank convert`

use super::histories::{self, Entry, Told};
use super::{CliResult, Ending, Unusable};
use check::case::{self, Case};
use check::edn;
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(super) struct Args {
    /// The histories, in either form; - is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The form to write
    #[arg(long, value_name = "FORM")]
    to: To,
    /// Only the history of this id
    #[arg(long)]
    id: Option<String>,
}

const HELP: &str = "\
Writes to standard output. EDN holds one history and no options, no id, and none of the fields beside the history; an \
operation's index is its place among the operations of clients.";

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum To {
    /// Jepsen's history.edn, an operation a line
    Edn,
    /// kq-case/1, a history a line
    Json,
}

pub(super) fn run(args: &Args) -> CliResult {
    let mut histories: Vec<Told> = Vec::new();
    for entry in histories::read_all(&args.file)? {
        match entry {
            Entry::History(told) => histories.push(*told),
            Entry::Aborts(_) => {
                return Err(bad(args, "schema: kq-abort/1 holds no history: `wavetank check` reads it"));
            }
        }
    }
    let ids: Vec<String> = histories.iter().take(5).map(|told| told.id.clone()).collect();
    if let Some(id) = &args.id {
        histories.retain(|told| told.id == *id);
        if histories.is_empty() {
            return Err(bad(
                args,
                &format!("--id: no history is called {id}: the first are {}", ids.join(", ")),
            ));
        }
    }
    if args.to == To::Edn && histories.len() > 1 {
        let problem = format!(
            "holds {} histories, and EDN holds one: choose with --id, such as {}",
            histories.len(),
            ids[0]
        );
        return Err(bad(args, &problem));
    }
    for told in histories {
        match args.to {
            To::Edn => say!("{}", edn::write(&told.history).trim_end()),
            To::Json => {
                say!("{}", case::write(&Case { id: told.id, history: told.history, rest: told.rest }))
            }
        }
    }
    Ok(Ending::Expected)
}

fn bad(args: &Args, problem: &str) -> Unusable {
    Unusable::new(format!("{}: {problem}", args.file.display()))
}
