//! What the ends of its calls change for a member: Java's `JoinGroupResponseHandler`, `SyncGroupResponseHandler`,
//! `HeartbeatResponseHandler` and, for its refusals, `OffsetCommitResponseHandler`.

use super::membership::{Call, Generation, JoinAnswer, Membership, Rebalance, State};
use crate::codes;
use crate::error::Error;
use crate::types::TopicPartition;
use rt::time::Instant;
use std::collections::BTreeSet;

impl Membership {
    pub(crate) fn joined(&mut self, sent: &Generation, answer: Result<JoinAnswer, i16>, now: Instant) {
        if self.rebalance != Rebalance::Joining {
            return;
        }
        let answer = match answer {
            Ok(answer) => answer,
            Err(code) => return self.join_failed(sent, code, now),
        };
        if self.state != State::PreparingRebalance {
            return self.rebalance_failed(now, false);
        }
        self.state = State::CompletingRebalance;
        self.heartbeat.joined(now);
        self.generation = answer.generation;
        self.leads = answer.leads;
        self.rebalance = match answer.leads && !answer.skip_assignment {
            true => Rebalance::Assign,
            false => Rebalance::Sync(Vec::new()),
        };
    }

    fn join_failed(&mut self, sent: &Generation, code: i16, now: Instant) {
        match code {
            codes::UNKNOWN_MEMBER_ID => {
                if self.generation == *sent {
                    self.reset(true);
                }
                self.rebalance_failed(now, false);
            }
            codes::REBALANCE_IN_PROGRESS => self.rebalance_failed(now, false),
            codes::COORDINATOR_NOT_AVAILABLE | codes::NOT_COORDINATOR => {
                self.lose_coordinator(true);
                self.rebalance_failed(now, true);
            }
            code if codes::is_retriable(code) => self.rebalance_failed(now, true),
            code => self.fail(Error::Kafka(code)),
        }
    }

    /// `MEMBER_ID_REQUIRED`: the coordinator has given it an id, under which it joins (KIP-394).
    pub(crate) fn take_member_id(&mut self, member_id: String, now: Instant) {
        if self.rebalance == Rebalance::Joining {
            self.generation = Generation { id: -1, member_id, protocol: None };
            self.rebalance_failed(now, false);
        }
    }

    /// `partitions`: what the leader assigned; the protocol by which it did, if the answer says.
    pub(crate) fn synced(
        &mut self,
        sent: &Generation,
        answer: Result<(BTreeSet<TopicPartition>, Option<String>), i16>,
        now: Instant,
    ) {
        if self.rebalance != Rebalance::Syncing {
            return;
        }
        match answer {
            Ok((_, protocol)) if protocol.is_some() && protocol != self.generation.protocol => {
                self.fail(Error::Kafka(codes::INCONSISTENT_GROUP_PROTOCOL));
            }
            Ok((partitions, _))
                if self.state == State::CompletingRebalance && !self.generation.is_reset() =>
            {
                self.state = State::Stable;
                self.rejoin_needed = false;
                self.rebalance = Rebalance::Synced(partitions);
            }
            Ok(_) => self.rebalance_failed(now, false),
            Err(code @ (codes::UNKNOWN_MEMBER_ID | codes::ILLEGAL_GENERATION)) => {
                if self.generation == *sent {
                    self.reset(code == codes::UNKNOWN_MEMBER_ID);
                }
                self.rebalance_failed(now, false);
            }
            Err(codes::REBALANCE_IN_PROGRESS) => self.rebalance_failed(now, false),
            Err(codes::COORDINATOR_NOT_AVAILABLE | codes::NOT_COORDINATOR) => {
                self.lose_coordinator(true);
                self.rebalance_failed(now, true);
            }
            Err(code) if codes::is_retriable(code) => self.rebalance_failed(now, true),
            Err(code) => self.fail(Error::Kafka(code)),
        }
    }

    pub(crate) fn beaten(&mut self, sent: &Generation, code: i16, now: Instant) {
        match code {
            codes::NONE => self.heartbeat.received(now),
            codes::REBALANCE_IN_PROGRESS => {
                // It stays a member by its heartbeats until it joins again.
                self.heartbeat.received(now);
                self.rejoin_needed |= self.state == State::Stable;
            }
            codes::COORDINATOR_NOT_AVAILABLE | codes::NOT_COORDINATOR => {
                self.lose_coordinator(true);
                self.heartbeat.failed(now);
            }
            codes::ILLEGAL_GENERATION | codes::UNKNOWN_MEMBER_ID | codes::FENCED_INSTANCE_ID
                if self.generation != *sent =>
            {
                self.heartbeat.received(now);
            }
            codes::ILLEGAL_GENERATION | codes::UNKNOWN_MEMBER_ID => {
                self.heartbeat.failed(now);
                self.reset(code == codes::UNKNOWN_MEMBER_ID);
            }
            codes::FENCED_INSTANCE_ID => {
                self.reset(true);
                self.fail(Error::Kafka(code));
            }
            codes::GROUP_AUTHORIZATION_FAILED => self.fail(Error::Kafka(code)),
            _ => self.heartbeat.failed(now),
        }
    }

    /// The connection ended before an answer came.
    pub(crate) fn lost(&mut self, call: &Call, now: Instant) {
        self.lose_coordinator(false);
        match call {
            Call::Join if self.rebalance == Rebalance::Joining => self.rebalance_failed(now, true),
            Call::Sync(_) if self.rebalance == Rebalance::Syncing => self.rebalance_failed(now, true),
            Call::Heartbeat => self.heartbeat.failed(now),
            // Nobody waits for the end of a LeaveGroup, and the others have been given up.
            _ => {}
        }
    }

    /// A commit was refused because its sender is not in the group as it thought.
    pub(crate) fn commit_refused(&mut self, sent: &Generation, code: i16) -> Error {
        if self.generation != *sent && self.state == State::PreparingRebalance {
            return Error::RebalanceInProgress;
        }
        self.reset(code == codes::UNKNOWN_MEMBER_ID);
        Error::CommitFailed
    }
}
