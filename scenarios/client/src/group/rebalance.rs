//! What a poll does for the membership and to the assignment: Java's `ConsumerCoordinator.poll`, `onJoinPrepare` and
//! `onJoinComplete`.

use super::core::{CommitError, Committed, Core};
use super::{LoggedRebalance, Member, Rebalanced};
use crate::error::Error;
use crate::types::TopicPartition;
use rt::time::Instant;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::sync::oneshot;

/// The auto-commit that goes before a rebalance.
pub(super) struct Preparing {
    commit: Option<oneshot::Receiver<Committed>>,
    retry_at: Instant,
    /// The rebalance does not wait longer.
    deadline: Instant,
}

impl Member {
    /// Goes as far as it can. Yields when it must be called again at the latest.
    pub(super) fn coordinate(&mut self, now: Instant) -> Result<Option<Instant>, Error> {
        let shared = self.shared.clone();
        let mut core = shared.core();
        core.active = true;
        core.membership.polled(now);
        if let Some(error) = core.membership.failure.take() {
            return Err(error);
        }
        self.start_found(&mut core);
        core.check_subscription();
        while core.membership.must_rejoin() {
            if core.membership.coordinator.is_none() && !core.membership.has_synced() {
                return Ok(None);
            }
            if !core.membership.prepared {
                if let Some(due) = self.prepare(&mut core, now) {
                    return Ok(Some(due));
                }
                core.membership.prepared = true;
            }
            if core.membership.has_synced() {
                if let Some(assigned) = core.membership.complete() {
                    self.complete(&mut core, assigned, now);
                }
                continue;
            }
            return Ok(core.membership.join(now));
        }
        self.commit_by_itself(&mut core, now);
        Ok(self.config.enable_auto_commit.then_some(self.next_auto_commit).filter(|due| *due > now))
    }

    /// `maybeAutoCommitOffsetsAsync`.
    fn commit_by_itself(&mut self, core: &mut Core, now: Instant) {
        if let Some(ended) = &mut self.auto_commit {
            match ended.try_recv() {
                Err(oneshot::error::TryRecvError::Empty) => {}
                Ok(Err(CommitError::Retriable(_))) => {
                    self.next_auto_commit = now + Duration::from_millis(self.config.retry_backoff_ms);
                    self.auto_commit = None;
                }
                _ => self.auto_commit = None,
            }
        }
        if self.config.enable_auto_commit && self.next_auto_commit <= now {
            self.next_auto_commit = now + Duration::from_millis(self.config.auto_commit_interval_ms);
            let offsets = self.positions();
            if !offsets.is_empty() {
                self.auto_commit = Some(core.commit(offsets));
            }
        }
    }

    /// `onJoinPrepare`: commits what auto-commit would, then gives up what the protocol says. Until it is done it yields
    /// when to look again.
    fn prepare(&mut self, core: &mut Core, now: Instant) -> Option<Instant> {
        let limit = Duration::from_millis(self.config.max_poll_interval_ms);
        let backoff = Duration::from_millis(self.config.retry_backoff_ms);
        let auto_commit = self.config.enable_auto_commit;
        if let Some(due) = self.commit_first(core, auto_commit, now, limit, backoff) {
            return Some(due);
        }
        self.preparing = None;
        let is_lost = core.membership.generation.id == -1 || core.membership.generation.member_id.is_empty();
        if is_lost || !self.cooperative {
            self.give_up_locked(core, self.owned.clone(), is_lost);
        }
        core.membership.leads = false;
        None
    }

    fn commit_first(
        &mut self,
        core: &mut Core,
        auto_commit: bool,
        now: Instant,
        limit: Duration,
        backoff: Duration,
    ) -> Option<Instant> {
        let offsets = self.positions();
        if !auto_commit || offsets.is_empty() {
            return None;
        }
        let preparing = self.preparing.get_or_insert_with(|| Preparing {
            commit: Some(core.commit(offsets.clone())),
            retry_at: now,
            deadline: now + limit,
        });
        if preparing.deadline <= now {
            return None;
        }
        let Some(commit) = &mut preparing.commit else {
            if preparing.retry_at > now {
                return Some(preparing.retry_at);
            }
            preparing.commit = Some(core.commit(offsets));
            return Some(preparing.deadline);
        };
        match commit.try_recv() {
            Err(oneshot::error::TryRecvError::Empty) => Some(preparing.deadline),
            Ok(Err(CommitError::Retriable(_))) => {
                preparing.commit = None;
                preparing.retry_at = now + backoff;
                Some(preparing.retry_at)
            }
            _ => None,
        }
    }

    /// `onJoinComplete`.
    fn complete(&mut self, core: &mut Core, assigned: BTreeSet<TopicPartition>, now: Instant) {
        self.metadata.generation_id = core.membership.generation.id;
        self.metadata.member_id.clone_from(&core.membership.generation.member_id);
        let added: BTreeSet<_> = assigned.difference(&self.owned).cloned().collect();
        let revoked: BTreeSet<_> = self.owned.difference(&assigned).cloned().collect();
        if !revoked.is_empty() {
            self.give_up_locked(core, revoked, false);
            // Only when this member has given them up can others get them.
            core.membership.request_rejoin();
        }
        self.next_auto_commit = now + Duration::from_millis(self.config.auto_commit_interval_ms);
        self.owned = assigned;
        core.owned.clone_from(&self.owned);
        self.starting.extend(added.iter().cloned());
        core.want(self.starting.clone());
        self.tell("member.assigned", &added);
        self.log(Rebalanced::Assigned(added));
    }

    /// Starts partitions whose committed offset is known.
    fn start_found(&mut self, core: &mut Core) {
        for (partition, committed) in std::mem::take(&mut core.found) {
            if !self.starting.remove(&partition) {
                continue;
            }
            let remembered = self.left_at.remove(&partition);
            self.consumer.give(&partition, remembered.or(committed));
            let why = if remembered.is_some() { "memory" } else { "committed" };
            if let Some(offset) = remembered.or(committed) {
                self.consumer.tell_moved(&partition, why, None, Some(offset));
            }
        }
    }

    pub(super) fn give_up(&mut self, partitions: BTreeSet<TopicPartition>, lost: bool) {
        let shared = self.shared.clone();
        self.give_up_locked(&mut shared.core(), partitions, lost);
    }

    fn give_up_locked(&mut self, core: &mut Core, partitions: BTreeSet<TopicPartition>, lost: bool) {
        if partitions.is_empty() {
            return;
        }
        for partition in &partitions {
            let position = self.consumer.position(partition);
            if let Some(position) = position.filter(|_| self.flaws.resume_from_memory) {
                self.left_at.insert(partition.clone(), position);
            }
            self.owned.remove(partition);
            self.starting.remove(partition);
        }
        self.consumer.take_from(&partitions);
        core.owned.clone_from(&self.owned);
        core.want(self.starting.clone());
        self.tell(if lost { "member.lost" } else { "member.revoked" }, &partitions);
        let told = if lost { Rebalanced::Lost(partitions) } else { Rebalanced::Revoked(partitions) };
        self.log(told);
    }

    fn log(&mut self, what: Rebalanced) {
        self.rebalances.push(LoggedRebalance { poll: self.polls, what });
    }

    pub(super) fn tell(&self, what: &'static str, partitions: &BTreeSet<TopicPartition>) {
        for partition in partitions {
            rt::event!(
                what,
                client = &self.config.client_id,
                generation = self.metadata.generation_id,
                partition = &partition.to_string()
            );
        }
    }
}

#[cfg(test)]
#[path = "rebalance_tests.rs"]
mod tests;
