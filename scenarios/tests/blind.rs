//! Blind searches, small ones: chance finds findings where nothing points at them, and nothing is found that the catalogue does
//! not name. `WAVETANK_SEED=N` and `WAVETANK_SEEDS=A..B` choose other seeds.

mod support;

use scenarios::finding::{self, Finding};
use scenarios::{Keep, Outcome, Reading};
use std::ops::Range;
use support::seeds;

fn finding(id: u32) -> &'static Finding {
    finding::find(id).expect("a known finding")
}

/// Every seed's outcome in the world that is searched, or in the same with the fix.
fn outcomes(finding: &Finding, is_fixed: bool, seeds: Range<u64>) -> impl Iterator<Item = (u64, Outcome)> {
    let workload = finding.blind.workload();
    let world = finding.blind_world(workload, is_fixed).expect("it has a fix");
    seeds.map(move |seed| (seed, scenarios::execute(&(workload.plan)(seed, &world), Keep::Events)))
}

/// The first seed that shows the finding. No seed before it shows what the catalogue does not name.
fn first_catch(finding: &Finding, range: Range<u64>) -> Option<u64> {
    outcomes(finding, false, range).find_map(|(seed, outcome)| match finding.blind.read(&outcome) {
        Reading::Caught => Some(seed),
        Reading::Quiet => None,
        Reading::Unexpected => panic!(
            "finding {}, seed {seed} of {}: {:?} {:?}",
            finding.id, finding.blind.scenario, outcome.signature, outcome.failures
        ),
    })
}

/// Findings of every class that a few seeds show, and how many seeds that takes at most.
const QUICKEST: [(u32, u64); 5] = [(3, 20), (7, 10), (8, 10), (9, 20), (14, 10)];

#[test]
fn chance_finds_what_nothing_points_at() {
    for (id, most) in QUICKEST {
        let (range, is_chosen) = seeds(0..most);
        let caught = first_catch(finding(id), range.clone());
        assert!(caught.is_some() || is_chosen, "finding {id}: no seed of {range:?} shows it");
    }
}

#[test]
fn with_the_fix_the_same_seeds_are_clean() {
    for (id, most) in QUICKEST {
        let finding = finding(id);
        for (seed, outcome) in outcomes(finding, true, seeds(0..most / 2).0) {
            let told = (&outcome.anomalies, &outcome.vacuous);
            assert_eq!(
                finding.blind.read_fixed(&outcome),
                Reading::Quiet,
                "finding {id}, seed {seed}: {told:?}"
            );
        }
    }
}
