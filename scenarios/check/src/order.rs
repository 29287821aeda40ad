//! `reordered`: two acknowledged records of one producer in one partition, the first sent behind the other.

use std::collections::BTreeMap;
use std::fmt;

/// An acknowledged record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The producer: one incarnation of it.
    pub producer: String,
    /// The partition.
    pub partition: i64,
    /// Which of this producer's records it is, in the order in which they were sent.
    pub nth: u64,
    /// Where it was written.
    pub offset: i64,
}

/// Two records in the wrong order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reordered {
    /// Sent first.
    pub first: Sent,
    /// Sent next, and written before it or at the same offset.
    pub second: Sent,
}

impl fmt::Display for Reordered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Reordered { first, second } = self;
        let Sent { producer, partition, .. } = first;
        write!(
            f,
            "partition {partition}: {producer} sent record {} before record {}, at offsets {} and {}",
            first.nth, second.nth, first.offset, second.offset
        )
    }
}

/// Every record that stands behind one sent after it.
pub fn find(sent: &[Sent]) -> Vec<Reordered> {
    let mut lines: BTreeMap<(&str, i64), Vec<&Sent>> = BTreeMap::new();
    for record in sent {
        lines.entry((&record.producer, record.partition)).or_default().push(record);
    }
    let mut found = Vec::new();
    for mut line in lines.into_values() {
        line.sort_by_key(|record| record.nth);
        let pairs = line.windows(2).filter(|pair| pair[0].offset >= pair[1].offset);
        found.extend(pairs.map(|pair| Reordered { first: pair[0].clone(), second: pair[1].clone() }));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(producer: &str, partition: i64, nth: u64, offset: i64) -> Sent {
        Sent { producer: producer.into(), partition, nth, offset }
    }

    #[test]
    fn records_stand_in_the_order_in_which_they_were_sent() {
        // Acknowledged in another order than sent; record 2 was never acknowledged.
        assert_eq!(find(&[sent("a", 0, 3, 9), sent("a", 0, 1, 4)]), []);
        assert_eq!(find(&[sent("a", 0, 1, 9), sent("a", 0, 2, 4)]).len(), 1);
        assert_eq!(find(&[sent("a", 0, 1, 4), sent("a", 0, 2, 4)]).len(), 1, "the same offset twice");
    }

    #[test]
    fn other_producers_and_partitions_have_orders_of_their_own() {
        assert_eq!(find(&[sent("a", 0, 1, 9), sent("b", 0, 2, 4), sent("a", 1, 2, 4)]), []);
    }
}
