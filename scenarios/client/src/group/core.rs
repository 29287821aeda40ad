//! What the application and the task of a member share: plain data that never waits.

use super::assignor::{Assignor, Joined};
use super::membership::{self, Generation, Membership, Rebalance};
use super::subscription::{Subscription, encode_assignment};
use crate::codes;
use crate::config::ConsumerConfig;
use crate::error::Error;
use crate::types::TopicPartition;
use bytes::Bytes;
use rt::time::Instant;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;
use tokio::sync::oneshot;

/// The end of one attempt to commit.
pub(crate) type Committed = Result<(), CommitError>;

/// Why an attempt to commit failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CommitError {
    /// Worth another attempt.
    Retriable(Error),
    Final(Error),
}

/// One attempt to commit.
#[derive(Debug)]
pub(crate) struct Commit {
    /// Counts this member's attempts, from 1.
    pub(crate) number: u64,
    pub(crate) offsets: BTreeMap<TopicPartition, i64>,
    pub(crate) end: oneshot::Sender<Committed>,
}

/// A call of the task.
#[derive(Debug)]
pub(crate) enum Call {
    Membership(membership::Call),
    Commit(Commit),
    /// Committed offsets, by the number of the request.
    Offsets(u64, BTreeSet<TopicPartition>),
}

/// The state of a member.
pub(crate) struct Core {
    pub(crate) config: ConsumerConfig,
    pub(crate) membership: Membership,
    /// Topics subscribed to.
    pub(crate) topics: BTreeSet<String>,
    /// Those that it said it subscribes to when it joined last (Java's `joinedSubscription`).
    joined_with: Option<BTreeSet<String>>,
    /// Partitions that the application has, as the next `JoinGroup` says it.
    pub(crate) owned: BTreeSet<TopicPartition>,
    /// Those who joined, if this member leads and has not assigned yet.
    pub(crate) joined: Vec<Joined>,
    /// How many partitions each topic had when this member assigned them last.
    assigned_of: BTreeMap<String, i32>,
    commits: VecDeque<Commit>,
    attempts: u64,
    /// Partitions whose committed offset is wanted, and what was found.
    wanted: BTreeSet<TopicPartition>,
    asked: Option<u64>,
    ask_at: Instant,
    asks: u64,
    pub(crate) found: BTreeMap<TopicPartition, Option<i64>>,
    /// The application has begun to use the member.
    pub(crate) active: bool,
    /// Calls that are left go out, then the task ends.
    pub(crate) closing: bool,
    /// While it closes, it waits for answers without limit.
    pub(crate) hangs: bool,
    /// The task ends at once.
    pub(crate) dropped: bool,
}

impl Core {
    pub(crate) fn new(config: ConsumerConfig, topics: BTreeSet<String>, now: Instant) -> Self {
        Core {
            membership: Membership::new(&config, now),
            config,
            topics,
            joined_with: None,
            owned: BTreeSet::new(),
            joined: Vec::new(),
            assigned_of: BTreeMap::new(),
            commits: VecDeque::new(),
            attempts: 0,
            wanted: BTreeSet::new(),
            asked: None,
            ask_at: now,
            asks: 0,
            found: BTreeMap::new(),
            active: false,
            closing: false,
            hangs: false,
            dropped: false,
        }
    }

    /// Queues an attempt to commit `offsets`.
    pub(crate) fn commit(&mut self, offsets: BTreeMap<TopicPartition, i64>) -> oneshot::Receiver<Committed> {
        let (end, ended) = oneshot::channel();
        self.attempts += 1;
        self.commits.push_back(Commit { number: self.attempts, offsets, end });
        ended
    }

    /// Asks for the committed offsets of exactly these from now on. What was found before is of no use: it may be older
    /// than the assignment.
    pub(crate) fn want(&mut self, partitions: BTreeSet<TopicPartition>) {
        self.wanted = partitions;
        self.asked = None;
        self.found.clear();
    }

    /// What this member says of itself under each of its assignors, most wanted first (`metadata`).
    pub(crate) fn protocols(&self) -> Vec<(Assignor, Bytes)> {
        let generation = self.membership.generation.id;
        let subscription =
            Subscription { topics: self.topics.clone(), owned: self.owned.clone(), generation };
        let assignors = self.config.partition_assignment_strategy.iter();
        assignors.map(|assignor| (*assignor, subscription.encode(assignor.user_data(generation)))).collect()
    }

    /// Topics that whoever joined subscribes to.
    pub(crate) fn topics_of_all(&self) -> BTreeSet<String> {
        let joined = self.joined.iter().flat_map(|member| &member.subscription.topics);
        joined.chain(&self.topics).cloned().collect()
    }

    /// Assigns, as the leader: who gets what of topics that have `partitions` (`onLeaderElected`).
    pub(crate) fn assign(&mut self, partitions: &BTreeMap<String, i32>) {
        let protocol = self.membership.generation.protocol.as_deref();
        let assignors = self.config.partition_assignment_strategy.iter();
        let Some(assignor) = assignors.copied().find(|assignor| Some(assignor.name()) == protocol) else {
            // The coordinator chose a protocol that this member did not offer.
            return self.membership.fail(Error::Kafka(codes::INCONSISTENT_GROUP_PROTOCOL));
        };
        let assignment = assignor.assign(&self.joined, partitions);
        self.joined.clear();
        self.assigned_of = partitions.clone();
        let each = assignment.iter().map(|(member, given)| (member.clone(), encode_assignment(given)));
        self.membership.rebalance = Rebalance::Sync(each.collect());
    }

    /// The leader watches the topics: it joins again when one has grown.
    pub(crate) fn topics_have(&mut self, partitions: &BTreeMap<String, i32>) {
        let in_group = self.membership.leads && self.membership.stable_generation().is_some();
        let grown = |topic: &String| {
            partitions.get(topic).is_some_and(|now| self.assigned_of.get(topic) != Some(now))
        };
        if in_group && self.topics.iter().any(grown) {
            self.membership.request_rejoin();
        }
    }

    /// The next call, and as whom. The coordinator is known and can be sent to.
    pub(crate) fn next(&mut self, now: Instant) -> Option<(Call, Generation)> {
        while let Some(commit) = self.commits.pop_front() {
            if let Some(generation) = self.membership.stable_generation() {
                let generation = generation.clone();
                return Some((Call::Commit(commit), generation));
            }
            let error = match self.membership.is_rebalancing() {
                true => Error::RebalanceInProgress,
                false => Error::CommitFailed,
            };
            // Nobody may be waiting any more.
            let _ = commit.end.send(Err(CommitError::Final(error)));
        }
        if !self.wanted.is_empty() && self.asked.is_none() && self.ask_at <= now {
            self.asks += 1;
            self.asked = Some(self.asks);
            let generation = self.membership.generation.clone();
            return Some((Call::Offsets(self.asks, self.wanted.clone()), generation));
        }
        let (call, generation) = self.membership.next(now)?;
        if call == membership::Call::Join {
            self.joined_with = Some(self.topics.clone());
        }
        Some((Call::Membership(call), generation))
    }

    /// Joins again if it subscribes to other topics than those it joined with (`rejoinNeededOrPending`).
    pub(crate) fn check_subscription(&mut self) {
        if self.joined_with.as_ref().is_some_and(|joined| *joined != self.topics) {
            self.membership.request_rejoin();
        }
    }

    /// When it has something to do next, later than `now`.
    pub(crate) fn next_due(&self, now: Instant) -> Option<Instant> {
        let ask = (!self.wanted.is_empty() && self.asked.is_none()).then_some(self.ask_at);
        self.membership.next_due().into_iter().chain(ask).filter(|due| *due > now).min()
    }

    /// Whether nothing is left to be sent that must go out before the member is closed.
    pub(crate) fn is_idle(&self) -> bool {
        self.commits.is_empty() && !self.membership.is_leaving()
    }

    /// Answers of an `OffsetFetch`: of each partition what was committed, or an error code.
    pub(crate) fn offsets_found(
        &mut self,
        number: u64,
        answer: Result<BTreeMap<TopicPartition, Result<Option<i64>, i16>>, i16>,
        now: Instant,
    ) {
        if self.asked != Some(number) {
            return;
        }
        self.asked = None;
        let parts = match answer {
            Ok(parts) => parts,
            Err(code) => return self.offsets_refused(code, now),
        };
        let mut refused = None;
        for (partition, part) in parts {
            match part {
                Ok(offset) if self.wanted.remove(&partition) => {
                    self.found.insert(partition, offset);
                }
                Ok(_) => {}
                Err(code) => refused = Some(code),
            }
        }
        if let Some(code) = refused {
            self.offsets_refused(code, now);
        }
    }

    /// `OffsetFetchResponseHandler`: an unknown topic is an error, an undecided offset (88) is asked for again.
    fn offsets_refused(&mut self, code: i16, now: Instant) {
        self.ask_at = now + Duration::from_millis(self.config.retry_backoff_ms);
        match code {
            codes::NOT_COORDINATOR | codes::COORDINATOR_NOT_AVAILABLE => {
                self.membership.lose_coordinator(true)
            }
            codes::UNKNOWN_TOPIC_OR_PARTITION => self.membership.fail(Error::Kafka(code)),
            code if codes::is_retriable(code) => {}
            code => self.membership.fail(Error::Kafka(code)),
        }
    }

    /// The end of an attempt to commit, by the codes of its partitions.
    pub(crate) fn committed(&mut self, commit: Commit, sent: &Generation, codes: &[i16]) {
        let code = codes.iter().copied().find(|code| *code != codes::NONE).unwrap_or(codes::NONE);
        let end = match code {
            codes::NONE => Ok(()),
            codes::COORDINATOR_NOT_AVAILABLE | codes::NOT_COORDINATOR | codes::REQUEST_TIMED_OUT => {
                self.membership.lose_coordinator(true);
                Err(CommitError::Retriable(Error::Kafka(code)))
            }
            codes::COORDINATOR_LOAD_IN_PROGRESS | codes::UNKNOWN_TOPIC_OR_PARTITION => {
                Err(CommitError::Retriable(Error::Kafka(code)))
            }
            codes::REBALANCE_IN_PROGRESS => {
                self.membership.request_rejoin();
                Err(CommitError::Final(Error::RebalanceInProgress))
            }
            codes::UNKNOWN_MEMBER_ID | codes::ILLEGAL_GENERATION => {
                Err(CommitError::Final(self.membership.commit_refused(sent, code)))
            }
            codes::FENCED_INSTANCE_ID if self.membership.generation != *sent => {
                Err(CommitError::Final(Error::CommitFailed))
            }
            code => Err(CommitError::Final(Error::Kafka(code))),
        };
        // Nobody may be waiting any more.
        let _ = commit.end.send(end);
    }

    /// The connection ended before `call` was answered.
    pub(crate) fn lost(&mut self, call: Call, now: Instant) {
        match call {
            Call::Membership(call) => self.membership.lost(&call, now),
            Call::Commit(commit) => {
                self.membership.lose_coordinator(false);
                let error = Error::Kafka(codes::NETWORK_EXCEPTION);
                // Nobody may be waiting any more.
                let _ = commit.end.send(Err(CommitError::Retriable(error)));
            }
            Call::Offsets(number, _) => {
                self.membership.lose_coordinator(false);
                if self.asked == Some(number) {
                    self.asked = None;
                    self.ask_at = now + Duration::from_millis(self.config.retry_backoff_ms);
                }
            }
        }
    }
}

#[cfg(test)]
#[path = "core_tests.rs"]
mod tests;
