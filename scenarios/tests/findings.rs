//! Every finding of the catalogue: its script shows it on every seed, and shows nothing with the fix. `WAVETANK_SEED=N` and
//! `WAVETANK_SEEDS=A..B` choose the seeds.

mod support;

use scenarios::{Config, Keep, Plan, finding};
use sim::fault::{Fault, Scheduled, When};
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

/// An agent answers when a record is durable, whether it is asked to wait for one replica or for all.
#[test]
fn acks_1_loses_nothing_either() {
    let finding = finding::find(12).expect("a known finding");
    let world = Config { acks: 1, ..finding.world(false) };
    assert_eq!(run(&finding.scenario, &world, seeds(1..11).0), 0);
}

/// Where the script of a finding has two ways out, the other one helps too.
#[test]
fn other_fixes_help_as_well() {
    for (id, switch) in [(9, "strict"), (10, "tv2"), (11, "tv2"), (17, "tv2")] {
        let finding = finding::find(id).expect("a known finding");
        let mut world = finding.world(false);
        let switch = scenarios::switches().iter().find(|known| known.name == switch).expect("a known switch");
        (switch.apply)(&mut world);
        assert_eq!(run(&finding.scenario, &world, seeds(1..6).0), 0, "{}", finding.scenario.name);
    }
}

/// A new epoch does not help against a late Produce where nobody verifies: the partition learns of it from the next record. So it
/// is with the real Java client over Kafka (docs/open-questions.md).
#[test]
fn a_late_produce_of_an_older_epoch_is_committed_where_nobody_verifies() {
    let finding = finding::find(10).expect("a known finding");
    let mut world = finding.world(true);
    world.agent.transactions.outside = broker::Outside::Local;
    assert_eq!(run(&finding.scenario, &world, seeds(1..6).0), 5);
}

/// Plans of a finding's script of which something is drawn, among twenty.
fn drawn(id: u32, is_so: fn(&Plan) -> bool) -> usize {
    let finding = finding::find(id).expect("a known finding");
    let world = finding.world(false);
    (1..21).filter(|seed| is_so(&(finding.scenario.plan)(*seed, &world))).count()
}

/// A cooperative member keeps what it does not lose, an eager one is given everything anew: both are moved. And a record
/// is skipped whether a member closes after an exception or crashes in its work.
#[test]
fn scripts_draw_between_two_ways_to_the_same_failure() {
    let cooperative = drawn(18, |plan| plan.config.queue.as_ref().is_some_and(|queue| queue.cooperative));
    let crashes = drawn(13, |plan| !plan.faults.is_empty());
    assert!((4..17).contains(&cooperative) && (4..17).contains(&crashes), "{cooperative} {crashes}");
}

/// Agents that lost their leases are found again once they are restarted, and what was written is there.
#[test]
fn a_restart_ends_a_lost_lease() {
    let finding = finding::find(2).expect("a known finding");
    let world = finding.world(false);
    for seed in seeds(1..6).0 {
        let mut plan = (finding.scenario.plan)(seed, &world);
        let restart = |(id, node)| {
            let fault = Fault::Stop { node, restart_after_ms: Some(500) };
            Scheduled { id, when: When::AtMs(60_000), fault }
        };
        plan.faults.extend((2..).zip(world.agent_names()).map(restart));
        let outcome = scenarios::execute(&plan, Keep::Events);
        assert_eq!((&outcome.anomalies, &outcome.vacuous), (&vec![], &vec![]), "seed {seed}");
    }
}

/// The same source shows the same on every machine: fingerprints too.
#[test]
#[expect(clippy::disallowed_methods, reason = "it reads a document of the repository")]
fn the_table_of_the_docs_is_what_the_scripts_show() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/findings.md");
    let written = std::fs::read_to_string(path).expect("docs/findings.md");
    let shown = finding::table();
    for (row, line) in shown.lines().enumerate() {
        assert!(
            written.lines().any(|other| other == line),
            "row {row} of docs/findings.md: put `wavetank finding --table` there if the change is meant:\n{line}"
        );
    }
}

/// Jepsen's checker finds these and allows them: they count where the application takes them for promised, and nowhere else.
#[test]
fn what_kafka_does_not_promise_counts_only_where_asked() {
    for id in [16, 18] {
        let finding = finding::find(id).expect("a known finding");
        let mut world = finding.world(false);
        world.queue.as_mut().expect("a queue workload").counts.clear();
        for seed in seeds(1..6).0 {
            let outcome = scenarios::execute(&(finding.scenario.plan)(seed, &world), Keep::Events);
            assert!(outcome.signature.is_empty(), "{}: {:?}", finding.scenario.name, outcome.anomalies);
        }
    }
}
