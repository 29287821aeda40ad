//! Sequence numbers of an idempotent producer, per partition: Java's `TxnPartitionMap`.

use crate::types::TopicPartition;
use std::collections::BTreeMap;

/// `sequence + count` in Kafka's arithmetic, where 0 follows 2^31 - 1.
pub(crate) fn plus(sequence: i32, count: i32) -> i32 {
    sequence.wrapping_add(count) & i32::MAX
}

/// `sequence - count` in the same arithmetic.
pub(crate) fn minus(sequence: i32, count: i32) -> i32 {
    sequence.wrapping_sub(count) & i32::MAX
}

#[derive(Debug, Default)]
struct Partition {
    /// The sequence of the next new record.
    next: i32,
    /// Of the last record acknowledged, in this epoch.
    last_acked: Option<i32>,
    /// The offset of the last record acknowledged, as far as brokers have said.
    last_acked_offset: Option<i64>,
    /// Batches with a sequence that are not finished: base sequence and batch id, in the order they were drained.
    in_flight: Vec<(i32, u64)>,
    /// A batch expired whose sequence the broker may or may not have seen.
    unresolved: bool,
}

/// All partitions' sequences.
#[derive(Debug, Default)]
pub(crate) struct Sequences(BTreeMap<TopicPartition, Partition>);

impl Sequences {
    /// Gives the next `count` sequences of `partition` to `batch`, and returns the first.
    pub(crate) fn assign(&mut self, partition: &TopicPartition, batch: u64, count: i32) -> i32 {
        let state = self.0.entry(partition.clone()).or_default();
        let base = state.next;
        state.next = plus(base, count);
        state.in_flight.push((base, batch));
        base
    }

    /// The batch of `partition` that must be acknowledged first.
    pub(crate) fn first_in_flight(&self, partition: &TopicPartition) -> Option<u64> {
        self.0.get(partition)?.in_flight.first().map(|(_, batch)| *batch)
    }

    /// `batch` was acknowledged at `base_offset`; -1 if the broker does not say.
    pub(crate) fn acknowledged(
        &mut self,
        partition: &TopicPartition,
        batch: u64,
        count: i32,
        base_offset: i64,
    ) {
        let Some(state) = self.0.get_mut(partition) else { return };
        if base_offset >= 0 {
            state.last_acked_offset = state.last_acked_offset.max(Some(base_offset + i64::from(count) - 1));
        }
        if let Some(base) = state.remove(batch) {
            let last = plus(base, count - 1);
            // An older batch that is acknowledged late does not move it back.
            state.last_acked = Some(state.last_acked.map_or(last, |acked| acked.max(last)));
        }
    }

    /// `batch` failed for good. With `adjust` its sequences are given back, and those of later batches move down, so
    /// that no gap is left; the later batches with their new base sequences are returned.
    pub(crate) fn failed(
        &mut self,
        partition: &TopicPartition,
        batch: u64,
        count: i32,
        adjust: bool,
    ) -> Vec<(u64, i32)> {
        let Some(state) = self.0.get_mut(partition) else { return Vec::new() };
        let Some(base) = state.remove(batch) else { return Vec::new() };
        if !adjust {
            return Vec::new();
        }
        state.next = minus(state.next, count);
        let later = state.in_flight.iter_mut().filter(|(sequence, _)| *sequence > base);
        later
            .map(|(sequence, batch)| {
                *sequence = minus(*sequence, count);
                (*batch, *sequence)
            })
            .collect()
    }

    /// The offset of the last record of `partition` that was acknowledged; -1 for none.
    pub(crate) fn last_acked_offset(&self, partition: &TopicPartition) -> i64 {
        self.0.get(partition).and_then(|state| state.last_acked_offset).unwrap_or(-1)
    }

    /// Forgets all of `partition`: the next sequence is 0.
    pub(crate) fn forget(&mut self, partition: &TopicPartition) {
        self.0.remove(partition);
    }

    /// Whether `batch` is the one the broker expects next.
    pub(crate) fn is_next(&self, partition: &TopicPartition, batch: u64) -> bool {
        self.0.get(partition).is_some_and(|state| {
            let base = state.in_flight.iter().find(|(_, found)| *found == batch).map(|(base, _)| *base);
            base == Some(state.expected())
        })
    }

    /// Remembers that a batch of `partition` expired after it had been sent.
    pub(crate) fn mark_unresolved(&mut self, partition: &TopicPartition) {
        self.0.entry(partition.clone()).or_default().unresolved = true;
    }

    /// Whether an expired batch leaves it open which sequence the broker expects next.
    pub(crate) fn is_unresolved(&self, partition: &TopicPartition) -> bool {
        self.0.get(partition).is_some_and(|state| state.unresolved)
    }

    /// Settles partitions on which nothing is in flight any more; true if one of them has a gap.
    pub(crate) fn resolve(&mut self) -> bool {
        let mut gap = false;
        for state in self.0.values_mut().filter(|state| state.unresolved && state.in_flight.is_empty()) {
            state.unresolved = false;
            gap |= state.next != state.expected();
        }
        gap
    }

    /// Starts at 0 everywhere, as a new epoch demands.
    pub(crate) fn reset(&mut self) {
        self.0.clear();
    }

    /// Gives the unfinished batches of every partition new sequences from 0, in order, for a new epoch.
    /// `count_of` says how many records a batch has.
    pub(crate) fn restart(&mut self, count_of: impl Fn(u64) -> i32) -> Vec<(u64, i32)> {
        self.0.values_mut().flat_map(|state| state.restart(&count_of)).collect()
    }

    /// As [`Sequences::restart`], of one partition.
    pub(crate) fn restart_one(
        &mut self,
        partition: &TopicPartition,
        count_of: impl Fn(u64) -> i32,
    ) -> Vec<(u64, i32)> {
        self.0.get_mut(partition).map_or_else(Vec::new, |state| state.restart(&count_of))
    }
}

impl Partition {
    fn remove(&mut self, batch: u64) -> Option<i32> {
        let at = self.in_flight.iter().position(|(_, found)| *found == batch)?;
        Some(self.in_flight.remove(at).0)
    }

    fn restart(&mut self, count_of: &impl Fn(u64) -> i32) -> Vec<(u64, i32)> {
        self.next = 0;
        self.last_acked = None;
        self.unresolved = false;
        let mut moved = Vec::new();
        for (base, batch) in &mut self.in_flight {
            *base = self.next;
            self.next = plus(self.next, count_of(*batch));
            moved.push((*batch, *base));
        }
        moved
    }

    fn expected(&self) -> i32 {
        self.last_acked.map_or(0, |acked| plus(acked, 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn p0() -> TopicPartition {
        TopicPartition::new("t", 0)
    }

    #[test]
    fn zero_follows_the_largest_sequence() {
        assert_eq!(plus(i32::MAX, 1), 0);
        assert_eq!(plus(i32::MAX - 1, 5), 3);
        assert_eq!(minus(0, 1), i32::MAX);
        assert_eq!(minus(2, 5), i32::MAX - 2);
    }

    #[test]
    fn a_failed_batch_gives_its_sequences_back() {
        let mut sequences = Sequences::default();
        assert_eq!([(1, 2), (2, 3), (3, 1)].map(|(id, n)| sequences.assign(&p0(), id, n)), [0, 2, 5]);
        assert_eq!(sequences.failed(&p0(), 2, 3, true), [(3, 2)]);
        assert_eq!(sequences.assign(&p0(), 4, 1), 3);
        assert_eq!(sequences.first_in_flight(&p0()), Some(1));
    }

    #[test]
    fn an_expired_batch_leaves_a_gap_unless_it_was_the_last_acknowledged() {
        let mut sequences = Sequences::default();
        sequences.assign(&p0(), 1, 2);
        sequences.assign(&p0(), 2, 1);
        sequences.failed(&p0(), 1, 2, false);
        sequences.mark_unresolved(&p0());
        assert!(!sequences.resolve(), "batch 2 is still in flight");
        assert!(sequences.is_unresolved(&p0()));
        // Batch 2 was appended, so batch 1 must have been: no gap.
        sequences.acknowledged(&p0(), 2, 1, -1);
        assert!(!sequences.resolve());
        sequences.assign(&p0(), 3, 1);
        sequences.failed(&p0(), 3, 1, false);
        sequences.mark_unresolved(&p0());
        assert!(sequences.resolve());
    }

    #[test]
    fn a_new_epoch_renumbers_from_zero() {
        let mut sequences = Sequences::default();
        sequences.assign(&p0(), 1, 4);
        sequences.acknowledged(&p0(), 1, 4, 10);
        assert_eq!(sequences.last_acked_offset(&p0()), 13);
        sequences.assign(&p0(), 2, 2);
        sequences.assign(&p0(), 3, 1);
        assert_eq!(sequences.restart(|batch| if batch == 2 { 2 } else { 1 }), [(2, 0), (3, 2)]);
        assert!(sequences.is_next(&p0(), 2) && !sequences.is_next(&p0(), 3));
    }

    proptest! {
        /// Whatever fails, what is left in flight and the next sequence stay without gap or overlap.
        #[test]
        fn adjusted_sequences_stay_dense(counts in prop::collection::vec(1..5i32, 1..8), fails in prop::collection::vec(any::<bool>(), 8)) {
            let mut sequences = Sequences::default();
            for (id, count) in (0u64..).zip(&counts) {
                sequences.assign(&p0(), id, *count);
            }
            for (id, count) in (0u64..).zip(&counts) {
                if fails[id as usize] {
                    sequences.failed(&p0(), id, *count, true);
                }
            }
            let state = &sequences.0[&p0()];
            let mut expected = 0;
            for (base, id) in &state.in_flight {
                prop_assert_eq!(*base, expected);
                expected += counts[*id as usize];
            }
            prop_assert_eq!(state.next, expected);
        }
    }
}
