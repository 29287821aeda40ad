//! Workers: client processes that carry out a plan's operations and log what they were told.
//!
//! A producer follows Jepsen's rules for errors (jepsen.md A5): a failure before the commit was asked for is followed by
//! an abort and counts as failed; a commit that timed out counts as of unknown outcome, and its producer is given up;
//! a commit refused counts as the client calls it. A producer given up is followed by one with a fresh transactional id.

use crate::config::{Config, TOPIC};
use crate::log::{Log, Work};
use crate::plan::{Decision, Op, Operation, Send};
use check::Status;
use client::{Admin, AdminConfig, Consumer, Producer, ProducerRecord, TopicPartition};
use std::time::Duration;

/// How long one poll waits, in milliseconds (Jepsen's).
const POLL_MS: u64 = 100;
/// Wait between attempts of what must work in the end.
const RETRY: Duration = Duration::from_millis(500);

/// Creates the topic; tries until it is there.
pub(crate) async fn create_topic(config: &Config) {
    let mut admin =
        Admin::new(AdminConfig { bootstrap_servers: config.bootstrap_servers(), ..AdminConfig::jepsen() });
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
    let mut transactions = Transactions {
        name: name.clone(),
        config: config.clone(),
        log: log.clone(),
        client: None,
        clients: 0,
    };
    for operation in operations {
        rt::time::sleep(Duration::from_millis(operation.think_ms)).await;
        match operation.what {
            Op::Txn { sends, end } => transactions.txn(&sends, end).await,
            Op::Consume { for_ms, think_ms } => {
                let deadline = rt::time::Instant::now() + Duration::from_millis(for_ms);
                let mut reader = Reader::new(&name, &config, log.clone());
                while rt::time::Instant::now() < deadline {
                    reader.poll(POLL_MS).await;
                    rt::time::sleep(Duration::from_millis(think_ms)).await;
                }
            }
        }
    }
    log.lock().finished += 1;
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
    /// Its transactional id.
    id: String,
    process: i64,
}

impl Transactions {
    async fn txn(&mut self, sends: &[Send], end: Decision) {
        let client = match self.client.take() {
            Some(client) => client,
            None => self.new_client().await,
        };
        let invoked = sends.iter().map(|send| (send.key, send.value, None)).collect();
        let invoked = Work::Txn { number: 0, sends: invoked };
        self.log.add(client.process, &client.id, Status::Invoke, invoked, None);
        let mut attempt = Attempt { number: 0, sends: Vec::new(), goes_on: true };
        let (status, error) = attempt.run(&client.producer, sends, end).await;
        let done = Work::Txn { number: attempt.number, sends: attempt.sends };
        self.log.add(client.process, &client.id, status, done, error.map(|error| error.to_string()));
        if attempt.goes_on {
            self.client = Some(client);
        }
    }

    /// A producer with a transactional id of its own: the worker's name, then `name.2` and so on.
    async fn new_client(&mut self) -> Client {
        let process = self.log.new_process();
        loop {
            self.clients += 1;
            let id =
                if self.clients == 1 { self.name.clone() } else { format!("{}.{}", self.name, self.clients) };
            let producer = Producer::new(self.config.producer(&id), self.config.client.flaws());
            match producer.init_transactions().await {
                Ok(()) => return Client { producer, id, process },
                Err(_) => rt::time::sleep(RETRY).await,
            }
        }
    }
}

/// One transaction as it goes.
struct Attempt {
    number: u64,
    /// Records handed to the producer, with their offsets once acknowledged.
    sends: Vec<(u32, u64, Option<i64>)>,
    /// Whether the producer can be used again.
    goes_on: bool,
}

impl Attempt {
    /// Carries it out: what its client was told, and why.
    async fn run(
        &mut self,
        producer: &Producer,
        sends: &[Send],
        end: Decision,
    ) -> (Status, Option<client::Error>) {
        match producer.begin_transaction() {
            Ok(number) => self.number = number,
            Err(error) => {
                self.goes_on = false;
                return (Status::Fail, Some(error));
            }
        }
        if let Err(error) = self.send_all(producer, sends).await {
            self.goes_on = producer.abort_transaction().await.is_ok();
            return (Status::Fail, Some(error));
        }
        match end {
            Decision::Abort => {
                let aborted = producer.abort_transaction().await;
                self.goes_on = aborted.is_ok();
                (Status::Fail, aborted.err())
            }
            Decision::Commit => match producer.commit_transaction().await {
                Ok(()) => (Status::Ok, None),
                Err(error) if error.is_definite() => {
                    self.goes_on = producer.abort_transaction().await.is_ok();
                    (Status::Fail, Some(error))
                }
                Err(error) => {
                    self.goes_on = false;
                    (Status::Info, Some(error))
                }
            },
        }
    }

    async fn send_all(&mut self, producer: &Producer, sends: &[Send]) -> Result<(), client::Error> {
        for send in sends {
            rt::time::sleep(Duration::from_millis(send.think_ms)).await;
            let record = ProducerRecord {
                partition: TopicPartition::new(TOPIC, send.key as i32),
                key: None,
                value: send.value.to_string().into(),
            };
            self.sends.push((send.key, send.value, None));
            let metadata = producer.send(record).await?.await?;
            if let Some(last) = self.sends.last_mut() {
                last.2 = Some(metadata.offset).filter(|offset| *offset >= 0);
            }
        }
        Ok(())
    }
}

/// A consumer of all partitions, from the earliest offset.
pub(crate) struct Reader {
    consumer: Consumer,
    name: String,
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
        log.add(process, name, Status::Invoke, Work::Assign(keys.clone()), None);
        let assigned = consumer.assign(&partitions);
        let status = if assigned.is_ok() { Status::Ok } else { Status::Fail };
        log.add(process, name, status, Work::Assign(keys), assigned.err().map(|error| error.to_string()));
        Reader { consumer, name: name.to_string(), process, log, partitions }
    }

    /// Polls once; the number of records.
    pub(crate) async fn poll(&mut self, timeout_ms: u64) -> usize {
        self.log.add(self.process, &self.name, Status::Invoke, Work::Poll(Vec::new()), None);
        let (status, records, error) = match self.consumer.poll(timeout_ms).await {
            Ok(records) => (Status::Ok, records, None),
            Err(error) => (Status::Info, Vec::new(), Some(error.to_string())),
        };
        if status == Status::Info {
            rt::time::sleep(RETRY).await;
        }
        let polled = records.iter().map(|record| {
            let value =
                record.value.as_deref().and_then(|value| std::str::from_utf8(value).ok()?.parse().ok());
            (record.partition.partition as u32, record.offset, value.unwrap_or(NOT_A_VALUE))
        });
        self.log.add(self.process, &self.name, status, Work::Poll(polled.collect()), error);
        records.len()
    }

    /// Keys that were read beyond the offset that `target` has for them.
    pub(crate) fn keys_past(&self, target: impl Fn(u32) -> i64) -> Vec<u32> {
        let keys = self.partitions.iter().zip(0..);
        let past = keys
            .filter(|(partition, key)| self.consumer.position(partition).is_some_and(|at| at > target(*key)));
        past.map(|(_, key)| key).collect()
    }
}

/// What stands for a payload that is not a number: no worker writes it.
const NOT_A_VALUE: u64 = u64::MAX;
