//! `processed-twice`: two results of one record, though results and the offset after it are committed together.
//!
//! It holds where members write what they made of a record in the transaction that commits its offset (KIP-447), and
//! results are read committed.

use std::collections::BTreeMap;
use std::fmt;

/// A record with more than one result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessedTwice {
    /// The partition.
    pub partition: i64,
    /// The record's offset.
    pub offset: i64,
    /// How many results there are.
    pub results: usize,
}

impl fmt::Display for ProcessedTwice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ProcessedTwice { partition, offset, results } = self;
        write!(f, "partition {partition}: offset {offset} has {results} results")
    }
}

/// Every record with more than one result. `results`: partition and offset of the record that each is of.
pub fn find(results: &[(i64, i64)]) -> Vec<ProcessedTwice> {
    let mut counts: BTreeMap<(i64, i64), usize> = BTreeMap::new();
    for record in results {
        *counts.entry(*record).or_default() += 1;
    }
    let twice = counts.into_iter().filter(|(_, count)| *count > 1);
    twice.map(|((partition, offset), results)| ProcessedTwice { partition, offset, results }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_has_one_result_at_most() {
        assert_eq!(find(&[(0, 4), (1, 4), (0, 6)]), []);
        let twice = ProcessedTwice { partition: 0, offset: 4, results: 2 };
        assert_eq!(find(&[(0, 4), (1, 4), (0, 4)]), [twice]);
    }
}
