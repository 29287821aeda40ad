//! Every finding of the catalogue: its script shows it on every seed, and shows nothing with the fix. `WAVETANK_SEED=N` and
//! `WAVETANK_SEEDS=A..B` choose the seeds.

mod support;

use scenarios::finding;
use support::{run, seeds};

#[test]
fn every_seed_of_every_script_shows_its_finding() {
    for finding in finding::all() {
        let seeds = seeds(1..21).0;
        let count = seeds.end - seeds.start;
        assert_eq!(run(&finding.scenario, &finding.world(false), seeds), count, "{}", finding.scenario.name);
    }
}

#[test]
fn no_seed_of_any_script_shows_anything_with_the_fix() {
    for finding in finding::all() {
        let caught = run(&finding.scenario, &finding.world(true), seeds(1..21).0);
        assert_eq!(caught, 0, "{}", finding.scenario.name);
    }
}
