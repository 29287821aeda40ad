//! The side of a worker that sends outside transactions: an idempotent producer with several records in flight.
//!
//! Each record is an operation of its own, since one may be written and the next not. They are spread over logical
//! processes, so that each of these does one thing at a time.

use crate::config::Config;
use crate::log::{Log, Work};
use crate::plan::Send;
use crate::workload::record;
use check::Status;
use client::{Delivery, Producer};
use std::time::Duration;

pub(crate) struct Plain {
    name: String,
    config: Config,
    log: Log,
    producer: Option<Producer>,
    /// Records handed to it.
    sent: u64,
    /// The process of the n-th record of an operation.
    processes: Vec<i64>,
}

/// A record on its way.
struct Flight {
    process: i64,
    key: u32,
    value: u64,
    delivery: Result<Delivery, client::Error>,
}

impl Plain {
    pub(crate) fn new(name: &str, config: &Config, log: Log) -> Self {
        let (name, config) = (name.to_string(), config.clone());
        Plain { name, config, log, producer: None, sent: 0, processes: Vec::new() }
    }

    /// Sends all records, then waits for them.
    pub(crate) async fn send(&mut self, sends: &[Send]) {
        while self.processes.len() < sends.len() {
            self.processes.push(self.log.new_process());
        }
        let (config, model) = (self.config.producer(&self.name, None), self.config.model());
        let producer = self.producer.get_or_insert_with(|| Producer::new(config, model));
        let mut flights = Vec::with_capacity(sends.len());
        for (send, process) in sends.iter().zip(&self.processes) {
            rt::time::sleep(Duration::from_millis(send.think_ms)).await;
            let (process, key, value) = (*process, send.key, send.value);
            self.log.add(process, &self.name, Status::Invoke, Work::Send { key, value, offset: None }, None);
            flights.push(Flight { process, key, value, delivery: producer.send(record(send)).await });
        }
        let first = self.sent;
        self.sent += flights.len() as u64;
        let mut written = Vec::with_capacity(flights.len());
        for Flight { process, key, value, delivery } in flights {
            let result = match delivery {
                Ok(delivery) => delivery.await,
                Err(error) => Err(error),
            };
            let (status, offset, error) = match result {
                Ok(metadata) => (Status::Ok, Some(metadata.offset), None),
                Err(error) if error.is_definite() => (Status::Fail, None, Some(error.to_string())),
                Err(error) => (Status::Info, None, Some(error.to_string())),
            };
            self.log.add(process, &self.name, status, Work::Send { key, value, offset }, error);
            written.push((key, value, offset));
        }
        self.log.acknowledge(&self.name, first, &written);
    }
}
