//! The determinism check: the same plan must give the same trace.
//!
//! Compares whole traces line by line and names the first event at which they part. What differs between two runs in
//! one process (unbiased `select!`, addresses, thread ids) shows by running twice; what differs between processes
//! (process id, environment) shows by comparing the lines that another process wrote.

use crate::run::{Config, Run, run};
use crate::trace::{Entry, Fingerprint, Keep};
use std::fmt;
use std::fmt::Write;
use std::future::Future;

/// The first event at which two traces part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Its place in the trace, from 1.
    pub event: u64,
    /// The event in the first trace; none if that ended before.
    pub first: Option<String>,
    /// The event in the second trace; none if that ended before.
    pub second: Option<String>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = |line: &Option<String>| line.clone().unwrap_or_else(|| "the trace has ended".into());
        write!(
            f,
            "the traces part at event {}:\n  one:   {}\n  other: {}",
            self.event,
            side(&self.first),
            side(&self.second)
        )
    }
}

/// Runs `script` twice; its fingerprint, or the first difference.
///
/// # Errors
/// The first event at which the two traces part.
pub fn check<T, F>(config: &Config, script: impl Fn() -> F + Sync) -> Result<Fingerprint, Box<Difference>>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let config = Config { keep: Keep::Everything, ..config.clone() };
    let (first, second) = (run(&config, &script), run(&config, &script));
    match first_difference(lines(&first), lines(&second)) {
        Some(difference) => Err(Box::new(difference)),
        None => Ok(first.fingerprint),
    }
}

/// The kept trace of a run, one line an event.
pub fn lines<T>(run: &Run<T>) -> impl Iterator<Item = String> + '_ {
    run.trace.iter().map(|entry| line(entry, run.node(entry.node)))
}

/// One event as a line: place, time, node, cause, name, fields.
pub fn line(entry: &Entry, node: &str) -> String {
    let mut line =
        format!("{} {}.{:09} {node}", entry.id.0, entry.at_ns / 1_000_000_000, entry.at_ns % 1_000_000_000);
    // Writing to a String cannot fail.
    let _ = write!(line, " <-{} {}", entry.parent.0, entry.name);
    for (name, value) in &entry.fields {
        let _ = write!(line, " {name}={value}");
    }
    line
}

/// Compares two traces, given as lines.
pub fn first_difference(
    first: impl Iterator<Item = String>,
    second: impl Iterator<Item = String>,
) -> Option<Difference> {
    let (mut first, mut second) = (first.fuse(), second.fuse());
    for event in 1.. {
        match (first.next(), second.next()) {
            (None, None) => return None,
            (a, b) if a == b => {}
            (first, second) => return Some(Difference { event, first, second }),
        }
    }
    None
}
