//! Consumers beside the workers: outside transactions and groups, they read every key that anybody has sent to, from its
//! start. What one sees that reads uncommitted records is no part of the history, as it may see aborted ones; it is held
//! against what others saw at the same offsets.

use super::client::read;
use super::worker::Worker;
use crate::config::partition_of;
use crate::log::{Details, Done, Log, Work, value_number};
use check::reading::Reading;
use check::{Function, Status};
use client::{Consumer, IsolationLevel};
use rt::time::{Instant, sleep};
use std::time::Duration;

/// How long one poll waits, in milliseconds.
const POLL_MS: u64 = 100;
/// Pause after a poll that failed.
const PAUSE: Duration = Duration::from_millis(200);

/// Reads until the main phase is over.
pub(super) async fn run(worker: &Worker, uncommitted: bool) {
    let isolation = if uncommitted { IsolationLevel::ReadUncommitted } else { IsolationLevel::ReadCommitted };
    let process = worker.log.new_process();
    let noted = Noted { name: &worker.name, process, log: &worker.log, in_history: !uncommitted };
    let mut consumer = Consumer::new(worker.config.consumer(&worker.name, isolation));
    let until = Instant::from_nanos(worker.queue.until_ms * 1_000_000);
    let mut assigned = Vec::new();
    while Instant::now() < until {
        let keys = worker.log.lock().queue.touched();
        if keys != assigned {
            noted.add(
                Status::Invoke,
                Function::Assign,
                Details { keys: keys.clone(), ..Details::default() },
                None,
            );
            let partitions: Vec<_> = keys.iter().map(|key| partition_of(*key, true)).collect();
            let given = consumer.assign(&partitions);
            let status = if given.is_ok() { Status::Ok } else { Status::Fail };
            let error = given.err().map(|error| error.to_string());
            noted.add(status, Function::Assign, Details { keys: keys.clone(), ..Details::default() }, error);
            assigned = keys;
        }
        noted.poll(&mut consumer).await;
    }
}

/// Whose polls go where.
struct Noted<'a> {
    name: &'a str,
    process: i64,
    log: &'a Log,
    in_history: bool,
}

impl Noted<'_> {
    async fn poll(&self, consumer: &mut Consumer) {
        let poll = |records| Details { done: vec![Done::Poll(records)], ..Details::default() };
        self.add(Status::Invoke, Function::Poll, poll(None), None);
        match consumer.poll(POLL_MS).await {
            Ok(records) => {
                let polled = read(&records, self.log);
                self.note(&polled);
                self.add(Status::Ok, Function::Poll, poll(Some(polled)), None);
            }
            Err(error) => {
                self.add(Status::Info, Function::Poll, poll(None), Some(error.to_string()));
                sleep(PAUSE).await;
            }
        }
        // Nothing is assigned before anything was sent: such a poll takes no time.
        if consumer.positions().is_empty() {
            sleep(PAUSE).await;
        }
    }

    fn add(&self, status: Status, function: Function, details: Details, error: Option<String>) {
        if self.in_history {
            self.log.add(self.process, self.name, status, Work::Queue(function, Box::new(details)), error);
        }
    }

    fn note(&self, polled: &[(u32, i64, u64)]) {
        let mut facts = self.log.lock();
        for (key, offset, value) in polled {
            let reading = facts.readings.entry((self.process, *key)).or_insert_with(|| Reading {
                reader: self.name.to_string(),
                partition: i64::from(*key),
                committed: self.in_history,
                records: Vec::new(),
            });
            reading.records.push((*offset, value_number(*value)));
        }
    }
}
