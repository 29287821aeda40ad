//! Planted defects of transactions, each beside what is right.

use super::*;
use crate::harness::World;
use broker::{AgentConfig, Defects};

fn world(defects: Defects) -> World {
    // What is written here has no time of today.
    World {
        agent: AgentConfig { defects, retention_interval_ms: 0, ..AgentConfig::default() },
        ..World::default()
    }
}

#[test]
fn an_end_of_an_older_epoch_is_refused_unless_ends_are_not_fenced() {
    for (unfenced_end, told, seen) in [(false, refused(PRODUCER_FENCED), vec![]), (true, DONE, vec!["new"])] {
        world(Defects { unfenced_end, ..Defects::default() }).run(move |cluster| async move {
            let mut agent = cluster.connect("agent-1").await;
            agent.create_topic(TOPIC, 1, &[]).await;
            let zombie = init(&mut agent, "jt1").await;
            let successor = init(&mut agent, "jt1").await;
            add(&mut agent, successor, &[0]).await;
            assert_eq!(send(&mut agent, V1, successor, 0, 0, &["new"]).await, (0, 0));
            assert_eq!(end(&mut agent, V1, zombie, COMMIT).await, told, "unfenced: {unfenced_end}");
            markers().await;
            assert_eq!(committed(&mut agent, 0).await.0, seen, "unfenced: {unfenced_end}");
        });
    }
}

#[test]
fn what_is_undecided_is_hidden_unless_the_stable_offset_is_early() {
    for (early_stable_offset, seen) in [(false, vec![]), (true, vec!["open"])] {
        world(Defects { early_stable_offset, ..Defects::default() }).run(move |cluster| async move {
            let mut agent = cluster.connect("agent-1").await;
            agent.create_topic(TOPIC, 1, &[]).await;
            let holder = init(&mut agent, "jt1").await;
            add(&mut agent, holder, &[0]).await;
            assert_eq!(send(&mut agent, V1, holder, 0, 0, &["open"]).await, (0, 0));
            assert_eq!(committed(&mut agent, 0).await.0, seen, "early: {early_stable_offset}");
            assert_eq!(end(&mut agent, V1, holder, ABORT).await, DONE);
            markers().await;
            assert_eq!(committed(&mut agent, 0).await.0, [""; 0], "aborted");
        });
    }
}

#[test]
fn the_first_commit_of_an_epoch_is_executed_unless_numbers_know_no_epochs() {
    for (number_without_epoch, seen) in [(false, vec!["old", "new"]), (true, vec!["old"])] {
        world(Defects { number_without_epoch, ..Defects::default() }).run(move |cluster| async move {
            let mut agent = cluster.connect("agent-1").await;
            agent.create_topic(TOPIC, 1, &[]).await;
            for value in ["old", "new"] {
                let holder = init(&mut agent, "jt1").await;
                add(&mut agent, holder, &[0]).await;
                assert_eq!(send(&mut agent, V1, holder, 0, 0, &[value]).await.0, 0);
                assert_eq!(end(&mut agent, V1, holder, COMMIT).await, DONE, "told so in any case");
                markers().await;
            }
            assert_eq!(committed(&mut agent, 0).await.0, seen, "without epoch: {number_without_epoch}");
        });
    }
}
