//! kafka.md 4: what late copies do to the next transaction of the old protocol, each under the setting it needs, and that
//! transaction version 2 refuses them all. The copy is sent by hand at the moment the table says.

use super::*;
use crate::harness::World;
use broker::{AgentConfig, Defects, Outside, TransactionConfig, TransactionVersion};

fn world(outside: Outside, version: TransactionVersion) -> World {
    let transactions = TransactionConfig { outside, version, ..TransactionConfig::default() };
    // What is written here has no time of today.
    let agent = AgentConfig { transactions, retention_interval_ms: 0, ..AgentConfig::default() };
    World { agent, ..World::default() }
}

/// Transaction N, ended so, with its markers written; the holder that goes on with N+1.
async fn after_one_ended(agent: &mut Connection, committed: bool) -> Holder {
    agent.create_topic(TOPIC, 2, &[]).await;
    let holder = init(agent, "jt1").await;
    add(agent, holder, &[0]).await;
    assert_eq!(send(agent, V1, holder, 0, 0, &["r0"]).await, (0, 0));
    assert_eq!(end(agent, V1, holder, committed).await, DONE);
    markers().await;
    holder
}

fn visible(values: &[&str]) -> Vec<String> {
    values.iter().map(|value| value.to_string()).collect()
}

#[test]
fn s1_a_late_commit_shows_what_the_client_then_aborts() {
    world(Outside::Implicit, TransactionVersion::V1).run(|cluster| async move {
        let mut agent = cluster.connect("agent-1").await;
        let holder = after_one_ended(&mut agent, COMMIT).await;
        add(&mut agent, holder, &[0]).await;
        assert_eq!(send(&mut agent, V1, holder, 0, 1, &["r1"]).await, (0, 2));
        assert_eq!(end_once(&mut agent, V1, holder, COMMIT).await, DONE, "the late copy");
        markers().await;
        assert_eq!(end(&mut agent, V1, holder, ABORT).await, refused(INVALID_TXN_STATE));
        assert_eq!(committed(&mut agent, 0).await, (visible(&["r0", "r1"]), 4));
    });
}

#[test]
fn s2_a_late_commit_tears_an_aborted_transaction() {
    world(Outside::Implicit, TransactionVersion::V1).run(|cluster| async move {
        let mut agent = cluster.connect("agent-1").await;
        let holder = after_one_ended(&mut agent, COMMIT).await;
        add(&mut agent, holder, &[0]).await;
        send(&mut agent, V1, holder, 0, 1, &["r1"]).await;
        assert_eq!(end_once(&mut agent, V1, holder, COMMIT).await, DONE, "the late copy");
        markers().await;
        add(&mut agent, holder, &[1]).await;
        assert_eq!(send(&mut agent, V1, holder, 1, 0, &["r2"]).await, (0, 0));
        assert_eq!(end(&mut agent, V1, holder, ABORT).await, DONE, "the client is told \"aborted\"");
        markers().await;
        assert_eq!(committed(&mut agent, 0).await, (visible(&["r0", "r1"]), 4));
        assert_eq!(committed(&mut agent, 1).await, (visible(&[]), 2));
    });
}

#[test]
fn s3_a_late_abort_tears_a_committed_transaction() {
    world(Outside::Implicit, TransactionVersion::V1).run(|cluster| async move {
        let mut agent = cluster.connect("agent-1").await;
        let holder = after_one_ended(&mut agent, ABORT).await;
        add(&mut agent, holder, &[0]).await;
        send(&mut agent, V1, holder, 0, 1, &["r1"]).await;
        assert_eq!(end_once(&mut agent, V1, holder, ABORT).await, DONE, "the late copy");
        markers().await;
        add(&mut agent, holder, &[1]).await;
        send(&mut agent, V1, holder, 1, 0, &["r2"]).await;
        assert_eq!(end(&mut agent, V1, holder, COMMIT).await, DONE, "the client is told \"committed\"");
        markers().await;
        assert_eq!(committed(&mut agent, 0).await, (visible(&[]), 4));
        assert_eq!(committed(&mut agent, 1).await, (visible(&["r2"]), 2));
    });
}

#[test]
fn s4_a_late_abort_loses_a_whole_transaction_where_ends_are_lenient() {
    for (lenient_end, told) in [(false, refused(INVALID_TXN_STATE)), (true, DONE)] {
        let mut world = world(Outside::Local, TransactionVersion::V1);
        world.agent.defects = Defects { lenient_end, ..Defects::default() };
        world.run(move |cluster| async move {
            let mut agent = cluster.connect("agent-1").await;
            let holder = after_one_ended(&mut agent, ABORT).await;
            add(&mut agent, holder, &[0]).await;
            send(&mut agent, V1, holder, 0, 1, &["r1"]).await;
            assert_eq!(end_once(&mut agent, V1, holder, ABORT).await, DONE, "the late copy");
            markers().await;
            assert_eq!(end(&mut agent, V1, holder, COMMIT).await, told, "lenient: {lenient_end}");
            assert_eq!(committed(&mut agent, 0).await, (visible(&[]), 4));
        });
    }
}

/// S5 as far as the last EndTxn: r1 committed by the late copy, r2 accepted and acknowledged by its partition alone.
async fn hang(agent: &mut Connection) -> Holder {
    let holder = after_one_ended(agent, COMMIT).await;
    add(agent, holder, &[0]).await;
    send(agent, V1, holder, 0, 1, &["r1"]).await;
    assert_eq!(end_once(agent, V1, holder, COMMIT).await, DONE, "the late copy");
    markers().await;
    assert_eq!(send(agent, V1, holder, 0, 2, &["r2"]).await, (0, 4));
    assert_eq!(end(agent, V1, holder, COMMIT).await, DONE, "taken for a retry");
    markers().await;
    holder
}

#[test]
fn s5_a_transaction_hangs_that_only_its_partition_knows_of() {
    world(Outside::Local, TransactionVersion::V1).run(|cluster| async move {
        let mut agent = cluster.connect("agent-1").await;
        hang(&mut agent).await;
        sleep(Duration::from_secs(300)).await;
        let stuck = (visible(&["r0", "r1"]), 4);
        assert_eq!(committed(&mut agent, 0).await, stuck, "r2 was acknowledged, and no time-out ends it");
        let data = fetch(&mut agent, 0, 0, true, 1 << 20).await;
        assert_eq!(data.high_watermark, 5);
    });
}

#[test]
fn s6_the_transaction_after_the_next_decides_about_the_hanging_one() {
    for (committed_next, expected) in [(ABORT, &["r0", "r1"][..]), (COMMIT, &["r0", "r1", "r2"])] {
        world(Outside::Local, TransactionVersion::V1).run(move |cluster| async move {
            let mut agent = cluster.connect("agent-1").await;
            let holder = hang(&mut agent).await;
            add(&mut agent, holder, &[0]).await;
            assert_eq!(end(&mut agent, V1, holder, committed_next).await, DONE);
            markers().await;
            assert_eq!(committed(&mut agent, 0).await, (visible(expected), 6));
        });
    }
}

#[test]
fn s5_ends_at_r2_where_batches_are_verified() {
    for (produce, code) in [(11, TRANSACTION_ABORTABLE), (10, INVALID_TXN_STATE)] {
        world(Outside::Verify, TransactionVersion::V1).run(move |cluster| async move {
            let mut agent = cluster.connect("agent-1").await;
            let holder = after_one_ended(&mut agent, COMMIT).await;
            add(&mut agent, holder, &[0]).await;
            send(&mut agent, V1, holder, 0, 1, &["r1"]).await;
            assert_eq!(end_once(&mut agent, V1, holder, COMMIT).await, DONE, "the late copy");
            markers().await;
            let versions = Versions { produce, ..V1 };
            assert_eq!(send(&mut agent, versions, holder, 0, 2, &["r2"]).await, (code, -1));
            assert_eq!(end(&mut agent, V1, holder, ABORT).await, refused(INVALID_TXN_STATE));
            assert_eq!(committed(&mut agent, 0).await, (visible(&["r0", "r1"]), 4));
        });
    }
}

#[test]
fn s7_a_late_add_begins_a_transaction_whose_time_out_fences_its_only_producer() {
    let mut world = world(Outside::Verify, TransactionVersion::V1);
    world.agent.transactions.scan_interval_ms = 1_000;
    world.run(|cluster| async move {
        let mut agent = cluster.connect("agent-1").await;
        let holder = after_one_ended(&mut agent, COMMIT).await;
        assert_eq!(add_once(&mut agent, holder, &[0]).await, 0, "the late copy");
        assert_eq!(committed(&mut agent, 0).await, (visible(&["r0"]), 2), "no record, so nothing waits");
        sleep(Duration::from_secs(63)).await;
        assert_eq!(add_once(&mut agent, holder, &[0]).await, PRODUCER_FENCED);
        assert_eq!(end_once(&mut agent, V1, holder, ABORT).await, refused(PRODUCER_FENCED));
        assert_eq!(committed(&mut agent, 0).await, (visible(&["r0"]), 3), "an abort marker");
    });
}

#[test]
fn s8_a_late_batch_lands_in_the_next_transaction_of_its_epoch() {
    for outside in [Outside::Implicit, Outside::Local, Outside::Verify] {
        world(outside, TransactionVersion::V1).run(|cluster| async move {
            let mut agent = cluster.connect("agent-1").await;
            let holder = after_one_ended(&mut agent, ABORT).await;
            add(&mut agent, holder, &[0]).await;
            let late = "sent in the aborted transaction";
            assert_eq!(send(&mut agent, V1, holder, 0, 1, &[late]).await, (0, 2), "its sequence fits");
            assert_eq!(end(&mut agent, V1, holder, COMMIT).await, DONE);
            markers().await;
            assert_eq!(committed(&mut agent, 0).await, (visible(&[late]), 4));
        });
    }
}

/// Version 2: whatever comes late carries an older epoch, and changes nothing.
#[test]
fn version_2_refuses_every_late_copy() {
    for first in [COMMIT, ABORT] {
        world(Outside::Local, TransactionVersion::V2).run(move |cluster| async move {
            let mut agent = cluster.connect("agent-1").await;
            agent.create_topic(TOPIC, 2, &[]).await;
            let old = init(&mut agent, "jt1").await;
            assert_eq!(send(&mut agent, V2, old, 0, 0, &["r0"]).await, (0, 0));
            let (code, producer_id, epoch) = end(&mut agent, V2, old, first).await;
            assert_eq!((code, producer_id, epoch), (0, old.producer_id, old.epoch + 1));
            let holder = Holder { epoch, ..old };
            assert_eq!(send(&mut agent, V2, holder, 0, 0, &["r1"]).await, (0, 2));
            for late in [COMMIT, ABORT] {
                assert_eq!(end_once(&mut agent, V2, old, late).await, refused(PRODUCER_FENCED));
                assert_eq!(end_once(&mut agent, V1, old, late).await, refused(PRODUCER_FENCED));
            }
            assert_eq!(send(&mut agent, V2, old, 0, 1, &["late"]).await, (INVALID_PRODUCER_EPOCH, -1));
            assert_eq!(send(&mut agent, V1, old, 0, 1, &["late"]).await, (INVALID_PRODUCER_EPOCH, -1));
            assert_eq!(add_once(&mut agent, old, &[0]).await, PRODUCER_FENCED);
            assert_eq!(send(&mut agent, V2, holder, 1, 0, &["r2"]).await, (0, 0));
            assert_eq!(end(&mut agent, V2, holder, COMMIT).await.0, 0);
            markers().await;
            let r0 = if first { &["r0", "r1"][..] } else { &["r1"] };
            assert_eq!(committed(&mut agent, 0).await, (visible(r0), 4));
            assert_eq!(committed(&mut agent, 1).await, (visible(&["r2"]), 2));
        });
    }
}
