//! A group member: Java's classic `KafkaConsumer` with `subscribe`, under the classic group protocol.
//!
//! [`Member`] is the application's side (Java's `ConsumerCoordinator`). A task does the talking. They share [`core::Core`], which is plain data and never waits. Records come from a
//! [`Consumer`](crate::Consumer), to which partitions are given and from which they are taken.
//!
//! * [`rebalance`]: what `poll` does to the assignment
//! * [`membership`], [`reply`]: where a member stands, and what answers change
//! * [`heartbeat`]: its timers
//! * [`assignor`], [`range`], [`sticky`]: who gets what, when this member leads
//! * [`subscription`]: what members tell each other
//! * [`core`]: the shared state
//! * [`requests`], [`task`]: what goes over the wire, and the loop
//!
//! The rebalance protocol is cooperative if every configured assignor knows it (KIP-429), else eager. Limits: topics by
//! name, no patterns; no rebalance listener: what happens to partitions is told by events, and by
//! [`Member::take_rebalances`].

mod assignor;
mod core;
mod heartbeat;
mod membership;
mod range;
mod rebalance;
mod reply;
pub(crate) mod requests;
mod sticky;
mod subscription;
mod task;

pub use assignor::Assignor;

use self::core::{CommitError, Committed, Core};
pub(crate) use self::membership::Generation;
use self::rebalance::Preparing;
use self::task::Task;
use crate::config::ConsumerConfig;
use crate::consumer::Consumer;
use crate::error::Error;
use crate::flaws::Flaws;
use crate::types::{ConsumerRecord, TopicPartition};
use rt::time::{Instant, sleep_until};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::{Notify, oneshot};

/// What the application and the task share.
struct Shared {
    core: Mutex<Core>,
    /// Wakes the task.
    wake: Notify,
    /// Wakes the application in `poll`.
    changed: Notify,
}

impl Shared {
    fn core(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// What a rebalance did to a member's partitions, as Java's `ConsumerRebalanceListener` is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rebalanced {
    /// It has these from now on, beside those it kept.
    Assigned(BTreeSet<TopicPartition>),
    /// It gave these up.
    Revoked(BTreeSet<TopicPartition>),
    /// Others may have these already: it was put out of the group.
    Lost(BTreeSet<TopicPartition>),
}

/// An entry of a member's rebalance log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedRebalance {
    /// The poll that it fell into, counted from 1; 0 before the first. What `close` gives up falls into the last.
    pub poll: u64,
    /// What happened.
    pub what: Rebalanced,
}

/// As whom a member commits (Java's `ConsumerGroupMetadata`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMetadata {
    /// `group.id`.
    pub group_id: String,
    /// Its generation when it got its partitions; -1 before.
    pub generation_id: i32,
    /// Its member id then; empty before.
    pub member_id: String,
    /// `group.instance.id`.
    pub group_instance_id: Option<String>,
}

impl GroupMetadata {
    /// As the group alone, without a member.
    pub fn of_group(group_id: &str) -> Self {
        GroupMetadata {
            group_id: group_id.to_string(),
            generation_id: -1,
            member_id: String::new(),
            group_instance_id: None,
        }
    }
}

/// A member of a consumer group. Dropping it closes its connections, without a word to the group.
pub struct Member {
    config: ConsumerConfig,
    flaws: Flaws,
    consumer: Consumer,
    shared: Arc<Shared>,
    task: rt::JoinHandle<()>,
    cooperative: bool,
    owned: BTreeSet<TopicPartition>,
    /// Assigned, and not started yet: the committed offset is asked for.
    starting: BTreeSet<TopicPartition>,
    metadata: GroupMetadata,
    next_auto_commit: Instant,
    auto_commit: Option<oneshot::Receiver<Committed>>,
    preparing: Option<Preparing>,
    polls: u64,
    rebalances: Vec<LoggedRebalance>,
    /// Where it stood on partitions that it has no more; only a flawed member remembers.
    left_at: BTreeMap<TopicPartition, i64>,
}

impl Member {
    /// A member that subscribes to `topics`, and its task. Nothing is sent before the first poll.
    ///
    /// # Errors
    /// [`Error::IllegalState`] without `group.id` or an assignor.
    pub fn new(config: ConsumerConfig, flaws: Flaws, topics: &[&str]) -> Result<Self, Error> {
        let Some(group_id) = config.group_id.clone() else {
            return Err(Error::IllegalState("a member needs a group.id"));
        };
        if config.partition_assignment_strategy.is_empty() {
            return Err(Error::IllegalState("a member needs a partition.assignment.strategy"));
        }
        let now = Instant::now();
        let topics = topics.iter().map(ToString::to_string).collect();
        let shared = Arc::new(Shared {
            core: Mutex::new(Core::new(config.clone(), topics, now)),
            wake: Notify::new(),
            changed: Notify::new(),
        });
        Ok(Member {
            task: rt::spawn("client.group", Task::new(shared.clone()).run()),
            shared,
            cooperative: config
                .partition_assignment_strategy
                .iter()
                .all(|assignor| assignor.is_cooperative()),
            consumer: Consumer::of_member(config.clone()),
            owned: BTreeSet::new(),
            starting: BTreeSet::new(),
            metadata: GroupMetadata {
                group_id,
                generation_id: Generation::NONE.id,
                member_id: String::new(),
                group_instance_id: config.group_instance_id.clone(),
            },
            next_auto_commit: now + Duration::from_millis(config.auto_commit_interval_ms),
            auto_commit: None,
            preparing: None,
            polls: 0,
            rebalances: Vec::new(),
            left_at: BTreeMap::new(),
            flaws,
            config,
        })
    }

    /// Keeps the membership going, and waits up to `timeout_ms` for records, at most `max.poll.records`.
    ///
    /// # Errors
    /// As [`Consumer::poll`]; [`Error::Kafka`] when the group refuses the member for good, where 82 is
    /// `FENCED_INSTANCE_ID`.
    pub async fn poll(&mut self, timeout_ms: u64) -> Result<Vec<ConsumerRecord>, Error> {
        let deadline = Instant::now() + Duration::from_millis(timeout_ms);
        self.polls += 1;
        for turn in 0u64.. {
            let now = Instant::now();
            let due = self.coordinate(now)?.unwrap_or(deadline).min(deadline);
            self.shared.wake.notify_one();
            if now >= deadline && turn > 0 {
                break;
            }
            // Rounded up: a wait of no length would come back at once, again and again.
            let wait_ms = (due.as_nanos().saturating_sub(now.as_nanos())).div_ceil(1_000_000);
            // Between the auto-commit and the end of a revocation nothing is handed out (KAFKA-14196).
            let held = self.preparing.is_some() && !self.cooperative;
            let polled = tokio::select! {
                biased;
                () = self.shared.changed.notified() => None,
                polled = self.consumer.poll(wait_ms), if !held => Some(polled),
                () = sleep_until(due) => None,
            };
            match polled {
                Some(Ok(records)) if records.is_empty() && Instant::now() < deadline => {}
                Some(polled) => return polled,
                None => {}
            }
        }
        Ok(Vec::new())
    }

    /// Commits the positions of all partitions, synchronously: retries what is worth it for `default.api.timeout.ms`.
    ///
    /// # Errors
    /// [`Error::CommitFailed`] or [`Error::RebalanceInProgress`] when another may have the partitions;
    /// [`Error::Timeout`], after which an attempt may still take effect.
    pub async fn commit(&mut self) -> Result<(), Error> {
        self.commit_offsets(self.positions()).await
    }

    /// Commits `offsets`, as [`Member::commit`] does.
    ///
    /// # Errors
    /// As [`Member::commit`].
    pub async fn commit_offsets(&mut self, offsets: BTreeMap<TopicPartition, i64>) -> Result<(), Error> {
        let deadline = Instant::now() + Duration::from_millis(self.config.default_api_timeout_ms);
        self.commit_by(offsets, Some(deadline)).await
    }

    /// The offset of the next record; `None` while that is not known, or for a partition that it does not have.
    pub fn position(&self, partition: &TopicPartition) -> Option<i64> {
        self.consumer.position(partition)
    }

    /// The position of every partition that has one: the offset of the record after the last that was handed out.
    pub fn positions(&self) -> BTreeMap<TopicPartition, i64> {
        let position =
            |partition: &TopicPartition| Some((partition.clone(), self.consumer.position(partition)?));
        self.owned.iter().filter_map(position).collect()
    }

    /// As whom it commits.
    pub fn group_metadata(&self) -> &GroupMetadata {
        &self.metadata
    }

    /// What happened to its partitions since the last call.
    pub fn take_rebalances(&mut self) -> Vec<Rebalanced> {
        self.take_rebalance_log().into_iter().map(|logged| logged.what).collect()
    }

    /// What happened to its partitions since the last call of this or of [`Member::take_rebalances`], and in which poll.
    pub fn take_rebalance_log(&mut self) -> Vec<LoggedRebalance> {
        std::mem::take(&mut self.rebalances)
    }

    /// The number of polls so far.
    pub fn polls(&self) -> u64 {
        self.polls
    }

    /// Subscribes to exactly `topics` from now on. A member that joined with others joins again when it is next polled.
    pub fn subscribe(&mut self, topics: &[&str]) {
        self.shared.core().topics = topics.iter().map(ToString::to_string).collect();
        self.shared.wake.notify_one();
    }

    /// Moves to `offset`, which the next poll fetches.
    ///
    /// # Errors
    /// [`Error::IllegalState`] for a partition that the member does not have.
    pub fn seek(&mut self, partition: &TopicPartition, offset: i64) -> Result<(), Error> {
        if !self.owned.contains(partition) {
            return Err(Error::IllegalState("the partition is not assigned"));
        }
        // The committed offset is of no interest any more.
        self.starting.remove(partition);
        self.consumer.give(partition, Some(offset));
        self.tell("member.seeks", &BTreeSet::from([partition.clone()]));
        Ok(())
    }

    /// Goes back to the committed offset of every partition, as an application does after it aborted a transaction.
    pub fn seek_to_committed(&mut self) {
        self.tell("member.seeks", &self.owned);
        self.starting = self.owned.clone();
        self.consumer.take_from(&self.owned);
        self.shared.core().want(self.starting.clone());
        self.shared.wake.notify_one();
    }

    /// Commits what auto-commit would, gives the partitions up, leaves the group, and closes the connections; waits up
    /// to `timeout` for that.
    pub async fn close(mut self, timeout: Duration) {
        let deadline = self.flaws.close_deadline(timeout);
        self.shared.core().hangs = deadline.is_none();
        if self.config.enable_auto_commit {
            // As in Java, it is closed whatever became of the commit.
            let _ = self.commit_by(self.positions(), deadline).await;
        }
        let rebalancing = self.shared.core().membership.is_rebalancing();
        self.give_up(self.owned.clone(), rebalancing);
        {
            let mut core = self.shared.core();
            core.membership.leave();
            core.closing = true;
        }
        self.shared.wake.notify_one();
        tokio::select! {
            biased;
            // The task has ended, or was ended: either way nothing is left to wait for.
            _ = &mut self.task => {}
            () = passes(deadline) => {}
        }
    }

    async fn commit_by(
        &mut self,
        offsets: BTreeMap<TopicPartition, i64>,
        deadline: Option<Instant>,
    ) -> Result<(), Error> {
        if offsets.is_empty() {
            return Ok(());
        }
        loop {
            let ended = self.shared.core().commit(offsets.clone());
            self.shared.wake.notify_one();
            let ended = tokio::select! {
                biased;
                ended = ended => ended,
                () = passes(deadline) => return Err(Error::Timeout("commit")),
            };
            match ended {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(CommitError::Final(error))) => return Err(error),
                Ok(Err(CommitError::Retriable(_))) => {}
                Err(_) => return Err(Error::Closed),
            }
            let rested = Instant::now() + Duration::from_millis(self.config.retry_backoff_ms);
            sleep_until(deadline.map_or(rested, |deadline| deadline.min(rested))).await;
        }
    }
}

/// Waits until `deadline`, or for ever without one.
async fn passes(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.shared.core().dropped = true;
        self.shared.wake.notify_one();
    }
}
