//! The tank: one server, three clients on three machines, trouble drawn by the seed, and what the clients saw.

use crate::linear::{Action, Operation};
use fake_s3::api::{Request, Response};
use fake_s3::client::Failure;
use fake_s3::{Client, ClientConfig, Disk, Latency, Quirks, ServerConfig, Store, serve};
use futures_util::TryStreamExt;
use object_store::path::Path;
use object_store::{
    Error, GetOptions, MultipartUpload, ObjectStore, ObjectStoreExt, PutMode, PutPayload, UpdateVersion,
};
use rt::net::TcpListener;
use rt::time::{Instant, sleep};
use sim::choice::Choices;
use sim::fault::{Fault, Scheduled, When};
use sim::node::{self, Role};
use sim::run::Config;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub(crate) const KEYS: [&str; 2] = ["k/a", "k/b"];
const CLIENTS: u32 = 3;
/// Operations of each client.
const OPERATIONS: u32 = 16;
const BACKOFF_MIN_MS: u64 = 60;
/// Longer than any fault.
const CALM: Duration = Duration::from_secs(5);

/// How one run is set up, beside its faults.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) max_retries: u32,
    pub(crate) quirks: Quirks,
}

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: &'static str,
    pub(crate) operation: Operation,
    /// Certainly not done, or a read without an answer.
    pub(crate) void: bool,
    /// How often it may have been done besides, now or later: a request that is sent again may be done again, even
    /// after its answer.
    pub(crate) again: u32,
}

#[derive(Default)]
struct Seen {
    entries: Vec<Entry>,
    /// Operations begun, by client: a client that is started again goes on with the next.
    begun: BTreeMap<u32, u32>,
    finished: u32,
}

/// What outlives clients that crash.
type Log = Arc<Mutex<Seen>>;

/// Runs the clients, then reads every key; returns the history and the last reads' values.
pub(crate) async fn script(setup: Setup) -> (Vec<Entry>, Vec<Option<u32>>) {
    let (disk, log) = (Disk::default(), Log::default());
    let (served, quirks) = (disk.clone(), setup.quirks.clone());
    node::add("s3", Role::Storage, None, move |_| {
        let (disk, quirks) = (served.clone(), quirks.clone());
        Box::pin(async move {
            let listener = TcpListener::bind("s3:9000").await.unwrap();
            let quick = Latency { base_us: 500, jitter_us: 4_000 };
            let config = ServerConfig {
                write: quick,
                read: quick,
                head: quick,
                list: quick,
                delete: quick,
                concurrency: 8,
                quirks,
            };
            serve(listener, disk, config).await.unwrap();
        })
    });
    for n in 1..=CLIENTS {
        let (log, setup) = (log.clone(), setup.clone());
        node::add(&format!("c{n}"), Role::Agent, None, move |_| {
            Box::pin(Worker::new(n, setup.clone(), log.clone()).work())
        });
    }
    while log.lock().unwrap().finished < CLIENTS {
        sleep(Duration::from_millis(50)).await;
    }
    sleep(CALM).await;
    let last = Arc::new(Mutex::new(None));
    let (result, reader_log) = (last.clone(), log.clone());
    node::add("reader", Role::Agent, None, move |_| {
        let (result, setup, log) = (result.clone(), setup.clone(), reader_log.clone());
        Box::pin(async move {
            let mut worker = Worker::new(CLIENTS + 1, setup, log);
            let mut values = Vec::new();
            for key in KEYS {
                // A fault may wait for a request to strike.
                let mut tries = 0;
                let value = loop {
                    if let Some(value) = worker.read(key).await {
                        break value;
                    }
                    tries += 1;
                    assert!(tries < 20, "nothing stays in the way");
                    sleep(Duration::from_millis(500)).await;
                };
                values.push(value);
            }
            worker.list().await;
            *result.lock().unwrap() = Some(values);
        })
    });
    while last.lock().unwrap().is_none() {
        sleep(Duration::from_millis(50)).await;
    }
    let values = last.lock().unwrap().take().unwrap();
    for (key, value) in KEYS.iter().zip(&values) {
        assert_eq!(*value, on_disk(&disk, key), "{key}: a read in the calm and the disk differ");
    }
    let entries = log.lock().unwrap().entries.clone();
    (entries, values)
}

fn on_disk(disk: &Disk, key: &str) -> Option<u32> {
    let get = Request::Get { key: key.to_string(), range: None, conditions: Default::default(), head: false };
    match disk.lock().unwrap().apply(Duration::ZERO, &get) {
        Ok(Response::Object { body, .. }) => Some(value_of(&body)),
        _ => None,
    }
}

/// One client and what it remembers; it forgets that when it crashes.
struct Worker {
    number: u32,
    store: Client,
    max_retries: u32,
    log: Log,
    /// The value last seen under a key, and its ETag.
    known: BTreeMap<&'static str, (u32, String)>,
}

impl Worker {
    fn new(number: u32, setup: Setup, log: Log) -> Self {
        let config = ClientConfig {
            connect_timeout_ms: 200,
            request_timeout_ms: 300,
            max_retries: setup.max_retries,
            backoff_min_ms: BACKOFF_MIN_MS,
            backoff_max_ms: 200,
            connections: 2,
        };
        let store = Client::new("s3:9000".to_string(), config);
        Worker { number, store, max_retries: setup.max_retries, log, known: BTreeMap::new() }
    }

    async fn work(mut self) {
        loop {
            let n = {
                let mut log = self.log.lock().unwrap();
                let begun = log.begun.entry(self.number).or_default();
                *begun += 1;
                *begun
            };
            if n > OPERATIONS {
                // Counted once, also when a crash strikes after the last operation.
                self.log.lock().unwrap().finished += u32::from(n == OPERATIONS + 1);
                return;
            }
            let draw = |name, below| rt::choice(name, u64::from(self.number), u64::from(n)).below(below);
            let key = KEYS[draw("tank.key", KEYS.len() as u64) as usize];
            let wait = Duration::from_millis(draw("tank.think", 40));
            self.one(draw("tank.operation", 12), key, self.number * 1000 + n).await;
            sleep(wait).await;
        }
    }

    async fn one(&mut self, kind: u64, key: &'static str, value: u32) {
        match kind {
            0 | 1 => self.put(key, value, PutMode::Overwrite, Action::Put(value), Action::Put(value)).await,
            2 | 3 => {
                self.put(key, value, PutMode::Create, Action::Create(value), Action::CreateRefused).await
            }
            4 | 5 => match self.known.get(key).cloned() {
                Some((old, etag)) => {
                    let mode = PutMode::Update(UpdateVersion { e_tag: Some(etag), version: None });
                    let refused = Action::ReplaceRefused(old);
                    self.put(key, value, mode, Action::Replace(old, value), refused).await;
                }
                None => drop(self.read(key).await),
            },
            6 => {
                let begun = self.begin(key, Action::Delete, self.max_retries);
                let outcome = self.store.delete(&Path::from(key)).await;
                self.end(begun, outcome.map(|()| Action::Delete));
            }
            7 => self.put_in_parts(key, value).await,
            8 => self.list().await,
            _ => drop(self.read(key).await),
        }
    }

    async fn put(&mut self, key: &'static str, value: u32, mode: PutMode, done: Action, refused: Action) {
        let again = if mode == PutMode::Overwrite { self.max_retries } else { 0 };
        let begun = self.begin(key, done, again);
        let outcome = match self.store.put_opts(&Path::from(key), payload(value), mode.into()).await {
            Ok(put) => {
                self.known.insert(key, (value, put.e_tag.unwrap()));
                Ok(done)
            }
            Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => Ok(refused),
            Err(error) => Err(error),
        };
        self.end(begun, outcome);
    }

    /// As a multipart upload of one part. Only its completion writes the object.
    async fn put_in_parts(&mut self, key: &'static str, value: u32) {
        let Ok(mut upload) = self.store.put_multipart(&Path::from(key)).await else { return };
        if upload.put_part(payload(value)).await.is_err() {
            // It may fail as well; an upload left over writes nothing.
            let _ = upload.abort().await;
            return;
        }
        let begun = self.begin(key, Action::Put(value), 0);
        let outcome = upload.complete().await;
        self.end(begun, outcome.map(|_| Action::Put(value)));
    }

    /// The value under a key, if the read is answered.
    async fn read(&mut self, key: &'static str) -> Option<Option<u32>> {
        let begun = self.begin(key, Action::Read(None), 0);
        let read = async {
            let got = self.store.get_opts(&Path::from(key), GetOptions::default()).await?;
            let etag = got.meta.e_tag.clone().unwrap();
            Ok((value_of(&got.bytes().await?), etag))
        };
        let seen = match read.await {
            Ok(found) => Ok(Some(found)),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        };
        let value = seen.as_ref().ok().map(|seen| seen.as_ref().map(|(value, _)| *value));
        self.end(begun, seen.as_ref().map(|_| Action::Read(value.flatten())).map_err(unknown));
        if let Ok(Some(found)) = seen {
            self.known.insert(key, found);
        }
        value
    }

    /// A list is one read of every key.
    async fn list(&mut self) {
        let begun = KEYS.map(|key| self.begin(key, Action::Read(None), 0));
        let listed: Result<Vec<_>, Error> = self.store.list(Some(&Path::from("k"))).try_collect().await;
        for (key, begun) in KEYS.iter().zip(begun) {
            let outcome = listed.as_ref().map_err(unknown).map(|listed| {
                let object = listed.iter().find(|object| object.location.as_ref() == *key);
                Action::Read(object.map(|object| tagged(object.e_tag.as_deref().unwrap())))
            });
            self.end(begun, outcome);
        }
    }

    fn begin(&self, key: &'static str, action: Action, again: u32) -> usize {
        let operation = Operation { invoked_ns: Instant::now().as_nanos(), returned_ns: None, action };
        let mut log = self.log.lock().unwrap();
        log.entries.push(Entry { key, operation, void: matches!(action, Action::Read(_)), again });
        log.entries.len() - 1
    }

    /// Notes what came of an operation: done or refused as told, certainly not done, or neither.
    fn end(&self, begun: usize, outcome: Result<Action, Error>) {
        let now = Instant::now().as_nanos();
        let mut log = self.log.lock().unwrap();
        let entry = &mut log.entries[begun];
        // Sooner than the first retry it was not sent again.
        if now - entry.operation.invoked_ns < BACKOFF_MIN_MS / 2 * 1_000_000 {
            entry.again = 0;
        }
        match outcome {
            Ok(action) => {
                entry.operation.action = action;
                entry.operation.returned_ns = Some(now);
                entry.void = false;
            }
            Err(error) => match failure(&error) {
                Failure::Unreachable => entry.void = true,
                Failure::UnknownOutcome => {}
                other => panic!("without quirks nothing else is answered: {other}"),
            },
        }
    }
}

/// An error that may be told twice, once for each key of a list.
fn unknown(error: &Error) -> Error {
    Error::Generic { store: "tank", source: failure(error).clone().into() }
}

fn failure(error: &Error) -> &Failure {
    let source = std::error::Error::source(error).expect("the client says why");
    source.downcast_ref().unwrap_or_else(|| panic!("{error:?}"))
}

fn payload(value: u32) -> PutPayload {
    value.to_string().into_bytes().into()
}

fn value_of(body: &[u8]) -> u32 {
    std::str::from_utf8(body).unwrap().parse().expect("nothing but values is written")
}

/// The value that has this ETag, put whole or in parts.
fn tagged(etag: &str) -> u32 {
    static VALUES: std::sync::OnceLock<BTreeMap<String, u32>> = std::sync::OnceLock::new();
    let values = VALUES.get_or_init(|| {
        let values = (1..=CLIENTS).flat_map(|client| (1..=OPERATIONS).map(move |n| client * 1000 + n));
        values.flat_map(|value| etags(value).map(|etag| (etag, value))).collect()
    });
    values[etag]
}

fn etags(value: u32) -> [String; 2] {
    let (mut store, key) = (Store::new(), "k".to_string());
    let mut ask = |request: Request| store.apply(Duration::ZERO, &request).unwrap();
    let body = bytes::Bytes::from(value.to_string());
    let (headers, condition) = (Vec::new(), Default::default());
    let Response::Upload { id: upload_id } = ask(Request::CreateUpload { key: key.clone(), headers }) else {
        panic!("an upload is created")
    };
    let part =
        Request::UploadPart { key: key.clone(), upload_id: upload_id.clone(), number: 1, body: body.clone() };
    let Response::Part { etag } = ask(part) else { panic!("a part is taken") };
    let parts = vec![(1, etag.clone())];
    let Response::Written { etag: of_parts } =
        ask(Request::CompleteUpload { key, upload_id, parts, condition })
    else {
        panic!("an upload is completed")
    };
    // A part's ETag is that of an object of the same bytes.
    [etag, of_parts]
}

/// Trouble drawn by the seed: by the clock, and in the middle of a request.
pub(crate) fn config(seed: u64) -> Config {
    let draw = Choices::new(seed, &[]);
    let faults = (1..=6u32).map(|id| {
        let roll = |name: &str, n: u64| draw.draw(name, 0, u64::from(id), 0).below(n);
        let client = format!("c{}", 1 + roll("client", u64::from(CLIENTS)));
        let node = if roll("who", 3) == 0 { client.clone() } else { "s3".to_string() };
        let restart_after_ms = Some(10 + roll("down", 500));
        let for_ms = 50 + roll("for", 800);
        let point = |point: &str| When::Point {
            node: None,
            point: point.to_string(),
            nth: 1 + roll("nth", 60) as u32,
        };
        let at = When::AtMs(20 + roll("at", 1_000));
        let both_ways = roll("ways", 2) == 0;
        let (when, fault) = match roll("kind", 8) {
            0 => (at, Fault::Pause { node, for_ms }),
            1 => (at, Fault::Crash { node, restart_after_ms }),
            2 => (at, Fault::MachineCrash { node, restart_after_ms }),
            3 => (point("s3.before-apply"), Fault::Crash { node: "s3".to_string(), restart_after_ms }),
            4 => (point("s3.before-reply"), Fault::Crash { node: "s3".to_string(), restart_after_ms }),
            5 => (point("s3.before-reply"), Fault::Pause { node: "s3".to_string(), for_ms }),
            6 => (at, Fault::Cut { from: vec!["s3".to_string()], to: vec![client], both_ways, for_ms }),
            _ => (at, Fault::Cut { from: vec![client], to: vec!["s3".to_string()], both_ways, for_ms }),
        };
        Scheduled { id, when, fault }
    });
    Config { seed, faults: faults.collect(), frame_ports: vec![9000], ..Config::default() }
}
