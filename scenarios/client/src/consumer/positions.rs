//! Where the consumer stands on each assigned partition: Java's `SubscriptionState`, for assignment by hand.

use super::filter::Fetched;
use crate::types::TopicPartition;
use rt::time::Instant;
use std::collections::{BTreeMap, VecDeque};

/// A partition's position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Position {
    /// Not known: to be had from `ListOffsets` with this timestamp (-2 earliest, -1 latest).
    Reset { timestamp: i64 },
    /// Not known: to be had from the group's coordinator.
    Committed,
    /// The offset of the next record.
    At(i64),
}

impl Position {
    /// The offset of the next record, if it is known.
    pub(crate) fn known(self) -> Option<i64> {
        match self {
            Position::At(offset) => Some(offset),
            Position::Reset { .. } | Position::Committed => None,
        }
    }
}

/// Records that were fetched and not yet handed out.
#[derive(Debug)]
pub(crate) struct Buffer {
    pub(crate) records: VecDeque<Fetched>,
    /// The position after the last of them.
    pub(crate) next_offset: i64,
}

/// One assigned partition.
#[derive(Debug)]
pub(crate) struct Assigned {
    pub(crate) position: Position,
    pub(crate) buffer: Option<Buffer>,
    /// A request about it is in flight.
    pub(crate) busy: bool,
    /// Not to be asked about before this moment: its last request failed.
    pub(crate) retry_at: Instant,
}

/// Everything assigned.
#[derive(Debug, Default)]
pub(crate) struct Positions(pub(crate) BTreeMap<TopicPartition, Assigned>);

impl Positions {
    /// Assigns exactly `partitions`. Those assigned before keep their positions.
    pub(crate) fn assign(&mut self, partitions: &[TopicPartition], start: Position, now: Instant) {
        self.0.retain(|partition, _| partitions.contains(partition));
        for partition in partitions {
            let fresh = || Assigned { position: start, buffer: None, busy: false, retry_at: now };
            self.0.entry(partition.clone()).or_insert_with(fresh);
        }
    }

    /// Adds `partition`, or moves it if it is assigned already.
    pub(crate) fn add(&mut self, partition: &TopicPartition, position: Position, now: Instant) {
        if !self.seek(partition, position) {
            self.0.insert(partition.clone(), Assigned { position, buffer: None, busy: false, retry_at: now });
        }
    }

    /// Moves `partition`; what was fetched is dropped. False if it is not assigned.
    pub(crate) fn seek(&mut self, partition: &TopicPartition, position: Position) -> bool {
        self.0.get_mut(partition).is_some_and(|assigned| {
            assigned.position = position;
            assigned.buffer = None;
            true
        })
    }

    /// Hands out up to `max` fetched records, and moves the positions past them. The flag says whether any position
    /// moved: also past a batch without a record for the application (KAFKA-12980).
    pub(crate) fn take(&mut self, max: usize) -> (Vec<(TopicPartition, Fetched)>, bool) {
        let mut out = Vec::new();
        let mut moved = false;
        for (partition, assigned) in &mut self.0 {
            let Some(buffer) = &mut assigned.buffer else { continue };
            let Position::At(position) = assigned.position else { continue };
            let count = buffer.records.len().min(max - out.len());
            let handed = buffer.records.drain(..count);
            out.extend(handed.map(|record| (partition.clone(), record)));
            let next = match buffer.records.front() {
                Some(rest) => rest.offset,
                None => buffer.next_offset,
            };
            // Nothing taken from a full buffer is no progress.
            let next = if count == 0 && !buffer.records.is_empty() { position } else { next };
            moved |= next != position;
            assigned.position = Position::At(next);
            if buffer.records.is_empty() {
                assigned.buffer = None;
            }
        }
        (out, moved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::from_nanos(0);

    fn positions(offsets: &[i64], next_offset: i64) -> Positions {
        let mut positions = Positions::default();
        positions.assign(&[p0()], Position::At(0), NOW);
        let record = |offset: &i64| Fetched {
            offset: *offset,
            timestamp_ms: 0,
            key: None,
            value: None,
            headers: Vec::new(),
        };
        let buffer = Buffer { records: offsets.iter().map(record).collect(), next_offset };
        positions.0.get_mut(&p0()).unwrap().buffer = Some(buffer);
        positions
    }

    fn p0() -> TopicPartition {
        TopicPartition::new("t", 0)
    }

    fn take(positions: &mut Positions, max: usize) -> (Vec<i64>, bool, Position) {
        let (records, moved) = positions.take(max);
        let offsets = records.iter().map(|(_, record)| record.offset).collect();
        (offsets, moved, positions.0[&p0()].position)
    }

    #[test]
    fn positions_move_when_records_are_handed_out() {
        let mut positions = positions(&[0, 1, 4], 6);
        assert_eq!(take(&mut positions, 2), (vec![0, 1], true, Position::At(4)));
        assert_eq!(take(&mut positions, 2), (vec![4], true, Position::At(6)));
        assert_eq!(take(&mut positions, 2), (vec![], false, Position::At(6)));
    }

    #[test]
    fn a_response_of_markers_moves_the_position_and_yields_nothing() {
        assert_eq!(take(&mut positions(&[], 3), 10), (vec![], true, Position::At(3)));
    }

    #[test]
    fn a_seek_drops_what_was_fetched() {
        let mut positions = positions(&[0, 1], 2);
        assert!(positions.seek(&p0(), Position::At(0)));
        assert_eq!(take(&mut positions, 10), (vec![], false, Position::At(0)));
        assert!(!positions.seek(&TopicPartition::new("t", 1), Position::At(0)));
    }

    #[test]
    fn a_new_assignment_keeps_the_positions_of_what_stays() {
        let mut positions = positions(&[], 9);
        positions.take(1);
        let p1 = TopicPartition::new("t", 1);
        positions.assign(&[p0(), p1.clone()], Position::Reset { timestamp: -2 }, NOW);
        assert_eq!(positions.0[&p0()].position, Position::At(9));
        assert_eq!(positions.0[&p1].position, Position::Reset { timestamp: -2 });
        positions.assign(std::slice::from_ref(&p1), Position::At(0), NOW);
        assert!(!positions.0.contains_key(&p0()));
    }
}
