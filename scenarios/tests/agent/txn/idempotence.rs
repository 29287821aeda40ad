//! Idempotence on the wire: the window is a partition's own, repeats are told the original offset, sequences wrap. The decision
//! table itself is tested row by row in `broker::producer`.

use super::*;
use crate::harness::World;

/// A batch of an idempotent producer: code and base offset.
async fn write(
    agent: &mut Connection,
    partition: i32,
    epoch: i16,
    base_sequence: i32,
    values: &[&str],
) -> (i16, i64) {
    let writer = Writer { producer_id: 7, epoch, base_sequence, transactional: false };
    send_bytes(agent, V1, None, partition, batch(writer, 1_000, values)).await
}

#[test]
fn each_partition_has_its_own_window_of_five_batches() {
    World::default().run(|cluster| async move {
        let mut agent = cluster.connect("agent-1").await;
        agent.create_topic(TOPIC, 2, &[]).await;
        for sequence in 0..6 {
            assert_eq!(write(&mut agent, 0, 0, sequence, &["a"]).await, (0, i64::from(sequence)));
        }
        assert_eq!(write(&mut agent, 1, 0, 0, &["b", "b"]).await, (0, 0), "sequences are per partition");
        for sequence in 1..6 {
            let repeated = write(&mut agent, 0, 0, sequence, &["a"]).await;
            assert_eq!(repeated, (0, i64::from(sequence)), "the original offset");
        }
        let forgotten = write(&mut agent, 0, 0, 0, &["a"]).await;
        assert_eq!(forgotten, (OUT_OF_ORDER_SEQUENCE_NUMBER, -1), "the sixth back");
        assert_eq!(
            write(&mut agent, 1, 0, 0, &["b"]).await.0,
            OUT_OF_ORDER_SEQUENCE_NUMBER,
            "another length"
        );
        assert_eq!(write(&mut agent, 0, 0, 7, &["a"]).await.0, OUT_OF_ORDER_SEQUENCE_NUMBER, "a gap");
        assert_eq!(write(&mut agent, 0, 1, 0, &["c"]).await, (0, 6), "a new epoch");
        assert_eq!(write(&mut agent, 0, 0, 5, &["a"]).await.0, INVALID_PRODUCER_EPOCH, "a stale one");
        assert_eq!(write(&mut agent, 1, 0, 2, &["b"]).await, (0, 2), "not stale here");
        assert_eq!(committed(&mut agent, 0).await.0, ["a", "a", "a", "a", "a", "a", "c"]);
    });
}

#[test]
fn sequences_wrap_from_the_largest_to_zero() {
    World::default().run(|cluster| async move {
        let mut agent = cluster.connect("agent-1").await;
        agent.create_topic(TOPIC, 1, &[]).await;
        assert_eq!(write(&mut agent, 0, 0, i32::MAX - 1, &["a", "b"]).await, (0, 0), "unknown: anywhere");
        assert_eq!(write(&mut agent, 0, 0, i32::MIN, &["c"]).await.0, 87, "never below zero");
        assert_eq!(write(&mut agent, 0, 0, 0, &["c"]).await, (0, 2));
        assert_eq!(write(&mut agent, 0, 0, i32::MAX - 1, &["a", "b"]).await, (0, 0), "a repeat");
        assert_eq!(write(&mut agent, 0, 0, 1, &["d"]).await, (0, 3));
    });
}

#[test]
fn a_repeat_is_known_to_every_agent() {
    let mut world = World::default();
    world.config.agents = 2;
    world.run(|cluster| async move {
        let mut first = cluster.connect("agent-1").await;
        let mut second = cluster.connect("agent-2").await;
        first.create_topic(TOPIC, 1, &[]).await;
        assert_eq!(write(&mut first, 0, 0, 0, &["a"]).await, (0, 0));
        assert_eq!(write(&mut second, 0, 0, 1, &["b"]).await, (0, 1));
        assert_eq!(write(&mut second, 0, 0, 0, &["a"]).await, (0, 0));
        assert_eq!(write(&mut first, 0, 0, 1, &["b"]).await, (0, 1));
        assert_eq!(committed(&mut first, 0).await.0, ["a", "b"]);
    });
}

#[test]
fn a_plain_batch_waits_for_its_producers_transaction() {
    World::default().run(|cluster| async move {
        let mut agent = cluster.connect("agent-1").await;
        agent.create_topic(TOPIC, 1, &[]).await;
        let holder = init(&mut agent, "jt1").await;
        send(&mut agent, V1, holder, 0, 0, &["a"]).await;
        let Holder { producer_id, epoch, .. } = holder;
        let plain = Writer { producer_id, epoch, base_sequence: 1, transactional: false };
        let plain = batch(plain, 1_000, &["b"]);
        assert_eq!(send_bytes(&mut agent, V1, None, 0, plain.clone()).await, (INVALID_TXN_STATE, -1));
        assert_eq!(end(&mut agent, V1, holder, COMMIT).await, DONE);
        markers().await;
        assert_eq!(send_bytes(&mut agent, V1, None, 0, plain).await, (0, 2));
    });
}
