//! The command line: one file a subcommand.
//!
//! What every subcommand keeps to: results go to standard output, progress and warnings to standard error; `--json`
//! prints one object a line; unusable input is one line on standard error, with the file or option, the field and the
//! remedy, and exit status 2.

/// Prints a line. A closed pipe is no error: its reader has seen enough.
macro_rules! say {
    ($($line:tt)*) => {
        drop(std::io::Write::write_fmt(&mut std::io::stdout(), format_args!("{}\n", format_args!($($line)*))))
    };
}

mod aborts;
mod blind;
mod check;
mod convert;
mod diff;
mod explore;
mod finding;
mod histories;
mod list;
mod matrix;
mod matrix_html;
mod options;
mod proxy;
mod replay;
mod report;
mod run;
mod seeds;
mod serve;
mod shrink;
mod trace;

use clap::{Parser, Subcommand};
use std::fmt::Display;
use std::process::ExitCode;

/// A deterministic simulation testbed for Kafka-compatible streaming systems.
#[derive(Parser)]
#[command(name = "wavetank", version, about, after_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  wavetank run torn-transaction                       show the failure, tell its story, record it
  wavetank run torn-transaction --with strict         the same trouble, a client that is not affected
  wavetank finding 20                                 what a known failure was, and how to run it with and without its fix
  wavetank run torn-transaction-random --seeds 0..500 --until-failure
  wavetank replay out/torn-transaction-1.json         the same run again, byte for byte
  wavetank shrink out/torn-transaction-random-0.json  the shortest plan that shows the same
  wavetank check store/latest/history.edn             what Jepsen's checker says, and what a stricter one adds
  wavetank serve --agents 3 --topic orders:3          a cluster for real Kafka clients on 127.0.0.1:9092 and up

Exit status: 0 as expected; 1 not as expected (also: nothing was tested, or two runs of one plan differ); 2 unusable input.";

#[derive(Subcommand)]
enum Command {
    /// List findings, scenarios and switches
    List(list::Args),
    /// Tell what a finding is: what happened, what it takes, what helps
    Finding(finding::Args),
    /// Search for findings where nobody points at them, and count seeds and CPU seconds until the first catch
    Blind(blind::Args),
    /// Run a scenario with one seed or many
    Run(run::Args),
    /// Try all that one stale copy of one request can do to three transactions
    Explore(explore::Args),
    /// Count what each remedy leaves of what late requests can do
    Matrix(matrix::Args),
    /// Run a recording again and compare it with what it recorded
    Replay(replay::Args),
    /// Find the first event at which two recordings, or two traces, part
    Diff(diff::Args),
    /// Print the trace of a recording
    Trace(trace::Args),
    /// Judge histories, anyone's: both verdicts
    Check(check::Args),
    /// Write histories in another form
    Convert(convert::Args),
    /// Make a recording smaller while it still shows the same
    Shrink(shrink::Args),
    /// Serve real Kafka clients: agents on real TCP, over an embedded coordinator and store
    Serve(serve::Args),
    /// Stand between real clients and real brokers, and hold, delay or reset their frames by name
    Proxy(proxy::Args),
}

/// Runs the command.
pub(crate) fn main(cli: Cli) -> ExitCode {
    let result = match cli.command {
        Command::List(args) => list::run(&args),
        Command::Finding(args) => finding::run(&args),
        Command::Blind(args) => blind::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Explore(args) => explore::run(&args),
        Command::Matrix(args) => matrix::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Diff(args) => diff::run(&args),
        Command::Trace(args) => trace::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Convert(args) => convert::run(&args),
        Command::Shrink(args) => shrink::run(&args),
        Command::Serve(args) => serve::run(&args),
        Command::Proxy(args) => proxy::run(&args),
    };
    match result {
        Ok(Ending::Expected) => ExitCode::SUCCESS,
        Ok(Ending::Unexpected) => ExitCode::from(1),
        Err(unusable) => {
            eprintln!("wavetank: {}", unusable.0);
            ExitCode::from(2)
        }
    }
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Expected,
    Unexpected,
}

/// Input that cannot be used, in one line.
#[derive(Debug)]
struct Unusable(String);

impl Unusable {
    fn new(problem: impl Display) -> Self {
        Unusable(problem.to_string().replace('\n', " "))
    }
}

type CliResult = Result<Ending, Unusable>;
