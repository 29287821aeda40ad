//! What this program does when it was started by itself: be the fake's server, or a client that can be stopped.

use crate::real;
use crate::side::Side;
use crate::timed::fake_client;
use fake_etcd::api::*;
use fake_etcd::{Disk, ServerConfig};
use rt::net::TcpListener;
use std::io::Write;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// Serves the fake; a hang-up ends the server and starts it again on the same disk.
pub(crate) async fn serve(endpoint: &str) {
    let mut hang_ups = signal(SignalKind::hangup()).expect("signals can be caught");
    let disk = Disk::default();
    loop {
        let listener = TcpListener::bind(endpoint).await.expect("the port is free");
        tokio::select! {
            biased;
            _ = hang_ups.recv() => {}
            ended = fake_etcd::serve(listener, disk.clone(), ServerConfig::default()) => ended.expect("it serves"),
        }
    }
}

async fn side(kind: &str, endpoint: &str) -> Side {
    match kind {
        "real" => Side::Real(real::connect(endpoint).await),
        _ => Side::Fake(fake_client(endpoint)),
    }
}

fn say(line: &str) {
    println!("{line}");
    std::io::stdout().flush().expect("somebody listens");
}

/// Renews lease 6 until it is gone.
pub(crate) async fn renew(kind: &str, endpoint: &str) {
    let side = side(kind, endpoint).await;
    loop {
        match side.renew(6).await {
            0 => return say("gone"),
            _ => say("renewed"),
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// Watches key `g` until it is deleted, and says whether each of its versions came once and in order.
pub(crate) async fn watch(kind: &str, endpoint: &str) {
    let mut events = side(kind, endpoint).await.watch(WatchRequest::key("g", 0)).await;
    say("watching");
    let (mut versions, mut in_order) = (0, true);
    while let Some(event) = events.recv().await {
        if event.kind == EventKind::Delete {
            return say(&format!("{versions} versions, in order: {in_order}"));
        }
        versions += 1;
        in_order &= event.kv.version == versions;
        if versions == 1 {
            say("the first version");
        }
    }
}
