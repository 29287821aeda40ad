//! `moved-back`: a high watermark, a last stable offset or a log start that is less than an earlier answer's.
//!
//! An answer counts as later if it was asked for after the other had arrived; of two that overlap in time nothing is
//! said. Within one answer log start <= last stable offset <= high watermark.

use crate::look::Look;
use std::collections::BTreeMap;
use std::fmt;

/// What moved back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MovedBack {
    /// The partition.
    pub partition: i64,
    /// `high watermark`, `last stable offset` or `log start`; of one answer, the two that are in the wrong order.
    pub what: &'static str,
    /// What was answered first.
    pub before: i64,
    /// What was answered later.
    pub after: i64,
    /// When the later answer was asked for.
    pub at_ns: u64,
}

impl fmt::Display for MovedBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MovedBack { partition, what, before, after, at_ns } = self;
        write!(f, "partition {partition}: {what} {before}, then {after} (asked for at {at_ns} ns)")
    }
}

/// Every answer that shows less than an earlier one.
pub fn find(looks: &[Look]) -> Vec<MovedBack> {
    let mut found = Vec::new();
    let mut partitions: BTreeMap<i64, Vec<&Look>> = BTreeMap::new();
    for look in looks {
        partitions.entry(look.partition).or_default().push(look);
    }
    for (partition, looks) in partitions {
        found.extend(looks.iter().flat_map(|look| disorder(look)));
        type Value = fn(&Look) -> i64;
        let values: [(&str, Value); 3] = [
            ("high watermark", |look| look.high_watermark),
            ("last stable offset", |look| look.last_stable_offset),
            ("log start", |look| look.log_start_offset),
        ];
        for (what, value) in values {
            let found_here = regressions(&looks, value);
            found.extend(found_here.into_iter().map(|(before, after, at_ns)| MovedBack {
                partition,
                what,
                before,
                after,
                at_ns,
            }));
        }
    }
    found
}

fn disorder(look: &Look) -> Vec<MovedBack> {
    let pairs = [
        ("last stable offset above high watermark", look.last_stable_offset, look.high_watermark),
        ("log start above last stable offset", look.log_start_offset, look.last_stable_offset),
    ];
    let wrong = pairs.into_iter().filter(|(_, less, more)| less > more);
    wrong
        .map(|(what, less, more)| MovedBack {
            partition: look.partition,
            what,
            before: less,
            after: more,
            at_ns: look.invoked_ns,
        })
        .collect()
}

/// (before, after, when) for each look whose value is less than the largest answered before it was asked for.
fn regressions(looks: &[&Look], value: fn(&Look) -> i64) -> Vec<(i64, i64, u64)> {
    let mut by_answer = looks.to_vec();
    by_answer.sort_by_key(|look| look.answered_ns);
    let mut by_question = looks.to_vec();
    by_question.sort_by_key(|look| look.invoked_ns);
    let mut answered = by_answer.into_iter().peekable();
    let mut largest = i64::MIN;
    let mut found = Vec::new();
    for look in by_question {
        while let Some(earlier) = answered.next_if(|earlier| earlier.answered_ns < look.invoked_ns) {
            largest = largest.max(value(earlier));
        }
        if value(look) < largest {
            found.push((largest, value(look), look.invoked_ns));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::look::tests::look;

    #[test]
    fn a_later_answer_may_not_show_less() {
        assert_eq!(find(&[look(0, 5, vec![]), look(20, 5, vec![]), look(40, 9, vec![])]), []);
        let found = find(&[look(0, 5, vec![]), look(20, 3, vec![])]);
        let words: Vec<_> = found.iter().map(|found| (found.what, found.before, found.after)).collect();
        assert_eq!(words, [("high watermark", 5, 3), ("last stable offset", 5, 3)]);
    }

    #[test]
    fn of_two_answers_that_overlap_nothing_is_said() {
        // The first is asked for at 0 and answered at 10; the second is asked for at 10.
        assert_eq!(find(&[look(0, 5, vec![]), look(10, 3, vec![])]), []);
        // The order in which they are told does not matter.
        assert_eq!(find(&[look(20, 3, vec![]), look(0, 5, vec![])]).len(), 2);
    }

    #[test]
    fn another_partition_is_another_matter() {
        assert_eq!(find(&[look(0, 5, vec![]), Look { partition: 1, ..look(20, 3, vec![]) }]), []);
    }

    #[test]
    fn one_answer_has_its_offsets_in_order() {
        let undecided = Look { last_stable_offset: 6, ..look(0, 5, vec![]) };
        assert_eq!(find(&[undecided])[0].what, "last stable offset above high watermark");
        let trimmed = Look { log_start_offset: 6, ..look(0, 5, vec![]) };
        assert_eq!(find(&[trimmed])[0].what, "log start above last stable offset");
    }
}
