//! What single readers saw of a partition, held against the log: `skipped-read` and `conflict`.
//!
//! A reader that reads on from the log's start sees the visible records one after the other: none twice, none left
//! out, none out of order (`skipped-read`). What anybody saw at an offset, or was told is there, is one value, and a
//! value is at one offset (`conflict`); that holds also for records of aborted transactions.

use crate::look::{self, Log};
use std::collections::BTreeMap;
use std::fmt;

/// What one reader saw of one partition, in the order in which it saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The reader.
    pub reader: String,
    /// The partition.
    pub partition: i64,
    /// Whether it reads committed records only.
    pub committed: bool,
    /// Offset and value of each record.
    pub records: Vec<(i64, i64)>,
}

/// A reader that did not see what it must.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// The reader.
    pub reader: String,
    /// The partition.
    pub partition: i64,
    /// The offset that came next in the log; `None` if there was none.
    pub expected: Option<i64>,
    /// The offset that the reader saw next.
    pub found: i64,
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Skipped { reader, partition, expected, found } = self;
        match expected {
            Some(expected) => {
                write!(f, "partition {partition}: {reader} read offset {found}, not {expected}")
            }
            None => {
                write!(f, "partition {partition}: {reader} read offset {found}, where nothing is visible")
            }
        }
    }
}

/// An offset with two values, or a value at two offsets.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Conflict {
    /// The partition.
    pub partition: i64,
    /// Offset and value as first seen.
    pub first: (i64, i64),
    /// Offset and value that contradict it.
    pub second: (i64, i64),
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Conflict { partition, first: (offset, value), second: (other, again) } = self;
        write!(f, "partition {partition}: value {value} at offset {offset}, value {again} at offset {other}")
    }
}

/// The first wrong step of each reader. The log must begin at offset 0.
pub fn skipped(readings: &[Reading], log: &Log) -> Vec<Skipped> {
    let mut visible: BTreeMap<(i64, bool), Vec<i64>> = BTreeMap::new();
    for (partition, batches) in log {
        for committed in [true, false] {
            visible.insert((*partition, committed), look::visible(batches, committed));
        }
    }
    let nothing = Vec::new();
    readings
        .iter()
        .filter_map(|reading| {
            let Reading { reader, partition, committed, records } = reading;
            let must = visible.get(&(*partition, *committed)).unwrap_or(&nothing);
            let wrong = records.iter().enumerate().find(|(n, (offset, _))| must.get(*n) != Some(offset));
            let (n, (found, _)) = wrong?;
            let expected = must.get(n).copied();
            Some(Skipped { reader: reader.clone(), partition: *partition, expected, found: *found })
        })
        .collect()
}

/// Every contradiction between readings.
pub fn conflicts(readings: &[Reading]) -> Vec<Conflict> {
    let mut found = std::collections::BTreeSet::new();
    let mut values: BTreeMap<(i64, i64), i64> = BTreeMap::new();
    let mut offsets: BTreeMap<(i64, i64), i64> = BTreeMap::new();
    for Reading { partition, records, .. } in readings {
        for (offset, value) in records {
            let known = *values.entry((*partition, *offset)).or_insert(*value);
            if known != *value {
                let (first, second) = ((*offset, known), (*offset, *value));
                found.insert(Conflict { partition: *partition, first, second });
            }
            let place = *offsets.entry((*partition, *value)).or_insert(*offset);
            if place != *offset {
                let (first, second) = ((place, *value), (*offset, *value));
                found.insert(Conflict { partition: *partition, first, second });
            }
        }
    }
    found.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::look::Kind::{Abort, Commit, Transactional};
    use crate::look::log;
    use crate::look::tests::{batch, look};

    /// Offsets 0 and 1 are committed, 3 is aborted, 5 is committed.
    fn judge(committed: bool, offsets: &[i64]) -> Vec<(Option<i64>, i64)> {
        let batches = vec![
            batch(0, 1, Transactional),
            batch(2, 2, Commit),
            batch(3, 3, Transactional),
            batch(4, 4, Abort),
            batch(5, 5, Transactional),
            batch(6, 6, Commit),
        ];
        let records = offsets.iter().map(|offset| (*offset, *offset)).collect();
        let reading = Reading { reader: "c".into(), partition: 0, committed, records };
        let found = skipped(&[reading], &log(&[look(0, 7, batches)]));
        found.into_iter().map(|skipped| (skipped.expected, skipped.found)).collect()
    }

    #[test]
    fn a_reader_sees_every_visible_record_once_and_in_order() {
        assert_eq!(judge(true, &[0, 1, 5]), []);
        assert_eq!(judge(true, &[0, 1]), [], "it may stop early");
        assert_eq!(judge(false, &[0, 1, 3, 5]), []);
        assert_eq!(judge(true, &[0, 5]), [(Some(1), 5)], "left out");
        assert_eq!(judge(true, &[1, 5]), [(Some(0), 1)], "left out at the start");
        assert_eq!(judge(true, &[0, 1, 3]), [(Some(5), 3)], "aborted");
        assert_eq!(judge(true, &[0, 1, 1]), [(Some(5), 1)], "twice");
        assert_eq!(judge(false, &[0, 1, 3, 5, 7]), [(None, 7)], "where nothing is");
    }

    #[test]
    fn an_offset_has_one_value_and_a_value_one_offset() {
        let reading = |partition, records: &[(i64, i64)]| Reading {
            reader: "c".into(),
            partition,
            committed: true,
            records: records.to_vec(),
        };
        assert_eq!(conflicts(&[reading(0, &[(0, 10), (1, 11)]), reading(0, &[(1, 11)])]), []);
        assert_eq!(conflicts(&[reading(0, &[(0, 10)]), reading(1, &[(0, 12), (1, 10)])]), []);
        let two_values = conflicts(&[reading(0, &[(0, 10)]), reading(0, &[(0, 11)])]);
        assert_eq!(two_values, [Conflict { partition: 0, first: (0, 10), second: (0, 11) }]);
        let two_places = conflicts(&[reading(0, &[(0, 10), (4, 10)])]);
        assert_eq!(two_places, [Conflict { partition: 0, first: (0, 10), second: (4, 10) }]);
    }
}
