//! The clients of one process: a producer, a consumer, an admin client. They are given up together.

use super::payload;
use super::settings::{Queue, SubVia};
use crate::config::{Config, key_of, partition_of};
use crate::log::Log;
use client::{
    Admin, AdminConfig, Consumer, ConsumerRecord, Error, GroupMetadata, IsolationLevel, ListedOffset, Member, OffsetSpec,
    Producer, Rebalanced, TopicPartition,
};
use rt::time::{Instant, sleep, timeout};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

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
    /// minute under another id.
    pub(super) async fn open(worker: &str, config: &Config, queue: &Queue, log: &Log) -> Client {
        let process = log.new_process();
        let (name, producer) = match queue.txn {
            true => initialised(config, log).await,
            false => {
                let name = format!("{worker}.{process}");
                let producer = Producer::new(config.producer(&name, None), config.client.model());
                (name, producer)
            }
        };
        let servers = AdminConfig { bootstrap_servers: config.bootstrap_servers(), ..AdminConfig::jepsen() };
        let admin = Admin::new(AdminConfig { client_id: format!("{name}.admin"), ..servers });
        Client { process, name, producer, reader: Reader::None, admin, config: config.clone() }
    }

    /// Gives the consumer exactly these keys, or the topics that have them.
    pub(super) fn give(&mut self, keys: &[u32], sub_via: SubVia, from_start: bool) -> Result<(), Error> {
        let partitions: Vec<TopicPartition> = keys.iter().map(|key| partition_of(*key, true)).collect();
        match sub_via {
            SubVia::Assign => {
                if !matches!(self.reader, Reader::Assigned(_)) {
                    self.reader = Reader::Assigned(Box::new(Consumer::new(self.consumer_config())));
                }
                let Reader::Assigned(consumer) = &mut self.reader else { return Ok(()) };
                consumer.assign(&partitions)?;
                if from_start { consumer.seek_to_beginning(&partitions) } else { Ok(()) }
            }
            SubVia::Subscribe => {
                let topics: BTreeSet<&str> = partitions.iter().map(|partition| partition.topic.as_str()).collect();
                let topics: Vec<&str> = topics.into_iter().collect();
                match &mut self.reader {
                    Reader::Subscribed(member) => member.subscribe(&topics),
                    _ => {
                        let member = Member::new(self.consumer_config(), self.config.member_flaws, &topics)?;
                        self.reader = Reader::Subscribed(Box::new(member));
                    }
                }
                Ok(())
            }
        }
    }

    fn consumer_config(&self) -> client::ConsumerConfig {
        let name = format!("{}.consumer.{}", self.name, self.process);
        client::ConsumerConfig {
            group_id: Some(GROUP.to_string()),
            ..self.config.consumer(&name, IsolationLevel::ReadCommitted)
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
            let (Rebalanced::Assigned(moved) | Rebalanced::Revoked(moved) | Rebalanced::Lost(moved)) = rebalanced;
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
        let delivery = self.producer.send(payload::record(partition.clone(), key, value, timestamp_ms)).await?;
        let metadata = timeout(WAIT_LIMIT, delivery).await.map_err(|_| Error::Timeout("send"))??;
        assert_eq!(metadata.partition, partition, "a record is acknowledged for the partition it was sent to");
        Ok(metadata.offset)
    }

    async fn create_topic(&mut self, topic: &str, log: &Log) -> Result<(), Error> {
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

    /// Closes everything without waiting, as Jepsen's clients do.
    pub(super) async fn close(self) {
        self.producer.close(Duration::ZERO).await;
        match self.reader {
            Reader::None => {}
            Reader::Assigned(consumer) => consumer.close(Duration::ZERO).await,
            Reader::Subscribed(member) => member.close(Duration::ZERO).await,
        }
    }
}

/// A producer with a fresh transactional id, `jt<N>`, and that id.
async fn initialised(config: &Config, log: &Log) -> (String, Producer) {
    loop {
        let name = {
            let mut facts = log.lock();
            facts.queue.transactional_ids += 1;
            format!("jt{}", facts.queue.transactional_ids)
        };
        let deadline = Instant::now() + INIT_LIMIT;
        while Instant::now() < deadline {
            let producer = Producer::new(config.producer(&name, Some(&name)), config.client.model());
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
        log.lock().queue.damaged.extend(problem);
        (key, record.offset, value)
    });
    read.collect()
}

/// The key of a partition of the workload's own topics.
fn key(partition: &TopicPartition) -> u32 {
    key_of(&partition.to_string()).and_then(|key| u32::try_from(key).ok()).expect("only topics of the workload are read")
}
