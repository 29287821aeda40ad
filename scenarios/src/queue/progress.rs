//! What the workers of a run share, beside the log: how far keys were written and read, and what was decided on the way.

use super::worker::Worked;
use crate::log::Done;
use check::{Ack, Status};
use std::collections::{BTreeMap, BTreeSet};

/// What the workers of a run share.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// By key, the highest offset that an ok operation sent to.
    sent: BTreeMap<u32, i64>,
    /// By key, the highest offset that an ok operation polled.
    polled: BTreeMap<u32, i64>,
    /// Keys that some operation has sent to.
    touched: BTreeSet<u32>,
    /// Topics that were created, or are being created.
    pub(crate) topics: BTreeSet<String>,
    /// Transactional ids handed out.
    pub(crate) transactional_ids: u32,
    /// How many workers have a final phase.
    pub(crate) finishers: usize,
    /// Workers that are in theirs.
    pub(crate) finishing: BTreeSet<String>,
    /// When all trouble is over, in nanoseconds since the start.
    pub(crate) healed_ns: u64,
    /// Keys chosen by operations that choose while they run, by worker and operation.
    pub(crate) chosen: BTreeMap<(String, u32), Vec<u32>>,
    /// What the last final reader to finish found, whole, by key.
    pub(crate) found: BTreeMap<u32, BTreeSet<u64>>,
    /// Payloads that are not what was sent, in words.
    pub(crate) damaged: Vec<String>,
    /// Closes that took longer than they might, in words.
    pub(crate) hung: Vec<String>,
    /// How the operations of zombies ended.
    pub(crate) zombies: Vec<Status>,
    /// Raw looks at the ends of logs: key, end, when it was asked for.
    pub(crate) listed: Vec<(u32, i64, u64)>,
}

impl Progress {
    /// Takes note of a completed operation.
    pub(crate) fn note(&mut self, worked: &Worked) {
        for done in &worked.details.done {
            if let Done::Send { key, .. } = done {
                self.touched.insert(*key);
            }
        }
        if worked.status != Status::Ok {
            return;
        }
        for done in &worked.details.done {
            match done {
                Done::Send { key, ack: Ack::At(offset), .. } => raise(&mut self.sent, *key, *offset),
                Done::Send { .. } | Done::Poll(None) => {}
                Done::Poll(Some(records)) => {
                    records.iter().for_each(|(key, offset, _)| raise(&mut self.polled, *key, *offset));
                }
            }
        }
    }

    /// Keys of which acknowledged records were never polled.
    pub(crate) fn unseen(&self) -> Vec<u32> {
        let behind = |(key, sent): (&u32, &i64)| {
            (self.polled.get(key).is_none_or(|polled| polled < sent)).then_some(*key)
        };
        self.sent.iter().filter_map(behind).collect()
    }

    /// Keys that somebody sent to.
    pub(crate) fn touched(&self) -> Vec<u32> {
        self.touched.iter().copied().collect()
    }

    /// By key, the highest offset that an ok operation sent to or polled: final reads must get there. A spurious offset 0
    /// never matters, since it is the lowest.
    pub(crate) fn targets(&self) -> BTreeMap<u32, i64> {
        let mut targets = self.sent.clone();
        self.polled.iter().for_each(|(key, offset)| raise(&mut targets, *key, *offset));
        targets
    }
}

pub(super) fn raise(highest: &mut BTreeMap<u32, i64>, key: u32, offset: i64) {
    let known = highest.entry(key).or_insert(offset);
    *known = offset.max(*known);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Details;

    #[test]
    fn what_was_acknowledged_above_what_was_polled_is_unseen() {
        let worked = |status, done| Worked {
            status,
            details: Details { done, ..Details::default() },
            error: None,
            goes_on: true,
        };
        let sent = |key, offset| Done::Send { key, value: 1, ack: Ack::At(offset) };
        let polled = |key, offset| Done::Poll(Some(vec![(key, offset, 1)]));
        let mut progress = Progress::default();
        progress.note(&worked(Status::Ok, vec![sent(1, 5), sent(2, 0), sent(3, 4)]));
        progress.note(&worked(Status::Ok, vec![polled(1, 4), polled(2, 0), polled(7, 9)]));
        // Only what ok operations know counts.
        progress.note(&worked(Status::Info, vec![sent(4, 8), polled(1, 5)]));
        assert_eq!(progress.unseen(), [1, 3]);
        assert_eq!(progress.touched(), [1, 2, 3, 4]);
        assert_eq!(progress.targets(), [(1, 5), (2, 0), (3, 4), (7, 9)].into());
    }
}
