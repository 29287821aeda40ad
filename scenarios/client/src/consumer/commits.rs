//! What the application asks of the group, when partitions are assigned by hand: commits, and committed offsets.

use super::Consumer;
use super::coordinator::{Ended, GroupTag, blames_coordinator, is_worth_asking_again};
use crate::error::Error;
use crate::types::TopicPartition;
use rt::time::{Instant, sleep_until};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

impl Consumer {
    /// Commits the positions of all partitions, synchronously: retries what is worth it for `default.api.timeout.ms`.
    ///
    /// # Errors
    /// As [`Consumer::commit_offsets`].
    pub async fn commit(&mut self) -> Result<(), Error> {
        self.commit_offsets(self.positions()).await
    }

    /// Commits `offsets`, as [`Consumer::commit`] does.
    ///
    /// # Errors
    /// [`Error::IllegalState`] without a `group.id`; [`Error::CommitFailed`] when the group has members;
    /// [`Error::Timeout`], after which an attempt may still take effect.
    pub async fn commit_offsets(&mut self, offsets: BTreeMap<TopicPartition, i64>) -> Result<(), Error> {
        let deadline = Instant::now() + Duration::from_millis(self.config.default_api_timeout_ms);
        self.commit_by(offsets, Some(deadline)).await
    }

    pub(super) async fn commit_by(
        &mut self,
        offsets: BTreeMap<TopicPartition, i64>,
        deadline: Option<Instant>,
    ) -> Result<(), Error> {
        if offsets.is_empty() {
            return Ok(());
        }
        loop {
            let number = self.call(deadline, "commit").await?;
            self.send_commit(&offsets, GroupTag::Commit(number), number);
            match self.end_of(number, deadline).await {
                Some(Ended::Commit(Ok(codes))) => match self.commit_ended(&codes) {
                    Some(result) => return result,
                    None => self.rest(deadline).await,
                },
                Some(_) => self.rest(deadline).await,
                None => return Err(Error::Timeout("commit")),
            }
        }
    }

    /// What the group has committed of `partitions`; `None` for nothing. Retries for `default.api.timeout.ms`, also while an
    /// offset is part of an open transaction.
    ///
    /// # Errors
    /// [`Error::IllegalState`] without a `group.id`; [`Error::Timeout`]; [`Error::Kafka`].
    pub async fn committed(
        &mut self,
        partitions: &[TopicPartition],
    ) -> Result<BTreeMap<TopicPartition, Option<i64>>, Error> {
        let deadline = Some(Instant::now() + Duration::from_millis(self.config.default_api_timeout_ms));
        let wanted: BTreeSet<TopicPartition> = partitions.iter().cloned().collect();
        loop {
            let number = self.call(deadline, "committed").await?;
            self.send_offset_fetch(&wanted, GroupTag::Committed(number));
            let answer = match self.end_of(number, deadline).await {
                Some(Ended::Committed(Ok(answer))) => answer,
                Some(_) => {
                    self.rest(deadline).await;
                    continue;
                }
                None => return Err(Error::Timeout("committed")),
            };
            let all = answer.and_then(|parts| {
                let parts = parts.into_iter();
                parts.map(|(partition, part)| Ok((partition, part?))).collect::<Result<BTreeMap<_, _>, i16>>()
            });
            match all {
                Ok(found) => return Ok(found),
                Err(code) if blames_coordinator(code) => self.lose_coordinator(),
                Err(code) if is_worth_asking_again(code) => {}
                Err(code) => return Err(Error::Kafka(code)),
            }
            self.rest(deadline).await;
        }
    }

    /// Waits for a coordinator that can be sent to, and numbers the call that follows.
    async fn call(&mut self, deadline: Option<Instant>, what: &'static str) -> Result<u64, Error> {
        let Some(coordinator) = &mut self.coordinator else {
            return Err(Error::IllegalState("there is no group.id"));
        };
        coordinator.wanted = true;
        let number = coordinator.next_call();
        let ready = self.drive(deadline, false, |this, now| {
            if let Some(error) = this.error.take() {
                return Some(Err(error));
            }
            let node = this.coordinator.as_ref()?.node?;
            this.network.ready(node, now).then_some(Ok(()))
        });
        let ready = ready.await;
        if let Some(coordinator) = &mut self.coordinator {
            coordinator.wanted = false;
        }
        ready.unwrap_or(Err(Error::Timeout(what))).map(|()| number)
    }

    async fn end_of(&mut self, number: u64, deadline: Option<Instant>) -> Option<Ended> {
        if deadline.is_none() {
            self.network.wait_for_ever(Instant::now());
        }
        self.drive(deadline, false, |this, _| this.coordinator.as_mut()?.ended.remove(&number)).await
    }

    /// The pause before another attempt, but not longer than `deadline`.
    async fn rest(&self, deadline: Option<Instant>) {
        let rested = Instant::now() + Duration::from_millis(self.config.retry_backoff_ms);
        sleep_until(deadline.map_or(rested, |deadline| deadline.min(rested))).await;
    }
}
