//! Transactions that run out of time: by scan and by deadline, in either version, and at the last epoch.

use super::*;
use crate::harness::World;
use broker::{AgentConfig, Timeouts, TransactionConfig, TransactionVersion};
use sim::fault::{EventPattern, Fault, Scheduled, When};

fn world(version: TransactionVersion, timeouts: Timeouts) -> World {
    let transactions = TransactionConfig { version, timeouts, ..TransactionConfig::default() };
    World { agent: AgentConfig { transactions, ..AgentConfig::default() }, ..World::default() }
}

/// An open transaction of one record, with a time-out of one second.
async fn begin(agent: &mut Connection, versions: Versions) -> Holder {
    agent.create_topic(TOPIC, 1, &[]).await;
    let holder = init_with(agent, "jt1", 1_000).await;
    if versions.produce < V2.produce {
        add(agent, holder, &[0]).await;
    }
    assert_eq!(send(agent, versions, holder, 0, 0, &["a"]).await, (0, 0));
    holder
}

async fn seconds(seconds: u64) {
    sleep(Duration::from_secs(seconds)).await;
}

#[test]
fn a_deadline_is_kept_and_a_scan_comes_up_to_its_interval_later() {
    for (timeouts, open_at_2_s) in [(Timeouts::Deadline, false), (Timeouts::Scan, true)] {
        world(TransactionVersion::V1, timeouts).run(move |cluster| async move {
            let mut agent = cluster.connect("agent-1").await;
            begin(&mut agent, V1).await;
            seconds(2).await;
            let lso = committed(&mut agent, 0).await.1;
            assert_eq!(lso, if open_at_2_s { 0 } else { 2 }, "{timeouts:?}");
            seconds(10).await;
            assert_eq!(committed(&mut agent, 0).await, (vec![], 2), "{timeouts:?}");
        });
    }
}

#[test]
fn another_agents_scan_ends_what_a_dead_agent_left_open() {
    let mut world = world(TransactionVersion::V1, Timeouts::Deadline);
    world.config.agents = 2;
    world.faults = vec![crash("agent-1", "test.begun")];
    world.run(|cluster| async move {
        let mut agent = cluster.connect("agent-1").await;
        begin(&mut agent, V1).await;
        rt::event!("test.begun");
        let mut other = cluster.connect("agent-2").await;
        seconds(5).await;
        assert_eq!(committed(&mut other, 0).await.1, 0, "nobody there saw it begin");
        seconds(20).await;
        assert_eq!(committed(&mut other, 0).await, (vec![], 2));
    });
}

/// A crash for good, at the first event of these words.
fn crash(node: &str, words: &str) -> Scheduled {
    let fault = Fault::Crash { node: node.into(), restart_after_ms: None };
    Scheduled { id: 1, when: When::Event(EventPattern::words(words)), fault }
}

#[test]
fn another_agents_scan_writes_the_markers_of_a_dead_one() {
    for (offered, versions) in [(TransactionVersion::V1, V1), (TransactionVersion::V2, V2)] {
        let mut world = world(offered, Timeouts::Scan);
        world.config.agents = 2;
        world.faults = vec![crash("agent-1", "txn.prepared")];
        world.run(move |cluster| async move {
            let mut agent = cluster.connect("agent-1").await;
            let holder = begin(&mut agent, versions).await;
            // It dies between Prepare and the markers; the answer was on its way by then.
            assert_eq!(end_once(&mut agent, versions, holder, COMMIT).await.0, 0);
            let mut other = cluster.connect("agent-2").await;
            assert_eq!(committed(&mut other, 0).await.1, 0);
            seconds(12).await;
            assert_eq!(committed(&mut other, 0).await, (vec!["a".into()], 2));
            let answer = end(&mut other, versions, holder, COMMIT).await;
            assert_eq!(answer.0, 0, "the client's retry is recognised there");
        });
    }
}

/// Version 1: the only producer is told of a newer one that never existed (KIP-588).
#[test]
fn a_producer_of_version_1_is_fenced_by_its_time_out_whatever_is_offered() {
    for offered in [TransactionVersion::V1, TransactionVersion::V2] {
        world(offered, Timeouts::Deadline).run(|cluster| async move {
            let mut agent = cluster.connect("agent-1").await;
            let holder = begin(&mut agent, V1).await;
            seconds(2).await;
            assert_eq!(send(&mut agent, V1, holder, 0, 1, &["b"]).await, (INVALID_PRODUCER_EPOCH, -1));
            assert_eq!(add_once(&mut agent, holder, &[0]).await, PRODUCER_FENCED);
            for committed in [COMMIT, ABORT] {
                let answer = end_once(&mut agent, V1, holder, committed).await;
                assert_eq!(answer, refused(PRODUCER_FENCED));
            }
        });
    }
}

#[test]
fn a_producer_of_version_2_recovers_by_its_abort_and_its_commit_is_refused() {
    world(TransactionVersion::V2, Timeouts::Deadline).run(|cluster| async move {
        let mut agent = cluster.connect("agent-1").await;
        let holder = begin(&mut agent, V2).await;
        seconds(2).await;
        assert_eq!(send(&mut agent, V2, holder, 0, 1, &["b"]).await, (INVALID_PRODUCER_EPOCH, -1));
        assert_eq!(end_once(&mut agent, V2, holder, COMMIT).await, refused(INVALID_TXN_STATE));
        let recovered = (0, holder.producer_id, holder.epoch + 1);
        assert_eq!(end_once(&mut agent, V2, holder, ABORT).await, recovered, "the epoch moved once");
        let next = Holder { epoch: holder.epoch + 1, ..holder };
        assert_eq!(send(&mut agent, V2, next, 0, 0, &["c"]).await, (0, 2));
        assert_eq!(end(&mut agent, V2, next, COMMIT).await.0, 0);
        markers().await;
        assert_eq!(committed(&mut agent, 0).await, (vec!["c".into()], 4));
    });
}

#[test]
fn a_time_out_at_the_last_epoch_leaves_a_way_on() {
    for offered in [TransactionVersion::V1, TransactionVersion::V2] {
        world(offered, Timeouts::Deadline).run(move |cluster| async move {
            let mut agent = cluster.connect("agent-1").await;
            agent.create_topic(TOPIC, 1, &[]).await;
            let first = init_with(&mut agent, "jt1", 1_000).await;
            set_epoch(cluster, "jt1", 32_766).await;
            let last = Holder { epoch: 32_766, ..first };
            add(&mut agent, last, &[0]).await;
            assert_eq!(send(&mut agent, V1, last, 0, 0, &["a"]).await, (0, 0));
            seconds(3).await;
            if offered == TransactionVersion::V2 {
                let (code, producer_id, epoch) = end_once(&mut agent, V2, last, ABORT).await;
                assert_eq!((code, epoch), (0, 0));
                assert!(producer_id > last.producer_id);
            } else {
                assert_eq!(end_once(&mut agent, V1, last, ABORT).await, refused(PRODUCER_FENCED));
            }
            let next = init(&mut agent, "jt1").await;
            assert!(next.producer_id > last.producer_id && next.epoch <= 1, "{next:?}");
            assert_eq!(committed(&mut agent, 0).await, (vec![], 2));
        });
    }
}

/// InitProducerId over an open transaction: one bump for the fence, one for the new producer, in either version.
#[test]
fn a_new_producer_fences_the_old_one_with_one_bump_and_takes_another() {
    for (offered, versions) in [(TransactionVersion::V1, V1), (TransactionVersion::V2, V2)] {
        world(offered, Timeouts::Scan).run(move |cluster| async move {
            let mut agent = cluster.connect("agent-1").await;
            let old = begin(&mut agent, versions).await;
            let (code, ..) = init_again(&mut agent, "jt1", 1_000, (-1, -1)).await;
            assert_eq!(code, CONCURRENT_TRANSACTIONS, "the fence is always answered so");
            let new = init(&mut agent, "jt1").await;
            assert_eq!((new.producer_id, new.epoch), (old.producer_id, old.epoch + 2));
            assert_eq!(end_once(&mut agent, versions, old, COMMIT).await, refused(PRODUCER_FENCED));
            assert_eq!(send(&mut agent, versions, old, 0, 1, &["b"]).await, (INVALID_PRODUCER_EPOCH, -1));
            assert_eq!(committed(&mut agent, 0).await, (vec![], 2));
        });
    }
}
