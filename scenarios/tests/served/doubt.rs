//! The models in the schedules of `.ci/real-findings`: what a producer does that does not know what became of a Produce, row by
//! row as docs/open-questions.md has it of the real client.

use crate::harness::{TOPIC, http, serve, settings, until};
use crate::proxy::{lines, proxy};
use client::IsolationLevel::{ReadCommitted, ReadUncommitted};
use client::{
    Consumer, ConsumerConfig, Delivery, Error, IsolationLevel, OffsetReset, Producer, ProducerConfig,
    ProducerRecord, TopicPartition, Variant,
};
use rt::time::{Instant, sleep};
use scenarios::proxy::Proxying;
use scenarios::serve::Serving;
use std::time::Duration;

pub(crate) const DOCUMENT: &str = include_str!("../../../docs/open-questions.md");

/// A row: what was sent under which epochs and sequences, what the application was told, what readers see. Java has a class for
/// every error, and the models have words: of an error only that it is one is compared.
#[derive(Debug, PartialEq)]
struct Row([String; 3]);

fn documented(question: &str, client: &str, broker: &str) -> Row {
    let start = format!("| {question} | `{client}` | {broker} | ");
    let row = DOCUMENT.lines().find_map(|line| line.strip_prefix(&start));
    let row = row.unwrap_or_else(|| panic!("no row {start}"));
    let cells: Vec<&str> = row.trim_end_matches(" |").split(" | ").collect();
    let told = cells[1].split(", ").map(|one| match one.rsplit_once(' ') {
        Some((call, error)) if error.ends_with("Exception") => format!("{call} refused"),
        _ => one.to_string(),
    });
    Row([cells[0].into(), told.collect::<Vec<_>>().join(", "), cells[2].into()])
}

/// A producer behind a proxy, and what is written down of it.
struct Watched {
    proxying: Proxying,
    _serving: Serving,
    producer: Producer,
    /// Faults that were armed.
    faults: u32,
    /// Lines of Produce in the proxy's log that belong to earlier records.
    since: usize,
    sent: Vec<String>,
    told: Vec<String>,
}

impl Watched {
    async fn new(
        world: World,
        transactional: bool,
        request_timeout_ms: u64,
        delivery_timeout_ms: u64,
    ) -> Self {
        let World { variant, broker } = world;
        let (version, outside) = match broker.split_once('-') {
            Some((version, outside)) => (version, outside),
            None => (broker, "implicit"),
        };
        let version = if version == "tv1" { 1 } else { 2 };
        let settings = settings(version).with_key(&format!("transactions.outside={outside}")).unwrap();
        let serving = serve(1, settings).await;
        let proxying = proxy(&serving, "[]").await;
        let config = ProducerConfig {
            bootstrap_servers: proxying.bootstrap_servers().await,
            client_id: "p".into(),
            transactional_id: transactional.then(|| "p".into()),
            request_timeout_ms,
            delivery_timeout_ms,
            max_block_ms: 20_000,
            ..ProducerConfig::default()
        };
        let producer = Producer::new(config, variant.model());
        if transactional {
            producer.init_transactions().await.unwrap();
        }
        let (sent, told) = (Vec::new(), Vec::new());
        Watched { proxying, _serving: serving, producer, faults: 0, since: 0, sent, told }
    }

    fn call<T>(&mut self, what: &str, outcome: Result<T, Error>) {
        self.told.push(format!("{what} {}", if outcome.is_ok() { "ok" } else { "refused" }));
    }

    fn begin(&mut self) {
        let outcome = self.producer.begin_transaction();
        self.call("begin", outcome);
    }

    async fn commit(&mut self) {
        let outcome = self.producer.commit_transaction().await;
        self.call("commit", outcome);
    }

    async fn abort(&mut self) {
        let outcome = self.producer.abort_transaction().await;
        self.call("abort", outcome);
    }

    async fn send(&mut self, value: &'static str) {
        let delivery = self.sending(value).await;
        self.ended(value, delivery).await;
    }

    async fn sending(&mut self, value: &'static str) -> Delivery {
        self.since = self.produced().await.len();
        self.producer.send(record(0, value)).await.unwrap()
    }

    async fn ended(&mut self, value: &str, delivery: Delivery) {
        let told = match delivery.await {
            Ok(written) => format!("offset {}", written.offset),
            Err(_) => "refused".into(),
        };
        self.told.push(format!("{value} {told}"));
        let mut stamps = self.produced().await.split_off(self.since);
        stamps.dedup();
        self.sent.push(format!("{value} {}", stamps.join("+")));
    }

    /// Epoch and base sequence of every Produce, as they came.
    async fn produced(&self) -> Vec<String> {
        let (_, log) = http(self.proxying.admin(), "GET", "/log", "").await;
        let log = log.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let came = log.filter(|line| line["what"] != "released" && line["what"] != "lost");
        let labels = came.map(|line| line["label"].as_str().unwrap_or_default().to_string());
        labels
            .filter(|label| label.starts_with("Produce "))
            .map(|label| {
                let word = |field| label.split(' ').find_map(|word| word.strip_prefix(field)).unwrap();
                format!("{}:{}", word("epoch="), word("seq="))
            })
            .collect()
    }

    async fn hold(&mut self, words: &str, nth: u32) -> u32 {
        self.faults += 1;
        let id = self.faults;
        let hold = format!(
            r#"{{"id": {id}, "fault": {{"hold": {{"frame": {{"words": "{words} client=p", "nth": {nth}}}}}}}}}"#
        );
        assert_eq!(http(self.proxying.admin(), "POST", "/faults", &hold).await.0, 200);
        id
    }

    /// Both tries of the record are written and not answered, and its time is over during the second.
    async fn unanswered(&mut self, value: &'static str) -> Delivery {
        self.hold("Produce.reply", 1).await;
        self.hold("Produce.reply", 2).await;
        let delivery = self.sending(value).await;
        let enough = self.since + 2;
        until("the second try", async || self.produced().await.len() >= enough).await;
        delivery
    }

    /// Transaction 1 is committed; 2 sends b, whose only try is held on its way, and is aborted.
    async fn aborted(&mut self) -> u32 {
        self.first().await;
        let held = self.hold("Produce", 1).await;
        self.send("b").await;
        self.abort().await;
        held
    }

    /// One transaction is over, the next one begun.
    async fn first(&mut self) {
        self.begin();
        self.send("a").await;
        self.commit().await;
        self.begin();
    }

    /// Lets go a Produce, and waits until the broker has answered it.
    async fn release(&mut self, id: u32) {
        let held = lines(&self.proxying, "held", "Produce").await.remove(0);
        assert_eq!(http(self.proxying.admin(), "POST", &format!("/release/{id}"), "").await.0, 200);
        let mut code = String::new();
        until("its answer", async || {
            let answers = lines(&self.proxying, "lost", "Produce.reply").await;
            let answer = answers.iter().find(|line| line["connection"] == held["connection"]);
            code = answer.map_or(String::new(), |line| {
                line["label"].as_str().unwrap().split(' ').nth(1).unwrap().into()
            });
            !code.is_empty()
        })
        .await;
        self.told.push(format!("late b answered {code}; flush ok"));
    }

    async fn row(&self) -> Row {
        let seen = format!(
            "committed: {}; all: {}",
            self.read(ReadCommitted).await,
            self.read(ReadUncommitted).await
        );
        Row([self.sent.join(", "), self.told.join(", "), seen])
    }

    /// All that a reader finds in the first partition.
    async fn read(&self, isolation_level: IsolationLevel) -> String {
        let mut consumer = Consumer::new(ConsumerConfig {
            bootstrap_servers: self.proxying.bootstrap_servers().await,
            isolation_level,
            auto_offset_reset: OffsetReset::Earliest,
            ..ConsumerConfig::default()
        });
        consumer.assign(&[TopicPartition::new(TOPIC, 0)]).unwrap();
        let (mut values, deadline) = (Vec::new(), Instant::now() + Duration::from_secs(1));
        while Instant::now() < deadline {
            for record in consumer.poll(100).await.unwrap() {
                values.push(String::from_utf8(record.value.unwrap().to_vec()).unwrap());
            }
        }
        values.join(" ")
    }
}

fn record(partition: i32, value: &'static str) -> ProducerRecord {
    ProducerRecord::new(TopicPartition::new(TOPIC, partition), value)
}

/// A client model over a broker's settings, as `.ci/real-findings` names them.
#[derive(Clone, Copy)]
struct World {
    variant: Variant,
    broker: &'static str,
}

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
    let (in_general, in_a_transaction, while_committing, while_aborting, inside, between) = tokio::join!(
        expiry(world),
        expiry_in_a_transaction(world),
        expiry_while_committing(world),
        expiry_while_aborting(world),
        late_inside(world),
        late_between(world),
    );
    expect("11 expiry, no transaction", in_general);
    expect("11 expiry in a transaction", in_a_transaction);
    expect("11 expiry while committing", while_committing);
    expect("11 expiry while aborting", while_aborting);
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
    same_as("java-3", World { variant: Variant::Java38, broker: "tv1" }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn java_4_is_modelled_as_it_is_in_doubt() {
    same_as("java-4", World { variant: Variant::Java4, broker: "tv2" }).await;
    same_as("java-4", World { variant: Variant::Java4, broker: "tv1" }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_produce_is_taken_or_not_as_the_setting_says() {
    for broker in ["tv1-local", "tv1-verify"] {
        let world = World { variant: Variant::Java38, broker };
        let (inside, between) = tokio::join!(late_inside(world), late_between(world));
        late_same_as("java-3", world, inside, between);
    }
}
