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
    let (seeds, chosen) = seeds(0..200);
    let caught = run(scenario, &(scenario.config)(), seeds.clone());
    assert!(caught > 0 || chosen, "no seed of {seeds:?} shows it: about one in fifty should");
}

#[test]
fn random_pauses_never_tear_a_strict_client() {
    let scenario = scenario("torn-transaction-random");
    assert_eq!(run(scenario, &strict(scenario), seeds(0..100).0), 0);
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

#[test]
fn on_the_safe_ground_of_the_second_protocol_nothing_goes_wrong() {
    let scenario = scenario("safe-ground");
    let mut config = (scenario.config)();
    let tv2 = scenarios::switches().iter().find(|switch| switch.name == "tv2").expect("a known switch");
    (tv2.apply)(&mut config);
    assert_eq!(run(scenario, &config, seeds(0..100).0), 0);
}
