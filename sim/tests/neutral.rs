//! Seeds survive neutral changes: what one part of a program draws, does or says shifts nothing elsewhere.

use sim::node::{self, Role};
use sim::run::{Config, Preempt};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What an unrelated change adds to a node.
#[derive(Clone, Copy, Debug)]
enum Change {
    Nothing,
    Choice,
    Event,
    Task,
    Timer,
    Node,
}

/// The moments at which the main node finishes its steps, each as long as a choice says.
fn moments(change: Change) -> Vec<u64> {
    let config = Config { seed: 5, preempt: Preempt { chance: 0.3, hold_us_max: 700 }, ..Config::default() };
    let run = sim::run(&config, move || async move {
        let log = Arc::new(Mutex::new(Vec::new()));
        let moments = log.clone();
        if let Change::Node = change {
            node::add("extra", Role::Client, None, |_| Box::pin(rt::time::sleep(Duration::from_millis(7))));
        }
        node::add("main", Role::Agent, None, move |_| {
            let log = log.clone();
            Box::pin(async move {
                for n in 0..50 {
                    match change {
                        Change::Choice => drop(rt::choice("other", 1, n).raw()),
                        Change::Event => rt::event!("other", n = n),
                        Change::Task => drop(rt::spawn("other", rt::time::sleep(Duration::from_micros(n)))),
                        Change::Timer => drop(rt::time::sleep(Duration::from_secs(9))),
                        Change::Nothing | Change::Node => {}
                    }
                    let wait = rt::choice("step", "main", n)
                        .duration(Duration::from_micros(1), Duration::from_millis(1));
                    rt::time::sleep(wait).await;
                    rt::preempt("step").await;
                    log.lock().unwrap().push(rt::time::Instant::now().as_nanos());
                }
            })
        });
        rt::time::sleep(Duration::from_secs(1)).await;
        moments.lock().unwrap().clone()
    });
    run.value.expect("the script ends")
}

#[test]
fn neutral_changes_shift_no_choice() {
    let plain = moments(Change::Nothing);
    assert_eq!(plain.len(), 50);
    for change in [Change::Choice, Change::Event, Change::Task, Change::Timer, Change::Node] {
        assert_eq!(moments(change), plain, "{change:?}");
    }
}
