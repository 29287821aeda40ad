//! A held-frame proxy for real Kafka clients and real brokers, over real TCP.
//!
//! One listening port per broker. Frames are understood, named as in the tank, and held, delayed or reset by the tank's
//! faults; addresses in answers are replaced, so that clients stay inside.
//!
//! * [`Options`], [`Proxying`]: what `wavetank proxy` is asked for, and what it serves
//! * [`parse_faults`]: schedules; `alphabet` says which faults a proxy can carry out, `faults` carries them out
//! * `relay`: one connection, frame by frame; `socket`: its two sockets
//! * `rewrite`: answers to Produce that say something else
//! * `label`, `answer`: what a request is called, what is in its answer; `brokers`: their addresses
//! * `log`, `admin`: what was seen, and the way to it over HTTP
//!
//! Limits. No TLS. A client whose broker is away is connected and then closed, not refused. A frame is read whole before
//! it goes on.

mod admin;
mod alphabet;
mod answer;
mod brokers;
mod faults;
mod label;
mod log;
mod relay;
mod rewrite;
mod socket;

use crate::host_port::{self, HostPort, advertised_host, taken};
use crate::http;
use brokers::{Brokers, Opened};
use faults::Faults;
use log::Log;
use rewrite::Rewrites;
use rt::host::BoxFuture;
use rt::net::TcpListener;
use rt::time::{Instant, sleep};
use sim::fault::Scheduled;
use socket::Stream;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, mpsc};

/// What stands where.
#[derive(Clone, Debug)]
pub struct Options {
    /// The brokers: `broker-1` and up.
    pub upstream: Vec<HostPort>,
    /// Where clients reach `broker-1`; the others take the ports after it. Port 0 takes any.
    pub listen: HostPort,
    /// The host that clients are told; the one listened on if absent.
    pub advertise: Option<String>,
    /// Where faults are given and frames are let go. Port 0 takes any.
    pub admin: HostPort,
    /// Faults that are armed from the start, as [`parse_faults`] reads them.
    pub faults: Vec<Scheduled>,
}

/// Reads a schedule for a proxy of `brokers` brokers: a JSON array of faults.
///
/// # Errors
/// Field and problem, also of a fault that a proxy cannot carry out.
pub fn parse_faults(text: &str, brokers: usize) -> Result<Vec<Scheduled>, String> {
    alphabet::parse(text, brokers)
}

/// A proxy that serves until this is dropped.
pub struct Proxying {
    shared: Arc<Shared>,
    admin: HostPort,
    _tasks: rt::JoinSet<()>,
}

/// What all connections and the admin endpoint share.
struct Shared {
    brokers: Brokers,
    faults: Mutex<Faults>,
    rewrites: Mutex<Rewrites>,
    /// Something that frames may wait for has happened.
    changed: Notify,
    log: Log,
    connections: AtomicU64,
}

impl Shared {
    fn faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn rewrites(&self) -> MutexGuard<'_, Rewrites> {
        self.rewrites.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Proxying {
    /// Starts a proxy. It listens from here on.
    ///
    /// # Errors
    /// The option, what is wrong, and the remedy.
    // Boxed, so that it is compiled here, and not once more in every crate that calls it.
    pub fn start(options: Options) -> BoxFuture<Result<Self, String>> {
        Box::pin(Proxying::start_all(options))
    }

    async fn start_all(options: Options) -> Result<Self, String> {
        let advertise = advertised_host(&options.listen.host, options.advertise.as_deref())?;
        let admin = TcpListener::bind(&options.admin.to_string()).await;
        let admin = admin.map_err(|error| taken("--admin", &options.admin.to_string(), &error))?;
        let admin_address =
            host_port::bound(&options.admin.host, &admin).map_err(|error| format!("--admin: {error}"))?;
        let (opened, listeners) = mpsc::unbounded_channel();
        let brokers = Brokers::new(options.listen, advertise, opened);
        for upstream in &options.upstream {
            brokers.add(upstream).await?;
        }
        let mut faults = Faults::default();
        faults.arm(Instant::now(), options.faults).map_err(|problem| format!("--faults: {problem}"))?;
        let shared = Arc::new(Shared {
            brokers,
            faults: Mutex::new(faults),
            rewrites: Mutex::default(),
            changed: Notify::new(),
            log: Log::new(),
            connections: AtomicU64::new(0),
        });
        let mut tasks = rt::JoinSet::new();
        tasks.spawn("proxy.admin", http::serve(admin, Arc::new(admin::Admin(shared.clone()))));
        tasks.spawn("proxy.listeners", accept_all(shared.clone(), listeners));
        Ok(Proxying { shared, admin: admin_address, _tasks: tasks })
    }

    /// What stands where, a line each.
    pub async fn describe(&self) -> Vec<String> {
        let brokers = self.shared.brokers.list().await;
        let mut lines: Vec<String> =
            brokers.iter().map(|(name, upstream, local)| format!("{name}: {local} -> {upstream}")).collect();
        lines.push(format!("bootstrap: {}", self.bootstrap_servers().await.join(",")));
        lines.push(format!("admin: http://{}", self.admin));
        lines
    }

    /// Where clients begin, an address a broker.
    pub async fn bootstrap_servers(&self) -> Vec<String> {
        self.shared.brokers.list().await.iter().map(|(_, _, local)| local.to_string()).collect()
    }

    /// Where faults are given.
    pub fn admin(&self) -> &HostPort {
        &self.admin
    }
}

/// Accepts for every broker that has, or gets, an address.
async fn accept_all(shared: Arc<Shared>, mut listeners: mpsc::UnboundedReceiver<Opened>) {
    let mut accepting = rt::JoinSet::new();
    loop {
        tokio::select! {
            biased;
            Some(opened) = listeners.recv() => accepting.spawn("proxy.listener", accept(shared.clone(), opened)),
            Some(_) = accepting.join_next() => {}
            else => return,
        }
    }
}

/// Pause after a failed accept (out of descriptors, most likely).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

async fn accept(shared: Arc<Shared>, opened: Opened) {
    let mut connections = rt::JoinSet::new();
    loop {
        tokio::select! {
            biased;
            _ = connections.join_next(), if !connections.is_empty() => {}
            accepted = next(&opened) => match accepted {
                Ok(client) => {
                    let number = shared.connections.fetch_add(1, Ordering::Relaxed) + 1;
                    let (broker, upstream) = (opened.name.clone(), opened.upstream.to_string());
                    let connection = relay::serve(shared.clone(), number, broker, upstream, client);
                    connections.spawn("proxy.connection", connection);
                }
                Err(_) => sleep(ACCEPT_PAUSE).await,
            },
        }
    }
}

async fn next(opened: &Opened) -> io::Result<Stream> {
    opened.listener.accept().await.map(|(stream, _)| stream)
}
