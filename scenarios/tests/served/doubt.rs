//! The models in the schedules of `.ci/real-findings`: what a producer does that does not know what became of a Produce, row by
//! row as docs/open-questions.md has it of the real client.

use crate::watched::{CLOSED, Row, Watched, World, documented, record};
use client::{Flaws, Producer, ProducerConfig, Variant};
use rt::time::sleep;
use std::time::Duration;

async fn expiry(world: World) -> Row {
    let mut watched = Watched::new(world, false, 1_000, 1_700).await;
    watched.send("a").await;
    let b = watched.unanswered("b").await;
    watched.ended("b", b).await;
    watched.send("c").await;
    watched.row().await
}

async fn expiry_in_a_transaction(world: World) -> Row {
    let mut watched = Watched::new(world, true, 1_000, 1_700).await;
    watched.first().await;
    let b = watched.unanswered("b").await;
    watched.ended("b", b).await;
    watched.commit().await;
    watched.abort().await;
    watched.begin();
    watched.send("c").await;
    watched.commit().await;
    watched.row().await
}

async fn expiry_while_committing(world: World) -> Row {
    let mut watched = Watched::new(world, true, 1_500, 2_500).await;
    watched.first().await;
    let b = watched.unanswered("b").await;
    let _other = watched.producer.send(record(1, "other")).await.unwrap();
    watched.commit().await;
    watched.ended("b", b).await;
    watched.abort().await;
    watched.begin();
    watched.send("c").await;
    watched.commit().await;
    watched.row().await
}

async fn expiry_while_aborting(world: World) -> Row {
    let mut watched = Watched::new(world, true, 1_000, 1_700).await;
    watched.first().await;
    let b = watched.unanswered("b").await;
    watched.abort().await;
    watched.ended("b", b).await;
    watched.begin();
    let sent = match watched.producer.send(record(0, "c")).await {
        Ok(delivery) => delivery.await.map(drop),
        Err(error) => Err(error),
    };
    watched.call("send of c", sent);
    watched.row().await
}

async fn late_inside(world: World) -> Row {
    let mut watched = Watched::new(world, true, 1_500, 1_500).await;
    let held = watched.aborted().await;
    watched.begin();
    watched.send("c").await;
    watched.release(held).await;
    watched.commit().await;
    watched.row().await
}

/// The application aborts before the client has noted that it needs a new epoch: its model does not note it at all.
async fn late_after_callback(world: World) -> Row {
    let flaws = Flaws { keep_epoch_after_unknown_produce: true, ..Flaws::default() };
    let mut watched = Watched::new(World { flaws, ..world }, true, 1_500, 1_500).await;
    watched.first().await;
    let held = watched.hold("Produce", 1).await;
    let b = watched.sending("b").await.await;
    sleep(CLOSED).await;
    watched.abort().await;
    watched.is_told("b", b).await;
    watched.begin();
    let c = watched.sending("c").await;
    sleep(Duration::from_millis(300)).await;
    watched.release(held).await;
    watched.ended("c", c).await;
    watched.commit().await;
    watched.row().await
}

/// What becomes of the one that is late while nobody has a transaction, and of what another commits behind it; and then.
async fn late_between(world: World) -> [Row; 2] {
    let mut watched = Watched::new(world, true, 1_500, 1_500).await;
    let held = watched.aborted().await;
    watched.release(held).await;
    let config = ProducerConfig {
        bootstrap_servers: watched.proxying.bootstrap_servers().await,
        client_id: "other".into(),
        transactional_id: Some("other".into()),
        ..ProducerConfig::default()
    };
    let other = Producer::new(config, world.variant.model());
    other.init_transactions().await.unwrap();
    other.begin_transaction().unwrap();
    other.send(record(0, "e")).await.unwrap().await.unwrap();
    other.commit_transaction().await.unwrap();
    // Markers may follow the answer to a commit.
    sleep(Duration::from_millis(300)).await;
    let between = watched.row().await;
    watched.begin();
    watched.send("c").await;
    watched.commit().await;
    sleep(Duration::from_millis(300)).await;
    [between, watched.row().await]
}

/// That a model does what the document says of the real client.
async fn same_as(client: &str, world: World) {
    let expect = |question: &str, row: Row| {
        assert_eq!(
            row,
            documented(question, client, world.broker),
            "{question}, {client} over {}",
            world.broker
        );
    };
    let (in_general, in_a_transaction, while_committing, while_aborting, callback, inside, between) = tokio::join!(
        expiry(world),
        expiry_in_a_transaction(world),
        expiry_while_committing(world),
        expiry_while_aborting(world),
        late_after_callback(world),
        late_inside(world),
        late_between(world),
    );
    expect("11 expiry, no transaction", in_general);
    expect("11 expiry in a transaction", in_a_transaction);
    expect("11 expiry while committing", while_committing);
    expect("11 expiry while aborting", while_aborting);
    expect("10 late, aborted in a callback", callback);
    late_same_as(client, world, inside, between);
}

fn late_same_as(client: &str, world: World, inside: Row, [between, then]: [Row; 2]) {
    for (question, row) in [
        ("10 late, inside the next transaction", inside),
        ("17 late, between transactions; then e", between),
        ("10 late, between transactions; then c", then),
    ] {
        assert_eq!(
            row,
            documented(question, client, world.broker),
            "{question}, {client} over {}",
            world.broker
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn java_3_8_is_modelled_as_it_is_in_doubt() {
    same_as("java-3", World { variant: Variant::Java38, broker: "tv1", flaws: Flaws::default() }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn java_4_is_modelled_as_it_is_in_doubt() {
    same_as("java-4", World { variant: Variant::Java4, broker: "tv2", flaws: Flaws::default() }).await;
    same_as("java-4", World { variant: Variant::Java4, broker: "tv1", flaws: Flaws::default() }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_produce_is_taken_or_not_as_the_setting_says() {
    for broker in ["tv1-local", "tv1-verify"] {
        let world = World { variant: Variant::Java38, broker, flaws: Flaws::default() };
        let (inside, between) = tokio::join!(late_inside(world), late_between(world));
        late_same_as("java-3", world, inside, between);
    }
}
