//! The end of producers and of transactional ids that nobody uses any more.

use super::*;
use crate::harness::{World, batch};
use broker::{AgentConfig, ExpirationConfig};

/// Hours in place of days.
fn world() -> World {
    let hour_ms = 3_600_000;
    let expiration = ExpirationConfig {
        producer_id_ms: hour_ms,
        producer_id_scan_ms: 60_000,
        transactional_id_ms: 2 * hour_ms,
        transactional_id_scan_ms: 60_000,
    };
    let agent = AgentConfig {
        expiration,
        // Neither the connection nor what these producers wrote decades ago goes for its age.
        connections_max_idle_ms: 24 * hour_ms,
        retention_interval_ms: 0,
        ..AgentConfig::default()
    };
    World { agent, ..World::default() }
}

async fn minutes(minutes: u64) {
    sleep(Duration::from_secs(60 * minutes)).await;
}

async fn write(agent: &mut Connection, base_sequence: i32) -> (i16, i64) {
    let writer = Writer { producer_id: 700, epoch: 0, base_sequence, transactional: false };
    // The producer's clock is decades late: no reason to forget it.
    send_bytes(agent, V1, None, 0, batch(writer, 1_000, &["a"])).await
}

#[test]
fn a_producer_is_forgotten_after_its_time_and_its_repeat_is_new() {
    world().run(|cluster| async move {
        let mut agent = cluster.connect("agent-1").await;
        agent.create_topic(TOPIC, 1, &[]).await;
        assert_eq!(write(&mut agent, 0).await, (0, 0));
        minutes(59).await;
        assert_eq!(write(&mut agent, 0).await, (0, 0), "still a repeat");
        minutes(3).await;
        assert_eq!(cluster.keys("producers/").await, Vec::<String>::new());
        assert_eq!(write(&mut agent, 0).await, (0, 1), "the window is gone: a duplicate");
        minutes(30).await;
        assert_eq!(write(&mut agent, 1).await, (0, 2));
        minutes(59).await;
        assert_eq!(write(&mut agent, 1).await, (0, 2), "each batch begins its time anew");
    });
}

#[test]
fn a_producer_with_an_open_transaction_is_never_forgotten() {
    let mut world = world();
    world.agent.transactions.max_timeout_ms = i32::MAX;
    world.run(|cluster| async move {
        let mut agent = cluster.connect("agent-1").await;
        agent.create_topic(TOPIC, 1, &[]).await;
        let holder = init_with(&mut agent, "jt1", i32::MAX).await;
        send(&mut agent, V1, holder, 0, 0, &["a"]).await;
        minutes(200).await;
        assert_eq!(cluster.keys("producers/").await.len(), 1);
        assert_eq!(cluster.keys("txns/").await.len(), 1);
        assert_eq!(send(&mut agent, V1, holder, 0, 1, &["b"]).await, (0, 1));
        assert_eq!(end(&mut agent, V1, holder, COMMIT).await, DONE);
        minutes(62).await;
        assert_eq!(cluster.keys("producers/").await.len(), 0, "once it is closed");
        assert_eq!(committed(&mut agent, 0).await, (vec!["a".into(), "b".into()], 3));
    });
}

#[test]
fn a_transactional_id_is_forgotten_when_idle_and_its_producer_with_it() {
    world().run(|cluster| async move {
        let mut agent = cluster.connect("agent-1").await;
        agent.create_topic(TOPIC, 1, &[]).await;
        let [idle, used] = [init(&mut agent, "idle/1").await, init(&mut agent, "used").await];
        for sequence in 0..3 {
            minutes(59).await;
            add(&mut agent, used, &[0]).await;
            assert_eq!(send(&mut agent, V1, used, 0, sequence, &["a"]).await.0, 0);
            assert_eq!(end(&mut agent, V1, used, COMMIT).await, DONE);
            markers().await;
        }
        assert_eq!(cluster.keys("txns/").await, ["txns/used"]);
        assert_eq!(cluster.keys("txn_idle/").await, ["txn_idle/used"]);
        assert_eq!(add_once(&mut agent, idle, &[0]).await, INVALID_PRODUCER_ID_MAPPING);
        assert_eq!(end_once(&mut agent, V1, idle, ABORT).await, refused(INVALID_PRODUCER_ID_MAPPING));
        let again = init(&mut agent, "idle/1").await;
        assert!(again.producer_id > used.producer_id && again.epoch == 0, "a new beginning");
    });
}
