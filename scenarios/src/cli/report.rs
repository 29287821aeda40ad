//! What a run's outcome looks like to a person, and to a program.

use super::Ending;
use scenarios::{Config, Expect, Outcome, Reading};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;

/// One run, to a person.
pub(super) fn single(
    name: &str,
    seed: u64,
    config: &Config,
    outcome: &Outcome,
    expect: &Expect,
    file: &Path,
) {
    say!("{}", headline(name, seed, config, outcome));
    body(outcome);
    say!("expected: {}", verdict(outcome, expect));
    say!("replay: wavetank replay {}", file.display());
}

/// Scenario, seed, world and fingerprint in a line.
pub(super) fn headline(name: &str, seed: u64, config: &Config, outcome: &Outcome) -> String {
    let client = scenarios::variant_name(config.client);
    format!(
        "{name}   seed {seed}   client {client}   {} agents   fingerprint {}",
        config.agents, outcome.fingerprint
    )
}

/// What was found, its story, and what else went wrong.
pub(super) fn body(outcome: &Outcome) {
    if outcome.anomalies.is_empty() {
        say!("CLEAN  {}", outcome.summary);
    }
    for anomaly in outcome.anomalies.iter().take(ANOMALIES_MAX) {
        say!("{}", anomaly);
    }
    if outcome.anomalies.len() > ANOMALIES_MAX {
        say!("... and {} more anomalies (--json shows all)", outcome.anomalies.len() - ANOMALIES_MAX);
    }
    for line in &outcome.story {
        say!("{line}");
    }
    for failure in &outcome.failures {
        say!("FAILED  {failure}");
    }
    for reason in &outcome.vacuous {
        say!("VACUOUS  {reason}");
    }
}

/// Anomalies printed in full.
const ANOMALIES_MAX: usize = 4;

fn verdict(outcome: &Outcome, expect: &Expect) -> &'static str {
    match outcome.reading(expect) {
        Reading::Caught => "yes, this is what the scenario shows",
        Reading::Quiet => "yes",
        Reading::Unexpected => "NO",
    }
}

/// One run, to a program.
pub(super) fn json(
    name: &str,
    seed: u64,
    outcome: &Outcome,
    reading: Reading,
    file: Option<&std::path::PathBuf>,
) -> serde_json::Value {
    json!({
        "scenario": name,
        "seed": seed,
        "expected": reading != Reading::Unexpected,
        "signature": outcome.signature,
        "anomalies": outcome.anomalies,
        "failures": outcome.failures,
        "vacuous": outcome.vacuous,
        "fingerprint": outcome.fingerprint.to_string(),
        "events": outcome.events,
        "simulated_ms": outcome.simulated_ns / 1_000_000,
        "recording": file,
    })
}

/// Counts over a range of seeds.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) runs: u64,
    pub(super) caught: u64,
    pub(super) unexpected: u64,
    first_caught: Option<u64>,
    first_unexpected: Option<u64>,
    signatures: BTreeMap<String, u64>,
}

impl Tally {
    pub(super) fn add(&mut self, seed: u64, outcome: &Outcome, reading: Reading) {
        self.runs += 1;
        let signature: Vec<_> = outcome.signature.iter().cloned().collect();
        let name = if signature.is_empty() { "clean".to_string() } else { signature.join(" + ") };
        *self.signatures.entry(name).or_default() += 1;
        match reading {
            Reading::Caught => {
                self.caught += 1;
                self.first_caught.get_or_insert(seed);
            }
            Reading::Unexpected => {
                self.unexpected += 1;
                self.first_unexpected.get_or_insert(seed);
            }
            Reading::Quiet => {}
        }
    }

    /// Whether the range as a whole is as expected.
    pub(super) fn ending(&self, expect: &Expect, stopped_early: bool) -> Ending {
        let found = match expect {
            Expect::Clean | Expect::Allows { .. } => true,
            Expect::Finds { .. } => self.caught > 0,
            Expect::Shows { .. } => stopped_early || self.caught == self.runs,
        };
        if found && self.unexpected == 0 { Ending::Expected } else { Ending::Unexpected }
    }
}

/// A range of seeds, to a person.
pub(super) fn tally(name: &str, options: &str, tally: &Tally, expect: &Expect, ending: Ending) {
    say!("{name}: {} seeds", tally.runs);
    for (signature, count) in &tally.signatures {
        say!("  {count:>8}  {signature}");
    }
    if let Some(seed) = tally.first_caught {
        say!(
            "first caught at seed {seed}; {:.1} % of seeds",
            100.0 * tally.caught as f64 / tally.runs as f64
        );
    }
    if let Some(seed) = tally.first_unexpected {
        say!("UNEXPECTED first at seed {seed}: wavetank run {name} --seed {seed}{options}");
    }
    match (ending, expect) {
        (Ending::Unexpected, Expect::Finds { .. }) if tally.caught == 0 => {
            say!("expected: NO, no seed shows it")
        }
        (Ending::Unexpected, _) => say!("expected: NO"),
        (Ending::Expected, _) => say!("expected: yes"),
    }
}
