//! The clients of one process: a producer, a consumer, an admin client. They are given up together.

use super::payload;
use super::settings::{Queue, SubVia};
use crate::config::{Config, partition_of};
use crate::explain::seconds;
use crate::log::Log;
use client::{
    Admin, AdminConfig, Assignor, Consumer, ConsumerRecord, Error, GroupMetadata, IsolationLevel,
    ListedOffset, Member, OffsetSpec, Producer, Rebalanced, TopicPartition,
};
use rt::time::{Instant, sleep, timeout};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::sync::oneshot;

/// The one group of all consumers (jepsen.md A1).
const GROUP: &str = "jepsen-group";
/// How long a send waits for its acknowledgement, and a look for its answer.
const WAIT_LIMIT: Duration = Duration::from_secs(10);
/// `initTransactions` is called again after this long, by a new producer with the same id.
const INIT_RETRY: Duration = Duration::from_secs(1);
/// After so long the id is given up.
const INIT_LIMIT: Duration = Duration::from_secs(60);
/// Partitions of a topic, and the replicas asked for.
const PARTITIONS: i32 = 2;
const REPLICATION_FACTOR: i16 = 3;
const TOPIC_ALREADY_EXISTS: i16 = 36;
/// What a close may take beyond its timeout: for the tasks that it ends.
const CLOSE_SLACK: Duration = Duration::from_millis(100);

/// The clients of one process.
pub(super) struct Client {
    /// The logical process, a new one for each client.
    pub(super) process: i64,
    /// The transactional id, or the client id without transactions.
    pub(super) name: String,
    pub(super) producer: Producer,
    reader: Reader,
    admin: Admin,
    config: Config,
    /// Of a zombie: told when another client has taken its place.
    pub(super) replaced: Option<oneshot::Receiver<()>>,
}

/// What a client reads with.
enum Reader {
    /// Nothing was assigned and nothing subscribed to.
    None,
    Assigned(Box<Consumer>),
    Subscribed(Box<Member>),
}

impl Client {
    /// Opens the clients of a new process. A producer with transactions is initialised, however long that takes: after a
    /// minute under another id, unless the worker keeps its own.
    pub(super) async fn open(worker: &str, config: &Config, queue: &Queue, log: &Log) -> Client {
        let process = log.new_process();
        let (name, producer) = match queue.txn {
            true => initialised(worker, process, config, log).await,
            false => {
                let name = format!("{worker}.{process}");
                let producer = Producer::new(config.producer(&name, None), config.model());
                (name, producer)
            }
        };
        let servers = AdminConfig { bootstrap_servers: config.bootstrap_servers(), ..AdminConfig::jepsen() };
        let admin = Admin::new(AdminConfig { client_id: format!("{name}.admin"), ..servers });
        Client {
            process,
            name,
            producer,
            reader: Reader::None,
            admin,
            config: config.clone(),
            replaced: None,
        }
    }

    /// Gives the consumer exactly these keys, or the topics that have them.
    pub(super) fn give(&mut self, keys: &[u32], sub_via: SubVia, from_start: bool) -> Result<(), Error> {
        let partitions: Vec<TopicPartition> = keys.iter().map(|key| partition_of(*key, true)).collect();
        let flaws = self.config.member_flaws;
        match sub_via {
            SubVia::Assign => {
                if !matches!(self.reader, Reader::Assigned(_)) {
                    self.reader =
                        Reader::Assigned(Box::new(Consumer::with_flaws(self.consumer_config(), flaws)));
                }
                let Reader::Assigned(consumer) = &mut self.reader else { return Ok(()) };
                consumer.assign(&partitions)?;
                if from_start { consumer.seek_to_beginning(&partitions) } else { Ok(()) }
            }
            SubVia::Subscribe => {
                let topics: BTreeSet<&str> =
                    partitions.iter().map(|partition| partition.topic.as_str()).collect();
                let topics: Vec<&str> = topics.into_iter().collect();
                match &mut self.reader {
                    Reader::Subscribed(member) => member.subscribe(&topics),
                    _ => {
                        let member = Member::new(self.consumer_config(), flaws, &topics)?;
                        self.reader = Reader::Subscribed(Box::new(member));
                    }
                }
                Ok(())
            }
        }
    }

    fn consumer_config(&self) -> client::ConsumerConfig {
        let name = format!("{}.consumer.{}", self.name, self.process);
        let defaults = self.config.consumer(&name, IsolationLevel::ReadCommitted);
        let queue = self.config.queue.as_ref();
        let max_poll_records = queue.and_then(|queue| queue.max_poll_records);
        let partition_assignment_strategy = match queue.is_some_and(|queue| queue.cooperative) {
            true => vec![Assignor::CooperativeSticky],
            false => defaults.partition_assignment_strategy,
        };
        client::ConsumerConfig {
            group_id: Some(GROUP.to_string()),
            max_poll_records: max_poll_records.unwrap_or(defaults.max_poll_records),
            partition_assignment_strategy,
            ..defaults
        }
    }

    /// Polls once: key, offset and value of each record. Nothing at once, if there is nothing to poll.
    pub(super) async fn poll(&mut self, timeout_ms: u64, log: &Log) -> Result<Vec<(u32, i64, u64)>, Error> {
        let records = match &mut self.reader {
            Reader::None => return Ok(Vec::new()),
            Reader::Assigned(consumer) => consumer.poll(timeout_ms).await?,
            Reader::Subscribed(member) => member.poll(timeout_ms).await?,
        };
        Ok(read(&records, log))
    }

    /// Goes back to an offset; a partition that the consumer has no more is left alone.
    pub(super) fn rewind(&mut self, key: u32, offset: i64) {
        let partition = partition_of(key, true);
        // "No current assignment" is ignored (jepsen.md A4).
        let _ = match &mut self.reader {
            Reader::None => Ok(()),
            Reader::Assigned(consumer) => consumer.seek(&partition, offset),
            Reader::Subscribed(member) => member.seek(&partition, offset),
        };
    }

    /// Keys that a rebalance gave or took since the last call.
    pub(super) fn take_rebalanced(&mut self) -> Vec<u32> {
        let Reader::Subscribed(member) = &mut self.reader else { return Vec::new() };
        let mut keys = BTreeSet::new();
        for rebalanced in member.take_rebalances() {
            let (Rebalanced::Assigned(moved) | Rebalanced::Revoked(moved) | Rebalanced::Lost(moved)) =
                rebalanced;
            keys.extend(moved.iter().map(key));
        }
        keys.into_iter().collect()
    }

    /// As whom it commits offsets with a transaction.
    pub(super) fn group_metadata(&self) -> Option<GroupMetadata> {
        match &self.reader {
            Reader::None => None,
            Reader::Assigned(consumer) => consumer.group_metadata(),
            Reader::Subscribed(member) => Some(member.group_metadata().clone()),
        }
    }

    /// `commitSync`, of one that subscribes and has no transactions.
    pub(super) async fn commit_sync(&mut self) -> Result<(), Error> {
        match &mut self.reader {
            Reader::Subscribed(member) => member.commit().await,
            Reader::None | Reader::Assigned(_) => Ok(()),
        }
    }

    /// Sends a record and waits for its acknowledgement: its offset, if the broker told one. The topic is created by
    /// whoever sends to it first.
    pub(super) async fn send(&mut self, key: u32, value: u64, log: &Log) -> Result<i64, Error> {
        let partition = partition_of(key, true);
        self.create_topic(&partition.topic, log).await?;
        let timestamp_ms = rt::time::wall_ms();
        let delivery =
            self.producer.send(payload::record(partition.clone(), key, value, timestamp_ms)).await?;
        let metadata = timeout(WAIT_LIMIT, delivery).await.map_err(|_| Error::Timeout("send"))??;
        assert_eq!(
            metadata.partition, partition,
            "a record is acknowledged for the partition it was sent to"
        );
        Ok(metadata.offset)
    }

    /// Creates a topic, if nobody has yet.
    pub(super) async fn create_topic(&mut self, topic: &str, log: &Log) -> Result<(), Error> {
        if !log.lock().queue.topics.insert(topic.to_string()) {
            return Ok(());
        }
        match self.admin.create_topic(topic, PARTITIONS, REPLICATION_FACTOR).await {
            Ok(()) | Err(Error::Kafka(TOPIC_ALREADY_EXISTS)) => Ok(()),
            Err(error) => {
                log.lock().queue.topics.remove(topic);
                Err(error)
            }
        }
    }

    /// Asks for the ends of logs.
    pub(super) async fn list_ends(&mut self, keys: &[u32]) -> Result<BTreeMap<u32, ListedOffset>, Error> {
        let partitions: Vec<TopicPartition> = keys.iter().map(|key| partition_of(*key, true)).collect();
        let asked = self.admin.list_offsets(&partitions, OffsetSpec::Latest, IsolationLevel::ReadUncommitted);
        let listed = timeout(WAIT_LIMIT, asked).await.map_err(|_| Error::Timeout("listOffsets"))??;
        Ok(listed.iter().map(|(partition, listed)| (key(partition), *listed)).collect())
    }

    /// Waits until another client has taken its place, if that is to happen.
    pub(super) async fn until_replaced(&mut self) {
        if let Some(replaced) = self.replaced.take() {
            // A worker that ends without another client has none to wait for.
            let _ = replaced.await;
        }
    }

    /// Closes everything; each part may take `limit_ms`.
    pub(super) async fn close(self, limit_ms: u64, log: &Log) {
        let limit = Duration::from_millis(limit_ms);
        in_time("producer", &self.name, limit, self.producer.close(limit), log).await;
        match self.reader {
            Reader::None => {}
            Reader::Assigned(consumer) => {
                in_time("consumer", &self.name, limit, consumer.close(limit), log).await
            }
            Reader::Subscribed(member) => {
                in_time("member", &self.name, limit, member.close(limit), log).await
            }
        }
    }
}

/// A close that takes longer than it may is noted and left alone, as Jepsen's killer thread does.
async fn in_time(what: &str, name: &str, limit: Duration, close: impl Future<Output = ()>, log: &Log) {
    let began = Instant::now();
    if timeout(limit + CLOSE_SLACK, close).await.is_err() {
        let (limit, began) = (limit.as_millis(), seconds(began.as_nanos()));
        log.lock()
            .queue
            .hung
            .push(format!("close({limit} ms) of the {what} of {name} at {began} did not come back"));
    }
}

/// A producer and what it is called: with the worker's own transactional id, or else with a fresh one, `jt<N>`, which is
/// also its name.
async fn initialised(worker: &str, process: i64, config: &Config, log: &Log) -> (String, Producer) {
    loop {
        let fresh = || {
            let mut facts = log.lock();
            facts.queue.transactional_ids += 1;
            format!("jt{}", facts.queue.transactional_ids)
        };
        let (name, id) = match config.transactional_ids.get(worker) {
            Some(id) => (format!("{id}.{process}"), id.clone()),
            None => {
                let id = fresh();
                (id.clone(), id)
            }
        };
        let deadline = Instant::now() + INIT_LIMIT;
        while Instant::now() < deadline {
            let producer = Producer::new(config.producer(&name, Some(&id)), config.model());
            match producer.init_transactions().await {
                Ok(()) => return (name, producer),
                Err(_) => sleep(INIT_RETRY).await,
            }
        }
    }
}

/// Key, offset and value of each record; what is damaged is noted.
pub(super) fn read(records: &[ConsumerRecord], log: &Log) -> Vec<(u32, i64, u64)> {
    let read = records.iter().map(|record| {
        let key = key(&record.partition);
        let (value, problem) = payload::read(key, record);
        if let Some(problem) = problem {
            log.lock().queue.damaged.push(problem);
        }
        (key, record.offset, value)
    });
    read.collect()
}

/// The key of a partition of the workload's own topics.
fn key(partition: &TopicPartition) -> u32 {
    let topic = partition.topic.strip_prefix('t').and_then(|number| number.parse::<u32>().ok());
    let half = u32::try_from(partition.partition).ok();
    topic.zip(half).map(|(topic, half)| topic * 2 + half).expect("only topics of the workload are read")
}
