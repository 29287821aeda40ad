//! Sessions, locks and elections in the tank, where a holder can be paused for longer than its lease.

use fake_etcd::api::*;
use fake_etcd::recipes::{Election, Mutex, RecipeError, Session};
use fake_etcd::{Client, ClientConfig, Disk, ServerConfig, serve};
use rt::net::TcpListener;
use rt::time::sleep;
use sim::fault::{Fault, Scheduled, When};
use sim::node::{self, Role};
use sim::run::{Config, End};
use std::future::Future;
use std::sync::{Arc, Mutex as StdMutex};
use std::time::Duration;

type Story = Arc<StdMutex<Vec<String>>>;

async fn seconds(n: f64) {
    sleep(Duration::from_secs_f64(n)).await;
}

async fn session(ttl_s: i64) -> Session {
    Session::new(Client::new("etcd:2379".to_string(), ClientConfig::default()), ttl_s).await.unwrap()
}

/// Runs a server and two contenders; returns what they said, in order.
fn play<A, B>(faults: Vec<Scheduled>, first: fn(Story) -> A, second: fn(Story) -> B) -> Vec<String>
where
    A: Future<Output = ()> + Send + 'static,
    B: Future<Output = ()> + Send + 'static,
{
    let config = Config { seed: 1, faults, frame_ports: vec![2379], ..Config::default() };
    let run = sim::run(&config, move || async move {
        let (disk, story) = (Disk::default(), Story::default());
        node::add("etcd", Role::Coordinator, None, move |_| {
            let disk = disk.clone();
            Box::pin(async move {
                let listener = TcpListener::bind("etcd:2379").await.unwrap();
                serve(listener, disk, ServerConfig::default()).await.unwrap();
            })
        });
        let told = story.clone();
        node::add("first", Role::Agent, None, move |_| Box::pin(first(told.clone())));
        let told = story.clone();
        node::add("second", Role::Agent, None, move |_| Box::pin(second(told.clone())));
        seconds(30.0).await;
        story.lock().unwrap().clone()
    });
    assert_eq!((run.end, run.failures.len()), (End::Done, 0), "{:?}", run.failures);
    run.value.unwrap()
}

fn say(story: &Story, what: &str) {
    story.lock().unwrap().push(what.to_string());
}

#[test]
fn a_lock_goes_from_one_to_the_next_who_waits() {
    let story = play(
        vec![],
        |story| async move {
            let session = session(5).await;
            let mut lock = Mutex::new(&session, "lock");
            lock.lock().await.unwrap();
            say(&story, "first holds");
            seconds(10.0).await;
            say(&story, "first lets go");
            lock.unlock().await.unwrap();
            assert_eq!(lock.unlock().await, Err(RecipeError::LockReleased));
            seconds(5.0).await;
            assert_eq!(lock.try_lock().await, Err(RecipeError::Locked));
            say(&story, "first finds it locked");
        },
        |story| async move {
            seconds(1.0).await;
            let session = session(5).await;
            let mut lock = Mutex::new(&session, "lock");
            assert_eq!(lock.try_lock().await, Err(RecipeError::Locked));
            lock.lock().await.unwrap();
            say(&story, "second holds");
            seconds(60.0).await;
        },
    );
    assert_eq!(story, ["first holds", "first lets go", "second holds", "first finds it locked"]);
}

#[test]
fn a_holder_paused_past_its_lease_loses_the_lock_and_its_guard_says_so() {
    let pause = Fault::Pause { node: "first".to_string(), for_ms: 8_000 };
    let story = play(
        vec![Scheduled { id: 1, when: When::AtMs(2_000), fault: pause }],
        |story| async move {
            let session = session(3).await;
            let mut lock = Mutex::new(&session, "lock");
            lock.lock().await.unwrap();
            say(&story, "first holds");
            seconds(3.0).await;
            let guarded = TxnRequest {
                compare: vec![lock.is_owner().unwrap()],
                success: vec![Op::Put(PutRequest::new("guarded", "by first"))],
                failure: vec![],
            };
            let wrote = session.client().txn(guarded).await.unwrap().succeeded;
            say(&story, if wrote { "first wrote" } else { "first's guard failed" });
            session.lost().await;
            assert!(session.is_lost());
            say(&story, "first knows");
        },
        |story| async move {
            seconds(1.0).await;
            let session = session(5).await;
            let mut lock = Mutex::new(&session, "lock");
            lock.lock().await.unwrap();
            say(&story, "second holds");
            seconds(60.0).await;
        },
    );
    assert_eq!(story[..2], ["first holds", "second holds"]);
    let mut after = story[2..].to_vec();
    after.sort();
    assert_eq!(after, ["first knows", "first's guard failed"]);
}

#[test]
fn an_election_is_seen_by_an_observer_value_by_value() {
    let story = play(
        vec![],
        |story| async move {
            let session = session(5).await;
            let mut election = Election::new(&session, "vote");
            election.campaign("one").await.unwrap();
            seconds(2.0).await;
            election.proclaim("two").await.unwrap();
            seconds(2.0).await;
            election.resign().await.unwrap();
            assert_eq!(election.proclaim("three").await, Err(RecipeError::NotLeader));
            assert_eq!(election.leader().await, Err(RecipeError::NoLeader));
            seconds(2.0).await;
            election.campaign("four").await.unwrap();
            say(&story, "elected again");
            // Its keys go with the session.
            session.close().await.unwrap();
        },
        |story| async move {
            let session = session(5).await;
            let election = Election::new(&session, "vote");
            let mut observer = election.observe();
            for _ in 0..3 {
                let leader = observer.next().await.unwrap();
                say(&story, std::str::from_utf8(&leader.value).unwrap());
            }
            seconds(2.0).await;
            assert_eq!(election.leader().await, Err(RecipeError::NoLeader));
            say(&story, "nobody leads");
        },
    );
    let seen: Vec<_> = story.iter().filter(|line| *line != "elected again").collect();
    assert_eq!(seen, ["one", "two", "four", "nobody leads"]);
}
