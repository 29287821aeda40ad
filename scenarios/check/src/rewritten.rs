//! `rewritten`: an offset that once held other bytes, or belonged to a batch of other bounds.

use crate::look::{Batch, Look};
use std::collections::BTreeMap;
use std::fmt;

/// Two answers that differ about an offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rewritten {
    /// The partition.
    pub partition: i64,
    /// The batch as it was seen first.
    pub before: Batch,
    /// The batch as it was seen later.
    pub after: Batch,
    /// When the later answer was asked for.
    pub at_ns: u64,
}

impl fmt::Display for Rewritten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Rewritten { partition, before, after, at_ns } = self;
        write!(f, "partition {partition}: {before:?}, then {after:?} (asked for at {at_ns} ns)")
    }
}

/// Every batch that overlaps one seen before without being the same.
pub fn find(looks: &[Look]) -> Vec<Rewritten> {
    let mut found = Vec::new();
    let mut known: BTreeMap<(i64, i64), &Batch> = BTreeMap::new();
    for look in looks {
        for batch in &look.batches {
            // Those known do not overlap one another, so the last that begins in time is the only one that can.
            let key = (look.partition, batch.last_offset);
            let earlier =
                known.range((look.partition, i64::MIN)..=key).next_back().map(|(_, earlier)| *earlier);
            match earlier {
                Some(earlier) if earlier == batch => {}
                Some(earlier) if earlier.last_offset >= batch.base_offset => found.push(Rewritten {
                    partition: look.partition,
                    before: earlier.clone(),
                    after: batch.clone(),
                    at_ns: look.invoked_ns,
                }),
                _ => {
                    known.insert((look.partition, batch.base_offset), batch);
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::look::Kind;
    use crate::look::tests::{batch, look};

    fn two_looks(first: Batch, second: Batch) -> Vec<Look> {
        vec![look(0, 9, vec![first]), look(20, 9, vec![second])]
    }

    #[test]
    fn the_same_offset_gives_the_same_bytes() {
        let plain = batch(0, 1, Kind::Plain);
        assert_eq!(find(&two_looks(plain.clone(), plain.clone())), []);
        assert_eq!(find(&two_looks(plain.clone(), batch(2, 2, Kind::Plain))), []);
        let changed = Batch { digest: 2, ..plain.clone() };
        assert_eq!(find(&two_looks(plain, changed)).len(), 1);
    }

    #[test]
    fn an_offset_stays_in_its_batch() {
        for other in [batch(0, 2, Kind::Plain), batch(1, 1, Kind::Plain), batch(1, 3, Kind::Plain)] {
            let found = find(&two_looks(batch(0, 1, Kind::Plain), other.clone()));
            assert_eq!(found.len(), 1, "{other:?}");
            assert_eq!((found[0].at_ns, &found[0].after), (20, &other));
        }
    }

    #[test]
    fn another_partition_has_other_bytes() {
        let mut looks = two_looks(batch(0, 1, Kind::Plain), Batch { digest: 2, ..batch(0, 1, Kind::Plain) });
        looks[1].partition = 1;
        assert_eq!(find(&looks), []);
    }
}
