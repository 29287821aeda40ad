//! Workers: client processes that carry out a plan's operations and log what they were told.
//!
//! A producer follows Jepsen's rules for errors (jepsen.md A5): a failure before the commit was asked for is followed by
//! an abort and counts as failed; a commit that timed out counts as of unknown outcome, and its producer is given up;
//! a commit refused counts as the client calls it. A producer given up is followed by one with a fresh transactional id,
//! unless the worker keeps its own.

use crate::config::{Config, GROUP, TOPIC};
use crate::log::{Log, Work, value_number};
use crate::looker::Looker;
use crate::member;
use crate::plain::Plain;
use crate::plan::{Decision, Op, Operation, Send};
use crate::watcher::Watcher;
use check::Status;
use check::reading::Reading;
use client::{
    Admin, AdminConfig, Consumer, Delivery, GroupMetadata, IsolationLevel, Producer, ProducerRecord,
    TopicPartition,
};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long one poll waits, in milliseconds (Jepsen's).
pub(crate) const POLL_MS: u64 = 100;
/// Wait between attempts of what must work in the end.
pub(crate) const RETRY: Duration = Duration::from_millis(500);

/// Creates a topic; tries until it is there.
pub(crate) async fn create_topic(config: &Config, topic: &str) {
    let mut admin =
        Admin::new(AdminConfig { bootstrap_servers: config.bootstrap_servers(), ..AdminConfig::jepsen() });
    loop {
        match admin.create_topic(topic, config.partitions as i32, 1).await {
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
    let mut plain = Plain::new(&name, &config, log.clone());
    let done = log.done(&name);
    for operation in operations.into_iter().skip(done) {
        rt::time::sleep(Duration::from_millis(operation.think_ms)).await;
        match operation.what {
            Op::Txn { sends, offset, end } => transactions.txn(&sends, offset, end).await,
            Op::Renew => transactions.client = None,
            Op::Send { sends } => plain.send(&sends).await,
            Op::Member(life) => member::live(&name, &config, &life, &log).await,
            Op::Watch { for_ms, every_ms } => Watcher::new(&name, &config).watch_for(for_ms, every_ms).await,
            Op::Look { for_ms, every_ms } => {
                Looker::new(&name, &config, log.clone()).look_for(for_ms, every_ms).await;
            }
            Op::Queue(_) => panic!("an operation of the queue workload in a plan without plan.config.queue"),
            Op::Consume { for_ms, think_ms, uncommitted } => {
                let deadline = rt::time::Instant::now() + Duration::from_millis(for_ms);
                let isolation = match uncommitted {
                    true => IsolationLevel::ReadUncommitted,
                    false => IsolationLevel::ReadCommitted,
                };
                let mut reader = Reader::new(&name, &config, isolation, log.clone());
                while rt::time::Instant::now() < deadline {
                    reader.poll(POLL_MS).await;
                    rt::time::sleep(Duration::from_millis(think_ms)).await;
                }
            }
        }
        log.did(&name);
    }
    log.lock().finished.insert(name);
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
    name: String,
    process: i64,
    /// Records handed to it.
    sent: u64,
}

impl Transactions {
    async fn txn(&mut self, sends: &[Send], offset: Option<i64>, end: Decision) {
        let mut client = match self.client.take() {
            Some(client) => client,
            None => self.new_client().await,
        };
        let invoked = sends.iter().map(|send| (send.key, send.value, None)).collect();
        let invoked = Work::Txn { number: 0, sends: invoked, commit_invoked_ns: None };
        self.log.add(client.process, &client.name, Status::Invoke, invoked, None);
        let mut attempt = Attempt {
            number: 0,
            sends: Vec::new(),
            unawaited: Vec::new(),
            commit_invoked_ns: None,
            goes_on: true,
        };
        let (status, error) = attempt.run(&client.producer, sends, offset, end).await;
        self.log.acknowledge(&client.name, client.sent, &attempt.sends);
        client.sent += attempt.sends.len() as u64;
        let Attempt { number, sends, commit_invoked_ns, goes_on, .. } = attempt;
        let done = Work::Txn { number, sends, commit_invoked_ns };
        self.log.add(client.process, &client.name, status, done, error.map(|error| error.to_string()));
        if goes_on {
            self.client = Some(client);
        }
    }

    /// A producer called by the worker's name, then `name.2` and so on, which is also its transactional id unless the
    /// worker has one.
    async fn new_client(&mut self) -> Client {
        let process = self.log.new_process();
        let transactional_id = self.config.transactional_ids.get(&self.name).map(String::as_str);
        loop {
            self.clients += 1;
            let name =
                if self.clients == 1 { self.name.clone() } else { format!("{}.{}", self.name, self.clients) };
            let config = self.config.producer(&name, Some(transactional_id.unwrap_or(&name)));
            let producer = Producer::new(config, self.config.model());
            match producer.init_transactions().await {
                Ok(()) => return Client { producer, name, process, sent: 0 },
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
    /// Their acknowledgements, of records that nobody waits for before the commit.
    unawaited: Vec<Delivery>,
    /// When the commit was asked for.
    commit_invoked_ns: Option<u64>,
    /// Whether the producer can be used again.
    goes_on: bool,
}

impl Attempt {
    /// Carries it out: what its client was told, and why.
    async fn run(
        &mut self,
        producer: &Producer,
        sends: &[Send],
        offset: Option<i64>,
        end: Decision,
    ) -> (Status, Option<client::Error>) {
        match producer.begin_transaction() {
            Ok(number) => self.number = number,
            Err(error) => {
                self.goes_on = false;
                return (Status::Fail, Some(error));
            }
        }
        if let Err(error) = self.send_all(producer, sends, offset, end).await {
            self.goes_on = producer.abort_transaction().await.is_ok();
            return (Status::Fail, Some(error));
        }
        if let Decision::CommitAfter(ms) = end {
            rt::time::sleep(Duration::from_millis(ms)).await;
        }
        match end {
            Decision::Abort => {
                let aborted = producer.abort_transaction().await;
                self.goes_on = aborted.is_ok();
                (Status::Fail, aborted.err())
            }
            Decision::Commit | Decision::CommitAfter(_) | Decision::CommitUnawaited => {
                self.commit_invoked_ns = Some(rt::time::Instant::now().as_nanos());
                match producer.commit_transaction().await {
                    Ok(()) => {
                        self.take_acknowledgements().await;
                        (Status::Ok, None)
                    }
                    Err(error) if error.is_definite() => {
                        self.goes_on = producer.abort_transaction().await.is_ok();
                        (Status::Fail, Some(error))
                    }
                    Err(error) => {
                        self.goes_on = false;
                        (Status::Info, Some(error))
                    }
                }
            }
        }
    }

    /// After a commit all of them are there.
    async fn take_acknowledgements(&mut self) {
        for (send, delivery) in self.sends.iter_mut().zip(self.unawaited.drain(..)) {
            if let Ok(metadata) = delivery.await {
                send.2 = Some(metadata.offset).filter(|offset| *offset >= 0);
            }
        }
    }

    async fn send_all(
        &mut self,
        producer: &Producer,
        sends: &[Send],
        offset: Option<i64>,
        end: Decision,
    ) -> Result<(), client::Error> {
        for send in sends {
            rt::time::sleep(Duration::from_millis(send.think_ms)).await;
            self.sends.push((send.key, send.value, None));
            let delivery = producer.send(record(send)).await?;
            if end == Decision::CommitUnawaited {
                self.unawaited.push(delivery);
                continue;
            }
            let metadata = delivery.await?;
            if let Some(last) = self.sends.last_mut() {
                last.2 = Some(metadata.offset).filter(|offset| *offset >= 0);
            }
        }
        let Some(offset) = offset else { return Ok(()) };
        let offsets = BTreeMap::from([(TopicPartition::new(TOPIC, 0), offset)]);
        producer.send_offsets_to_transaction(offsets, &GroupMetadata::of_group(GROUP)).await
    }
}

/// A record as it is sent.
pub(crate) fn record(send: &Send) -> ProducerRecord {
    ProducerRecord::new(TopicPartition::new(TOPIC, send.key as i32), send.value.to_string())
}

/// A consumer of all partitions, from the earliest offset. Only what is read committed belongs into the history: a
/// read_uncommitted one may see aborted records.
pub(crate) struct Reader {
    consumer: Consumer,
    committed: bool,
    name: String,
    process: i64,
    log: Log,
    partitions: Vec<TopicPartition>,
}

impl Reader {
    pub(crate) fn new(name: &str, config: &Config, isolation: IsolationLevel, log: Log) -> Self {
        let process = log.new_process();
        let committed = isolation == IsolationLevel::ReadCommitted;
        let keys: Vec<u32> = (0..config.partitions).collect();
        let partitions: Vec<_> = keys.iter().map(|key| TopicPartition::new(TOPIC, *key as i32)).collect();
        let mut consumer = Consumer::new(config.consumer(name, isolation));
        if committed {
            log.add(process, name, Status::Invoke, Work::Assign(keys.clone()), None);
        }
        let assigned = consumer.assign(&partitions);
        let status = if assigned.is_ok() { Status::Ok } else { Status::Fail };
        if committed {
            log.add(process, name, status, Work::Assign(keys), assigned.err().map(|error| error.to_string()));
        }
        Reader { consumer, committed, name: name.to_string(), process, log, partitions }
    }

    /// Polls once; the number of records.
    pub(crate) async fn poll(&mut self, timeout_ms: u64) -> usize {
        if self.committed {
            self.log.add(self.process, &self.name, Status::Invoke, Work::Poll(Vec::new()), None);
        }
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
        let polled: Vec<(u32, i64, u64)> = polled.collect();
        self.note(&polled);
        if self.committed {
            self.log.add(self.process, &self.name, status, Work::Poll(polled), error);
        }
        records.len()
    }

    fn note(&self, polled: &[(u32, i64, u64)]) {
        let mut facts = self.log.lock();
        for (key, offset, value) in polled {
            let reading = facts.readings.entry((self.process, *key)).or_insert_with(|| Reading {
                reader: self.name.clone(),
                partition: i64::from(*key),
                committed: self.committed,
                records: Vec::new(),
            });
            reading.records.push((*offset, value_number(*value)));
        }
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
