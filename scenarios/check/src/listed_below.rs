//! `listed-below`: ListOffsets named an end of the log below a record whose acknowledgement had been told before it was
//! asked.
//!
//! For a reader of everything the end is the high watermark, and every acknowledged record lies below it. For a reader of
//! committed records it is the last stable offset: a record lies below it once its own transaction is decided and every
//! transaction that is older in the partition, so only records known to be so may be told here with that moment.

use std::collections::BTreeMap;
use std::fmt;

/// A record that lies below the end of the log from a moment on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// The partition.
    pub partition: i64,
    /// Its offset.
    pub offset: i64,
    /// When somebody was told so, in nanoseconds.
    pub told_ns: u64,
}

/// What ListOffsets (`LATEST`) was answered for a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The partition.
    pub partition: i64,
    /// The end.
    pub end: i64,
    /// When it was asked for, in nanoseconds, on the clock of [`Known::told_ns`].
    pub invoked_ns: u64,
}

/// An end that is too low.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedBelow {
    /// The answer.
    pub listed: Listed,
    /// The highest record that was known before.
    pub known: Known,
}

impl fmt::Display for ListedBelow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ListedBelow { listed: Listed { partition, end, invoked_ns }, known } = self;
        write!(
            f,
            "partition {partition}: its end was listed as {end} (asked for at {invoked_ns} ns), and offset {} had been \
             acknowledged at {} ns",
            known.offset, known.told_ns
        )
    }
}

/// Every answer below what was known when it was asked for.
pub fn find(known: &[Known], listed: &[Listed]) -> Vec<ListedBelow> {
    let mut by_time = known.to_vec();
    by_time.sort_by_key(|known| known.told_ns);
    let mut questions = listed.to_vec();
    questions.sort_by_key(|listed| listed.invoked_ns);
    let mut by_time = by_time.into_iter().peekable();
    let mut highest: BTreeMap<i64, Known> = BTreeMap::new();
    let mut found = Vec::new();
    for listed in questions {
        while let Some(known) = by_time.next_if(|known| known.told_ns < listed.invoked_ns) {
            let highest = highest.entry(known.partition).or_insert(known);
            if known.offset > highest.offset {
                *highest = known;
            }
        }
        if let Some(known) = highest.get(&listed.partition).filter(|known| known.offset >= listed.end) {
            found.push(ListedBelow { listed, known: *known });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [Known; 3] = [
        Known { partition: 0, offset: 7, told_ns: 20 },
        Known { partition: 0, offset: 3, told_ns: 30 },
        Known { partition: 1, offset: 50, told_ns: 10 },
    ];

    fn judge(end: i64, invoked_ns: u64) -> Vec<i64> {
        let found = find(&KNOWN, &[Listed { partition: 0, end, invoked_ns }]);
        found.iter().map(|found| found.known.offset).collect()
    }

    #[test]
    fn an_acknowledged_record_lies_below_the_end() {
        assert_eq!(judge(7, 40), [7]);
        assert_eq!(judge(0, 40), [7]);
        assert_eq!(judge(8, 40), [0; 0]);
    }

    #[test]
    fn what_is_told_later_or_of_another_partition_does_not_count() {
        assert_eq!(judge(0, 20), [0; 0], "it may have been asked before the acknowledgement");
        assert_eq!(judge(7, 21), [7]);
        assert_eq!(judge(0, 15), [0; 0]);
    }

    #[test]
    fn the_order_in_which_answers_are_told_does_not_matter() {
        let late = Listed { partition: 0, end: 4, invoked_ns: 40 };
        let early = Listed { partition: 0, end: 0, invoked_ns: 5 };
        assert_eq!(find(&KNOWN, &[late, early]), [ListedBelow { listed: late, known: KNOWN[0] }]);
    }
}
