//! Processes, clocks and faults, seen from inside.

use rt::time::Instant;
use sim::fault::{EventPattern, Fault, Scheduled, When};
use sim::node::{self, Role, Supervisor};
use sim::run::{Config, End, Run};
use sim::trace::Keep;
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn config(faults: Vec<Fault>) -> Config {
    let at = |(n, fault)| Scheduled { id: n as u32 + 1, when: When::AtMs(100), fault };
    Config {
        seed: 1,
        faults: faults.into_iter().enumerate().map(at).collect(),
        keep: Keep::Events,
        ..Config::default()
    }
}

/// Runs one node for a second; it logs the simulated millisecond at every 50 ms of its own time.
fn ticks(config: &Config, supervisor: Option<Supervisor>) -> (Vec<u64>, Run<()>) {
    let log = Arc::new(Mutex::new(Vec::new()));
    let ticks = log.clone();
    let run = sim::run(config, move || async move {
        node::add("n1", Role::Agent, supervisor, move |_| {
            let ticks = ticks.clone();
            Box::pin(async move {
                loop {
                    rt::time::sleep(ms(50)).await;
                    ticks.lock().unwrap().push(Instant::now().as_nanos() / 1_000_000);
                    rt::preempt("tick").await;
                    rt::event!("tick", n = ticks.lock().unwrap().len());
                }
            })
        });
        rt::time::sleep(ms(1000)).await;
    });
    let ticks = log.lock().unwrap().clone();
    (ticks, run)
}

#[test]
fn a_paused_process_stops_while_its_timers_go_on_and_catches_up_once() {
    let (ticks, run) = ticks(&config(vec![Fault::Pause { node: "n1".into(), for_ms: 320 }]), None);
    assert_eq!(ticks[..4], [50, 420, 470, 520]);
    assert_eq!(run.landed.into_iter().collect::<Vec<_>>(), [1]);
}

#[test]
fn overlapping_pauses_end_with_the_last() {
    let pause = |for_ms| Fault::Pause { node: "n1".into(), for_ms };
    let (ticks, _) = ticks(&config(vec![pause(100), pause(320)]), None);
    assert_eq!(ticks[..3], [50, 420, 470]);
}

#[test]
fn a_crashed_process_starts_again_only_when_told() {
    let (dead, _) = ticks(&config(vec![Fault::Crash { node: "n1".into(), restart_after_ms: None }]), None);
    assert_eq!(dead, [50]);
    let (again, _) =
        ticks(&config(vec![Fault::MachineCrash { node: "n1".into(), restart_after_ms: Some(300) }]), None);
    assert_eq!(again[..3], [50, 450, 500]);
}

#[test]
fn a_supervisor_restarts_and_gives_up() {
    let supervisor = Supervisor { restart_after_ms: 10, give_up_after: 2 };
    let starts = Arc::new(Mutex::new(Vec::new()));
    let log = starts.clone();
    sim::run(&config(vec![]), move || async move {
        node::add("n1", Role::Agent, Some(supervisor), move |start| {
            log.lock().unwrap().push((start, Instant::now().as_nanos() / 1_000_000));
            Box::pin(rt::time::sleep(ms(100)))
        });
        rt::time::sleep(ms(1000)).await;
        assert!(!node::is_up("n1"));
    });
    assert_eq!(*starts.lock().unwrap(), [(1, 0), (2, 110), (3, 220)]);
}

#[test]
fn a_panic_crashes_its_process_fails_the_run_and_leaves_the_others() {
    let run = sim::run(&config(vec![]), || async {
        node::add("bad", Role::Agent, None, |_| {
            Box::pin(async {
                rt::time::sleep(ms(10)).await;
                panic!("boom");
            })
        });
        node::add("good", Role::Agent, None, |_| Box::pin(rt::time::sleep(ms(500))));
        rt::time::sleep(ms(100)).await;
        (node::is_up("bad"), node::is_up("good"))
    });
    assert_eq!(run.value, Some((false, true)));
    assert_eq!(run.failures.len(), 1);
    let failure = &run.failures[0];
    assert!(
        failure.claim.contains("boom") && failure.node == "bad" && failure.at_ns == 10_000_000,
        "{failure:?}"
    );
}

#[test]
fn skew_shows_in_the_wall_clock_and_drift_in_timers() {
    let run = sim::run(&config(vec![Fault::ClockJump { node: "n1".into(), by_ms: -60_000 }]), || async {
        let wall = Arc::new(Mutex::new(Vec::new()));
        let log = wall.clone();
        node::add("n1", Role::Agent, None, move |_| {
            let log = log.clone();
            Box::pin(async move {
                loop {
                    log.lock().unwrap().push(rt::time::wall_ms() - 1_767_225_600_000);
                    rt::time::sleep(ms(150)).await;
                }
            })
        });
        rt::time::sleep(ms(200)).await;
        wall.lock().unwrap().clone()
    });
    assert_eq!(run.value, Some(vec![0, 150 - 60_000]));

    let (ticks, _) =
        ticks(&config(vec![Fault::ClockDrift { node: "n1".into(), ppm: 1_000_000, for_ms: 200 }]), None);
    // Twice as fast from 100 ms on: 50 ms of its time take 25 ms. What it reads of itself runs ahead.
    assert_eq!(ticks[..4], [50, 100, 150, 200]);
    assert!(ticks.len() > 19, "200 ms of double speed make more ticks: {}", ticks.len());
}

/// What the wall clock of n1 is ahead of the true time, every `every_ms` from `from_ms` on, in milliseconds.
fn wrong_by(faults: Vec<(u64, Fault)>, from_ms: u64, every_ms: u64) -> (Vec<i64>, Run<Vec<i64>>) {
    let scheduled = |(id, (at_ms, fault))| Scheduled { id, when: When::AtMs(at_ms), fault };
    let faults = (1..).zip(faults).map(scheduled).collect();
    let run = sim::run(&Config { faults, ..config(vec![]) }, move || async move {
        let log = Arc::new(Mutex::new(Vec::new()));
        let seen = log.clone();
        node::add("n1", Role::Agent, None, move |_| {
            let seen = seen.clone();
            Box::pin(async move {
                rt::time::sleep(ms(from_ms)).await;
                loop {
                    let true_ms = 1_767_225_600_000 + (Instant::now().as_nanos() / 1_000_000) as i64;
                    seen.lock().unwrap().push(rt::time::wall_ms() - true_ms);
                    rt::time::sleep(ms(every_ms)).await;
                }
            })
        });
        rt::time::sleep(ms(400)).await;
        log.lock().unwrap().clone()
    });
    (run.value.clone().expect("the script ends"), run)
}

#[test]
fn a_clock_that_is_set_right_forgets_its_jumps() {
    let jump = |by_ms| Fault::ClockJump { node: "n1".into(), by_ms };
    let reset = || Fault::ClockReset { node: "n1".into() };
    let faults = vec![(100, jump(-7000)), (150, jump(20)), (200, reset()), (300, reset())];
    let (wrong, run) = wrong_by(faults, 75, 50);
    assert_eq!(wrong, [0, -7000, -6980, 0, 0, 0, 0]);
    assert_eq!(run.landed.into_iter().collect::<Vec<_>>(), [1, 2, 3], "a right clock cannot be set right");
}

#[test]
fn a_strobing_clock_jumps_there_and_back_and_ends_where_it_was() {
    let strobe = Fault::ClockStrobe { node: "n1".into(), delta_ms: 500, period_ms: 20, for_ms: 50 };
    let jump = Fault::ClockJump { node: "n1".into(), by_ms: 3000 };
    let (wrong, run) = wrong_by(vec![(100, strobe), (130, jump)], 95, 10);
    assert_eq!(wrong[..8], [0, 500, 500, 0, 3000, 3500, 3000, 3000]);
    assert_eq!(run.landed.into_iter().collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn faults_strike_at_events_points_and_polls() {
    let on = |when| Config {
        faults: vec![Scheduled {
            id: 9,
            when,
            fault: Fault::Crash { node: "n1".into(), restart_after_ms: None },
        }],
        ..config(vec![])
    };
    let pattern = EventPattern { words: "tick n=3".into(), node: Some("n1".into()), nth: 1, after_ms: 20 };
    assert_eq!(ticks(&on(When::Event(pattern)), None).0, [50, 100, 150]);
    let point = When::Point { node: None, point: "tick".into(), nth: 4 };
    let (at_point, run) = ticks(&on(point), None);
    assert_eq!(at_point, [50, 100, 150, 200]);
    assert!(
        !run.trace.iter().any(|entry| entry.name == "tick" && entry.text("n") == "4"),
        "crashed before the event"
    );
    // Poll 1 starts the process; each tick takes one more.
    assert_eq!(ticks(&on(When::Poll { node: "n1".into(), nth: 3 }), None).0, [50, 100]);
}

#[test]
fn a_fault_on_an_unknown_node_fails_the_run() {
    let (_, run) = ticks(&config(vec![Fault::Pause { node: "n9".into(), for_ms: 1 }]), None);
    assert_eq!(run.failures[0].claim, "fault 1 names the node n9, which does not exist");
    assert!(run.landed.is_empty());
}

#[test]
fn runs_that_cannot_end_are_ended() {
    let end = |run: Run<()>| (run.end, run.value.is_some());
    let limited = Config { limit_ms: 500, ..config(vec![]) };
    let forever = || async {
        loop {
            rt::time::sleep(ms(1)).await
        }
    };
    assert_eq!(end(sim::run(&limited, forever)), (End::TimeLimit, false));
    assert_eq!(end(sim::run(&limited, std::future::pending)), (End::Deadlock, false));
    let spin = || async {
        loop {
            rt::spawn("spin", async {}).await.unwrap();
        }
    };
    assert_eq!(end(sim::run(&limited, spin)), (End::Livelock, false));
    assert_eq!(end(sim::run(&limited, || async { panic!("script") })), (End::Panic, false));
}

#[test]
fn marks_are_counted_and_a_broken_always_fails_the_run() {
    let run = sim::run(&config(vec![]), || async {
        for n in 0..5 {
            rt::mark!(sometimes, "even", n % 2 == 0);
            rt::mark!(always, "small", n < 4);
        }
        rt::mark!(reachable, "end");
        sim::property::eventually("never", ms(50), || false).await
    });
    assert_eq!(run.value, Some(false));
    assert_eq!((run.marks.held("even"), run.marks.held("end"), run.marks.held("absent")), (3, 1, 0));
    let claims: Vec<_> = run.failures.iter().map(|failure| failure.claim.as_str()).collect();
    assert_eq!(claims, ["always: small", "not within 50 ms: never"]);
}

#[test]
fn the_parent_of_what_a_timer_brings_about_is_its_arming() {
    let (_, run) = ticks(&Config { keep: Keep::Everything, ..config(vec![]) }, None);
    let by_id = |id| run.trace.iter().find(|entry| entry.id == id);
    let tick =
        run.trace.iter().find(|entry| entry.name == "tick" && entry.text("n") == "2").expect("a second tick");
    let step = by_id(tick.parent).expect("its step");
    let timer = by_id(step.parent).expect("its timer");
    let arming = by_id(timer.parent).expect("its arming");
    assert_eq!((step.name, timer.name), ("step", "timer"));
    assert_eq!(
        (arming.name, arming.text("n").as_str()),
        ("tick", "1"),
        "armed in the wake of the first tick"
    );
}
