//! What an agent counts of its work, for whoever runs it. Plain numbers: how they are told is the host's affair.
//!
//! Nothing is decided by them, and nothing of them reaches a trace. They begin at 0 with the agent.

use kafka_protocol::messages::ApiKey;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A handle on an agent's counts: it outlives the call to [`Agent::serve`](crate::Agent::serve).
#[derive(Clone, Default)]
pub struct Counters(Arc<Mutex<Counts>>);

/// Everything counted.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Requests executed, by API key and error code: the first of the answer's that is not 0.
    pub requests: BTreeMap<(i16, i16), u64>,
    /// How long they took, from their last byte to their answer, by API key.
    pub request_times: BTreeMap<i16, Times>,
    /// Connections open now.
    pub connections: u64,
    /// Connections accepted.
    pub connections_accepted: u64,
    /// Connections closed because there were `connections_max`.
    pub connections_refused: u64,
    /// Records appended.
    pub produced: Volume,
    /// Records handed to readers. Markers count.
    pub fetched: Volume,
    /// Chunks put, compaction's among them, and their bytes.
    pub chunks: u64,
    /// Bytes of these chunks.
    pub chunk_bytes: u64,
    /// Calls to the coordinator.
    pub coordinator: Calls,
    /// Calls to the object store.
    pub store: Calls,
    /// Ends of transactions prepared here, by whether they commit and who asked: a client or a time-out, in the word that
    /// the agent's events have for it.
    pub transactions_ended: BTreeMap<(bool, &'static str), u64>,
    /// Groups that this agent owns, as of the last look at their timers.
    pub groups: u64,
    /// Members whose sessions it keeps.
    pub group_members: u64,
}

/// Records and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Volume {
    /// Number of records.
    pub records: u64,
    /// Bytes of their batches.
    pub bytes: u64,
}

/// Calls to something the agent depends on.
#[derive(Clone, Debug, Default)]
pub struct Calls {
    /// How long they took, failed ones too.
    pub times: Times,
    /// Calls without an answer in time, or with an error that says nothing about the request.
    pub failures: u64,
}

/// Upper bounds of the buckets of [`Times`], in seconds. One more has no bound.
pub const TIME_BOUNDS_S: [f64; 14] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// A histogram of times.
#[derive(Clone, Debug, Default)]
pub struct Times {
    /// Number of times in each bucket, and in none of those before it.
    pub buckets: [u64; TIME_BOUNDS_S.len() + 1],
    /// All of them together.
    pub sum: Duration,
}

impl Times {
    fn add(&mut self, time: Duration) {
        let seconds = time.as_secs_f64();
        self.buckets[TIME_BOUNDS_S.partition_point(|bound| *bound < seconds)] += 1;
        self.sum += time;
    }
}

impl Counters {
    /// The counts as they are now.
    pub fn read(&self) -> Counts {
        self.lock().clone()
    }

    pub(crate) fn request(&self, api: ApiKey, code: i16, took: Duration) {
        let mut counts = self.lock();
        *counts.requests.entry((api as i16, code)).or_default() += 1;
        counts.request_times.entry(api as i16).or_default().add(took);
    }

    /// A connection is open until what this returns is dropped.
    pub(crate) fn connection(&self) -> Open {
        let mut counts = self.lock();
        counts.connections += 1;
        counts.connections_accepted += 1;
        Open(self.clone())
    }

    pub(crate) fn connection_refused(&self) {
        self.lock().connections_refused += 1;
    }

    pub(crate) fn produced(&self, records: u64, bytes: usize) {
        self.lock().produced.add(records, bytes);
    }

    pub(crate) fn fetched(&self, records: u64, bytes: usize) {
        self.lock().fetched.add(records, bytes);
    }

    pub(crate) fn chunk(&self, bytes: usize) {
        let mut counts = self.lock();
        counts.chunks += 1;
        counts.chunk_bytes += bytes as u64;
    }

    pub(crate) fn coordinator_call(&self, took: Duration, answered: bool) {
        self.lock().coordinator.add(took, answered);
    }

    pub(crate) fn store_call(&self, took: Duration, answered: bool) {
        self.lock().store.add(took, answered);
    }

    pub(crate) fn transaction_ended(&self, committed: bool, by: &'static str) {
        *self.lock().transactions_ended.entry((committed, by)).or_default() += 1;
    }

    pub(crate) fn groups(&self, (groups, members): (usize, usize)) {
        let mut counts = self.lock();
        (counts.groups, counts.group_members) = (groups as u64, members as u64);
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Volume {
    fn add(&mut self, records: u64, bytes: usize) {
        self.records += records;
        self.bytes += bytes as u64;
    }
}

impl Calls {
    fn add(&mut self, took: Duration, answered: bool) {
        self.times.add(took);
        self.failures += u64::from(!answered);
    }
}

/// An open connection.
pub(crate) struct Open(Counters);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.lock().connections -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_in_the_first_bucket_that_is_not_below_it() {
        let mut times = Times::default();
        for micros in [0, 500, 501, 10_000_000, 10_000_001] {
            times.add(Duration::from_micros(micros));
        }
        let mut expected = [0; 15];
        (expected[0], expected[1], expected[13], expected[14]) = (2, 1, 1, 1);
        assert_eq!((times.buckets, times.sum), (expected, Duration::from_micros(20_001_002)));
    }

    #[test]
    fn connections_are_open_until_dropped() {
        let counters = Counters::default();
        let (one, two) = (counters.connection(), counters.connection());
        drop(one);
        assert_eq!((counters.read().connections, counters.read().connections_accepted), (1, 2));
        drop(two);
        assert_eq!(counters.read().connections, 0);
    }
}
