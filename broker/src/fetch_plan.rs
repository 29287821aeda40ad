//! How many batches of each partition a Fetch answer carries: kafka.md 1.5, after `ReplicaManager.readFromLog`.

/// A partition with data, in the order of the request.
pub(crate) struct Candidate {
    /// The partition's own limit (`partition_max_bytes`).
    pub(crate) max_bytes: usize,
    /// Sizes of its batches from the fetch offset on, in bytes.
    pub(crate) sizes: Vec<usize>,
}

/// Batches to take of each candidate. The first partition with data yields its first batch whatever the limits say, so
/// that a reader always gets on; after that only whole batches within both limits are taken. A partition that yields
/// nothing for want of room is not at its end: the reader asks again.
pub(crate) fn plan(max_bytes: usize, candidates: &[Candidate]) -> Vec<usize> {
    let mut remaining = max_bytes;
    let mut at_least_one = true;
    let take = |candidate: &Candidate| {
        let limit = candidate.max_bytes.min(remaining);
        let (mut taken, mut bytes) = (0, 0);
        for size in &candidate.sizes {
            if bytes + size > limit && !(at_least_one && taken == 0) {
                break;
            }
            taken += 1;
            bytes += size;
        }
        at_least_one &= taken == 0;
        remaining = remaining.saturating_sub(bytes);
        taken
    };
    candidates.iter().map(take).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn taken(max_bytes: usize, candidates: &[(usize, &[usize])]) -> Vec<usize> {
        let candidate = |(max_bytes, sizes): &(usize, &[usize])| Candidate {
            max_bytes: *max_bytes,
            sizes: sizes.to_vec(),
        };
        plan(max_bytes, &candidates.iter().map(candidate).collect::<Vec<_>>())
    }

    #[test]
    fn rule_by_rule() {
        assert_eq!(taken(100, &[(50, &[20, 20, 20])]), [2], "the partition's limit, whole batches");
        assert_eq!(taken(30, &[(50, &[20, 20, 20])]), [1], "the answer's limit");
        assert_eq!(
            taken(10, &[(5, &[20, 20])]),
            [1],
            "the first batch is returned though larger than both limits"
        );
        assert_eq!(taken(0, &[(0, &[20])]), [1], "even when nothing is allowed");
        assert_eq!(taken(100, &[(5, &[20]), (5, &[20])]), [1, 0], "once per answer");
        assert_eq!(taken(100, &[(50, &[]), (5, &[20])]), [0, 1], "an empty partition does not use it up");
        assert_eq!(
            taken(50, &[(40, &[20, 20]), (40, &[5, 5, 5])]),
            [2, 2],
            "what one takes the next cannot have"
        );
        assert_eq!(taken(10, &[(40, &[20]), (40, &[5])]), [1, 0], "remaining never goes below zero");
        assert_eq!(
            taken(30, &[(40, &[20]), (40, &[20, 1]), (40, &[10])]),
            [1, 0, 1],
            "a later one may still fit"
        );
    }

    proptest! {
        #[test]
        fn a_reader_always_gets_on(
            max_bytes in 0usize..200,
            candidates in proptest::collection::vec((0usize..100, proptest::collection::vec(1usize..90, 0..6)), 1..6),
        ) {
            let candidates: Vec<_> =
                candidates.into_iter().map(|(max_bytes, sizes)| Candidate { max_bytes, sizes }).collect();
            let counts = plan(max_bytes, &candidates);
            let bytes: Vec<usize> = counts.iter().zip(&candidates).map(|(n, c)| c.sizes[..*n].iter().sum()).collect();
            let has_data = candidates.iter().any(|c| !c.sizes.is_empty());
            prop_assert_eq!(has_data, counts.iter().any(|n| *n > 0));
            let total: usize = bytes.iter().sum();
            prop_assert!(total <= max_bytes || counts.iter().sum::<usize>() == 1);
            for (at, count) in counts.iter().enumerate() {
                prop_assert!(bytes[at] <= candidates[at].max_bytes || *count == 1);
            }
        }
    }
}
