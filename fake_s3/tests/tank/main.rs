//! Client and server in the tank, under pauses, cuts and crashes of either: nothing acknowledged is lost, and what
//! clients saw is explained by a strongly consistent store. The quirk of lagging lists is what that check finds.
//!
//! Run: `cargo test -p fake_s3 --test tank`; `WAVETANK_SEEDS=1..20001` before it runs these seeds instead of a few.
#![expect(clippy::disallowed_methods, reason = "the environment says which seeds to run")]

mod linear;
mod world;

use fake_s3::Quirks;
use linear::{Action, Operation, unexplained};
use sim::run::End;
use std::ops::Range;
use world::{Entry, KEYS, Setup, config, script};

fn seeds(few: u64) -> Range<u64> {
    let Ok(named) = std::env::var("WAVETANK_SEEDS") else { return 1..few + 1 };
    let (from, to) = named.split_once("..").expect("WAVETANK_SEEDS is A..B");
    from.parse().expect("a number")..to.parse().expect("a number")
}

fn setup(seed: u64, quirks: Quirks) -> Setup {
    Setup { max_retries: [0, 2][(seed % 2) as usize], quirks }
}

/// What a seed's clients saw; the run itself must be sound.
fn history(seed: u64, quirks: Quirks) -> (Vec<Entry>, usize) {
    let setup = setup(seed, quirks);
    let run = sim::run(&config(seed), || script(setup));
    assert_eq!((run.end, run.failures.len()), (End::Done, 0), "seed {seed}: {:?}", run.failures);
    (run.value.unwrap().0, run.landed.len())
}

fn operations_of(entries: &[Entry], key: &str) -> Vec<Operation> {
    let told = entries.iter().filter(|entry| entry.key == key && !entry.void);
    told.flat_map(|entry| {
        let again = Operation { returned_ns: None, ..entry.operation };
        std::iter::once(entry.operation).chain((0..entry.again).map(move |_| again))
    })
    .collect()
}

#[test]
fn what_clients_see_under_trouble_is_strongly_consistent_and_nothing_acknowledged_is_lost() {
    let (mut operations, mut unanswered, mut certainly_not, mut refused, mut landed) = (0, 0, 0, 0, 0);
    let (mut kept, seeds) = (0, seeds(300));
    for seed in seeds.clone() {
        let (entries, faults) = history(seed, Quirks::default());
        landed += faults;
        certainly_not += entries.iter().filter(|entry| entry.void).count();
        for key in KEYS {
            let of_key = operations_of(&entries, key);
            if let Some(operation) = unexplained(&of_key) {
                panic!("seed {seed}, {key}: {operation:?} is not explained by\n{of_key:#?}");
            }
            operations += of_key.len();
            let is_refused =
                |one: &&Operation| matches!(one.action, Action::CreateRefused | Action::ReplaceRefused(_));
            refused += of_key.iter().filter(is_refused).count();
            let open: Vec<_> = of_key.iter().filter(|one| one.returned_ns.is_none()).collect();
            unanswered += open.len();
            let seen = |value| of_key.iter().any(|one| one.action == Action::Read(Some(value)));
            let wrote = |one: &&&Operation| matches!(one.action, Action::Create(value) if seen(value));
            kept += open.iter().filter(wrote).count();
        }
    }
    println!(
        "{} seeds: {operations} operations, {refused} refused, {unanswered} unanswered (of creations {kept} seen \
         later), {certainly_not} certainly not done; {landed} faults landed",
        seeds.end - seeds.start
    );
    // The trouble was some: outcomes of every kind, and faults that struck.
    assert!(unanswered > 0 && kept > 0 && certainly_not > 0 && refused > 0 && landed > 0);
}

#[test]
fn lists_that_lag_are_not_explained() {
    let lagging = Quirks { list_lag_ms_max: 2_000, ..Quirks::default() };
    let found = (1..=100)
        .filter(|seed| {
            let (entries, _) = history(*seed, lagging.clone());
            KEYS.iter().any(|key| unexplained(&operations_of(&entries, key)).is_some())
        })
        .count();
    assert!(found > 20, "the check saw lists lag in {found} of 100 runs");
}

#[test]
fn the_same_plan_gives_the_same_trace() {
    for seed in 1..=6 {
        let made = || script(setup(seed, Quirks { list_lag_ms_max: 50, ..Quirks::default() }));
        if let Err(difference) = sim::determinism::check(&config(seed), made) {
            panic!("seed {seed}: {difference}");
        }
    }
}
