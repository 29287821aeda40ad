//! A worker of the queue workload: it carries out operations and notes what it was told (jepsen.md A4, A5).

use super::aborts;
use super::client::Client;
use super::final_reads;
use super::reader;
use super::settings::{Queue, SubVia};
use super::told;
use crate::config::Config;
use crate::log::{Details, Done, Log, Work};
use crate::plan::{Micro, Op, Operation, Queued};
use check::{Ack, Function, Status};
use client::Error;
use rt::time::{Instant, sleep};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::oneshot;

/// How long one poll waits, in milliseconds.
pub(super) const POLL_MS: u64 = 100;

/// A completed operation.
#[derive(Debug)]
pub(crate) struct Worked {
    pub(crate) status: Status,
    pub(crate) details: Details,
    pub(crate) error: Option<String>,
    /// Its client can be used again.
    pub(crate) goes_on: bool,
}

/// One worker.
pub(super) struct Worker {
    pub(super) name: String,
    pub(super) config: Config,
    pub(super) queue: Queue,
    pub(super) log: Log,
    pub(super) client: Option<Client>,
    /// Its clients that were given up and go on.
    pub(super) zombies: rt::JoinSet<()>,
    /// Tells the last of them that another client is there.
    pub(super) replaces: Option<oneshot::Sender<()>>,
}

/// What a poll and the end of an operation depend on.
#[derive(Clone, Copy)]
pub(super) struct Manner {
    /// In a transaction.
    pub(super) txn: bool,
    pub(super) abort_at: Option<usize>,
    pub(super) poll_ms: u64,
    /// What does not commit ends with the consumer where it began.
    pub(super) seeks_back: bool,
}

/// Carries out a worker's operations.
pub(super) async fn run(name: String, config: Config, queue: Queue, operations: Vec<Operation>, log: Log) {
    let mut worker = Worker::new(&name, &config, &queue, &log);
    for operation in operations {
        if worker.is_over() && !matches!(operation.what, Op::Queue(Queued::FinalReads { .. })) {
            continue;
        }
        sleep(Duration::from_millis(operation.think_ms)).await;
        let Op::Queue(what) = operation.what else {
            panic!("an operation of another workload in a plan with plan.config.queue")
        };
        match what {
            Queued::Work { what, abort_at } => {
                let Queue { txn, seeks_back, .. } = worker.queue;
                worker.work(&what, Manner { txn, abort_at, poll_ms: POLL_MS, seeks_back }).await;
            }
            Queued::Give { drawn, unseen, keys } => {
                let keys = keys.unwrap_or_else(|| worker.choose(&drawn, unseen));
                worker.note_choice(operation.id, &keys);
                worker.give(&keys, worker.queue.sub_via, false).await;
            }
            Queued::Aborts { key } => aborts::run(&mut worker, operation.id, key).await,
            Queued::Crash => worker.crash().await,
            Queued::Haunt { what } => worker.haunt(what).await,
            Queued::Read { uncommitted } => reader::run(&worker, uncommitted).await,
            Queued::FinalReads { keys } => {
                worker.lay_to_rest().await;
                final_reads::run(&mut worker, operation.id, keys).await;
            }
        }
    }
    log.lock().finished.insert(name);
}

impl Worker {
    pub(super) fn new(name: &str, config: &Config, queue: &Queue, log: &Log) -> Worker {
        let (name, config, queue, log) = (name.to_string(), config.clone(), queue.clone(), log.clone());
        Worker { name, config, queue, log, client: None, zombies: rt::JoinSet::new(), replaces: None }
    }

    /// The main phase is over.
    pub(super) fn is_over(&self) -> bool {
        Instant::now() >= Instant::from_nanos(self.queue.until_ms * 1_000_000)
    }

    /// The client of the current process; a new one if there is none.
    pub(super) async fn open(&mut self) -> &mut Client {
        if self.client.is_none() {
            self.client = Some(Client::open(&self.name, &self.config, &self.queue, &self.log).await);
            if let Some(replaces) = self.replaces.take() {
                // A zombie that has met its end does not wait.
                let _ = replaces.send(());
            }
        }
        self.client.as_mut().expect("it was just opened")
    }

    fn choose(&self, drawn: &[u32], unseen: bool) -> Vec<u32> {
        let mut keys = drawn.to_vec();
        if unseen {
            keys.extend(self.log.lock().queue.unseen());
        }
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    pub(super) fn note_choice(&self, operation: u32, keys: &[u32]) {
        self.log.lock().queue.chosen.insert((self.name.clone(), operation), keys.to_vec());
    }

    /// Gives the consumer other partitions.
    pub(super) async fn give(&mut self, keys: &[u32], sub_via: SubVia, from_start: bool) -> Status {
        self.open().await;
        let function = if sub_via == SubVia::Assign { Function::Assign } else { Function::Subscribe };
        let details = Details { keys: keys.to_vec(), from_start, ..Details::default() };
        self.invoke(function, details.clone());
        let given = self.open().await.give(keys, sub_via, from_start);
        let worked = match given {
            Ok(()) => Worked { status: Status::Ok, details, error: None, goes_on: true },
            Err(error) => failed(told::of(&error), details, &error),
        };
        self.complete(function, worked).await
    }

    /// The client is given up, and nobody knows what became of it.
    pub(super) async fn crash(&mut self) {
        self.open().await;
        self.invoke(Function::Crash, Details::default());
        let worked =
            Worked { status: Status::Info, details: Details::default(), error: None, goes_on: false };
        self.complete(Function::Crash, worked).await;
    }

    /// An operation of sends and polls; how it ended, and what it polled: key, offset, value.
    pub(super) async fn work(&mut self, what: &[Micro], manner: Manner) -> (Status, Vec<(u32, i64, u64)>) {
        self.open().await;
        let function = function(what);
        let details = Details { done: what.iter().filter_map(undone).collect(), ..Details::default() };
        self.invoke(function, details.clone());
        let log = self.log.clone();
        let commits = self.queue.sub_via == SubVia::Subscribe && !manner.txn;
        let client = self.open().await;
        let mut attempt = Attempt { client, log: &log, details, what, manner };
        let (told, error) = attempt.run().await;
        let first = attempt.first_offsets();
        if told.status == Status::Ok && commits && !first.is_empty() {
            // Its failure is swallowed (jepsen.md A4).
            let _ = attempt.client.commit_sync().await;
        }
        match (told.status, manner.seeks_back) {
            (Status::Ok, _) => {}
            (_, true) => first.into_iter().for_each(|(key, offset)| attempt.client.rewind(key, offset)),
            // Whoever reads the history takes a seek for granted.
            (_, false) => attempt.details.repositioned = first.into_keys().collect(),
        }
        let mut details = attempt.details;
        details.rebalanced = self.open().await.take_rebalanced();
        let all = polled(&details).copied().collect();
        let error = error.map(|error| error.to_string());
        let worked = Worked { status: told.status, details, error, goes_on: !told.ends_process };
        (self.complete(function, worked).await, all)
    }

    pub(super) fn invoke(&self, function: Function, details: Details) {
        if let Some(client) = &self.client {
            let work = Work::Queue(function, Box::new(details));
            self.log.add(client.process, &client.name, Status::Invoke, work, None);
        }
    }

    pub(super) async fn complete(&mut self, function: Function, worked: Worked) -> Status {
        let Some(client) = self.client.take() else { return worked.status };
        {
            self.log.lock().queue.note(&worked);
        }
        let Worked { status, details, error, goes_on } = worked;
        self.log.add(client.process, &client.name, status, Work::Queue(function, Box::new(details)), error);
        match goes_on {
            true => self.client = Some(client),
            false => client.close(self.queue.close_ms, &self.log).await,
        }
        status
    }
}

pub(super) fn failed(told: told::Told, details: Details, error: &Error) -> Worked {
    Worked { status: told.status, details, error: Some(error.to_string()), goes_on: !told.ends_process }
}

/// Jepsen's word for an operation: by what it is made of.
fn function(what: &[Micro]) -> Function {
    let polls = what.iter().any(|micro| matches!(micro, Micro::Poll | Micro::PollAll));
    let sends = what.iter().any(|micro| matches!(micro, Micro::Send { .. }));
    match (sends, polls) {
        (true, false) => Function::Send,
        (false, true) => Function::Poll,
        _ => Function::Txn,
    }
}

fn undone(micro: &Micro) -> Option<Done> {
    match micro {
        Micro::Send { key, value } => Some(Done::Send { key: *key, value: *value, ack: Ack::None }),
        Micro::Poll | Micro::PollAll => Some(Done::Poll(None)),
        Micro::Wait(_) | Micro::Replaced => None,
    }
}

/// One operation of sends and polls, as it goes.
struct Attempt<'a> {
    client: &'a mut Client,
    log: &'a Log,
    details: Details,
    what: &'a [Micro],
    manner: Manner,
}

const OK: told::Told = told::Told { status: Status::Ok, ends_process: false };
const ABORTED: told::Told = told::Told { status: Status::Fail, ends_process: false };
/// An abort was asked for and failed: what was not to be committed never will be (jepsen.md A5).
const NOT_ABORTED: told::Told = told::Told { status: Status::Fail, ends_process: true };
const UNKNOWN: told::Told = told::Told { status: Status::Info, ends_process: true };

impl Attempt<'_> {
    async fn run(&mut self) -> (told::Told, Option<Error>) {
        match self.manner.txn {
            true => self.transaction().await,
            false => match self.body().await {
                Ok(_) => (OK, None),
                Err(error) => (told::of(&error), Some(error)),
            },
        }
    }

    async fn transaction(&mut self) -> (told::Told, Option<Error>) {
        match self.client.producer.begin_transaction() {
            Ok(number) => self.details.number = number,
            Err(error) => return (told::of(&error), Some(error)),
        }
        let body = match self.body().await {
            Ok(true) => self.send_offsets().await,
            Ok(false) => return (self.abort().await, None),
            Err(error) => Err(error),
        };
        match body {
            Ok(()) => self.commit().await,
            Err(error) if told::is_final(&error) => (told::of(&error), Some(error)),
            Err(error) => (self.abort().await, Some(error)),
        }
    }

    /// All of it but the commit; false if the application decided to abort.
    async fn body(&mut self) -> Result<bool, Error> {
        let mut at = 0;
        for (n, micro) in self.what.iter().enumerate() {
            if self.manner.abort_at == Some(n) && self.manner.txn {
                return Ok(false);
            }
            match micro {
                Micro::Wait(ms) => {
                    sleep(Duration::from_millis(*ms)).await;
                    continue;
                }
                Micro::Replaced => {
                    self.client.until_replaced().await;
                    continue;
                }
                Micro::Send { key, value } => {
                    let offset = self.client.send(*key, *value, self.log).await?;
                    let ack = if offset >= 0 { Ack::At(offset) } else { Ack::Offsetless };
                    self.details.done[at] = Done::Send { key: *key, value: *value, ack };
                }
                Micro::Poll => {
                    let polled = self.client.poll(self.manner.poll_ms, self.log).await?;
                    self.details.done[at] = Done::Poll(Some(polled));
                }
                Micro::PollAll => self.poll_all(at).await?,
            }
            at += 1;
        }
        Ok(!(self.manner.txn && self.manner.abort_at == Some(self.what.len())))
    }

    async fn poll_all(&mut self, at: usize) -> Result<(), Error> {
        self.details.done[at] = Done::Poll(Some(Vec::new()));
        loop {
            let polled = self.client.poll(self.manner.poll_ms, self.log).await?;
            if polled.is_empty() {
                return Ok(());
            }
            if let Done::Poll(Some(all)) = &mut self.details.done[at] {
                all.extend(polled);
            }
        }
    }

    /// Commits the positions with the transaction: behind the highest offset polled of each key.
    async fn send_offsets(&mut self) -> Result<(), Error> {
        let mut next = BTreeMap::new();
        for (key, offset, _) in polled(&self.details) {
            super::progress::raise(&mut next, *key, *offset + 1);
        }
        let (false, Some(group)) = (next.is_empty(), self.client.group_metadata()) else { return Ok(()) };
        let of = |(key, offset): (u32, i64)| (crate::config::partition_of(key, true), offset);
        let offsets = next.into_iter().map(of).collect();
        self.client.producer.send_offsets_to_transaction(offsets, &group).await
    }

    async fn commit(&mut self) -> (told::Told, Option<Error>) {
        self.details.commit_invoked_ns = Some(Instant::now().as_nanos());
        let Err(error) = self.client.producer.commit_transaction().await else { return (OK, None) };
        let told = if told::is_final(&error) {
            told::of(&error)
        } else if told::is_unknown_commit(&error) {
            UNKNOWN
        } else {
            match self.client.producer.abort_transaction().await {
                Ok(()) => ABORTED,
                Err(_) if told::is_invalid_state(&error) => NOT_ABORTED,
                Err(_) => UNKNOWN,
            }
        };
        (told, Some(error))
    }

    async fn abort(&mut self) -> told::Told {
        match self.client.producer.abort_transaction().await {
            Ok(()) => ABORTED,
            Err(_) => NOT_ABORTED,
        }
    }

    /// By key, the first offset that this operation returned.
    fn first_offsets(&self) -> BTreeMap<u32, i64> {
        let mut first = BTreeMap::new();
        for (key, offset, _) in polled(&self.details) {
            first.entry(*key).or_insert(*offset);
        }
        first
    }
}

/// All records that an operation polled.
pub(super) fn polled(details: &Details) -> impl Iterator<Item = &(u32, i64, u64)> {
    let polls = details.done.iter().filter_map(|done| match done {
        Done::Poll(Some(records)) => Some(records),
        Done::Poll(None) | Done::Send { .. } => None,
    });
    polls.flatten()
}
