//! A consumer with partitions assigned by hand: Java's classic `KafkaConsumer` without groups. A group member gives it
//! partitions and takes them away.
//!
//! Everything happens inside [`Consumer::poll`], on the caller's task. One fetch per node is in flight at a time. A
//! fetch that failed is not repeated before `retry.backoff.ms`; Java repeats it at once.
//!
//! * [`positions`]: where it stands
//! * [`filter`]: the `read_committed` filter
//! * [`requests`]: what goes over the wire

mod filter;
mod positions;
mod requests;

use self::positions::{Buffer, Position, Positions};
use self::requests::{Offsets, PartitionFetched};
use crate::codes;
use crate::config::{ConsumerConfig, IsolationLevel, OffsetReset};
use crate::error::Error;
use crate::network::{Answer, Completion, Network};
use crate::node::{Failure, NetworkConfig};
use crate::types::{ConsumerRecord, TopicPartition};
use rt::time::{Instant, sleep_until};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// `ListOffsets` timestamps with a meaning of their own.
const LATEST: i64 = -1;
const EARLIEST: i64 = -2;

/// What a request was for. Offsets (or timestamps) are kept to tell whether the answer is still wanted.
enum Tag {
    Fetch { node: i32, offsets: Offsets },
    ListOffsets { timestamps: Offsets },
}

/// A Kafka consumer. Dropping it closes its connections.
pub struct Consumer {
    config: ConsumerConfig,
    network: Network<Tag>,
    positions: Positions,
    /// Nodes with a fetch in flight.
    fetching: BTreeSet<i32>,
    /// What the next `poll` has to report.
    error: Option<Error>,
}

impl Consumer {
    /// A consumer without an assignment.
    pub fn new(config: ConsumerConfig) -> Self {
        Consumer {
            network: Network::new(network_config(&config)),
            config,
            positions: Positions::default(),
            fetching: BTreeSet::new(),
            error: None,
        }
    }

    /// Assigns exactly `partitions`. Those assigned before keep their positions; the others start as
    /// `auto.offset.reset` says.
    ///
    /// # Errors
    /// [`Error::NoOffset`] when a partition is new and the policy is `none`.
    pub fn assign(&mut self, partitions: &[TopicPartition]) -> Result<(), Error> {
        let start = match self.reset_position() {
            Some(start) => start,
            None if partitions.iter().all(|partition| self.positions.0.contains_key(partition)) => {
                Position::Reset { timestamp: EARLIEST }
            }
            None => return Err(Error::NoOffset),
        };
        self.positions.assign(partitions, start, Instant::now());
        partitions.iter().for_each(|partition| self.network.metadata.want(&partition.topic));
        Ok(())
    }

    /// Moves to the start of each partition's log when next polled.
    ///
    /// # Errors
    /// [`Error::IllegalState`] for a partition that is not assigned.
    pub fn seek_to_beginning(&mut self, partitions: &[TopicPartition]) -> Result<(), Error> {
        partitions
            .iter()
            .try_for_each(|partition| self.move_to(partition, Position::Reset { timestamp: EARLIEST }))
    }

    /// Moves to `offset`, which the next poll fetches.
    ///
    /// # Errors
    /// [`Error::IllegalState`] for a partition that is not assigned.
    pub fn seek(&mut self, partition: &TopicPartition, offset: i64) -> Result<(), Error> {
        self.move_to(partition, Position::At(offset))
    }

    /// The offset of the next record; `None` while that is not known, or for a partition that is not assigned.
    pub fn position(&self, partition: &TopicPartition) -> Option<i64> {
        match self.positions.0.get(partition)?.position {
            Position::At(offset) => Some(offset),
            Position::Reset { .. } => None,
        }
    }

    /// Waits up to `timeout_ms` for records, at most `max.poll.records`. May return none early, when a position moved
    /// past aborted records or markers.
    ///
    /// # Errors
    /// [`Error::NoOffset`] and [`Error::Corrupt`]; [`Error::Kafka`] for codes that no retry mends.
    pub async fn poll(&mut self, timeout_ms: u64) -> Result<Vec<ConsumerRecord>, Error> {
        let deadline = Instant::now() + Duration::from_millis(timeout_ms);
        loop {
            let now = Instant::now();
            self.step(now);
            if let Some(error) = self.error.take() {
                return Err(error);
            }
            let (records, moved) = self.positions.take(self.config.max_poll_records);
            if !records.is_empty() || moved {
                // The next fetch travels while the application works.
                self.send_requests(now);
                return Ok(records
                    .into_iter()
                    .map(|(partition, record)| self.hand_out(partition, record))
                    .collect());
            }
            if now >= deadline {
                return Ok(Vec::new());
            }
            // The step may have asked for new metadata, or sent what is refused at once.
            self.network.tick(now);
            if self.network.has_completions() {
                continue;
            }
            let due = self.next_due(now).map_or(deadline, |due| due.min(deadline));
            let event = tokio::select! {
                biased;
                event = self.network.signal() => Some(event),
                () = sleep_until(due) => None,
            };
            if let Some(event) = event {
                self.network.accept(event, Instant::now());
            }
        }
    }

    /// Adds a partition: at `offset`, or as `auto.offset.reset` says.
    pub(crate) fn give(&mut self, partition: &TopicPartition, offset: Option<i64>) {
        let Some(position) = offset.map(Position::At).or(self.reset_position()) else {
            self.error = Some(Error::NoOffset);
            return;
        };
        self.positions.add(partition, position, Instant::now());
        self.network.metadata.want(&partition.topic);
    }

    /// Takes partitions away, with what was fetched of them.
    pub(crate) fn take_from(&mut self, partitions: &BTreeSet<TopicPartition>) {
        self.positions.0.retain(|partition, _| !partitions.contains(partition));
    }

    fn hand_out(&self, partition: TopicPartition, record: filter::Fetched) -> ConsumerRecord {
        if rt::observe::listens() {
            let name = partition.to_string();
            let value = record.value.as_deref().unwrap_or_default();
            rt::event!(
                "consumer.polled",
                client = &self.config.client_id,
                partition = &name,
                offset = record.offset,
                value = value
            );
        }
        let filter::Fetched { offset, timestamp_ms, key, value } = record;
        ConsumerRecord { partition, offset, timestamp_ms, key, value }
    }

    fn move_to(&mut self, partition: &TopicPartition, position: Position) -> Result<(), Error> {
        match self.positions.seek(partition, position) {
            true => Ok(()),
            false => Err(Error::IllegalState("the partition is not assigned")),
        }
    }

    fn reset_position(&self) -> Option<Position> {
        match self.config.auto_offset_reset {
            OffsetReset::Earliest => Some(Position::Reset { timestamp: EARLIEST }),
            OffsetReset::Latest => Some(Position::Reset { timestamp: LATEST }),
            OffsetReset::None => None,
        }
    }

    fn next_due(&self, now: Instant) -> Option<Instant> {
        let retries = self.positions.0.values().map(|assigned| assigned.retry_at).filter(|due| *due > now);
        retries.chain(self.network.next_tick(now)).min()
    }

    fn step(&mut self, now: Instant) {
        self.network.tick(now);
        for Completion { tag, answer } in self.network.take_completions() {
            match tag {
                Tag::Fetch { node, offsets } => {
                    self.fetching.remove(&node);
                    self.fetched(offsets, answer, now);
                }
                Tag::ListOffsets { timestamps } => self.listed(timestamps, answer, now),
            }
        }
        self.send_requests(now);
    }

    /// Asks each leader for what is missing: positions first, then records.
    fn send_requests(&mut self, now: Instant) {
        let mut resets: BTreeMap<i32, Offsets> = BTreeMap::new();
        let mut fetches: BTreeMap<i32, Offsets> = BTreeMap::new();
        for (partition, assigned) in &self.positions.0 {
            if assigned.busy || assigned.buffer.is_some() || assigned.retry_at > now {
                continue;
            }
            let Some(leader) = self.network.metadata.leader(partition) else {
                self.network.metadata.request_update();
                continue;
            };
            let (to, value) = match assigned.position {
                Position::Reset { timestamp } => (&mut resets, timestamp),
                Position::At(offset) => (&mut fetches, offset),
            };
            to.entry(leader.node).or_default().insert(partition.clone(), value);
        }
        for (node, timestamps) in resets {
            if self.network.ready(node, now) {
                self.set_busy(&timestamps, true);
                let request = requests::list_offsets(&self.config, &self.network.metadata, &timestamps);
                let label = format!("ListOffsets client={}", self.config.client_id);
                self.network.send(node, &request, i16::MAX, Tag::ListOffsets { timestamps }, || label, now);
            }
        }
        for (node, offsets) in fetches {
            if !self.fetching.contains(&node) && self.network.ready(node, now) {
                self.set_busy(&offsets, true);
                self.fetching.insert(node);
                let (request, cap) = requests::fetch(&self.config, &self.network.metadata, &offsets);
                let label = format!("Fetch client={}", self.config.client_id);
                self.network.send(node, &request, cap, Tag::Fetch { node, offsets }, || label, now);
            }
        }
    }

    fn set_busy(&mut self, partitions: &Offsets, busy: bool) {
        for partition in partitions.keys() {
            if let Some(assigned) = self.positions.0.get_mut(partition) {
                assigned.busy = busy;
            }
        }
    }

    fn fetched(&mut self, offsets: Offsets, answer: Result<Answer, Failure>, now: Instant) {
        self.set_busy(&offsets, false);
        let answer = answer.and_then(|answer| requests::fetched(answer, &self.network.metadata));
        let (whole, mut parts) = match answer {
            Ok(answer) => answer,
            Err(failure) => return self.failed(&offsets, failure, now),
        };
        for (partition, offset) in offsets {
            let wanted = self.positions.0.get(&partition);
            // The application may have moved meanwhile; an answer for another offset is dropped.
            if wanted.is_none_or(|assigned| assigned.position != Position::At(offset)) {
                continue;
            }
            match parts.remove(&partition) {
                _ if whole != codes::NONE => self.refused(&partition, whole, now),
                Some(part) if part.code == codes::NONE => self.store(&partition, offset, part),
                Some(part) => self.refused(&partition, part.code, now),
                None => {}
            }
        }
    }

    fn store(&mut self, partition: &TopicPartition, position: i64, part: PartitionFetched) {
        let committed_only = self.config.isolation_level == IsolationLevel::ReadCommitted;
        match filter::filter(part.records, committed_only.then_some(part.aborted), position) {
            Ok(filtered) => {
                let buffer = Buffer { records: filtered.records.into(), next_offset: filtered.next_offset };
                if let Some(assigned) = self.positions.0.get_mut(partition) {
                    assigned.buffer = (buffer.next_offset != position).then_some(buffer);
                }
            }
            Err(filter::Corrupt) => self.error = Some(Error::Corrupt { offset: position }),
        }
    }

    fn listed(&mut self, timestamps: Offsets, answer: Result<Answer, Failure>, now: Instant) {
        self.set_busy(&timestamps, false);
        let parts = match answer.and_then(requests::listed) {
            Ok(parts) => parts,
            Err(failure) => return self.failed(&timestamps, failure, now),
        };
        for (partition, timestamp) in timestamps {
            let Some(assigned) = self.positions.0.get_mut(&partition) else { continue };
            if assigned.position != (Position::Reset { timestamp }) {
                continue;
            }
            match parts.get(&partition) {
                Some((codes::NONE, offset)) if *offset >= 0 => assigned.position = Position::At(*offset),
                Some((codes::NONE, _)) | None => self.refused(&partition, codes::OFFSET_NOT_AVAILABLE, now),
                Some((code, _)) => self.refused(&partition, *code, now),
            }
        }
    }

    fn failed(&mut self, partitions: &Offsets, failure: Failure, now: Instant) {
        if failure == Failure::UnsupportedVersion {
            self.error = Some(Error::Kafka(codes::UNSUPPORTED_VERSION));
        }
        for partition in partitions.keys() {
            self.retry_later(partition, now);
        }
        self.network.metadata.request_update();
    }

    /// What Java's `FetchCollector` does with each code.
    fn refused(&mut self, partition: &TopicPartition, code: i16, now: Instant) {
        self.retry_later(partition, now);
        if code == codes::OFFSET_OUT_OF_RANGE {
            match self.reset_position() {
                Some(reset) => drop(self.positions.seek(partition, reset)),
                None => self.error = Some(Error::NoOffset),
            }
        } else if codes::blames_metadata(code) || code == codes::OFFSET_NOT_AVAILABLE {
            self.network.metadata.request_update();
        } else if code != codes::UNKNOWN && !codes::is_retriable(code) || code == codes::CORRUPT_MESSAGE {
            self.error = Some(Error::Kafka(code));
        }
    }

    fn retry_later(&mut self, partition: &TopicPartition, now: Instant) {
        if let Some(assigned) = self.positions.0.get_mut(partition) {
            assigned.retry_at = now + Duration::from_millis(self.config.retry_backoff_ms);
        }
    }
}

/// Java's consumer has no limit that its one fetch a node could reach.
const MAX_IN_FLIGHT: usize = 100;

pub(crate) fn network_config(config: &ConsumerConfig) -> NetworkConfig {
    NetworkConfig {
        client_id: config.client_id.clone(),
        bootstrap_servers: config.bootstrap_servers.clone(),
        request_timeout: Duration::from_millis(config.request_timeout_ms),
        reconnect_backoff: Duration::from_millis(config.reconnect_backoff_ms),
        reconnect_backoff_max: Duration::from_millis(config.reconnect_backoff_max_ms),
        setup_timeout: Duration::from_millis(config.socket_connection_setup_timeout_ms),
        setup_timeout_max: Duration::from_millis(config.socket_connection_setup_timeout_max_ms),
        metadata_max_age: Duration::from_millis(config.metadata_max_age_ms),
        retry_backoff: Duration::from_millis(config.retry_backoff_ms),
        max_in_flight: MAX_IN_FLIGHT,
    }
}
