//! One client's connection: reads calls, and writes what its outbox could not.

use super::applier::Pending;
use super::outbox::Outbox;
use super::{Shared, lock};
use crate::api::{WatchRequest, WatchResponse};
use crate::wire::{self, Call};
use rt::net::{ReadHalf, TcpStream};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// Serves a connection until it ends.
pub(super) async fn run(
    shared: Arc<Shared>,
    requests: mpsc::Sender<Pending>,
    number: u64,
    stream: TcpStream,
    progress_notify_ms: u64,
) {
    let Ok(peer) = stream.peer_addr() else { return };
    let peer = peer.ip().to_string();
    let (reader, writer) = stream.into_split();
    let outbox = Arc::new(Outbox::new(writer));
    shared.volatile().outboxes.insert(number, outbox.clone());
    // Also when this task is dropped in the middle, as at the server's end.
    let connection = Connection { shared, number, peer, outbox };
    let ended = tokio::select! {
        biased;
        ended = connection.read(reader, requests) => ended,
        ended = connection.write() => ended,
        () = connection.report_progress(progress_notify_ms) => Ok(()),
    };
    if let Err(error) = ended {
        tracing::debug!(target: "wavetank", %error, "etcd connection ended");
    }
}

struct Connection {
    shared: Arc<Shared>,
    number: u64,
    peer: String,
    outbox: Arc<Outbox>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        let mut volatile = self.shared.volatile();
        volatile.outboxes.remove(&self.number);
        volatile.hub.disconnect(self.number);
        self.outbox.close();
    }
}

impl Connection {
    async fn read(&self, mut reader: ReadHalf, requests: mpsc::Sender<Pending>) -> io::Result<()> {
        while let Some(body) = rt::net::read_frame(&mut reader, wire::MAX_REQUEST_FRAME_BYTES).await? {
            match wire::decode(&body)? {
                Call::Request { id, request } => {
                    let (kind, key) = wire::kind_and_key(&request);
                    let entity =
                        rt::choice::stable_hash(&[self.peer.as_bytes(), kind.as_bytes(), key].concat());
                    let words = rt::observe::listens().then(|| wire::request_words(&request));
                    let pending = Pending { entity, id, request, words, outbox: self.outbox.clone() };
                    if requests.send(pending).await.is_err() {
                        return Ok(());
                    }
                }
                Call::Watch { id, request } => self.watch(id, request),
                Call::Unwatch { id } => self.unwatch(id),
                Call::Progress => {
                    let store = lock(&self.shared.disk);
                    // Of a watcher that is behind there is no progress to report; the client asks again.
                    if self.shared.volatile().hub.have_progress(&store, self.number) {
                        self.outbox.progress(store.revision());
                    }
                }
                Call::Ping => self.outbox.pong(),
            }
        }
        Ok(())
    }

    fn watch(&self, id: u64, request: WatchRequest) {
        let store = lock(&self.shared.disk);
        let mut volatile = self.shared.volatile();
        let response = volatile.hub.create(&store, (self.number, id), request);
        self.outbox.watch(id, response);
        self.outbox.is_behind();
    }

    fn unwatch(&self, id: u64) {
        let store = lock(&self.shared.disk);
        if self.shared.volatile().hub.cancel((self.number, id)) {
            let response = WatchResponse { revision: store.revision(), canceled: true, ..Default::default() };
            self.outbox.watch(id, response);
        }
    }

    /// Writes what the peer did not take at once; with nothing left, lets watchers that are behind catch up.
    async fn write(&self) -> io::Result<()> {
        loop {
            self.outbox.drain().await?;
            if !self.catch_up() {
                self.outbox.woken().await;
            }
        }
    }

    /// Queues a batch for each watcher that is behind; whether there was any.
    fn catch_up(&self) -> bool {
        let store = lock(&self.shared.disk);
        let mut volatile = self.shared.volatile();
        let told = volatile.hub.catch_up(&store, self.number);
        let any = !told.is_empty();
        volatile.send(told);
        any
    }

    async fn report_progress(&self, every_ms: u64) {
        let every = Duration::from_millis(every_ms.max(1));
        loop {
            rt::time::sleep(every).await;
            let store = lock(&self.shared.disk);
            let mut volatile = self.shared.volatile();
            let told = volatile.hub.progress(&store, self.number);
            volatile.send(told);
        }
    }
}
