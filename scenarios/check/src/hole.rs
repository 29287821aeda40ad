//! `hole`: an offset below the end that is in no batch, or in two.
//!
//! One answer returns batches without a gap, the first of which contains the offset asked for. All answers together
//! show every offset from the log's start to the last stable offset. Logs without compaction by key only.

use crate::look::Look;
use std::collections::BTreeMap;
use std::fmt;

/// Offsets that should be in one batch and are not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hole {
    /// The partition.
    pub partition: i64,
    /// The offset at which the next batch should begin.
    pub expected: i64,
    /// Where it begins; the end of what was shown, if there is none.
    pub found: i64,
    /// When the answer was asked for; `None` if it is about all answers together.
    pub at_ns: Option<u64>,
}

impl fmt::Display for Hole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Hole { partition, expected, found, at_ns } = self;
        write!(f, "partition {partition}: a batch should begin at {expected}, the next is at {found}")?;
        match at_ns {
            Some(at_ns) => write!(f, " (asked for at {at_ns} ns)"),
            None => write!(f, " (in all answers together)"),
        }
    }
}

/// Every gap and overlap.
pub fn find(looks: &[Look]) -> Vec<Hole> {
    let mut found: Vec<Hole> = looks.iter().filter_map(within).collect();
    found.extend(across(looks));
    found
}

fn within(look: &Look) -> Option<Hole> {
    let hole = |expected, found| {
        Some(Hole { partition: look.partition, expected, found, at_ns: Some(look.invoked_ns) })
    };
    let first = look.batches.first()?;
    if !(first.base_offset..=first.last_offset).contains(&look.from_offset) {
        return hole(look.from_offset, first.base_offset);
    }
    let mut expected = first.base_offset;
    for batch in &look.batches {
        if batch.base_offset != expected || batch.last_offset < batch.base_offset {
            return hole(expected, batch.base_offset);
        }
        expected = batch.last_offset + 1;
    }
    (expected > look.high_watermark).then(|| hole(look.high_watermark, expected))?
}

fn across(looks: &[Look]) -> Vec<Hole> {
    let mut found = Vec::new();
    let log = crate::look::log(looks);
    let mut ends: BTreeMap<i64, (i64, i64)> = BTreeMap::new();
    for look in looks {
        let (start, end) = ends.entry(look.partition).or_insert((0, 0));
        *start = look.log_start_offset.max(*start);
        *end = look.last_stable_offset.max(*end);
    }
    for (partition, (start, end)) in ends {
        let mut expected = start;
        let batches = log.get(&partition).into_iter().flat_map(BTreeMap::values);
        for batch in batches.filter(|batch| batch.last_offset >= start) {
            if batch.base_offset > expected {
                found.push(Hole { partition, expected, found: batch.base_offset, at_ns: None });
            }
            expected = expected.max(batch.last_offset + 1);
        }
        if expected < end {
            found.push(Hole { partition, expected, found: end, at_ns: None });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::look::Kind::Plain;
    use crate::look::tests::{batch, look};

    #[test]
    fn batches_follow_one_another() {
        let dense = vec![batch(0, 1, Plain), batch(2, 2, Plain), batch(3, 5, Plain)];
        assert_eq!(find(&[look(0, 6, dense.clone())]), []);
        let gap = vec![dense[0].clone(), dense[2].clone()];
        let found = find(&[look(0, 6, gap)]);
        let hole = Hole { partition: 0, expected: 2, found: 3, at_ns: Some(0) };
        assert_eq!(found, [hole.clone(), Hole { at_ns: None, ..hole }]);
        let overlap = vec![dense[0].clone(), batch(1, 2, Plain)];
        assert_eq!(find(&[look(0, 3, overlap)])[0].expected, 2);
    }

    #[test]
    fn the_first_batch_contains_the_offset_asked_for() {
        let ask = |from_offset| Look { from_offset, ..look(0, 3, vec![batch(0, 2, Plain)]) };
        assert_eq!(find(&[ask(0)]), []);
        assert_eq!(find(&[ask(2)]), []);
        assert_eq!(find(&[ask(3)])[0].expected, 3);
    }

    #[test]
    fn what_is_decided_was_shown_by_somebody() {
        let first = look(0, 2, vec![batch(0, 1, Plain)]);
        let later = Look { from_offset: 2, ..look(20, 3, vec![batch(2, 2, Plain)]) };
        assert_eq!(find(&[first.clone(), later]), []);
        let unread = look(20, 3, vec![]);
        assert_eq!(find(&[first, unread]), [Hole { partition: 0, expected: 2, found: 3, at_ns: None }]);
    }

    #[test]
    fn nothing_is_shown_above_the_high_watermark() {
        let found = find(&[look(0, 1, vec![batch(0, 1, Plain)])]);
        assert_eq!(found, [Hole { partition: 0, expected: 1, found: 2, at_ns: Some(0) }]);
    }

    #[test]
    fn offsets_below_the_log_start_may_be_gone() {
        let trimmed = Look { log_start_offset: 2, from_offset: 2, ..look(0, 3, vec![batch(2, 2, Plain)]) };
        assert_eq!(find(&[trimmed]), []);
    }
}
