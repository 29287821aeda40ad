//! The queue workload: clean under all of Jepsen's trouble for clients that are safe, and not for those that are not; its
//! recordings are complete, and its histories are anyone's to judge.

mod support;

use check::case::{self, Case};
use check::{Function, Op as HistoryOp, Status, jepsen};
use client::Variant;
use scenarios::{Config, Keep, Op, Outcome, Queued, Scenario, SubVia};
use sim::fault::Fault;
use std::collections::BTreeSet;
use support::{run, seeds};

fn scenario(name: &str) -> &'static Scenario {
    scenarios::find(name).expect("a known scenario")
}

fn world(name: &str, switches: &[&str]) -> Config {
    let mut config = (scenario(name).config)();
    for name in switches {
        let switch =
            scenarios::switches().iter().find(|switch| switch.name == *name).expect("a known switch");
        (switch.apply)(&mut config);
    }
    config
}

fn short(seed: u64, switches: &[&str]) -> Outcome {
    scenarios::execute(&(scenario("queue-short").plan)(seed, &world("queue-short", switches)), Keep::Events)
}

fn clean(switches: &[&str]) {
    let scenario = scenario("queue-short");
    assert_eq!(run(scenario, &world(scenario.name, switches), seeds(0..15).0), 0);
}

#[test]
fn nothing_goes_wrong_in_transactions_of_consumers_that_assign() {
    clean(&[]);
}

/// In half of the short runs there is a spare agent, and in some of them it joins.
#[test]
fn a_spare_agent_joins_in_some_short_runs() {
    let scenario = scenario("queue-short");
    let plans = (0..100).map(|seed| (scenario.plan)(seed, &world(scenario.name, &[])));
    let (mut spares, mut joins) = (0, 0);
    for plan in plans {
        spares += plan.config.spare_agents;
        joins +=
            plan.faults.iter().filter(|scheduled| matches!(scheduled.fault, Fault::Start { .. })).count();
    }
    assert!((30..70).contains(&spares) && joins > 5, "{spares} spares, {joins} join");
}

#[test]
fn nothing_goes_wrong_in_transactions_of_consumers_that_subscribe() {
    clean(&["subscribe"]);
}

#[test]
fn nothing_goes_wrong_outside_transactions() {
    clean(&["no-txn"]);
}

#[test]
fn nothing_goes_wrong_outside_transactions_of_consumers_that_subscribe() {
    clean(&["no-txn", "subscribe"]);
}

#[test]
fn nothing_goes_wrong_under_the_second_protocol() {
    clean(&["tv2"]);
    clean(&["tv2", "subscribe"]);
}

/// Fifteen clients and Jepsen's own times, but for the length of the main phase.
#[test]
fn a_run_of_as_many_clients_as_jepsens_is_clean() {
    let scenario = scenario("queue");
    let mut config = (scenario.config)();
    config.queue.as_mut().expect("it is the queue workload").until_ms = 20_000;
    let plan = (scenario.plan)(seeds(1..2).0.start, &config);
    let outcome = scenarios::execute(&plan, Keep::Events);
    assert_eq!((&outcome.anomalies, &outcome.vacuous, &outcome.failures), (&vec![], &vec![], &vec![]));
    let writes = |event: &check::Event<'_>| event.status() == Status::Ok && event.sends().next().is_some();
    let written = outcome.history.events().filter(writes).count();
    assert!(written >= 300, "{written} writing transactions in 20 s");
}

/// A run of an echo, as long as its effect needs: the anomaly types that it shows.
fn echo(name: &str, until_ms: u64, switches: &[&str]) -> BTreeSet<String> {
    let mut config = world(name, switches);
    config.queue.as_mut().expect("it is the queue workload").until_ms = until_ms;
    let outcome = scenarios::execute(&(scenario(name).plan)(seeds(1..2).0.start, &config), Keep::Events);
    assert_eq!((&outcome.vacuous, &outcome.failures), (&vec![], &vec![]));
    outcome.signature
}

#[test]
fn without_trouble_all_that_is_committed_is_there_unless_numbers_know_no_epochs() {
    assert_eq!(echo("queue-calm", 15_000, &[]), BTreeSet::new());
    let shown = echo("queue-calm", 15_000, &["number-without-epoch"]);
    assert!(["lost-write", "unseen", "int-poll-skip"].iter().all(|name| shown.contains(*name)), "{shown:?}");
}

#[test]
fn who_lags_misses_nothing_unless_full_answers_drop_what_is_in_the_middle() {
    assert_eq!(echo("queue-lag", 30_000, &[]), BTreeSet::new());
    let shown = echo("queue-lag", 30_000, &["fetch-drops-middle"]);
    assert!(shown.contains("int-poll-skip"), "{shown:?}");
}

/// What operations choose while they run stands in the recording, and the recording is the same run.
#[test]
fn a_recording_is_complete() {
    for switches in [&[][..], &["subscribe", "no-txn"]] {
        let plan = (scenario("queue-short").plan)(seeds(3..4).0.start, &world("queue-short", switches));
        let outcome = scenarios::execute(&plan, Keep::Events);
        let recorded = outcome.complete(plan);
        let chosen = |queued: &Queued| match queued {
            Queued::Give { keys, .. } | Queued::FinalReads { keys } => keys.clone(),
            _ => None,
        };
        let operations = recorded.operations.values().flatten();
        let given = operations.filter_map(|operation| match &operation.what {
            Op::Queue(queued) => chosen(queued),
            _ => None,
        });
        let given: Vec<Vec<u32>> = given.collect();
        let in_history = |event: &check::Event<'_>| {
            let gives = matches!(event.function(), Function::Assign | Function::Subscribe);
            event.status() == Status::Invoke && gives && !event.from_start()
        };
        // Readers beside the workers assign too; what workers assign in the end is from the start.
        let told = outcome.history.events().filter(in_history).count();
        assert!(given.len() >= 10 && given.len() <= told + 5, "{} recorded, {told} told", given.len());
        let again = scenarios::execute(&recorded, Keep::Events);
        assert_eq!(again.fingerprint, outcome.fingerprint);
    }
}

/// What `--history` writes is what anyone's checker reads: same verdict, same events.
#[test]
fn a_history_survives_its_forms() {
    let outcome = short(seeds(5..6).0.start, &["subscribe"]);
    let written =
        case::write(&Case { id: "x".into(), history: outcome.history.clone(), rest: Default::default() });
    assert_eq!(case::read(&written).expect("it is readable").history, outcome.history);
    let read = check::edn::read(&check::edn::write(&outcome.history)).expect("it is readable");
    assert_eq!(read.len(), outcome.history.len());
    let options = jepsen::Options { sub_via: SubVia::Subscribe.into(), ..Default::default() };
    assert_eq!(jepsen::verdict(&read, options).types(), jepsen::verdict(&outcome.history, options).types());
}

/// Under the same load and trouble the real client of the old protocol shows what findings.md has for it, and nothing else.
#[test]
fn a_client_of_the_old_protocol_shows_only_what_is_known_of_it() {
    let scenario = scenario("queue-short");
    let config = Config { client: Variant::Java38, ..(scenario.config)() };
    run(scenario, &config, seeds(0..15).0);
}

/// Every kind of operation that the generator draws is carried out by some run.
#[test]
fn a_run_does_all_that_it_is_there_for() {
    let outcomes: Vec<Outcome> = seeds(1..4).0.map(|seed| short(seed, &[])).collect();
    let events = || outcomes.iter().flat_map(|outcome| outcome.history.events());
    let done = |function: Function, status: Status| {
        events().any(|event| event.function() == function && event.status() == status)
    };
    for function in [Function::Send, Function::Poll, Function::Txn, Function::Assign, Function::Debug] {
        assert!(done(function, Status::Ok), "no {function:?} succeeded");
    }
    assert!(done(Function::Crash, Status::Info) && done(Function::Txn, Status::Fail));
    let polls = events().flat_map(|event| event.ops().to_vec());
    assert!(polls.into_iter().any(|op| matches!(op, HistoryOp::Poll(Some(records)) if !records.is_empty())));
}
