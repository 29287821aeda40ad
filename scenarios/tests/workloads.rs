//! The smaller workloads that Jepsen ran: each is clean on a few seeds, and finds what is planted for it.

mod support;

use check::{Function, Status};
use scenarios::{Config, Keep, Outcome, Scenario};
use std::collections::BTreeMap;
use support::{run, seeds};

fn scenario(name: &str) -> &'static Scenario {
    scenarios::find(name).expect("a known scenario")
}

/// The world of a scenario, changed by switches.
fn world(scenario: &Scenario, switches: &[&str]) -> Config {
    let mut config = (scenario.config)();
    for name in switches {
        let switch =
            scenarios::switches().iter().find(|switch| switch.name == *name).expect("a known switch");
        (switch.apply)(&mut config);
    }
    config
}

fn clean(name: &str, switches: &[&str], count: u64) {
    assert_eq!(run(scenario(name), &world(scenario(name), switches), seeds(0..count).0), 0);
}

fn found(name: &str, planted: &str, count: u64) {
    let (seeds, chosen) = seeds(0..count);
    let caught = run(scenario(name), &world(scenario(name), &[planted]), seeds.clone());
    assert!(caught > 0 || chosen, "{name}: no seed of {seeds:?} shows {planted}");
}

fn outcome(name: &str) -> Outcome {
    let scenario = scenario(name);
    scenarios::execute(&(scenario.plan)(seeds(1..2).0.start, &(scenario.config)()), Keep::Events)
}

/// How many operations of a kind ended so.
fn count(outcome: &Outcome, function: Function, status: Status) -> usize {
    outcome.history.events().filter(|event| event.function() == function && event.status() == status).count()
}

#[test]
fn nobody_reads_early() {
    clean("early-read", &[], 8);
    // A transaction that polls polled what others wrote meanwhile.
    let outcome = outcome("early-read");
    let polling = outcome.history.events().filter(|event| event.polled().next().is_some());
    assert!(polling.filter(|event| event.function() == Function::Txn).count() >= 4);
}

#[test]
fn whoever_serves_what_is_undecided_is_caught() {
    found("early-read", "early-stable-offset", 4);
}

#[test]
fn clients_close_in_time() {
    clean("close", &[], 8);
    // Five of them are those of the final phase.
    assert!(count(&outcome("close"), Function::Crash, Status::Info) >= 10);
}

#[test]
fn a_close_that_hangs_is_caught() {
    found("close", "close-hangs", 8);
}

#[test]
fn zombies_commit_nothing() {
    clean("fence", &[], 8);
}

#[test]
fn an_end_that_is_not_fenced_is_caught() {
    found("fence", "unfenced-end", 8);
}

#[test]
fn members_that_commit_by_themselves_lose_nothing() {
    clean("auto-commit-random", &[], 8);
}

#[test]
fn stale_commits_of_members_that_commit_by_themselves_are_caught() {
    found("auto-commit-random", "stale-commits", 20);
}

#[test]
fn a_pipeline_has_exactly_one_result_for_each_record() {
    clean("pipeline", &[], 8);
    clean("pipeline", &["tv2"], 6);
}

#[test]
fn a_pipeline_that_resumes_from_memory_is_caught() {
    found("pipeline", "resume-from-memory", 20);
}

#[test]
fn an_abort_moves_no_consumer_and_a_rebalance_does() {
    clean("abort", &[], 8);
    // Both kinds of step are there, so both claims were at stake.
    let scenario = scenario("abort");
    let mut steps: BTreeMap<(&str, bool), usize> = BTreeMap::new();
    for seed in seeds(0..12).0 {
        let outcome = scenarios::execute(&(scenario.plan)(seed, &(scenario.config)()), Keep::Events);
        let polls: Vec<_> = outcome.polls.into_iter().map(|(_, poll)| poll).collect();
        for ((step, is_rebalanced), class) in check::abort::classify(&polls) {
            *steps.entry((step.name(), is_rebalanced)).or_default() += class.count;
        }
    }
    assert!(steps.contains_key(&("advance", false)), "{steps:?}");
    assert!(
        steps.contains_key(&("rewind", true)) || steps.contains_key(&("rewind-further", true)),
        "{steps:?}"
    );
    assert!(!steps.keys().any(|(step, is_rebalanced)| *step != "advance" && !is_rebalanced), "{steps:?}");
}

#[test]
fn an_application_that_seeks_back_goes_back_without_a_rebalance() {
    found("abort", "seek-back", 4);
}
