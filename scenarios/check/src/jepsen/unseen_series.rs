//! How many acknowledged records nobody had polled yet, after each ok event: the series behind Jepsen's plot.

use crate::history::{Atom, History, Status};
use std::collections::BTreeMap;

/// After one ok event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// When the event completed, in nanoseconds.
    pub time_ns: u64,
    /// By every key that an ok event sent to or polled so far: how many of its acknowledged records are unseen.
    pub unseen: BTreeMap<Atom, usize>,
}

/// One sample for each ok event that sends or polls. As large as events times keys; the verdict does without it.
pub fn unseen_series(history: &History) -> Vec<Sample> {
    let (mut sent, mut polled) = (vec![false; history.message_count()], vec![false; history.message_count()]);
    let mut unseen: BTreeMap<Atom, usize> = BTreeMap::new();
    let mut series = Vec::new();
    for event in history.events().filter(|event| event.status() == Status::Ok && event.is_records()) {
        for (message, _) in event.sent_messages() {
            let count = unseen.entry(history.message(message).0).or_default();
            if !sent[message as usize] && !polled[message as usize] {
                *count += 1;
            }
            sent[message as usize] = true;
        }
        for message in event.polled_messages() {
            let count = unseen.entry(history.message(*message).0).or_default();
            if sent[*message as usize] && !polled[*message as usize] {
                *count -= 1;
            }
            polled[*message as usize] = true;
        }
        series.push(Sample { time_ns: event.time_ns(), unseen: unseen.clone() });
    }
    series
}
