//! A share of seeds of every scenario, and of its clean twin. `WAVETANK_SEED=N` and `WAVETANK_SEEDS=A..B` choose others.

mod support;

use client::Variant;
use scenarios::{Config, Scenario};
use support::{run, seeds};

fn scenario(name: &str) -> &'static Scenario {
    scenarios::find(name).expect("a known scenario")
}

fn strict(scenario: &Scenario) -> Config {
    Config { client: Variant::Strict, ..(scenario.config)() }
}

#[test]
fn a_held_end_txn_tears_a_later_transaction_on_every_seed() {
    let scenario = scenario("torn-transaction");
    let (seeds, _) = seeds(1..101);
    let count = seeds.end - seeds.start;
    assert_eq!(run(scenario, &(scenario.config)(), seeds), count);
}

#[test]
fn a_strict_client_is_not_torn_by_a_held_end_txn() {
    let scenario = scenario("torn-transaction");
    assert_eq!(run(scenario, &strict(scenario), seeds(1..101).0), 0);
}

#[test]
fn random_pauses_tear_a_transaction_on_some_seed() {
    let scenario = scenario("torn-transaction-random");
    let (seeds, chosen) = seeds(0..120);
    let caught = run(scenario, &(scenario.config)(), seeds.clone());
    assert!(caught > 0 || chosen, "no seed of {seeds:?} shows it: about one in fifty should");
}

#[test]
fn random_pauses_never_tear_a_strict_client() {
    let scenario = scenario("torn-transaction-random");
    assert_eq!(run(scenario, &strict(scenario), seeds(0..60).0), 0);
}

#[test]
fn a_held_end_txn_tears_with_kafkas_default_timeouts_too() {
    let scenario = scenario("torn-transaction");
    let config = Config { profile: scenarios::Profile::Default, ..(scenario.config)() };
    assert_eq!(run(scenario, &config, seeds(1..11).0), seeds(1..11).0.count() as u64);
}

#[test]
fn on_the_safe_ground_nothing_goes_wrong() {
    let scenario = scenario("safe-ground");
    assert_eq!(run(scenario, &(scenario.config)(), seeds(0..100).0), 0);
}

/// The world of `scenario`, changed by a switch.
fn with(scenario: &Scenario, name: &str) -> Config {
    let mut config = (scenario.config)();
    let switch = scenarios::switches().iter().find(|switch| switch.name == name).expect("a known switch");
    (switch.apply)(&mut config);
    config
}

#[test]
fn on_the_safe_ground_nothing_goes_wrong_with_groups() {
    let scenario = scenario("safe-ground-groups");
    assert_eq!(run(scenario, &(scenario.config)(), seeds(0..80).0), 0);
}

#[test]
fn on_the_safe_ground_of_the_second_protocol_nothing_goes_wrong_with_groups() {
    let scenario = scenario("safe-ground-groups");
    assert_eq!(run(scenario, &with(scenario, "tv2"), seeds(0..60).0), 0);
}

#[test]
fn a_broker_that_accepts_stale_commits_is_caught() {
    let scenario = scenario("safe-ground-groups");
    let (seeds, chosen) = seeds(0..70);
    let caught = run(scenario, &with(scenario, "stale-commits"), seeds.clone());
    assert!(caught > 0 || chosen, "no seed of {seeds:?} shows it");
}

#[test]
fn a_member_that_resumes_from_memory_is_caught() {
    let scenario = scenario("safe-ground-groups");
    let (seeds, chosen) = seeds(0..40);
    let caught = run(scenario, &with(scenario, "resume-from-memory"), seeds.clone());
    assert!(caught > 0 || chosen, "no seed of {seeds:?} shows it");
}

#[test]
fn on_the_safe_ground_of_the_second_protocol_nothing_goes_wrong() {
    let scenario = scenario("safe-ground");
    assert_eq!(run(scenario, &with(scenario, "tv2"), seeds(0..100).0), 0);
}
