//! A real server or the fake, behind one door, for scripts that are the same at both.

use crate::outcome::{self, Outcome};
use crate::real;
use etcd_client as etcd;
use fake_etcd::Client;
use fake_etcd::api::*;
use std::time::Duration;
use tokio::sync::mpsc;

#[derive(Clone)]
#[expect(clippy::large_enum_variant, reason = "there are a few of them in a run")]
pub(crate) enum Side {
    Real(etcd::Client),
    Fake(Client),
}

impl Side {
    pub(crate) async fn call(&self, request: Request) -> Outcome {
        match self {
            Side::Real(client) => real::call(client, &request).await,
            Side::Fake(client) => outcome::of_fake(client.call(request).await),
        }
    }

    /// The events of a watch that has begun when this returns.
    pub(crate) async fn watch(&self, request: WatchRequest) -> mpsc::UnboundedReceiver<Event> {
        let (told, events) = mpsc::unbounded_channel();
        match self {
            Side::Real(client) => {
                let options = real::watch_options(1, &request);
                let mut stream = client.watch_client().watch(request.key, Some(options)).await.unwrap();
                assert!(stream.message().await.unwrap().is_some_and(|response| response.created()));
                tokio::spawn(async move {
                    // Owns the stream, whose sender must live as long as the watch.
                    while let Ok(Some(response)) = stream.message().await {
                        for event in response.events() {
                            if told.send(real::event(event)).is_err() {
                                return;
                            }
                        }
                    }
                });
            }
            Side::Fake(client) => {
                let mut watcher = client.watch(request);
                tokio::spawn(async move {
                    while let Ok(response) = watcher.next().await {
                        for event in response.events {
                            if told.send(event).is_err() {
                                return;
                            }
                        }
                    }
                });
                // An answer on the same connection says that the watch was read before it.
                tokio::time::sleep(Duration::from_millis(50)).await;
                client.status().await.unwrap();
            }
        }
        events
    }

    pub(crate) async fn grant(&self, id: i64, ttl_s: i64) {
        self.call(Request::LeaseGrant { ttl_s, id }).await.unwrap();
    }

    pub(crate) async fn put(&self, key: &'static str, lease: i64) {
        self.call(Request::Put(PutRequest { lease, ..PutRequest::new(key, "") })).await.unwrap();
    }

    /// What is left of a lease in whole seconds, -1 when it is gone.
    pub(crate) async fn ttl_s(&self, id: i64) -> i64 {
        match self.call(Request::LeaseTimeToLive { id, keys: false }).await {
            Ok(Response::LeaseTimeToLive(response)) => response.ttl_s,
            other => panic!("{other:?}"),
        }
    }

    /// The TTL a renewal gives, 0 when the lease is gone.
    pub(crate) async fn renew(&self, id: i64) -> i64 {
        match self.call(Request::LeaseKeepAlive { id }).await {
            Ok(Response::LeaseKeepAlive { ttl_s, .. }) => ttl_s,
            other => panic!("{other:?}"),
        }
    }
}
