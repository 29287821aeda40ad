//! A consumer with partitions assigned by hand: Java's classic `KafkaConsumer` with `assign`. A group member gives it
//! partitions and takes them away.
//!
//! Everything happens inside its calls, on the caller's task. One fetch per node is in flight at a time. A
//! fetch that failed is not repeated before `retry.backoff.ms`; Java repeats it at once.
//!
//! * [`positions`]: where it stands
//! * [`fetching`]: fetches, position lookups, and what their answers change
//! * [`filter`]: the `read_committed` filter
//! * [`coordinator`], [`commits`]: what it commits and asks for, with a `group.id`
//! * [`requests`]: what goes over the wire
//!
//! Whatever moves a position, but for handing records out, is told by the event `consumer.moved`: `seek`,
//! `seek-to-beginning`, `committed` (the group's offset was found), `out-of-range` and `no-offset` (`auto.offset.reset`
//! says where to go on), `earliest` and `latest` (`ListOffsets` has said where that is).

mod commits;
mod coordinator;
mod fetching;
mod filter;
mod positions;
mod requests;

use self::coordinator::{Coordinator, GroupTag};
use self::positions::{Position, Positions};
use self::requests::Offsets;
use crate::config::ConsumerConfig;
use crate::error::Error;
use crate::flaws::Flaws;
use crate::group::GroupMetadata;
use crate::network::{Completion, Network};
use crate::node::NetworkConfig;
use crate::polled;
use crate::types::{ConsumerRecord, TopicPartition};
use rt::time::{Instant, sleep_until};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// `ListOffsets` asks for the start of the log by this timestamp.
const EARLIEST: i64 = -2;

/// What a request was for. Offsets (or timestamps) are kept to tell whether the answer is still wanted.
enum Tag {
    Fetch { node: i32, offsets: Offsets },
    ListOffsets { timestamps: Offsets },
    Group(GroupTag),
}

/// A Kafka consumer. Dropping it closes its connections.
pub struct Consumer {
    config: ConsumerConfig,
    flaws: Flaws,
    network: Network<Tag>,
    positions: Positions,
    /// Nodes with a fetch in flight.
    fetching: BTreeSet<i32>,
    /// With a `group.id`, unless a member does that part.
    coordinator: Option<Coordinator>,
    /// What the next `poll` has to report.
    error: Option<Error>,
}

impl Consumer {
    /// A consumer without an assignment. With a `group.id` its partitions start at the group's committed offsets, and
    /// it can commit.
    pub fn new(config: ConsumerConfig) -> Self {
        Self::with_flaws(config, Flaws::default())
    }

    /// A consumer that gets `flaws` wrong.
    pub fn with_flaws(config: ConsumerConfig, flaws: Flaws) -> Self {
        let coordinator = config.group_id.is_some().then(|| Coordinator::new(&config, Instant::now()));
        Consumer { flaws, coordinator, ..Self::of_member(config) }
    }

    /// The part of a member that reads.
    pub(crate) fn of_member(config: ConsumerConfig) -> Self {
        Consumer {
            network: Network::new(network_config(&config)),
            config,
            flaws: Flaws::default(),
            positions: Positions::default(),
            fetching: BTreeSet::new(),
            coordinator: None,
            error: None,
        }
    }

    /// Assigns exactly `partitions`. Those assigned before keep their positions; the others start at the committed offset
    /// if there is a `group.id`, and else as `auto.offset.reset` says.
    ///
    /// # Errors
    /// [`Error::NoOffset`] when a partition is new, there is no `group.id`, and the policy is `none`.
    pub fn assign(&mut self, partitions: &[TopicPartition]) -> Result<(), Error> {
        let start = match (&self.coordinator, self.reset_position()) {
            (Some(_), _) => Position::Committed,
            (None, Some(start)) => start,
            (None, None) if partitions.iter().all(|partition| self.positions.0.contains_key(partition)) => {
                Position::Committed
            }
            (None, None) => return Err(Error::NoOffset),
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
        partitions.iter().try_for_each(|partition| {
            self.move_to(partition, Position::Reset { timestamp: EARLIEST }, "seek-to-beginning")
        })
    }

    /// Moves to `offset`, which the next poll fetches.
    ///
    /// # Errors
    /// [`Error::IllegalState`] for a partition that is not assigned.
    pub fn seek(&mut self, partition: &TopicPartition, offset: i64) -> Result<(), Error> {
        self.move_to(partition, Position::At(offset), "seek")
    }

    /// The offset of the next record; `None` while that is not known, or for a partition that is not assigned.
    pub fn position(&self, partition: &TopicPartition) -> Option<i64> {
        self.positions.0.get(partition)?.position.known()
    }

    /// The position of every partition that has one.
    pub fn positions(&self) -> BTreeMap<TopicPartition, i64> {
        let known = |(partition, assigned): (&TopicPartition, &positions::Assigned)| {
            Some((partition.clone(), assigned.position.known()?))
        };
        self.positions.0.iter().filter_map(known).collect()
    }

    /// The offset of the next record, found out if need be: Java's `position(partition, timeout)`.
    ///
    /// # Errors
    /// [`Error::IllegalState`] for a partition that is not assigned; [`Error::Timeout`]; [`Error::NoOffset`].
    pub async fn find_position(&mut self, partition: &TopicPartition, timeout_ms: u64) -> Result<i64, Error> {
        if !self.positions.0.contains_key(partition) {
            return Err(NOT_ASSIGNED);
        }
        let deadline = Instant::now() + Duration::from_millis(timeout_ms);
        let found = self.drive(Some(deadline), false, |this, _| match this.error.take() {
            Some(error) => Some(Err(error)),
            None => this.position(partition).map(Ok),
        });
        found.await.unwrap_or(Err(Error::Timeout("position")))
    }

    /// Waits up to `timeout_ms` for records, at most `max.poll.records`. May return none early, when a position moved
    /// past aborted records or markers.
    ///
    /// # Errors
    /// [`Error::NoOffset`] and [`Error::Corrupt`]; [`Error::Kafka`] for codes that no retry mends.
    pub async fn poll(&mut self, timeout_ms: u64) -> Result<Vec<ConsumerRecord>, Error> {
        let deadline = Instant::now() + Duration::from_millis(timeout_ms);
        let polled = self.drive(Some(deadline), true, |this, now| {
            if let Some(error) = this.error.take() {
                return Some(Err(error));
            }
            let (records, moved) = this.positions.take(this.config.max_poll_records);
            (!records.is_empty() || moved).then(|| {
                // The next fetch travels while the application works.
                this.send_requests(now, true);
                this.tell_polled(&records);
                Ok(records.into_iter().map(|(partition, record)| handed_out(partition, record)).collect())
            })
        });
        polled.await.unwrap_or_else(|| Ok(Vec::new()))
    }

    /// As whom it commits: the group alone, without a member.
    pub fn group_metadata(&self) -> Option<GroupMetadata> {
        let group = GroupMetadata::of_group(self.config.group_id.as_deref()?);
        Some(GroupMetadata { group_instance_id: self.config.group_instance_id.clone(), ..group })
    }

    /// Commits what auto-commit would and closes the connections, within `timeout`.
    pub async fn close(mut self, timeout: Duration) {
        let deadline = self.flaws.close_deadline(timeout);
        if self.config.enable_auto_commit && self.coordinator.is_some() {
            // As in Java, it is closed whatever became of the commit.
            let _ = self.commit_by(self.positions(), deadline).await;
        }
        if deadline.is_none() {
            self.network.wait_for_ever(Instant::now());
            self.drive(None, false, |this, _| (!this.network.is_any_busy()).then_some(())).await;
        }
    }

    /// Adds a partition: at `offset`, or as `auto.offset.reset` says.
    pub(crate) fn give(&mut self, partition: &TopicPartition, offset: Option<i64>) {
        let Some(position) = offset.map(Position::At).or(self.reset_position()) else {
            self.error = Some(Error::NoOffset);
            return;
        };
        if offset.is_none() {
            self.tell_moved(partition, "no-offset", None, None);
        }
        self.positions.add(partition, position, Instant::now());
        self.network.metadata.want(&partition.topic);
    }

    /// Takes partitions away, with what was fetched of them.
    pub(crate) fn take_from(&mut self, partitions: &BTreeSet<TopicPartition>) {
        self.positions.0.retain(|partition, _| !partitions.contains(partition));
    }

    /// Goes on until `done` yields, or until `deadline`, then yields nothing. Records are fetched only with `fetch`.
    async fn drive<T>(
        &mut self,
        deadline: Option<Instant>,
        fetch: bool,
        mut done: impl FnMut(&mut Self, Instant) -> Option<T>,
    ) -> Option<T> {
        loop {
            let now = Instant::now();
            self.step(now, fetch);
            if let Some(out) = done(self, now) {
                return Some(out);
            }
            if deadline.is_some_and(|deadline| now >= deadline) {
                return None;
            }
            // The step may have asked for new metadata, or sent what is refused at once.
            if self.network.tick(now) || self.network.has_completions() {
                continue;
            }
            let due = self.next_due(now).into_iter().chain(deadline).min().unwrap_or(now + IDLE);
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

    fn step(&mut self, now: Instant, fetch: bool) {
        self.network.tick(now);
        for Completion { tag, answer } in self.network.take_completions() {
            match tag {
                Tag::Fetch { node, offsets } => {
                    self.fetching.remove(&node);
                    self.fetched(offsets, answer, now);
                }
                Tag::ListOffsets { timestamps } => self.listed(timestamps, answer, now),
                Tag::Group(tag) => self.group_answered(tag, answer, now),
            }
        }
        if fetch {
            self.commit_by_itself(now);
        }
        self.coordinate(now);
        self.send_requests(now, fetch);
    }

    fn next_due(&self, now: Instant) -> Option<Instant> {
        let retries = self.positions.0.values().map(|assigned| assigned.retry_at);
        let group = self.coordinator.iter().flat_map(Coordinator::next_due);
        let own = retries.chain(group).filter(|due| *due > now);
        own.chain(self.network.next_tick(now)).min()
    }

    fn tell_polled(&self, records: &[(TopicPartition, filter::Fetched)]) {
        if rt::observe::listens() {
            for of_partition in records.chunk_by(|(one, _), (other, _)| one == other) {
                let records = of_partition.iter();
                let records =
                    records.map(|(_, record)| (record.offset, record.value.as_deref().unwrap_or_default()));
                polled::tell(&self.config.client_id, &of_partition[0].0, records);
            }
        }
    }

    fn move_to(
        &mut self,
        partition: &TopicPartition,
        position: Position,
        why: &'static str,
    ) -> Result<(), Error> {
        let from = self.position(partition);
        if !self.positions.seek(partition, position) {
            return Err(NOT_ASSIGNED);
        }
        self.tell_moved(partition, why, from, position.known());
        Ok(())
    }

    /// `from` and `to` are -1 where the offset is not known.
    pub(crate) fn tell_moved(
        &self,
        partition: &TopicPartition,
        why: &'static str,
        from: Option<i64>,
        to: Option<i64>,
    ) {
        rt::event!(
            "consumer.moved",
            client = &self.config.client_id,
            partition = &partition.to_string(),
            why = why,
            from = from.unwrap_or(-1),
            to = to.unwrap_or(-1)
        );
    }
}

fn handed_out(partition: TopicPartition, record: filter::Fetched) -> ConsumerRecord {
    let filter::Fetched { offset, timestamp_ms, key, value, headers } = record;
    ConsumerRecord { partition, offset, timestamp_ms, key, value, headers }
}

const NOT_ASSIGNED: Error = Error::IllegalState("the partition is not assigned");

/// How long it waits when nothing is due: metadata is always due some day, so this is never the reason to wake.
const IDLE: Duration = Duration::from_secs(3_600);

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
