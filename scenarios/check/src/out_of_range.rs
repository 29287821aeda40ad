//! `out-of-range`: a Fetch was refused with `OFFSET_OUT_OF_RANGE` though the offset lay inside the log.
//!
//! An offset is inside from the log's start up to and including the high watermark, where the next record will be: Kafka
//! answers that with no records. Both only grow. So when the broker refused, the high watermark was at least what any
//! answer before the question showed, and the log's start at most what any question after the refusal shows; where nobody
//! asked afterwards nothing is said.

use crate::look::Look;
use std::fmt;

/// A refused Fetch of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// When it was asked for, in nanoseconds, on the clock of the looks.
    pub invoked_ns: u64,
    /// When it was refused.
    pub answered_ns: u64,
    /// The partition.
    pub partition: i64,
    /// The offset asked for.
    pub from_offset: i64,
}

/// A refusal without a right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutOfRange {
    /// The refusal.
    pub refused: Refused,
    /// The log began here at the latest.
    pub log_start_offset: i64,
    /// It ended here at the earliest.
    pub high_watermark: i64,
}

impl fmt::Display for OutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OutOfRange { refused, log_start_offset, high_watermark } = self;
        let Refused { partition, from_offset, invoked_ns, .. } = refused;
        write!(
            f,
            "partition {partition}: offset {from_offset} was called out of range (asked for at {invoked_ns} ns), and the \
             log held {log_start_offset} to {high_watermark}"
        )
    }
}

/// Every refusal of an offset that was inside.
pub fn find(refusals: &[Refused], looks: &[Look]) -> Vec<OutOfRange> {
    let judge = |refused: &Refused| {
        let here = || looks.iter().filter(|look| look.partition == refused.partition);
        let before = here().filter(|look| look.answered_ns < refused.invoked_ns);
        let high_watermark = before.map(|look| look.high_watermark).max()?;
        let after = here().filter(|look| look.invoked_ns > refused.answered_ns);
        let log_start_offset = after.map(|look| look.log_start_offset).min()?;
        let inside = (log_start_offset..=high_watermark).contains(&refused.from_offset);
        inside.then(|| OutOfRange { refused: refused.clone(), log_start_offset, high_watermark })
    };
    refusals.iter().filter_map(judge).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::look::tests::look;

    fn refused(at_ns: u64, from_offset: i64) -> Refused {
        Refused { invoked_ns: at_ns, answered_ns: at_ns + 5, partition: 0, from_offset }
    }

    fn judge(refused: Refused) -> usize {
        // The log ends at 5, then at 9; then everything below 3 is deleted.
        let trimmed = Look { log_start_offset: 3, ..look(400, 9, vec![]) };
        find(&[refused], &[look(100, 5, vec![]), look(200, 9, vec![]), trimmed]).len()
    }

    #[test]
    fn what_is_inside_the_log_is_not_out_of_range() {
        assert_eq!(judge(refused(150, 4)), 1);
        assert_eq!(judge(refused(150, 5)), 1, "the end is where the next record will be");
        assert_eq!(judge(refused(300, 9)), 1);
    }

    #[test]
    fn what_was_outside_or_may_have_been_is_refused_by_right() {
        assert_eq!(judge(refused(150, 6)), 0, "nobody knew of more than 5");
        assert_eq!(judge(refused(300, 2)), 0, "it may have been deleted already");
        assert_eq!(judge(refused(300, -1)), 0);
        assert_eq!(judge(refused(300, 10)), 0);
        assert_eq!(judge(refused(105, 5)), 0, "that end was answered later");
    }

    #[test]
    fn where_nobody_looked_before_or_afterwards_nothing_is_said() {
        assert_eq!(judge(refused(50, 0)), 0);
        assert_eq!(judge(refused(500, 5)), 0);
        assert_eq!(judge(Refused { partition: 1, ..refused(150, 4) }), 0, "another partition");
    }
}
