//! Every finding of the catalogue: its script shows it on every seed, and shows nothing with the fix. `WAVETANK_SEED=N` and
//! `WAVETANK_SEEDS=A..B` choose the seeds.

mod support;

use scenarios::{Config, Face, Keep, Mechanism, Plan, Reading, finding};
use sim::fault::{Fault, FramePattern, Scheduled, When};
use support::{run, seeds};

#[test]
fn every_seed_of_every_script_shows_its_finding() {
    for finding in finding::all() {
        let seeds = seeds(1..21).0;
        let count = seeds.end - seeds.start;
        assert_eq!(run(&finding.scenario, &finding.world(), seeds), count, "{}", finding.scenario.name);
    }
}

#[test]
fn no_seed_of_any_script_shows_anything_with_the_fix() {
    for finding in finding::all() {
        let Some(world) = finding.fixed_world() else { continue };
        assert_eq!(run(&finding.scenario, &world, seeds(1..21).0), 0, "{}", finding.scenario.name);
    }
}

/// Every row of jepsen.md E9, and S1 to S10: what it shows, and that the oracle names what made it.
#[test]
fn every_face_of_a_late_request_shows_and_is_attributed() {
    let of_findings = [
        ("torn-transaction", &[Mechanism::StaleEnd(Face::AbortTorn)][..]),
        ("hanging-transaction", &[Mechanism::HangingTransaction][..]),
        ("delayed-produce", &[Mechanism::DelayedProduce][..]),
        ("sequence-reuse", &[Mechanism::SequenceReuse][..]),
        ("stale-init", &[Mechanism::StaleInit][..]),
    ];
    let faces = finding::faces().iter().map(|face| (face.scenario.name, face.mechanisms));
    for (name, mechanisms) in of_findings.into_iter().chain(faces) {
        let scenario = scenarios::find(name).expect("a known script");
        let world = (scenario.config)();
        for seed in seeds(1..21).0 {
            let outcome = scenarios::execute(&(scenario.plan)(seed, &world), Keep::Events);
            let reading = outcome.reading(&(scenario.expect)(&world));
            assert_ne!(
                reading,
                Reading::Unexpected,
                "{name} {seed}: {:?} {:?}",
                outcome.anomalies,
                outcome.vacuous
            );
            let attribution = outcome.attribution;
            let named: Vec<Mechanism> = attribution.mechanisms.into_iter().collect();
            assert_eq!(named, mechanisms, "{name} {seed}");
            assert_eq!(attribution.unexplained, Vec::<String>::new(), "{name} {seed}");
        }
    }
}

#[test]
fn no_face_shows_with_the_second_protocol_or_a_strict_client() {
    for face in finding::faces() {
        for switch in ["tv2", "strict"] {
            let mut world = (face.scenario.config)();
            let switch =
                scenarios::switches().iter().find(|known| known.name == switch).expect("a known switch");
            (switch.apply)(&mut world);
            assert_eq!(run(&face.scenario, &world, seeds(1..6).0), 0, "{}", face.scenario.name);
        }
    }
}

/// One fault catches a frame; another that waited for it catches the next one like it, and what only waits for it happens.
#[test]
fn what_waits_for_one_frame_does_not_miss_it_for_another() {
    let scenario = scenarios::find("torn-transaction").expect("a known script");
    let mut plan = (scenario.plan)(1, &(scenario.config)());
    let end = || FramePattern::words("EndTxn commit id=jt1");
    let late = |id| Scheduled::from_start(id, Fault::Delay { frame: end(), by_ms: 5 });
    let pause = Fault::Pause { node: "c1".into(), for_ms: 5 };
    plan.faults = vec![late(1), late(2), Scheduled { id: 3, when: When::Frame(end()), fault: pause }];
    let outcome = scenarios::execute(&plan, Keep::Story);
    assert_eq!(outcome.vacuous, Vec::<String>::new());
    let delayed =
        outcome.trace.iter().filter(|entry| entry.name == "net.delayed").map(|entry| entry.text("label"));
    let first_two = ["EndTxn commit id=jt1 txn=1 try=1", "EndTxn commit id=jt1 txn=2 try=1"];
    assert_eq!(delayed.collect::<Vec<_>>(), first_two);
}

/// An agent answers when a record is durable, whether it is asked to wait for one replica or for all.
#[test]
fn acks_1_loses_nothing_either() {
    let finding = finding::find(12).expect("a known finding");
    let world = Config { acks: 1, ..finding.world() };
    assert_eq!(run(&finding.scenario, &world, seeds(1..11).0), 0);
}

/// Nothing in the protocol helps against cycles; an application that runs its transactions one after the other makes none.
#[test]
fn transactions_that_follow_each_other_make_no_cycle() {
    let finding = finding::find(16).expect("a known finding");
    assert!(finding.fixed_world().is_none());
    let mut world = finding.world();
    world.queue.as_mut().expect("a queue workload").clients = 1;
    assert_eq!(run(&finding.scenario, &world, seeds(1..6).0), 0);
}

/// Where the script of a finding has two ways out, the other one helps too.
#[test]
fn other_fixes_help_as_well() {
    for (id, switch) in [(9, "strict"), (10, "tv2"), (11, "tv2"), (17, "tv2")] {
        let finding = finding::find(id).expect("a known finding");
        let mut world = finding.world();
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
    let mut world = finding.fixed_world().expect("it has a fix");
    world.agent.transactions.outside = broker::Outside::Local;
    assert_eq!(run(&finding.scenario, &world, seeds(1..6).0), 5);
}

/// Plans of a finding's script of which something is drawn, among twenty.
fn drawn(id: u32, is_so: fn(&Plan) -> bool) -> usize {
    let finding = finding::find(id).expect("a known finding");
    let world = finding.world();
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
    let world = finding.world();
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
        let mut world = finding.world();
        world.queue.as_mut().expect("a queue workload").counts.clear();
        for seed in seeds(1..6).0 {
            let outcome = scenarios::execute(&(finding.scenario.plan)(seed, &world), Keep::Events);
            assert!(outcome.signature.is_empty(), "{}: {:?}", finding.scenario.name, outcome.anomalies);
        }
    }
}
