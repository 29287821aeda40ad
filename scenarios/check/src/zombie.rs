//! `zombie-append`: a batch of an epoch that landed after a newer epoch had been handed out; and `zombie-end`: a producer
//! that asked for the end of its transaction after that, and was told that it succeeded.
//!
//! The newer epoch was returned to its producer at a known moment. A look that was asked for after that moment and shows
//! a high watermark H says that the log ended at H or before when the epoch was returned; so a batch of an older epoch at
//! or after H landed later. The more often somebody looks, the sharper this is.

use crate::look::{Batch, Log, Look};
use std::fmt;

/// A producer was told its epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The producer id.
    pub producer_id: i64,
    /// The epoch.
    pub epoch: i16,
    /// When the producer was told, on the clock of the looks.
    pub at_ns: u64,
}

/// A batch that came too late.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZombieAppend {
    /// The partition.
    pub partition: i64,
    /// The batch.
    pub batch: Batch,
    /// The newer epoch.
    pub grant: Grant,
    /// Where the log ended, at most, when that was handed out.
    pub end: i64,
}

impl fmt::Display for ZombieAppend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ZombieAppend { partition, batch, grant, end } = self;
        write!(
            f,
            "partition {partition}: {batch:?} landed after epoch {} had been returned at {} ns, when the log ended at {end}",
            grant.epoch, grant.at_ns
        )
    }
}

/// Every batch of an older epoch that landed after a newer one was returned.
pub fn find(grants: &[Grant], looks: &[Look], log: &Log) -> Vec<ZombieAppend> {
    let mut found = Vec::new();
    for grant in grants {
        for (partition, batches) in log {
            let after =
                looks.iter().filter(|look| look.partition == *partition && look.invoked_ns >= grant.at_ns);
            let Some(end) = after.map(|look| look.high_watermark).min() else { continue };
            let late = batches.range(end..).map(|(_, batch)| batch);
            let late =
                late.filter(|batch| batch.producer_id == grant.producer_id && batch.epoch < grant.epoch);
            found.extend(late.map(|batch| ZombieAppend {
                partition: *partition,
                batch: batch.clone(),
                grant: *grant,
                end,
            }));
        }
    }
    found
}

/// A producer asked for the end of a transaction that holds records, and was told that it succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// Which incarnation asked.
    pub producer: String,
    /// Its producer id.
    pub producer_id: i64,
    /// The epoch that it had when it asked.
    pub epoch: i16,
    /// When it asked first, on the clock of the grants.
    pub asked_ns: u64,
}

/// An end that should have been refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZombieEnd {
    /// The end.
    pub end: End,
    /// The newer epoch.
    pub grant: Grant,
}

impl fmt::Display for ZombieEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let End { producer, producer_id, epoch, asked_ns } = &self.end;
        write!(
            f,
            "{producer} asked at {asked_ns} ns, with epoch {epoch} of producer id {producer_id}, for the end of its transaction \
             and was told that it succeeded; epoch {} had been returned at {} ns",
            self.grant.epoch, self.grant.at_ns
        )
    }
}

/// Every end that was asked for under an epoch after a newer one was returned.
pub fn ends(grants: &[Grant], ends: &[End]) -> Vec<ZombieEnd> {
    let newer = |end: &End| {
        let of_it = grants.iter().filter(|grant| grant.producer_id == end.producer_id);
        of_it.copied().find(|grant| grant.epoch > end.epoch && grant.at_ns < end.asked_ns)
    };
    ends.iter().filter_map(|end| Some(ZombieEnd { grant: newer(end)?, end: end.clone() })).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::look::Kind::Transactional;
    use crate::look::log;
    use crate::look::tests::{batch, look};

    fn judge(epoch: i16, at_ns: u64) -> usize {
        // The log ends at 2 at 100 ns, and at 3 at 200 ns; all batches are of epoch 0.
        let batches = vec![batch(0, 1, Transactional), batch(2, 2, Transactional)];
        let looks = [look(100, 2, vec![batches[0].clone()]), look(200, 3, batches)];
        find(&[Grant { producer_id: 7, epoch, at_ns }], &looks, &log(&looks)).len()
    }

    #[test]
    fn a_batch_of_an_older_epoch_may_land_before_the_newer_one_is_returned_and_not_after() {
        assert_eq!(judge(1, 50), 1, "the log ended at 2 or before when epoch 1 was returned");
        assert_eq!(judge(1, 150), 0, "it may have landed before 150 ns");
        assert_eq!(judge(1, 300), 0, "nobody looked afterwards");
        assert_eq!(judge(0, 50), 0, "it is of that epoch");
    }

    #[test]
    fn who_was_fenced_ends_nothing() {
        let judge = |producer_id, epoch, asked_ns| {
            let end = End { producer: "a".into(), producer_id, epoch, asked_ns };
            ends(&[Grant { producer_id: 7, epoch: 1, at_ns: 50 }], &[end]).len()
        };
        assert_eq!(judge(7, 0, 60), 1);
        assert_eq!(judge(7, 0, 50), 0, "it may have been in time");
        assert_eq!(judge(7, 1, 60), 0, "it is the newer one");
        assert_eq!(judge(8, 0, 60), 0, "another producer");
    }

    #[test]
    fn another_producer_may_write() {
        let looks = [look(100, 0, vec![batch(0, 0, Transactional)])];
        let grant = Grant { producer_id: 8, epoch: 1, at_ns: 50 };
        assert_eq!(find(&[grant], &looks, &log(&looks)), []);
    }
}
