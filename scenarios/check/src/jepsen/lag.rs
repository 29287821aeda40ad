//! Realtime lag: for how long, at least, what a poll knew of a key had been out of date when it was invoked.
//!
//! An offset is out of date from the first event that knows a higher one. A process knows the highest offset that its
//! ok events sent or polled since the key was last assigned anew; nothing counts as offset -1. Per ok poll there is a
//! row for each key that the process is assigned to or has met since it subscribed.

use crate::history::{Ack, Atom, Event, Function, History, Op, Status};
use std::collections::BTreeMap;

/// One poll, one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lag {
    /// When the poll was invoked, in nanoseconds.
    pub time_ns: u64,
    /// The logical client.
    pub process: i64,
    /// The partition.
    pub key: Atom,
    /// The lag, in nanoseconds.
    pub lag_ns: u64,
}

/// By key: the highest offset known, each with the time of the first event that knew it; ascending.
type Known = BTreeMap<Atom, Vec<(i64, u64)>>;

/// All rows, in the order of the polls and of the keys.
pub fn realtime_lag(history: &History) -> Vec<Lag> {
    let known = known(history);
    let mut positions: BTreeMap<i64, BTreeMap<Atom, i64>> = BTreeMap::new();
    let mut invoked: BTreeMap<i64, u64> = BTreeMap::new();
    let mut lags = Vec::new();
    for event in history.events() {
        let process = event.process();
        match (event.status(), event.function()) {
            (Status::Invoke, _) => {
                invoked.insert(process, event.time_ns());
            }
            (Status::Ok, Function::Assign) => {
                let before = positions.remove(&process).unwrap_or_default();
                let kept = |key: &Atom| (*key, before.get(key).copied().unwrap_or(-1));
                positions.insert(process, event.keys().iter().map(kept).collect());
            }
            (Status::Ok, Function::Subscribe) => {
                positions.insert(process, BTreeMap::new());
            }
            (Status::Ok, Function::Poll | Function::Txn) => {
                let time_ns = invoked.get(&process).copied().unwrap_or_default();
                let positions = positions.entry(process).or_default();
                for (key, offset) in highest_offsets(&event) {
                    let position = positions.entry(key).or_insert(offset);
                    *position = offset.max(*position);
                }
                lags.extend(positions.iter().map(|(key, offset)| {
                    let expired_ns = expired_ns(&known, *key, *offset);
                    let lag_ns = expired_ns.map_or(0, |expired_ns| time_ns.saturating_sub(expired_ns));
                    Lag { time_ns, process, key: *key, lag_ns }
                }));
            }
            _ => {}
        }
    }
    lags
}

/// The row with the greatest lag; the first of equals.
pub fn worst_realtime_lag(lags: &[Lag]) -> Option<&Lag> {
    lags.iter().rev().max_by_key(|lag| lag.lag_ns)
}

fn known(history: &History) -> Known {
    let mut known = Known::new();
    for event in history.events() {
        for (key, offset) in highest_offsets(&event).into_iter().filter(|(_, offset)| *offset >= 0) {
            let steps = known.entry(key).or_default();
            if steps.last().is_none_or(|(highest, _)| *highest < offset) {
                steps.push((offset, event.time_ns()));
            }
        }
    }
    known
}

/// When an event first knew an offset above `offset`.
fn expired_ns(known: &Known, key: Atom, offset: i64) -> Option<u64> {
    let steps = known.get(&key)?;
    let step = steps.partition_point(|(highest, _)| *highest <= offset);
    steps.get(step).map(|(_, time_ns)| *time_ns)
}

/// By key: the highest offset that an ok or info event sent to or polled; -1 if it polled records of unknown offsets.
fn highest_offsets(event: &Event<'_>) -> BTreeMap<Atom, i64> {
    let mut highest = BTreeMap::new();
    if !matches!(event.status(), Status::Ok | Status::Info) || !event.is_records() {
        return highest;
    }
    let mut raise = |key: Atom, offset: i64| {
        let known = highest.entry(key).or_insert(offset);
        *known = offset.max(*known);
    };
    for op in event.ops() {
        if let Op::Send { key, ack: Ack::At(offset), .. } = op {
            raise(*key, *offset);
        }
    }
    for record in event.polled() {
        raise(record.key, record.offset.unwrap_or(-1));
    }
    highest
}
