//! Clients, watchers and server under random trouble on all of them: what clients are told is linearizable against the
//! store's own log, watches tell everything once and in order, no lease outlives its expiry unseen, and nothing
//! acknowledged is lost.
//!
//! Run: `cargo test -p fake_etcd --test storm`; with `WAVETANK_SEEDS=A..B` these seeds instead of a few. Clocks run true
//! here: drift is `sim`'s own matter.

mod audit;
mod record;
mod workload;

use audit::{Counts, audit};
use fake_etcd::Quirks;
use sim::choice::Choices;
use sim::fault::{Fault, Scheduled, When};
use sim::nemesis::{self, Kind, Swarm};
use sim::run::{Config, End};
use std::ops::Range;

#[expect(
    clippy::disallowed_methods,
    reason = "the person who runs it says how much, as for every test of seeds"
)]
fn seeds() -> Range<u64> {
    let Ok(named) = std::env::var("WAVETANK_SEEDS") else { return 1..301 };
    let (from, to) = named.split_once("..").expect("WAVETANK_SEEDS is A..B");
    from.parse().expect("a number")..to.parse().expect("a number")
}

/// Faults of everybody by the clock, and crashes of the server in the middle of a request.
fn config(seed: u64) -> Config {
    let choices = Choices::new(seed, &[]);
    let clients = (1..=workload::CLIENTS).map(|n| format!("c{n}"));
    let others = clients.chain(["all".to_string(), "one".to_string()]).collect::<Vec<_>>();
    let swarm = Swarm {
        kinds: vec![Kind::Pause, Kind::Crash, Kind::MachineCrash, Kind::Cut, Kind::Loss, Kind::Slow],
        targets: [vec!["etcd".to_string()], others].concat(),
        others: Vec::new(),
        from_ms: 50,
        until_ms: 1_500,
        every_ms: (100, 600),
        for_ms: (10, 1_500),
        first_id: 1,
    };
    let mut faults = nemesis::draw(&choices, &swarm);
    for (n, point) in ["etcd.before-apply", "etcd.before-reply", "etcd.before-expiry"].into_iter().enumerate()
    {
        let roll = |what: &str, below: u64| choices.draw(what, 0, n as u64, 0).below(below);
        if roll("storm.point", 2) == 0 {
            let when =
                When::Point { node: None, point: point.to_string(), nth: 1 + roll("storm.nth", 40) as u32 };
            let fault = Fault::Crash {
                node: "etcd".to_string(),
                restart_after_ms: Some(10 + roll("storm.down", 500)),
            };
            faults.push(Scheduled { id: 1_000 + n as u32, when, fault });
        }
    }
    Config { seed, faults, frame_ports: vec![2379], ..Config::default() }
}

#[test]
fn under_random_trouble_the_clients_are_told_the_truth() {
    let seeds = seeds();
    let mut counts = Counts::default();
    for seed in seeds.clone() {
        let run = sim::run(&config(seed), || workload::script(Quirks::default()));
        assert_eq!((run.end, run.failures.len()), (End::Done, 0), "seed {seed}: {:?}", run.failures);
        let story = run.value.expect("the script finished");
        audit(&story, &mut counts).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
    }
    println!("{seeds:?}: {counts:?}");
    // A run that could not have failed is no pass: each kind of outcome was there.
    let Counts {
        acknowledged,
        failed,
        unknown_done,
        unknown_not_done,
        expired,
        renewed,
        found_expired,
        events,
    } = counts;
    let least =
        [acknowledged, failed, unknown_done, unknown_not_done, expired, renewed, found_expired, events];
    assert!(seeds.end - seeds.start < 100 || !least.contains(&0), "something never happened");
}

/// The first complaint of the audit about runs with a quirk.
fn complaint(quirks: &Quirks) -> Option<String> {
    (1..301).find_map(|seed| {
        let run = sim::run(&config(seed), || workload::script(quirks.clone()));
        audit(&run.value.expect("the script finished"), &mut Counts::default()).err()
    })
}

#[test]
fn each_quirk_of_the_server_shows_when_it_is_on() {
    let silent = Quirks { lease_deletions_are_silent: true, ..Default::default() };
    assert!(complaint(&silent).is_some_and(|what| what.starts_with("event ")), "a deletion was told");
    let forgotten = Quirks { pause_ends_watches_silently: true, ..Default::default() };
    assert!(complaint(&forgotten).is_some_and(|what| what.starts_with("event ")), "a watch outlived a pause");
    let stale = Quirks { stale_reads_after_pause: true, ..Default::default() };
    assert!(complaint(&stale).is_some_and(|what| what.contains(" was told: Call")), "no read was stale");
}
