//! What a consumer with a `group.id` and partitions assigned by hand has to do with its group: it asks for committed offsets
//! and commits some, as nobody (generation -1, no member id). Java's `ConsumerCoordinator` without a membership.
//!
//! The coordinator has a connection of its own, under a node id of its own, as in Java.

use super::positions::Position;
use super::{Consumer, Tag};
use crate::codes;
use crate::config::ConsumerConfig;
use crate::error::Error;
use crate::group::{Generation, requests};
use crate::network::Answer;
use crate::node::Failure;
use crate::types::TopicPartition;
use kafka_protocol::messages::ApiKey;
use rt::time::Instant;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What a request to the group was for. Calls of the application have numbers.
pub(super) enum GroupTag {
    Lookup,
    /// Where assigned partitions start.
    Starts,
    AutoCommit(u64),
    Commit(u64),
    Committed(u64),
}

/// The end of a call of the application.
pub(super) enum Ended {
    Commit(Result<Vec<i16>, Failure>),
    Committed(Result<Result<requests::Offsets, i16>, Failure>),
}

/// What is known of the group's coordinator, and what is under way to it.
pub(super) struct Coordinator {
    pub(super) node: Option<i32>,
    looking_up: bool,
    look_up_at: Instant,
    asking: bool,
    ask_at: Instant,
    commit_at: Instant,
    /// Offsets that auto-commit commits as soon as it can be sent.
    auto_commit: Option<BTreeMap<TopicPartition, i64>>,
    /// A call of the application waits for the coordinator.
    pub(super) wanted: bool,
    calls: u64,
    pub(super) ended: BTreeMap<u64, Ended>,
}

impl Coordinator {
    pub(super) fn new(config: &ConsumerConfig, now: Instant) -> Self {
        Coordinator {
            node: None,
            looking_up: false,
            look_up_at: now,
            asking: false,
            ask_at: now,
            commit_at: now + Duration::from_millis(config.auto_commit_interval_ms),
            auto_commit: None,
            wanted: false,
            calls: 0,
            ended: BTreeMap::new(),
        }
    }

    /// When it may have something to do next. Moments gone by do not count.
    pub(super) fn next_due(&self) -> [Instant; 3] {
        [self.look_up_at, self.ask_at, self.commit_at]
    }

    pub(super) fn next_call(&mut self) -> u64 {
        self.calls += 1;
        self.calls
    }
}

/// Whether an error code says that the coordinator is elsewhere, or nobody knows where.
pub(super) fn blames_coordinator(code: i16) -> bool {
    matches!(code, codes::NOT_COORDINATOR | codes::COORDINATOR_NOT_AVAILABLE)
}

impl Consumer {
    /// Auto-commit, in a poll before it hands records out: positions are past what the poll before has handed out
    /// (`maybeAutoCommitOffsetsAsync`).
    pub(super) fn commit_by_itself(&mut self, now: Instant) {
        let due = self.coordinator.as_ref().is_some_and(|coordinator| coordinator.commit_at <= now);
        if !due || !self.config.enable_auto_commit {
            return;
        }
        let positions = self.positions();
        if let Some(coordinator) = &mut self.coordinator {
            coordinator.commit_at = now + Duration::from_millis(self.config.auto_commit_interval_ms);
            coordinator.auto_commit = Some(positions).filter(|positions| !positions.is_empty());
        }
    }

    /// Sends the group what is due: a lookup, a question for starts, an auto-commit.
    pub(super) fn coordinate(&mut self, now: Instant) {
        if self.coordinator.is_none() {
            return;
        }
        let starts: BTreeSet<TopicPartition> = self.starting().collect();
        let Some(coordinator) = &mut self.coordinator else { return };
        if coordinator.node.is_some_and(|node| self.network.backing_off(node, now)) {
            coordinator.node = None;
        }
        let idle = starts.is_empty() && coordinator.auto_commit.is_none() && !coordinator.wanted;
        let Some(node) = coordinator.node else {
            if !idle && !coordinator.looking_up && coordinator.look_up_at <= now {
                self.look_up(now);
            }
            return;
        };
        if idle || !self.network.ready(node, now) {
            return;
        }
        if !starts.is_empty() && !coordinator.asking && coordinator.ask_at <= now {
            coordinator.asking = true;
            self.send_offset_fetch(&starts, GroupTag::Starts);
        }
        let Some(coordinator) = &mut self.coordinator else { return };
        if let Some(offsets) = coordinator.auto_commit.take() {
            let number = coordinator.next_call();
            self.send_commit(&offsets, GroupTag::AutoCommit(number), number);
        }
    }

    /// Any agent can say who coordinates.
    fn look_up(&mut self, now: Instant) {
        let backoff = Duration::from_millis(self.config.retry_backoff_ms);
        let Some(coordinator) = &mut self.coordinator else { return };
        coordinator.look_up_at = now + backoff;
        let Some(node) = self.network.least_loaded(now) else {
            return self.network.metadata.request_update();
        };
        if !self.network.ready(node, now) {
            return;
        }
        coordinator.looking_up = true;
        self.network.looked_up();
        let batched = self.network.serves(node, ApiKey::FindCoordinator).is_some_and(|version| version > 3);
        let request = requests::find_coordinator(&self.config, batched);
        let label = format!("FindCoordinator group client={}", self.config.client_id);
        self.network.send(node, &request, i16::MAX, Tag::Group(GroupTag::Lookup), || label, now);
    }

    pub(super) fn group_answered(&mut self, tag: GroupTag, answer: Result<Answer, Failure>, now: Instant) {
        if answer.is_err() && !matches!(tag, GroupTag::Lookup) {
            self.lose_coordinator();
        }
        match tag {
            GroupTag::Lookup => self.group_found(answer, now),
            GroupTag::Starts => self.starts_found(answer, now),
            GroupTag::AutoCommit(number) => {
                let answer = answer.and_then(requests::committed);
                self.tell_commit_end(number, &answer);
                // Worth another attempt soon, of what is the position then.
                let retry = answer.map_or(true, |codes| self.commit_ended(&codes).is_none());
                if let Some(coordinator) = self.coordinator.as_mut().filter(|_| retry) {
                    coordinator.commit_at = now + Duration::from_millis(self.config.retry_backoff_ms);
                }
            }
            GroupTag::Commit(number) => {
                let answer = answer.and_then(requests::committed);
                self.tell_commit_end(number, &answer);
                self.call_ended(number, Ended::Commit(answer));
            }
            GroupTag::Committed(number) => {
                self.call_ended(number, Ended::Committed(answer.and_then(requests::offsets)));
            }
        }
    }

    fn group_found(&mut self, answer: Result<Answer, Failure>, now: Instant) {
        let backoff = Duration::from_millis(self.config.retry_backoff_ms);
        let Some(coordinator) = &mut self.coordinator else { return };
        coordinator.looking_up = false;
        coordinator.look_up_at = now + backoff;
        match answer.and_then(requests::found_coordinator) {
            Ok(Ok((node, address))) => {
                let connection = i32::MAX - node;
                self.network.learn(connection, address, now);
                coordinator.node = Some(connection);
            }
            Ok(Err(code)) if !codes::is_retriable(code) => self.error = Some(Error::Kafka(code)),
            // Asked again after the backoff.
            Ok(Err(_)) | Err(_) => {}
        }
    }

    /// Where assigned partitions start: at what was committed, or as `auto.offset.reset` says.
    fn starts_found(&mut self, answer: Result<Answer, Failure>, now: Instant) {
        let backoff = Duration::from_millis(self.config.retry_backoff_ms);
        let Some(coordinator) = &mut self.coordinator else { return };
        coordinator.asking = false;
        let parts = match answer.and_then(requests::offsets) {
            Ok(Ok(parts)) => parts,
            Ok(Err(code)) => self.starting().map(|partition| (partition, Err(code))).collect(),
            Err(_) => BTreeMap::new(),
        };
        for (partition, part) in parts {
            if self.positions.0.get(&partition).is_none_or(|it| it.position != Position::Committed) {
                continue;
            }
            match part {
                Ok(Some(offset)) => {
                    self.positions.seek(&partition, Position::At(offset));
                    self.tell_moved(&partition, "committed", None, Some(offset));
                }
                Ok(None) => self.reset(&partition, "no-offset"),
                Err(code) if blames_coordinator(code) => self.lose_coordinator(),
                Err(code) if is_worth_asking_again(code) => {}
                Err(code) => self.error = Some(Error::Kafka(code)),
            }
        }
        let unsettled = self.starting().next().is_some();
        if let Some(coordinator) = self.coordinator.as_mut().filter(|_| unsettled) {
            coordinator.ask_at = now + backoff;
        }
    }

    /// Assigned partitions that wait for the group's offset.
    fn starting(&self) -> impl Iterator<Item = TopicPartition> + '_ {
        let waits = |(partition, assigned): (&TopicPartition, &super::positions::Assigned)| {
            (assigned.position == Position::Committed).then(|| partition.clone())
        };
        self.positions.0.iter().filter_map(waits)
    }

    /// What became of a commit by its codes; `None` if it is worth another attempt.
    pub(super) fn commit_ended(&mut self, codes: &[i16]) -> Option<Result<(), Error>> {
        let code = codes.iter().copied().find(|code| *code != codes::NONE).unwrap_or(codes::NONE);
        match code {
            codes::NONE => Some(Ok(())),
            codes::COORDINATOR_NOT_AVAILABLE | codes::NOT_COORDINATOR | codes::REQUEST_TIMED_OUT => {
                self.lose_coordinator();
                None
            }
            codes::COORDINATOR_LOAD_IN_PROGRESS | codes::UNKNOWN_TOPIC_OR_PARTITION => None,
            codes::UNKNOWN_MEMBER_ID | codes::ILLEGAL_GENERATION | codes::REBALANCE_IN_PROGRESS => {
                Some(Err(Error::CommitFailed))
            }
            code => Some(Err(Error::Kafka(code))),
        }
    }

    fn call_ended(&mut self, number: u64, end: Ended) {
        if let Some(coordinator) = &mut self.coordinator {
            coordinator.ended.insert(number, end);
        }
    }

    pub(super) fn lose_coordinator(&mut self) {
        if let Some(coordinator) = &mut self.coordinator {
            coordinator.node = None;
        }
    }

    pub(super) fn send_offset_fetch(&mut self, partitions: &BTreeSet<TopicPartition>, tag: GroupTag) {
        let request = requests::offset_fetch(&self.config, partitions);
        let label = format!("OffsetFetch client={}", self.config.client_id);
        let Some(node) = self.coordinator.as_ref().and_then(|coordinator| coordinator.node) else { return };
        self.network.send(node, &request, i16::MAX, Tag::Group(tag), || label, Instant::now());
    }

    pub(super) fn send_commit(
        &mut self,
        offsets: &BTreeMap<TopicPartition, i64>,
        tag: GroupTag,
        number: u64,
    ) {
        let request = requests::commit(&self.config, &Generation::NONE, offsets);
        let label = format!("OffsetCommit client={}", self.config.client_id);
        let Some(node) = self.coordinator.as_ref().and_then(|coordinator| coordinator.node) else { return };
        for (partition, offset) in offsets {
            rt::event!(
                "consumer.commits",
                client = &self.config.client_id,
                number = number,
                partition = &partition.to_string(),
                offset = *offset
            );
        }
        self.network.send(node, &request, i16::MAX, Tag::Group(tag), || label, Instant::now());
    }

    fn tell_commit_end(&self, number: u64, answer: &Result<Vec<i16>, Failure>) {
        let outcome = requests::commit_outcome(answer.as_deref().ok());
        let client = &self.config.client_id;
        rt::event!("consumer.commit_end", client = client, number = number, outcome = outcome);
    }
}

/// An offset of an open transaction, and a coordinator that is only just starting, are worth waiting for.
pub(super) fn is_worth_asking_again(code: i16) -> bool {
    code != codes::UNKNOWN_TOPIC_OR_PARTITION && codes::is_retriable(code)
}
