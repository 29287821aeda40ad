//! Who watches what the group has committed, by raw OffsetFetch requests to one agent after the other; and who reads in
//! the end what its members have written.

use crate::config::{Config, GROUP, RESULTS, TOPIC};
use crate::log::Log;
use client::{Consumer, IsolationLevel, Probe, TopicPartition};
use rt::time::{Instant, sleep};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long it waits for one answer, in milliseconds.
const ANSWER_LIMIT_MS: u64 = 3_000;
/// The group must have committed everything this long after everything is there: a JoinGroup on a connection to a machine
/// that died without a word (given up after the longest `max.poll.interval.ms` and 5 s), a session, a rebalance, and what
/// an offset of an undecided transaction takes.
const DRAINED_LIMIT: Duration = Duration::from_secs(305 + 120);
/// Wait between two questions whether it has.
const PAUSE: Duration = Duration::from_millis(500);

/// A watcher.
pub(crate) struct Watcher {
    name: String,
    probe: Probe,
    agents: Vec<String>,
    partitions: Vec<i32>,
    asked: u64,
}

impl Watcher {
    pub(crate) fn new(name: &str, config: &Config) -> Self {
        Watcher {
            name: name.to_string(),
            probe: Probe::new(name, ANSWER_LIMIT_MS),
            agents: config.bootstrap_servers(),
            partitions: (0..config.partitions as i32).collect(),
            asked: 0,
        }
    }

    /// Asks again and again.
    pub(crate) async fn watch_for(&mut self, for_ms: u64, every_ms: u64) {
        let deadline = Instant::now() + Duration::from_millis(for_ms);
        while Instant::now() < deadline {
            self.ask().await;
            sleep(Duration::from_millis(every_ms)).await;
        }
    }

    /// What is committed of each partition; nothing if the agent whose turn it is did not say.
    async fn ask(&mut self) -> BTreeMap<i32, i64> {
        let agent = self.agents[self.asked as usize % self.agents.len()].clone();
        self.asked += 1;
        rt::event!("group.asks", reader = &self.name, number = self.asked);
        let answer = self.probe.committed(&agent, GROUP, TOPIC, &self.partitions).await;
        let found = answer.unwrap_or_default();
        for (partition, offset) in &found {
            rt::event!(
                "group.finds",
                reader = &self.name,
                number = self.asked,
                partition = *partition,
                offset = *offset
            );
        }
        found.into_iter().collect()
    }
}

/// Waits until the group has committed the end of every partition: the offset after the last record that a consumer
/// sees; notes where it has not when it gives up.
pub(crate) async fn drain(config: Config, log: Log) {
    let ends: BTreeMap<i32, i64> = {
        let facts = log.lock();
        let readings = facts.readings.values().filter(|reading| reading.reader == "reader");
        let last = |reading: &check::reading::Reading| {
            Some((reading.partition as i32, reading.records.last()?.0 + 1))
        };
        readings.filter_map(last).collect()
    };
    let mut watcher = Watcher::new("watcher", &config);
    let deadline = Instant::now() + DRAINED_LIMIT;
    loop {
        let found = watcher.ask().await;
        let behind = ends.iter().filter(|(partition, end)| found.get(partition).is_none_or(|at| at < end));
        let behind: Vec<i32> = behind.map(|(partition, _)| *partition).collect();
        if behind.is_empty() || deadline <= Instant::now() {
            log.lock().behind = behind;
            return;
        }
        sleep(PAUSE).await;
    }
}

/// How long the offsets of a transaction may stay undecided after everything else is over.
const DECIDED_LIMIT: Duration = Duration::from_secs(120);

/// Waits until what the group has committed of the first partition is decided, and notes it.
pub(crate) async fn last_offset(config: Config, log: Log) {
    let mut watcher = Watcher::new("offsets", &config);
    let deadline = Instant::now() + DECIDED_LIMIT;
    while Instant::now() < deadline {
        if let Some(offset) = watcher.ask().await.get(&0) {
            log.lock().last_offset = Some(*offset);
            return;
        }
        sleep(PAUSE).await;
    }
}

/// Polls that bring nothing, one after the other, after which there is nothing more.
const QUIET_POLLS: u32 = 3;
/// How long one of them waits, in milliseconds.
const RESULTS_POLL_MS: u64 = 1_000;

/// Reads what members have written, once none is at work.
pub(crate) async fn results(config: Config, log: Log) {
    let partitions: Vec<_> =
        (0..config.partitions as i32).map(|partition| TopicPartition::new(RESULTS, partition)).collect();
    let mut consumer = Consumer::new(config.consumer("results", IsolationLevel::ReadCommitted));
    consumer.assign(&partitions).expect("there is a reset policy");
    let mut quiet = 0;
    while quiet < QUIET_POLLS {
        let records = consumer.poll(RESULTS_POLL_MS).await.unwrap_or_default();
        quiet = if records.is_empty() { quiet + 1 } else { 0 };
        let of = records.iter().map(|record| {
            let words = record.value.as_deref().and_then(|value| std::str::from_utf8(value).ok());
            let offset = words.and_then(|words| words.split(' ').next()?.parse().ok());
            (i64::from(record.partition.partition), offset.unwrap_or(-1))
        });
        log.lock().results.extend(of);
    }
}
