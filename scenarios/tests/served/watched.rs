//! A producer behind a proxy, and what is written down of it: the rows of docs/open-questions.md.

use crate::harness::{TOPIC, http, serve, settings, until};
use crate::proxy::{lines, proxy};
use client::IsolationLevel::{ReadCommitted, ReadUncommitted};
use client::{
    Consumer, ConsumerConfig, Delivery, Error, Flaws, IsolationLevel, OffsetReset, Producer, ProducerConfig,
    ProducerRecord, RecordMetadata, TopicPartition, Variant,
};
use rt::time::{Instant, sleep};
use scenarios::proxy::Proxying;
use scenarios::serve::Serving;
use std::time::Duration;

pub(crate) const DOCUMENT: &str = include_str!("../../../docs/open-questions.md");

/// By then a request that is given up has taken its connection with it, and what is sent does not wait behind it.
pub(crate) const CLOSED: Duration = Duration::from_millis(100);

/// A row: what was sent under which epochs and sequences, what the application was told, what readers see. Java has a class for
/// every error, and the models have words: of an error only that it is one is compared.
#[derive(Debug, PartialEq)]
pub(crate) struct Row([String; 3]);

pub(crate) fn documented(question: &str, client: &str, broker: &str) -> Row {
    let start = format!("| {question} | `{client}` | ");
    let rows = DOCUMENT.lines().filter_map(|line| line.strip_prefix(&start)?.strip_suffix(" |"));
    let mut rows = rows.filter_map(|row| row.split_once(" | "));
    // A row is of one broker or of several.
    let row = rows.find(|(brokers, _)| brokers.split(", ").any(|one| one == broker));
    let (_, row) = row.unwrap_or_else(|| panic!("no row {start}{broker}"));
    let cells: Vec<&str> = row.split(" | ").collect();
    let told = cells[1].split(", ").map(|one| match one.rsplit_once(' ') {
        Some((call, error)) if error.ends_with("Exception") => format!("{call} refused"),
        _ => one.to_string(),
    });
    Row([cells[0].into(), told.collect::<Vec<_>>().join(", "), cells[2].into()])
}

/// A producer behind a proxy, and what is written down of it.
pub(crate) struct Watched {
    pub(crate) proxying: Proxying,
    _serving: Serving,
    pub(crate) producer: Producer,
    /// Faults that were armed.
    faults: u32,
    /// Lines of Produce in the proxy's log that belong to earlier records.
    since: usize,
    sent: Vec<String>,
    told: Vec<String>,
}

impl Watched {
    pub(crate) async fn new(
        world: World,
        transactional: bool,
        request_timeout_ms: u64,
        delivery_timeout_ms: u64,
    ) -> Self {
        let World { variant, broker, flaws } = world;
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
        let producer = Producer::new(config, variant.model().with(flaws));
        if transactional {
            producer.init_transactions().await.unwrap();
        }
        let (sent, told) = (Vec::new(), Vec::new());
        Watched { proxying, _serving: serving, producer, faults: 0, since: 0, sent, told }
    }

    pub(crate) fn call<T>(&mut self, what: &str, outcome: Result<T, Error>) {
        self.told.push(format!("{what} {}", if outcome.is_ok() { "ok" } else { "refused" }));
    }

    pub(crate) fn begin(&mut self) {
        let outcome = self.producer.begin_transaction();
        self.call("begin", outcome);
    }

    pub(crate) async fn commit(&mut self) {
        let outcome = self.producer.commit_transaction().await;
        self.call("commit", outcome);
    }

    pub(crate) async fn abort(&mut self) {
        let outcome = self.producer.abort_transaction().await;
        self.call("abort", outcome);
    }

    pub(crate) async fn send(&mut self, value: &'static str) {
        let delivery = self.sending(value).await;
        self.ended(value, delivery).await;
    }

    pub(crate) async fn sending(&mut self, value: &'static str) -> Delivery {
        self.since = self.produced().await.len();
        self.producer.send(record(0, value)).await.unwrap()
    }

    pub(crate) async fn ended(&mut self, value: &str, delivery: Delivery) {
        self.is_told(value, delivery.await).await;
    }

    pub(crate) async fn is_told(&mut self, value: &str, outcome: Result<RecordMetadata, Error>) {
        let told = match outcome {
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

    pub(crate) async fn hold(&mut self, words: &str, nth: u32) -> u32 {
        self.faults += 1;
        let id = self.faults;
        let hold = format!(
            r#"{{"id": {id}, "fault": {{"hold": {{"frame": {{"words": "{words} client=p", "nth": {nth}}}}}}}}}"#
        );
        assert_eq!(http(self.proxying.admin(), "POST", "/faults", &hold).await.0, 200);
        id
    }

    /// Both tries of the record are written and not answered, and its time is over during the second.
    pub(crate) async fn unanswered(&mut self, value: &'static str) -> Delivery {
        self.hold("Produce.reply", 1).await;
        self.hold("Produce.reply", 2).await;
        let delivery = self.sending(value).await;
        let enough = self.since + 2;
        until("the second try", async || self.produced().await.len() >= enough).await;
        delivery
    }

    /// Transaction 1 is committed; 2 sends b, whose only try is held on its way, and is aborted.
    pub(crate) async fn aborted(&mut self) -> u32 {
        self.first().await;
        let held = self.hold("Produce", 1).await;
        self.send("b").await;
        sleep(CLOSED).await;
        self.abort().await;
        held
    }

    /// One transaction is over, the next one begun.
    pub(crate) async fn first(&mut self) {
        self.begin();
        self.send("a").await;
        self.commit().await;
        self.begin();
    }

    /// Lets go a Produce, and waits until the broker has answered it.
    pub(crate) async fn release(&mut self, id: u32) {
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

    pub(crate) async fn row(&self) -> Row {
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

pub(crate) fn record(partition: i32, value: &'static str) -> ProducerRecord {
    ProducerRecord::new(TopicPartition::new(TOPIC, partition), value)
}

/// A client model, with these flaws beside its own, over a broker's settings, as `.ci/real-findings` names them.
#[derive(Clone, Copy)]
pub(crate) struct World {
    pub(crate) variant: Variant,
    pub(crate) broker: &'static str,
    pub(crate) flaws: Flaws,
}
