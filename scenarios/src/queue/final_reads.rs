//! The final phase (jepsen.md A6): when all is healed every worker, with a fresh client, reads every key from the start,
//! until it is past everything that was acknowledged or seen, and on to the end.
//!
//! A client that is given up on the way is followed by one that begins anew: Jepsen means to, and never does.

use super::settings::SubVia;
use super::told;
use super::worker::{Manner, Worked, Worker, failed};
use crate::log::Details;
use crate::plan::Micro;
use check::{Function, Status};
use rt::time::{Instant, sleep};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How long one poll waits, in milliseconds.
const POLL_MS: u64 = 1_000;
/// Between two polls: evenly from 0 to this, in milliseconds.
const PAUSE_MS_MAX: u64 = 400;
/// Wait between two looks at whether the others are there yet.
const BARRIER_PAUSE: Duration = Duration::from_millis(100);

/// Runs the final phase of one worker. `recorded` are the keys, if a recording names them.
pub(super) async fn run(worker: &mut Worker, operation: u32, recorded: Option<Vec<u32>>) {
    wait_for_all(worker).await;
    let deadline = Instant::now() + Duration::from_millis(worker.queue.final_limit_ms);
    worker.crash().await;
    let keys = recorded.unwrap_or_else(|| worker.log.lock().queue.touched());
    worker.note_choice(operation, &keys);
    debug(worker, &keys).await;
    let targets = worker.log.lock().queue.targets();
    let mut reading = Reading { keys, targets, operation, polls: 0, found: BTreeMap::new(), at_end: false };
    let mut is_given = false;
    while Instant::now() < deadline && !reading.at_end {
        if !is_given || worker.client.is_none() {
            reading.start_anew();
            is_given = worker.give(&reading.keys, SubVia::Assign, true).await == Status::Ok;
        }
        reading.poll(worker).await;
    }
    if reading.at_end {
        let found = reading.found.into_iter().map(|(key, read)| (key, read.values)).collect();
        worker.log.lock().queue.found = found;
    }
}

/// Every worker has ended its main phase, all trouble is over, and some time has passed.
async fn wait_for_all(worker: &Worker) {
    worker.log.lock().queue.finishing.insert(worker.name.clone());
    let are_all_here = || {
        let facts = worker.log.lock();
        facts.queue.finishing.len() >= facts.queue.finishers
    };
    while !are_all_here() {
        sleep(BARRIER_PAUSE).await;
    }
    let healed_ns = worker.log.lock().queue.healed_ns;
    let settled =
        Instant::from_nanos(healed_ns).max(Instant::now()) + Duration::from_millis(worker.queue.settle_ms);
    rt::time::sleep_until(settled).await;
}

/// Looks at the ends of all logs.
async fn debug(worker: &mut Worker, keys: &[u32]) {
    let details = Details { keys: keys.to_vec(), ..Details::default() };
    worker.open().await;
    worker.invoke(Function::Debug, details.clone());
    let invoked_ns = Instant::now().as_nanos();
    let listed = worker.open().await.list_ends(keys).await;
    let worked = match listed {
        Ok(listed) => {
            let ends = listed.into_iter().map(|(key, listed)| (key, listed.offset, invoked_ns));
            worker.log.lock().queue.listed.extend(ends);
            Worked { status: Status::Ok, details, error: None, goes_on: true }
        }
        // What cannot be listed ends no process: it is no operation on records.
        Err(error) => Worked { goes_on: true, ..failed(told::of(&error), details, &error) },
    };
    worker.complete(Function::Debug, worked).await;
}

/// How far a final reader is.
struct Reading {
    keys: Vec<u32>,
    targets: BTreeMap<u32, i64>,
    operation: u32,
    polls: u64,
    /// What ok polls found, by key.
    found: BTreeMap<u32, Read>,
    /// An ok poll past all targets found nothing more.
    at_end: bool,
}

#[derive(Default)]
struct Read {
    /// The highest offset.
    last: Option<i64>,
    values: BTreeSet<u64>,
}

impl Reading {
    fn start_anew(&mut self) {
        self.found = self.keys.iter().map(|key| (*key, Read::default())).collect();
    }

    fn is_past_targets(&self) -> bool {
        let last = |key: &u32| self.found.get(key).and_then(|read| read.last);
        self.keys.iter().all(|key| match self.targets.get(key) {
            Some(target) => last(key).is_some_and(|last| last >= *target),
            None => true,
        })
    }

    async fn poll(&mut self, worker: &mut Worker) {
        self.polls += 1;
        let draw = |what: &'static str| rt::choice(what, u64::from(self.operation), self.polls);
        sleep(Duration::from_millis(draw("queue.final-pause").between(0, PAUSE_MS_MAX))).await;
        let txn = worker.queue.txn;
        let aborts = |n: u64| {
            let chance = worker.queue.abort_chance;
            txn && rt::choice("queue.final-abort", u64::from(self.operation), self.polls * 2 + n)
                .chance(chance)
        };
        let abort_at = [0, 1].into_iter().find(|n| aborts(*n)).map(|n| n as usize);
        let past = self.is_past_targets();
        let (status, polled) =
            worker.work(&[Micro::Poll], Manner { txn, abort_at, poll_ms: POLL_MS, seeks_back: true }).await;
        if status != Status::Ok {
            return;
        }
        self.at_end = past && polled.is_empty();
        for (key, offset, value) in polled {
            let read = self.found.entry(key).or_default();
            read.last = Some(read.last.map_or(offset, |last| last.max(offset)));
            read.values.insert(value);
        }
    }
}
