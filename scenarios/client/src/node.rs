//! One node as the connection layer sees it: its connection, and what is in flight on it.

use crate::connection::Connection;
use crate::versions::BrokerVersions;
use rt::time::Instant;
use std::collections::VecDeque;
use std::time::Duration;

/// The keys of a client's configuration that concern connections.
#[derive(Clone, Debug)]
pub(crate) struct NetworkConfig {
    pub(crate) client_id: String,
    pub(crate) bootstrap_servers: Vec<String>,
    pub(crate) request_timeout: Duration,
    pub(crate) reconnect_backoff: Duration,
    pub(crate) reconnect_backoff_max: Duration,
    pub(crate) setup_timeout: Duration,
    pub(crate) setup_timeout_max: Duration,
    pub(crate) metadata_max_age: Duration,
    pub(crate) retry_backoff: Duration,
    pub(crate) max_in_flight: usize,
}

/// Why a request has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The connection ended.
    Disconnected,
    /// The connection was closed because a request on it was not answered in time.
    TimedOut,
    /// The node speaks no version of it that the client does.
    UnsupportedVersion,
    /// The answer cannot be decoded.
    Malformed,
}

impl NetworkConfig {
    /// How long the connect just begun may take.
    pub(crate) fn setup_timeout<T>(&self, id: i32, node: &Node<T>) -> Duration {
        let term = grown(self.setup_timeout, self.setup_timeout_max, node.setup_failures);
        self.jitter("client.setup-timeout", id, node.generation, term)
    }

    /// How long to wait after a disconnect.
    pub(crate) fn reconnect_backoff<T>(&self, id: i32, node: &Node<T>) -> Duration {
        let term = grown(self.reconnect_backoff, self.reconnect_backoff_max, node.failures);
        self.jitter("client.reconnect-backoff", id, node.generation, term)
    }

    /// 20 % either way, by a choice that is stable for the `attempt`-th connection to a node.
    fn jitter(&self, name: &'static str, id: i32, attempt: u64, term: Duration) -> Duration {
        let ordinal = (u64::from(id as u32) << 32) | attempt;
        rt::choice(name, self.client_id.as_str(), ordinal).duration(term * 4 / 5, term * 6 / 5)
    }
}

/// Java's `ExponentialBackoff` before jitter: doubles from `first` to `max`.
fn grown(first: Duration, max: Duration, failures: u32) -> Duration {
    first.saturating_mul(1 << failures.min(20)).min(max)
}

/// What a request was for.
pub(crate) enum Purpose<T> {
    ApiVersions,
    Metadata,
    Caller(T),
}

/// A request not yet answered.
pub(crate) struct InFlight<T> {
    pub(crate) correlation_id: i32,
    pub(crate) version: i16,
    pub(crate) expires_at: Instant,
    pub(crate) purpose: Purpose<T>,
}

/// Where a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Disconnected,
    /// Waiting for TCP until this moment.
    Connecting(Instant),
    CheckingVersions,
    Ready,
}

/// A node.
pub(crate) struct Node<T> {
    pub(crate) address: String,
    pub(crate) phase: Phase,
    pub(crate) connection: Option<Connection>,
    /// Connections tried so far.
    pub(crate) generation: u64,
    pub(crate) versions: BrokerVersions,
    pub(crate) in_flight: VecDeque<InFlight<T>>,
    /// Disconnects since the node was last ready.
    pub(crate) failures: u32,
    /// Connects that failed or took too long, since the last that stood.
    pub(crate) setup_failures: u32,
    pub(crate) connect_after: Instant,
    pub(crate) tried_at: Option<Instant>,
}

impl<T> Node<T> {
    pub(crate) fn new(address: String, now: Instant) -> Self {
        Node {
            address,
            phase: Phase::Disconnected,
            connection: None,
            generation: 0,
            versions: BrokerVersions::default(),
            in_flight: VecDeque::new(),
            failures: 0,
            setup_failures: 0,
            connect_after: now,
            tried_at: None,
        }
    }

    /// When something on this connection is overdue.
    pub(crate) fn expires_at(&self) -> Option<Instant> {
        match self.phase {
            Phase::Connecting(deadline) => Some(deadline),
            _ => self.in_flight.iter().map(|request| request.expires_at).min(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_doubles_up_to_its_limit() {
        let (first, max) = (Duration::from_millis(50), Duration::from_millis(1_000));
        let terms: Vec<u128> = (0..7).map(|failures| grown(first, max, failures).as_millis()).collect();
        assert_eq!(terms, [50, 100, 200, 400, 800, 1_000, 1_000]);
    }
}
