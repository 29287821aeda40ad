//! The `wavetank` command. Exit status: 0 as expected, 1 not as expected, 2 unusable input.

mod cli;

// Runs allocate all the time: with the system's allocator they take a quarter longer. It draws on no chance of a run.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main(cli::Cli::parse())
}
