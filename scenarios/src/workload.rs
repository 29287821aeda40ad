//! Workers: client processes that carry out a plan's operations and log what they were told.
//!
//! A producer follows Jepsen's rules for errors (jepsen.md A5): a failure before the commit was asked for is followed by
//! an abort and counts as failed; a commit that timed out counts as of unknown outcome, and its producer is given up;
//! a commit refused counts as the client calls it. A producer given up is followed by one with a fresh transactional id.

use crate::config::{Config, TOPIC};
use crate::log::{Log, Outcome, What, Work};
use crate::plan::{Decision, Op, Operation, Send};
use client::{Admin, AdminConfig, Consumer, Producer, ProducerRecord, TopicPartition};
use std::time::Duration;

/// How long one poll waits, in milliseconds (Jepsen's).
const POLL_MS: u64 = 100;
/// Wait between attempts of what must work in the end.
const RETRY: Duration = Duration::from_millis(500);

/// Creates the topic; tries until it is there.
pub(crate) async fn create_topic(config: &Config) {
    let mut admin = Admin::new(AdminConfig { bootstrap_servers: config.bootstrap_servers(), ..AdminConfig::jepsen() });
    loop {
        match admin.create_topic(TOPIC, config.partitions as i32, 1).await {
            Ok(()) | Err(client::Error::Kafka(TOPIC_ALREADY_EXISTS)) => return,
            Err(_) => rt::time::sleep(RETRY).await,
        }
    }
}

const TOPIC_ALREADY_EXISTS: i16 = 36;

/// Carries out the operations of one worker.
pub(crate) async fn run(name: String, config: Config, operations: Vec<Operation>, log: Log) {
    let mut transactions = Transactions { name: name.clone(), config: config.clone(), log: log.clone(), client: None, clients: 0 };
    for operation in operations {
        rt::time::sleep(Duration::from_millis(operation.think_ms)).await;
        match operation.what {
            Op::Txn { sends, end } => transactions.txn(&sends, end).await,
            Op::Consume { for_ms } => {
                let deadline = rt::time::Instant::now() + Duration::from_millis(for_ms);
                let mut reader = Reader::new(&name, &config, log.clone());
                while rt::time::Instant::now() < deadline {
                    reader.poll(POLL_MS).await;
                }
            }
        }
    }
    log.finish_worker();
}

/// The transactional side of a worker.
struct Transactions {
    name: String,
    config: Config,
    log: Log,
    client: Option<Client>,
    /// Producers so far.
    clients: u32,
}

struct Client {
    producer: Producer,
    process: i64,
}

impl Transactions {
    async fn txn(&mut self, sends: &[Send], end: Decision) {
        let client = match self.client.take() {
            Some(client) => client,
            None => self.new_client().await,
        };
        let invoked = sends.iter().map(|send| (send.key, send.value)).collect();
        self.log.add(client.process, What::Invoke(Work::Txn(invoked)));
        let mut done = Vec::new();
        let (outcome, error, keep) = attempt(&client.producer, sends, end, &mut done).await;
        let error = error.map(|error| error.to_string());
        self.log.add(client.process, What::Complete { outcome, work: Work::Txn(done), error });
        if keep {
            self.client = Some(client);
        }
    }

    /// A producer with a transactional id of its own: the worker's name, then `name.2` and so on.
    async fn new_client(&mut self) -> Client {
        let process = self.log.new_process();
        loop {
            self.clients += 1;
            let id = if self.clients == 1 { self.name.clone() } else { format!("{}.{}", self.name, self.clients) };
            let producer = Producer::new(self.config.producer(&id), self.config.client.flaws());
            match producer.init_transactions().await {
                Ok(()) => return Client { producer, process },
                Err(_) => rt::time::sleep(RETRY).await,
            }
        }
    }
}

type Done = Vec<(u32, u64, Option<i64>)>;

/// One transaction: what the client was told, why, and whether the producer can go on.
async fn attempt(
    producer: &Producer,
    sends: &[Send],
    end: Decision,
    done: &mut Done,
) -> (Outcome, Option<client::Error>, bool) {
    if let Err(error) = producer.begin_transaction() {
        return (Outcome::Fail, Some(error), false);
    }
    if let Err(error) = send_all(producer, sends, done).await {
        let aborted = producer.abort_transaction().await.is_ok();
        return (Outcome::Fail, Some(error), aborted);
    }
    match end {
        Decision::Abort => match producer.abort_transaction().await {
            Ok(()) => (Outcome::Fail, None, true),
            Err(error) => (Outcome::Fail, Some(error), false),
        },
        Decision::Commit => match producer.commit_transaction().await {
            Ok(()) => (Outcome::Ok, None, true),
            Err(error) if error.is_definite() => {
                let aborted = producer.abort_transaction().await.is_ok();
                (Outcome::Fail, Some(error), aborted)
            }
            Err(error) => (Outcome::Info, Some(error), false),
        },
    }
}

async fn send_all(producer: &Producer, sends: &[Send], done: &mut Done) -> Result<(), client::Error> {
    for send in sends {
        rt::time::sleep(Duration::from_millis(send.think_ms)).await;
        let record = ProducerRecord {
            partition: TopicPartition::new(TOPIC, send.key as i32),
            key: None,
            value: send.value.to_string().into(),
        };
        done.push((send.key, send.value, None));
        let metadata = producer.send(record).await?.await?;
        if let Some(last) = done.last_mut() {
            last.2 = Some(metadata.offset).filter(|offset| *offset >= 0);
        }
    }
    Ok(())
}

/// A consumer of all partitions, from the earliest offset.
pub(crate) struct Reader {
    consumer: Consumer,
    process: i64,
    log: Log,
    partitions: Vec<TopicPartition>,
}

impl Reader {
    pub(crate) fn new(name: &str, config: &Config, log: Log) -> Self {
        let process = log.new_process();
        let keys: Vec<u32> = (0..config.partitions).collect();
        let partitions: Vec<_> = keys.iter().map(|key| TopicPartition::new(TOPIC, *key as i32)).collect();
        let mut consumer = Consumer::new(config.consumer(name));
        log.add(process, What::Invoke(Work::Assign(keys.clone())));
        let assigned = consumer.assign(&partitions);
        let outcome = if assigned.is_ok() { Outcome::Ok } else { Outcome::Fail };
        let error = assigned.err().map(|error| error.to_string());
        log.add(process, What::Complete { outcome, work: Work::Assign(keys), error });
        Reader { consumer, process, log, partitions }
    }

    pub(crate) async fn poll(&mut self, timeout_ms: u64) {
        self.log.add(self.process, What::Invoke(Work::Poll(Vec::new())));
        let (outcome, records, error) = match self.consumer.poll(timeout_ms).await {
            Ok(records) => (Outcome::Ok, records, None),
            Err(error) => (Outcome::Info, Vec::new(), Some(error.to_string())),
        };
        let failed = error.is_some();
        let polled = records.iter().map(|record| {
            let value = record.value.as_deref().and_then(|value| std::str::from_utf8(value).ok()?.parse().ok());
            (record.partition.partition as u32, record.offset, value.unwrap_or(u64::MAX))
        });
        self.log.add(self.process, What::Complete { outcome, work: Work::Poll(polled.collect()), error });
        if failed {
            rt::time::sleep(RETRY).await;
        }
    }

    /// Whether every partition was read beyond the offset that `targets` has for it.
    pub(crate) fn is_past(&self, targets: impl Fn(u32) -> Option<i64>) -> bool {
        self.partitions.iter().zip(0..).all(|(partition, key)| {
            targets(key).is_none_or(|target| self.consumer.position(partition).is_some_and(|at| at > target))
        })
    }
}
