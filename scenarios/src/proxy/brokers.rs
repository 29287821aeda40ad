//! The brokers behind the proxy, each with an address of the proxy's own.
//!
//! They are `broker-1` and up, in the order in which they were named. One that only an answer names gets the next number
//! and an address then.

use super::socket::{self, Listener};
use crate::host_port::{HostPort, taken};
use std::net::SocketAddr;
use tokio::sync::Mutex;
use tokio::sync::mpsc::UnboundedSender;

/// A broker that was given an address, and the socket there.
pub(super) struct Opened {
    pub(super) name: String,
    pub(super) upstream: HostPort,
    pub(super) listener: Listener,
}

struct Broker {
    name: String,
    upstream: HostPort,
    /// What the upstream's name means, so that a broker is known by another of its names.
    addresses: Vec<SocketAddr>,
    local: HostPort,
}

pub(super) struct Brokers {
    /// Where the first one's address is; the others take the ports after it.
    listen: HostPort,
    advertise: String,
    known: Mutex<Vec<Broker>>,
    opened: UnboundedSender<Opened>,
}

impl Brokers {
    pub(super) fn new(listen: HostPort, advertise: String, opened: UnboundedSender<Opened>) -> Self {
        Brokers { listen, advertise, known: Mutex::default(), opened }
    }

    /// Gives `upstream` an address.
    ///
    /// # Errors
    /// What is wrong with the address, as an option's problem.
    pub(super) async fn add(&self, upstream: &HostPort) -> Result<(), String> {
        self.open(&mut *self.known.lock().await, upstream, resolve(upstream).await).await.map(|_| ())
    }

    /// Name, upstream and own address of every broker.
    pub(super) async fn list(&self) -> Vec<(String, HostPort, HostPort)> {
        let known = self.known.lock().await;
        known
            .iter()
            .map(|broker| (broker.name.clone(), broker.upstream.clone(), broker.local.clone()))
            .collect()
    }

    /// The proxy's address for the broker that advertises `host:port`. If there is no way to give it one, its own: a
    /// client that goes there is outside.
    pub(super) async fn local(&self, host: &str, port: u16) -> HostPort {
        let named = HostPort { host: bracketed(host), port };
        let mut known = self.known.lock().await;
        if let Some(broker) = known.iter().find(|broker| broker.upstream == named) {
            return broker.local.clone();
        }
        let addresses = resolve(&named).await;
        let same = |broker: &&Broker| broker.addresses.iter().any(|address| addresses.contains(address));
        if let Some(broker) = known.iter().find(same) {
            return broker.local.clone();
        }
        self.open(&mut known, &named, addresses).await.unwrap_or(HostPort { host: host.to_string(), port })
    }

    async fn open(
        &self,
        known: &mut Vec<Broker>,
        upstream: &HostPort,
        addresses: Vec<SocketAddr>,
    ) -> Result<HostPort, String> {
        let port = match self.listen.port {
            0 => 0,
            first => first.saturating_add(u16::try_from(known.len()).unwrap_or(u16::MAX)),
        };
        let address = HostPort { host: self.listen.host.clone(), port }.to_string();
        let problem = |error| taken("--listen", &address, &error);
        let listener = socket::listen(&address).await.map_err(problem)?;
        let port = listener.local_addr().map_err(problem)?.port();
        let local = HostPort { host: self.advertise.clone(), port };
        let name = format!("broker-{}", known.len() + 1);
        let (upstream, broker_name) = (upstream.clone(), name.clone());
        known.push(Broker { name, upstream: upstream.clone(), addresses, local: local.clone() });
        // Nobody takes it if the proxy is ending.
        let _ = self.opened.send(Opened { name: broker_name, upstream, listener });
        Ok(local)
    }
}

/// A host as an address of this crate has it: IPv6 in brackets.
fn bracketed(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_string() }
}

async fn resolve(address: &HostPort) -> Vec<SocketAddr> {
    let found = tokio::net::lookup_host(address.to_string()).await;
    found.map(Iterator::collect).unwrap_or_default()
}
