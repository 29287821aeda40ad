//! The watches of one case at both sides, and what each was told.

use crate::real;
use etcd_client as etcd;
use fake_etcd::Client;
use fake_etcd::api::*;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// How long a watch may take to tell what it must.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a watch told so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Told {
    events: Vec<Event>,
    over: Option<Over>,
}

#[derive(Clone, Debug, PartialEq)]
enum Over {
    Refused(String),
    Compacted(i64),
}

type Log = Arc<Mutex<BTreeMap<i64, Told>>>;

struct Watch {
    request: WatchRequest,
    /// Ended in the middle, where each side may have told more or less of what was under way.
    cut: bool,
}

/// Watches under the ids of their case.
#[derive(Default)]
pub(crate) struct Watches {
    watches: BTreeMap<i64, Watch>,
    real: Log,
    fake: Log,
    stream: Option<(etcd::WatchRequestSender, mpsc::UnboundedReceiver<Result<(), String>>)>,
    fake_tasks: BTreeMap<i64, tokio::task::AbortHandle>,
    tasks: JoinSet<()>,
}

impl Watches {
    pub(crate) async fn begin(&mut self, real: &etcd::Client, fake: &Client, id: i64, request: WatchRequest) {
        // The fake's client numbers its watches itself, so an id in use cannot be asked for.
        if self.watches.contains_key(&id) {
            return;
        }
        self.begin_real(real, id, &request).await;
        self.begin_fake(fake, id, &request).await;
        self.watches.insert(id, Watch { request, cut: false });
    }

    async fn begin_real(&mut self, client: &etcd::Client, id: i64, request: &WatchRequest) {
        let options = real::watch_options(id, request);
        match &mut self.stream {
            Some((sender, _)) => sender.watch(request.key.clone(), Some(options)).await.unwrap(),
            None => {
                let opened = client.watch_client().watch(request.key.clone(), Some(options)).await.unwrap();
                let (sender, responses) = opened.split();
                let (created, creations) = mpsc::unbounded_channel();
                self.tasks.spawn(read(responses, created, self.real.clone()));
                self.stream = Some((sender, creations));
            }
        }
        let (_, creations) = self.stream.as_mut().expect("made above");
        let created = tokio::time::timeout(PATIENCE, creations.recv()).await.expect("a watch is answered");
        let over = created.expect("the stream is open").err().map(Over::Refused);
        self.real.lock().unwrap().entry(id).or_default().over = over;
    }

    async fn begin_fake(&mut self, client: &Client, id: i64, request: &WatchRequest) {
        let mut watcher = client.watch(request.clone());
        // Sends the request now, on the connection that is there, ahead of whatever is asked next.
        {
            let mut first = pin!(watcher.next());
            let polled = poll_fn(|cx| Poll::Ready(first.as_mut().poll(cx).is_pending())).await;
            assert!(polled, "a watch that was just asked for has no answer");
        }
        let log = self.fake.clone();
        log.lock().unwrap().entry(id).or_default();
        let task = self.tasks.spawn(async move {
            loop {
                let response = watcher.next().await;
                let mut log = log.lock().unwrap();
                let told = log.get_mut(&id).expect("entered above");
                match response {
                    Ok(response) if response.canceled => {
                        told.over = Some(Over::Compacted(response.compact_revision));
                        return;
                    }
                    Ok(response) => told.events.extend(response.events),
                    Err(fake_etcd::Error::Etcd { message, .. }) => {
                        told.over = Some(Over::Refused(message.into_owned()));
                        return;
                    }
                    Err(other) => panic!("{other}"),
                }
            }
        });
        self.fake_tasks.insert(id, task);
    }

    pub(crate) async fn end(&mut self, id: i64) {
        let Some(watch) = self.watches.get_mut(&id).filter(|watch| !watch.cut) else { return };
        watch.cut = true;
        if let Some((sender, _)) = &mut self.stream {
            sender.cancel(id).await.unwrap();
        }
        if let Some(task) = self.fake_tasks.remove(&id) {
            task.abort();
        }
    }

    /// The keys whose change shows each running watch that it was told everything before.
    pub(crate) fn sentinels(&self) -> Vec<bytes::Bytes> {
        let running = self.watches.values().filter(|watch| !watch.cut);
        let mut keys: Vec<_> = running.map(|watch| first_key(&watch.request)).collect();
        keys.sort();
        keys.dedup();
        keys
    }

    /// Waits until every running watch was told of the sentinels; `made` has the revisions of each one's put and
    /// deletion. The error says which was not.
    pub(crate) async fn settle(&self, made: &BTreeMap<bytes::Bytes, (i64, i64)>) -> Result<(), String> {
        for (id, watch) in self.watches.iter().filter(|(_, watch)| !watch.cut) {
            let seen = made.iter().filter(|(key, _)| covers(&watch.request, key)).map(|(_, made)| made);
            let last = match (watch.request.no_put, watch.request.no_delete) {
                (true, true) => continue,
                (_, false) => seen.map(|(_, delete)| *delete).max(),
                (false, true) => seen.map(|(put, _)| *put).max(),
            };
            let Some(last) = last else { continue };
            if watch.request.start_revision > last {
                continue;
            }
            let waited = async {
                while [&self.real, &self.fake].into_iter().any(|log| !is_told(log, *id, last)) {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            };
            if tokio::time::timeout(PATIENCE, waited).await.is_err() {
                return Err(format!("watch {id} was not told of revision {last}: {}", self.describe(*id)));
            }
        }
        Ok(())
    }

    /// The first difference between what the two sides told.
    pub(crate) fn compare(&self, version: &str) -> Result<(), String> {
        let (real, fake) = (self.real.lock().unwrap().clone(), self.fake.lock().unwrap().clone());
        for (id, watch) in &self.watches {
            let (real, fake) = (&real[id], &fake[id]);
            if is_explained(version, &watch.request, real, fake) {
                continue;
            }
            let common = real.events.len().min(fake.events.len());
            let same = if watch.cut { real.events[..common] == fake.events[..common] } else { real == fake };
            if !same {
                return Err(self.describe(*id));
            }
        }
        Ok(())
    }

    pub(crate) fn events(&self) -> u64 {
        self.real.lock().unwrap().values().map(|told| told.events.len() as u64).sum()
    }

    fn describe(&self, id: i64) -> String {
        let request = &self.watches[&id].request;
        let (real, fake) = (self.real.lock().unwrap()[&id].clone(), self.fake.lock().unwrap()[&id].clone());
        let first = (0..).find(|n| real.events.get(*n) != fake.events.get(*n) || *n >= real.events.len());
        let first = first.expect("the lists end");
        format!(
            "{request:?}\n  event {first}\n  real: {:?} of {}, {:?}\n  fake: {:?} of {}, {:?}",
            real.events.get(first),
            real.events.len(),
            real.over,
            fake.events.get(first),
            fake.events.len(),
            fake.over
        )
    }
}

fn covers(request: &WatchRequest, key: &bytes::Bytes) -> bool {
    let first = first_key(request);
    match request.range_end.as_ref() {
        [] => *key == first,
        [0] => *key >= first,
        end => *key >= first && key.as_ref() < end,
    }
}

/// etcd 3.4 takes a watch from a negative revision as any other, and cancels it as compacted if nothing else is wrong
/// with it; later versions refuse it as compacted first.
fn is_explained(version: &str, request: &WatchRequest, real: &Told, fake: &Told) -> bool {
    version.starts_with("3.4.")
        && request.start_revision < 0
        && real.over.is_some()
        && matches!(fake.over, Some(Over::Refused(_)))
}

fn is_told(log: &Log, id: i64, revision: i64) -> bool {
    let log = log.lock().unwrap();
    let told = &log[&id];
    told.over.is_some() || told.events.last().is_some_and(|event| event.kv.mod_revision >= revision)
}

fn first_key(request: &WatchRequest) -> bytes::Bytes {
    if request.key.is_empty() { bytes::Bytes::from_static(b"\0") } else { request.key.clone() }
}

async fn read(
    mut responses: etcd::WatchResponseStream,
    created: mpsc::UnboundedSender<Result<(), String>>,
    log: Log,
) {
    while let Ok(Some(response)) = responses.message().await {
        if response.created() {
            let refused = response.canceled().then(|| response.cancel_reason().to_string());
            // The case may be over.
            let _ = created.send(refused.map_or(Ok(()), Err));
            continue;
        }
        let mut log = log.lock().unwrap();
        let told = log.entry(response.watch_id()).or_default();
        told.events.extend(response.events().iter().map(real::event));
        if response.canceled() && response.compact_revision() != 0 {
            told.over = Some(Over::Compacted(response.compact_revision()));
        }
    }
}
