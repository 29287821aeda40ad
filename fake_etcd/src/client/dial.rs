//! Makes the client's connection, and makes it anew when it is lost, at a bounded rate.

use super::ClientConfig;
use super::connection::Connection;
use rt::net::TcpStream;
use rt::time::Instant;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;

pub(super) struct Dialer {
    /// One or more, separated by commas.
    endpoints: String,
    config: ClientConfig,
    /// Held while connecting, so that all who wait share one attempt.
    state: Mutex<State>,
}

struct State {
    connection: Option<Arc<Connection>>,
    /// Attempts since a server was last heard.
    failures: u32,
    /// Attempts ever, to tell their backoffs apart.
    attempts: u64,
    not_before: Instant,
}

impl Drop for Dialer {
    /// The last client and watcher are gone; the connection's task would stay.
    fn drop(&mut self) {
        if let Some(connection) = self.state.get_mut().connection.take() {
            connection.close();
        }
    }
}

impl Dialer {
    pub(super) fn new(endpoints: String, config: ClientConfig) -> Self {
        let state = State { connection: None, failures: 0, attempts: 0, not_before: Instant::from_nanos(0) };
        Dialer { endpoints, config, state: Mutex::new(state) }
    }

    pub(super) fn endpoints(&self) -> &str {
        &self.endpoints
    }

    /// Whom the `attempt`-th attempt dials: each endpoint in turn.
    fn endpoint(&self, attempt: u64) -> &str {
        let count = self.endpoints.split(',').count() as u64;
        self.endpoints.split(',').nth((attempt % count) as usize).unwrap_or_default().trim()
    }

    /// The connection, or a new one; tries until there is one.
    pub(super) async fn connection(&self) -> Arc<Connection> {
        let mut state = self.state.lock().await;
        if let Some(connection) = &state.connection {
            if connection.is_open() {
                return connection.clone();
            }
            // A server that takes connections and says nothing is not there.
            if connection.was_heard() {
                state.failures = 0;
            } else {
                self.back_off(&mut state);
            }
            state.connection = None;
        }
        loop {
            rt::time::sleep_until(state.not_before).await;
            let endpoint = self.endpoint(state.attempts);
            // Should the caller give up in the middle, this attempt counts as failed.
            self.back_off(&mut state);
            let limit = Duration::from_millis(self.config.connect_timeout_ms);
            match rt::time::timeout(limit, TcpStream::connect(endpoint)).await {
                Ok(Ok(stream)) => {
                    let connection = Connection::start(stream, &self.config);
                    state.connection = Some(connection.clone());
                    return connection;
                }
                Ok(Err(error)) => rt::event!("etcd.client.refused", error = &error.kind().to_string()),
                Err(_) => rt::event!("etcd.client.connect-timeout"),
            }
        }
    }

    fn back_off(&self, state: &mut State) {
        let doubled = self.config.backoff_min_ms.saturating_mul(1 << state.failures.min(16));
        let high = Duration::from_millis(doubled.min(self.config.backoff_max_ms));
        let wait = rt::choice("etcd.client.backoff", self.endpoints.as_str(), state.attempts)
            .duration(high / 2, high);
        state.attempts += 1;
        state.failures = state.failures.saturating_add(1);
        state.not_before = Instant::now() + wait;
    }
}
