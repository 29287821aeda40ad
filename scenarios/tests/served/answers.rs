//! What the models of Java tell their application of an answer to Produce with some error code and base offset: cell by cell as
//! docs/open-questions.md has it of the real client.

use crate::harness::{TOPIC, http, options, settings, start};
use crate::proxy::proxy;
use crate::watched::DOCUMENT;
use client::{
    Consumer, ConsumerConfig, IsolationLevel, OffsetReset, Producer, ProducerConfig, ProducerRecord,
    TopicPartition, Variant,
};
use rt::time::{Instant, sleep};
use scenarios::HostPort;
use std::collections::BTreeMap;
use std::time::Duration;

/// Records before the one in question.
const BEFORE: usize = 3;
/// Null leaves the real one.
const BASE_OFFSETS: [&str; 3] = ["0", "-1", "null"];

/// One record whose answer is rewritten, in a partition of its own.
#[derive(Clone, Debug)]
struct Case {
    partition: i32,
    code: i16,
    /// Which try's answer it is, from 1; those before are lost.
    answer: u32,
    base_offset: &'static str,
    /// The document's cell, with errors as "refused".
    expected: String,
}

/// The document's table, of this client.
fn documented(client: &str) -> Vec<Case> {
    let rows = DOCUMENT.lines().filter(|line| line.starts_with("| "));
    let rows: Vec<Vec<&str>> =
        rows.map(|line| line.trim_matches(['|', ' ']).split(" | ").collect()).collect();
    let header = rows.iter().find(|row| row[0] == "answer").expect("the table of answers");
    let column = header.iter().position(|name| *name == format!("`{client}`")).expect("the client's column");
    let mut cases = Vec::new();
    for row in &rows {
        let Some((code, answer)) = row[0].split_once(", ") else { continue };
        let answer = match answer {
            "first try" => 1,
            "second try" => 2,
            _ => continue,
        };
        let cells: Vec<&str> = row[column].split("; ").collect();
        for (i, base_offset) in BASE_OFFSETS.into_iter().enumerate() {
            let cell = cells[i % cells.len()];
            let expected = if cell.ends_with("Exception") { "refused" } else { cell };
            let partition = i32::try_from(cases.len()).unwrap();
            let (code, expected) = (code.parse().unwrap(), expected.to_string());
            cases.push(Case { partition, code, answer, base_offset, expected });
        }
    }
    cases
}

/// What the application is told.
async fn told(case: Case, servers: Vec<String>, admin: HostPort, variant: Variant) -> (i32, String) {
    let id = format!("p{}", case.partition);
    let config = ProducerConfig {
        bootstrap_servers: servers,
        client_id: id.clone(),
        delivery_timeout_ms: 20_000,
        request_timeout_ms: 5_000,
        ..ProducerConfig::default()
    };
    let producer = Producer::new(config, variant.model());
    let record = |value: &'static str| ProducerRecord::new(TopicPartition::new(TOPIC, case.partition), value);
    for _ in 0..BEFORE {
        producer.send(record("before")).await.unwrap().await.unwrap();
    }
    let Case { partition, code, answer, base_offset, .. } = case;
    let frame = |nth: u32| format!(r#"{{"words": "Produce.reply client={id}", "nth": {nth}}}"#);
    for nth in 1..answer {
        let reset = format!(r#"{{"id": {partition}, "fault": {{"reset": {{"frame": {}}}}}}}"#, frame(nth));
        assert_eq!(http(&admin, "POST", "/faults", &reset).await.0, 200);
    }
    let rewrite = format!(
        r#"{{"id": {partition}, "frame": {}, "code": {code}, "base_offset": {base_offset}}}"#,
        frame(answer)
    );
    assert_eq!(http(&admin, "POST", "/rewrites", &rewrite).await.0, 200);
    let told = match producer.send(record("x")).await.unwrap().await {
        Ok(written) => format!("offset {}", written.offset),
        Err(_) => "refused".into(),
    };
    (partition, told)
}

/// How many records each partition has.
async fn counts(bootstrap_servers: Vec<String>, partitions: i32) -> BTreeMap<i32, usize> {
    let mut consumer = Consumer::new(ConsumerConfig {
        bootstrap_servers,
        isolation_level: IsolationLevel::ReadUncommitted,
        auto_offset_reset: OffsetReset::Earliest,
        ..ConsumerConfig::default()
    });
    let all: Vec<_> = (0..partitions).map(|partition| TopicPartition::new(TOPIC, partition)).collect();
    consumer.assign(&all).unwrap();
    let (mut counts, mut quiet) = (BTreeMap::new(), Instant::now());
    while quiet.elapsed() < Duration::from_secs(2) {
        for record in consumer.poll(100).await.unwrap() {
            *counts.entry(record.partition.partition).or_default() += 1;
            quiet = Instant::now();
        }
    }
    counts
}

async fn same_as(client: &str, variant: Variant, transaction_version: u8) {
    let cases = documented(client);
    assert!(cases.len() > 30, "{cases:?}");
    let partitions = i32::try_from(cases.len()).unwrap();
    let mut options = options(1, settings(transaction_version));
    options.topics[0].partitions = partitions;
    let serving = start(options).await;
    let proxying = proxy(&serving, "[]").await;
    let servers = proxying.bootstrap_servers().await;
    let mut asked = rt::JoinSet::new();
    for case in cases.clone() {
        asked.spawn("case", told(case, servers.clone(), proxying.admin().clone(), variant));
        // Not all connect at once.
        sleep(Duration::from_millis(20)).await;
    }
    let mut told = BTreeMap::new();
    while let Some(one) = asked.join_next().await {
        let (partition, outcome) = one.unwrap();
        told.insert(partition, outcome);
    }
    let counts = counts(servers, partitions).await;
    for case in cases {
        let written = counts[&case.partition] - BEFORE;
        let times = if written == 1 { String::new() } else { format!(", written {written} times") };
        assert_eq!(told[&case.partition].clone() + &times, case.expected, "{client}: {case:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn java_3_8_is_modelled_as_it_takes_answers() {
    same_as("java-3", Variant::Java38, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn java_4_is_modelled_as_it_takes_answers() {
    same_as("java-4", Variant::Java4, 2).await;
}
