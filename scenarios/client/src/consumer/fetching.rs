//! Fetches and position lookups: which partition is asked for what, and what the answers change. Java's `Fetcher`,
//! `FetchCollector` and `OffsetFetcher`.

use super::positions::{Buffer, Position};
use super::requests::{self, Offsets, PartitionFetched};
use super::{Consumer, EARLIEST, Tag, filter};
use crate::codes;
use crate::config::{IsolationLevel, OffsetReset};
use crate::error::Error;
use crate::network::Answer;
use crate::node::Failure;
use crate::types::TopicPartition;
use rt::time::Instant;
use std::collections::BTreeMap;
use std::time::Duration;

/// `ListOffsets` asks for the end by this timestamp.
const LATEST: i64 = -1;

impl Consumer {
    /// Where to go without a position, or with one that is out of range; `None` under the policy `none`.
    pub(super) fn reset_position(&self) -> Option<Position> {
        match self.config.auto_offset_reset {
            OffsetReset::Earliest => Some(Position::Reset { timestamp: EARLIEST }),
            OffsetReset::Latest => Some(Position::Reset { timestamp: LATEST }),
            OffsetReset::None => None,
        }
    }

    /// Asks each leader for what is missing: positions first, then, with `fetch`, records.
    pub(super) fn send_requests(&mut self, now: Instant, fetch: bool) {
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
                Position::At(offset) if fetch => (&mut fetches, offset),
                // The coordinator is asked for that one.
                Position::At(_) | Position::Committed => continue,
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

    pub(super) fn fetched(&mut self, offsets: Offsets, answer: Result<Answer, Failure>, now: Instant) {
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

    pub(super) fn listed(&mut self, timestamps: Offsets, answer: Result<Answer, Failure>, now: Instant) {
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
                Some((codes::NONE, offset)) if *offset >= 0 => {
                    assigned.position = Position::At(*offset);
                    let why = if timestamp == EARLIEST { "earliest" } else { "latest" };
                    self.tell_moved(&partition, why, None, Some(*offset));
                }
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
            self.reset(partition, "out-of-range");
        } else if codes::blames_metadata(code) || code == codes::OFFSET_NOT_AVAILABLE {
            self.network.metadata.request_update();
        } else if code != codes::UNKNOWN && !codes::is_retriable(code) || code == codes::CORRUPT_MESSAGE {
            self.error = Some(Error::Kafka(code));
        }
    }

    /// `auto.offset.reset` says where to go on.
    pub(super) fn reset(&mut self, partition: &TopicPartition, why: &'static str) {
        match self.reset_position() {
            Some(reset) => {
                let from = self.position(partition);
                self.positions.seek(partition, reset);
                self.tell_moved(partition, why, from, None);
            }
            None => self.error = Some(Error::NoOffset),
        }
    }

    fn retry_later(&mut self, partition: &TopicPartition, now: Instant) {
        if let Some(assigned) = self.positions.0.get_mut(partition) {
            assigned.retry_at = now + Duration::from_millis(self.config.retry_backoff_ms);
        }
    }
}
