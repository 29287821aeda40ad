//! Ends in order, first starts and restarts, seen from inside.

use rt::net::{TcpListener, TcpStream};
use rt::time::Instant;
use sim::fault::{Fault, Scheduled, When};
use sim::node::{self, Role, Supervisor};
use sim::run::{Config, Run};
use sim::trace::Keep;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::AsyncReadExt;

const EACH_MS: u64 = 70;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn now_ms() -> u64 {
    Instant::now().as_nanos() / 1_000_000
}

fn config(faults: Vec<(u64, Fault)>) -> Config {
    let scheduled = |(n, (at_ms, fault))| Scheduled { id: n, when: When::AtMs(at_ms), fault };
    Config {
        seed: 1,
        faults: (1..).zip(faults).map(scheduled).collect(),
        keep: Keep::Events,
        ..Config::default()
    }
}

fn stop(restart_after_ms: Option<u64>) -> Fault {
    Fault::Stop { node: "n1".into(), restart_after_ms }
}

fn crash(restart_after_ms: Option<u64>) -> Fault {
    Fault::Crash { node: "n1".into(), restart_after_ms }
}

/// Runs, for a second, a node that takes 70 ms over ending in order; when it was started.
fn starts(faults: Vec<(u64, Fault)>, supervisor: Option<Supervisor>) -> (Vec<u64>, Run<()>) {
    let log = Arc::new(Mutex::new(Vec::new()));
    let starts = log.clone();
    let run = sim::run(&config(faults), move || async move {
        node::add("n1", Role::Agent, supervisor, move |_| {
            starts.lock().unwrap().push(now_ms());
            Box::pin(async move {
                rt::stop_requested().await;
                rt::time::sleep(ms(EACH_MS)).await;
            })
        });
        rt::time::sleep(ms(1000)).await;
    });
    let starts = log.lock().unwrap().clone();
    (starts, run)
}

/// When a node's event of that name was recorded, in milliseconds.
fn moments(run: &Run<()>, name: &str) -> Vec<u64> {
    run.trace.iter().filter(|entry| entry.name == name).map(|entry| entry.at_ns / 1_000_000).collect()
}

fn landed(run: &Run<()>) -> Vec<u32> {
    run.landed.iter().copied().collect()
}

#[test]
fn who_is_asked_to_stop_ends_in_its_own_time_and_is_started_again_when_due() {
    let (started, run) = starts(vec![(100, stop(Some(300)))], None);
    assert_eq!(started, [0, 400]);
    assert_eq!((moments(&run, "node.stop"), moments(&run, "node.exit")), (vec![100], vec![170]));
    assert_eq!(landed(&run), [1]);
    let (started, _) = starts(vec![(100, stop(Some(50)))], None);
    assert_eq!(started, [0, 170], "not before it has ended");
    let (started, run) = starts(vec![(100, stop(None))], None);
    assert_eq!((started, moments(&run, "node.exit")), (vec![0], vec![170]));
}

#[test]
fn a_paused_process_notices_when_it_resumes() {
    let pause = Fault::Pause { node: "n1".into(), for_ms: 320 };
    let (started, run) = starts(vec![(100, pause), (110, stop(Some(0)))], None);
    assert_eq!((started, moments(&run, "node.exit")), (vec![0, 490], vec![490]));
    assert_eq!(landed(&run), [1, 2]);
}

#[test]
fn only_the_first_request_counts_and_one_to_nobody_only_starts() {
    let (started, run) = starts(vec![(100, stop(Some(300))), (110, stop(Some(20)))], None);
    assert_eq!((started, landed(&run)), (vec![0, 400], vec![1]));
    let (started, run) = starts(vec![(100, crash(None)), (200, stop(Some(150)))], None);
    assert_eq!((started, landed(&run)), (vec![0, 350], vec![1]));
}

#[test]
fn a_process_killed_while_it_stops_is_started_again_as_the_kill_says() {
    let (started, run) = starts(vec![(100, stop(Some(300))), (120, crash(Some(50)))], None);
    assert_eq!((started, moments(&run, "node.crash")), (vec![0, 170], vec![120]));
    assert_eq!(starts(vec![(100, stop(Some(300))), (120, crash(None))], None).0, [0]);
    let machine = Fault::MachineCrash { node: "n1".into(), restart_after_ms: None };
    assert_eq!(starts(vec![(100, stop(Some(300))), (120, machine)], None).0, [0]);
}

#[test]
fn a_supervisor_leaves_alone_what_a_fault_ended() {
    let supervisor = Some(Supervisor { restart_after_ms: 10, give_up_after: 9 });
    assert_eq!(starts(vec![(100, crash(None))], supervisor).0, [0]);
    assert_eq!(starts(vec![(100, stop(None))], supervisor).0, [0]);
    assert_eq!(starts(vec![(100, stop(Some(300)))], supervisor).0, [0, 400]);
}

#[test]
fn who_does_not_ask_goes_on_and_the_fault_has_no_effect() {
    let run = sim::run(&config(vec![(100, stop(Some(1)))]), || async {
        node::add("n1", Role::Agent, None, |_| Box::pin(std::future::pending()));
        rt::time::sleep(ms(500)).await;
        node::is_up("n1")
    });
    assert_eq!(run.value, Some(true));
    assert!(run.landed.is_empty());
}

#[test]
fn a_node_added_stopped_is_started_by_a_fault_once() {
    let start = || Fault::Start { node: "n1".into() };
    let run = sim::run(&config(vec![(100, start()), (200, start())]), || async {
        node::add_stopped("n1", Role::Agent, None, |number| {
            assert_eq!((number, now_ms()), (1, 100));
            Box::pin(std::future::pending())
        });
        rt::time::sleep(ms(50)).await;
        let before = (node::is_up("n1"), node::named(Role::Agent));
        rt::time::sleep(ms(200)).await;
        (before, node::is_up("n1"))
    });
    assert_eq!(run.value, Some(((false, vec!["n1".to_string()]), true)));
    assert_eq!(run.landed.into_iter().collect::<Vec<_>>(), [1]);
    assert!(run.failures.is_empty(), "{:?}", run.failures);
}

#[test]
fn the_sockets_of_a_process_that_returned_are_closed() {
    let run = sim::run(&config(vec![(100, stop(None))]), || async {
        node::add("n1", Role::Agent, None, |_| {
            Box::pin(async {
                let listener = TcpListener::bind("n1:1").await.unwrap();
                let accepted = listener.accept().await.unwrap();
                rt::spawn("holds the socket", async move {
                    let _accepted = accepted;
                    std::future::pending::<()>().await;
                });
                rt::stop_requested().await;
                rt::time::sleep(ms(EACH_MS)).await;
            })
        });
        let closed = Arc::new(Mutex::new(None));
        let log = closed.clone();
        node::add("peer", Role::Client, None, move |_| {
            let log = log.clone();
            Box::pin(async move {
                let mut stream = TcpStream::connect("n1:1").await.unwrap();
                let read = stream.read(&mut [0]).await.unwrap();
                *log.lock().unwrap() = Some((read, now_ms()));
            })
        });
        rt::time::sleep(ms(500)).await;
        *closed.lock().unwrap()
    });
    let (read, at_ms) = run.value.flatten().expect("the peer reads the end");
    assert_eq!(read, 0);
    assert!((170..175).contains(&at_ms), "at {at_ms} ms");
}
