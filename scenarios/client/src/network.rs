//! The connection layer: Java's `NetworkClient`.
//!
//! One connection per node id; `ApiVersions` is the first request on each; answers come in the order of requests. A
//! request that is not answered in time closes the whole connection, and everything in flight on it fails with it.
//! Each disconnect asks for new metadata. Nothing here retries a request: that is for whoever sent it.

use crate::codec;
use crate::connection::{Connection, Event, Signal};
use crate::metadata::Metadata;
use crate::node::{Failure, InFlight, NetworkConfig, Node, Phase, Purpose};
use crate::versions::BrokerVersions;
use bytes::Bytes;
use kafka_protocol::messages::{ApiKey, ApiVersionsRequest, MetadataRequest};
use kafka_protocol::protocol::{Request, StrBytes};
use rt::time::Instant;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Longer than anybody waits.
const FOR_EVER: Duration = Duration::from_secs(10 * 365 * 86_400);

/// The end of a request.
#[derive(Debug)]
pub(crate) struct Completion<T> {
    pub(crate) tag: T,
    pub(crate) answer: Result<Answer, Failure>,
}

/// An answer not yet decoded.
#[derive(Debug)]
pub(crate) struct Answer {
    version: i16,
    frame: Bytes,
}

impl Answer {
    pub(crate) fn decode<R: Request>(self) -> Result<R::Response, Failure> {
        codec::decode::<R>(self.version, self.frame).map_err(|_| Failure::Malformed)
    }
}

/// All connections of one client. `T` says what a request was for.
pub(crate) struct Network<T> {
    config: NetworkConfig,
    pub(crate) metadata: Metadata,
    nodes: BTreeMap<i32, Node<T>>,
    completions: Vec<Completion<T>>,
    signals: UnboundedReceiver<Event>,
    signal: UnboundedSender<Event>,
    next_correlation_id: i32,
    /// No request expires.
    patient: bool,
    /// Choices of a node made so far: the ordinal of the next.
    lookups: u64,
}

impl<T> Network<T> {
    pub(crate) fn new(config: NetworkConfig) -> Self {
        let (signal, signals) = unbounded_channel();
        let metadata =
            Metadata::new(&config.bootstrap_servers, config.metadata_max_age, config.retry_backoff);
        Network {
            config,
            metadata,
            nodes: BTreeMap::new(),
            completions: Vec::new(),
            signals,
            signal,
            next_correlation_id: 0,
            patient: false,
            lookups: 0,
        }
    }

    /// Whether a request can be sent to `node` now; starts to connect if there is no connection and the backoff is
    /// over.
    pub(crate) fn ready(&mut self, node: i32, now: Instant) -> bool {
        // Mostly it is.
        if let Some(state) = self.nodes.get(&node).filter(|state| state.phase == Phase::Ready) {
            return state.in_flight.len() < self.config.max_in_flight;
        }
        let Some(address) =
            self.metadata.nodes.get(&node).or(self.nodes.get(&node).map(|node| &node.address))
        else {
            return false;
        };
        let address = address.clone();
        let state = self.nodes.entry(node).or_insert_with(|| Node::new(address.clone(), now));
        if state.phase == Phase::Disconnected && state.connect_after <= now {
            state.address = address;
            self.connect(node, now);
        }
        false
    }

    /// Whether `node` is neither connected nor being connected to, and must not be tried yet.
    pub(crate) fn backing_off(&self, node: i32, now: Instant) -> bool {
        self.nodes.get(&node).is_some_and(|node| {
            node.phase == Phase::Disconnected && node.connect_after > now && node.failures > 0
        })
    }

    /// Remembers the address of a node that somebody named (a coordinator).
    pub(crate) fn learn(&mut self, node: i32, address: String, now: Instant) {
        let state = self.nodes.entry(node).or_insert_with(|| Node::new(address.clone(), now));
        state.address = address;
    }

    /// The highest version of `api` that a connected `node` serves.
    pub(crate) fn serves(&self, node: i32, api: ApiKey) -> Option<i16> {
        self.nodes.get(&node)?.versions.choose(api as i16, i16::MAX)
    }

    /// The level of the feature `transaction.version` that a connected `node` has finalized; 0 if none.
    pub(crate) fn transaction_version(&self, node: i32) -> i16 {
        self.nodes.get(&node).map_or(0, |node| node.versions.transaction_version())
    }

    /// Sends `request` to a node that is ready, in the highest version up to `cap`. The completion comes from
    /// [`Network::take_completions`].
    pub(crate) fn send<R: Request>(
        &mut self,
        node: i32,
        request: &R,
        cap: i16,
        tag: T,
        label: impl FnOnce() -> String,
        now: Instant,
    ) {
        self.transmit(node, request, cap, Purpose::Caller(tag), label, now);
    }

    /// Waits up to `timeout` for the answer to the request that was just sent to `node`.
    pub(crate) fn wait_longer(&mut self, node: i32, timeout: Duration, now: Instant) {
        let sent = self.nodes.get_mut(&node).and_then(|node| node.in_flight.back_mut());
        if let Some(request) = sent {
            request.expires_at = now + timeout;
        }
    }

    /// Waits without limit for the answers to everything, from now on.
    pub(crate) fn wait_for_ever(&mut self, now: Instant) {
        self.patient = true;
        for request in self.nodes.values_mut().flat_map(|node| &mut node.in_flight) {
            request.expires_at = now + FOR_EVER;
        }
    }

    /// Whether any node owes an answer to the caller.
    pub(crate) fn is_any_busy(&self) -> bool {
        let in_flight = self.nodes.values().flat_map(|node| &node.in_flight);
        in_flight.into_iter().any(|request| matches!(request.purpose, Purpose::Caller(_)))
    }

    /// Closes the connection to `node`, if there is one. What is in flight on it fails.
    pub(crate) fn hang_up(&mut self, node: i32, now: Instant) {
        if self.nodes.get(&node).is_some_and(|node| node.phase != Phase::Disconnected) {
            self.disconnect(node, Failure::Disconnected, now);
        }
    }

    /// Whether `node` owes an answer.
    pub(crate) fn is_busy(&self, node: i32) -> bool {
        self.nodes.get(&node).is_some_and(|node| !node.in_flight.is_empty())
    }

    /// Sends a request that will not be answered (`acks=0`).
    pub(crate) fn send_unanswered<R: Request>(
        &mut self,
        node: i32,
        request: &R,
        label: impl FnOnce() -> String,
        now: Instant,
    ) -> Result<(), Failure> {
        let version = self.serves_version(node, R::KEY, i16::MAX).ok_or(Failure::UnsupportedVersion)?;
        self.write(node, request, version, None, label, now);
        Ok(())
    }

    /// A node for a request that any can serve, with its connection preferred in this order: idle, least busy, being
    /// made, longest untried. Ties start at a random node.
    pub(crate) fn least_loaded(&mut self, now: Instant) -> Option<i32> {
        let ids: Vec<i32> = self.metadata.nodes.keys().copied().collect();
        let start = rt::choice("client.least-loaded", self.config.client_id.as_str(), self.lookups)
            .below(ids.len() as u64) as usize;
        let rank = |id: &i32| match self.nodes.get(id) {
            Some(node) if node.phase == Phase::Ready && node.in_flight.len() < self.config.max_in_flight => {
                Some((0, node.in_flight.len() as u64))
            }
            Some(node) if matches!(node.phase, Phase::Connecting(_) | Phase::CheckingVersions) => {
                Some((1, 0))
            }
            Some(node) if node.phase == Phase::Disconnected && node.connect_after <= now => {
                Some((2, node.tried_at.map_or(0, Instant::as_nanos)))
            }
            Some(_) => None,
            None => Some((2, 0)),
        };
        let candidates = ids[start..].iter().chain(&ids[..start]);
        candidates
            .filter_map(|id| rank(id).map(|rank| (rank, *id)))
            .min_by_key(|(rank, _)| *rank)
            .map(|(_, id)| id)
    }

    /// Waits for the next signal. Safe to drop and call again.
    pub(crate) async fn signal(&mut self) -> Event {
        // The network holds a sender itself, so the channel cannot end.
        loop {
            if let Some(event) = self.signals.recv().await {
                return event;
            }
        }
    }

    /// Takes in a signal.
    pub(crate) fn accept(&mut self, event: Event, now: Instant) {
        let Some(node) = self.nodes.get_mut(&event.node).filter(|node| node.generation == event.generation)
        else {
            return;
        };
        match event.signal {
            _ if node.connection.is_none() => {}
            Signal::Connected => {
                node.phase = Phase::CheckingVersions;
                node.setup_failures = 0;
                self.send_api_versions(event.node, 3, now);
            }
            Signal::Frame(frame) => self.answered(event.node, frame, now),
            Signal::Closed => self.disconnect(event.node, Failure::Disconnected, now),
        }
    }

    /// Takes in what has come, then closes connections on which something is overdue, and refreshes metadata when that
    /// is due. In this order: an answer that came while the process was paused is not overdue. Returns whether something has
    /// come: who has looked before must look again.
    pub(crate) fn tick(&mut self, now: Instant) -> bool {
        let mut came = false;
        while let Ok(event) = self.signals.try_recv() {
            self.accept(event, now);
            came = true;
        }
        let overdue = |node: &Node<T>| node.expires_at().is_some_and(|due| due <= now);
        let overdue: Vec<i32> =
            self.nodes.iter().filter(|(_, node)| overdue(node)).map(|(id, _)| *id).collect();
        for id in overdue {
            rt::event!("connection.timeout", client = &self.config.client_id, node = id);
            self.disconnect(id, Failure::TimedOut, now);
        }
        if self.metadata.due_at().is_some_and(|due| due <= now)
            && let Some(node) = self.least_loaded(now)
            && self.ready(node, now)
        {
            self.lookups += 1;
            let request = self.metadata.request();
            let label = || "Metadata".to_string();
            self.transmit(node, &request, i16::MAX, Purpose::Metadata, label, now);
        }
        came
    }

    /// When [`Network::tick`] has something to do next, after `now`.
    pub(crate) fn next_tick(&self, now: Instant) -> Option<Instant> {
        let nodes = self.nodes.values();
        nodes
            .clone()
            .filter_map(Node::expires_at)
            .chain(nodes.map(|node| node.connect_after))
            .chain(self.metadata.due_at())
            .filter(|due| *due > now)
            .min()
    }

    /// The requests that ended since the last call.
    pub(crate) fn take_completions(&mut self) -> Vec<Completion<T>> {
        std::mem::take(&mut self.completions)
    }

    /// Whether there is one to be taken.
    pub(crate) fn has_completions(&self) -> bool {
        !self.completions.is_empty()
    }

    /// Says that a node was chosen for a purpose, so that the next choice is another draw.
    pub(crate) fn looked_up(&mut self) {
        self.lookups += 1;
    }

    fn connect(&mut self, id: i32, now: Instant) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        node.generation += 1;
        node.tried_at = Some(now);
        let timeout = self.config.setup_timeout(id, node);
        node.phase = Phase::Connecting(now + timeout);
        node.connection =
            Some(Connection::open(node.address.clone(), id, node.generation, self.signal.clone()));
    }

    fn send_api_versions(&mut self, node: i32, version: i16, now: Instant) {
        let request = ApiVersionsRequest::default()
            .with_client_software_name(StrBytes::from_static_str("wavetank"))
            .with_client_software_version(StrBytes::from_static_str(env!("CARGO_PKG_VERSION")));
        let label = || "ApiVersions".to_string();
        self.write(node, &request, version, Some(Purpose::ApiVersions), label, now);
    }

    fn serves_version(&self, node: i32, api: i16, cap: i16) -> Option<i16> {
        self.nodes.get(&node).filter(|node| node.phase == Phase::Ready)?.versions.choose(api, cap)
    }

    fn transmit<R: Request>(
        &mut self,
        node: i32,
        request: &R,
        cap: i16,
        purpose: Purpose<T>,
        label: impl FnOnce() -> String,
        now: Instant,
    ) {
        match self.serves_version(node, R::KEY, cap) {
            Some(version) => self.write(node, request, version, Some(purpose), label, now),
            None => self.finish(purpose, Err(Failure::UnsupportedVersion), now),
        }
    }

    fn write<R: Request>(
        &mut self,
        node: i32,
        request: &R,
        version: i16,
        purpose: Option<Purpose<T>>,
        label: impl FnOnce() -> String,
        now: Instant,
    ) {
        let correlation_id = self.next_correlation_id;
        self.next_correlation_id = correlation_id.wrapping_add(1) & i32::MAX;
        let frame = codec::encode(request, version, correlation_id, &self.config.client_id)
            .expect("requests are built for the version they are sent in");
        let Some(node) = self.nodes.get_mut(&node) else { return };
        let Some(connection) = &node.connection else { return };
        connection.write(&frame, label);
        if let Some(purpose) = purpose {
            let expires_at = now + if self.patient { FOR_EVER } else { self.config.request_timeout };
            node.in_flight.push_back(InFlight { correlation_id, version, expires_at, purpose });
        }
    }

    fn answered(&mut self, id: i32, frame: Bytes, now: Instant) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        let expected = node.in_flight.front().map(|request| request.correlation_id);
        if expected.is_none() || expected != codec::correlation_id(&frame) {
            return self.disconnect(id, Failure::Disconnected, now);
        }
        let Some(request) = node.in_flight.pop_front() else { return };
        let answer = Answer { version: request.version, frame };
        match request.purpose {
            Purpose::ApiVersions => self.versions_answered(id, answer, now),
            purpose => self.finish(purpose, Ok(answer), now),
        }
    }

    /// A broker that does not know the version asked for answers in version 0 with what it knows.
    fn versions_answered(&mut self, id: i32, answer: Answer, now: Instant) {
        let (version, frame) = (answer.version, answer.frame.clone());
        let unsupported = codec::decode::<ApiVersionsRequest>(0, frame)
            .is_ok_and(|response| response.error_code == crate::codes::UNSUPPORTED_VERSION);
        if unsupported && version > 0 {
            return self.send_api_versions(id, 0, now);
        }
        let Some(node) = self.nodes.get_mut(&id) else { return };
        match answer.decode::<ApiVersionsRequest>() {
            Ok(response) if response.error_code == crate::codes::NONE => {
                node.versions = BrokerVersions::new(&response);
                node.phase = Phase::Ready;
                node.failures = 0;
            }
            _ => self.disconnect(id, Failure::Disconnected, now),
        }
    }

    fn disconnect(&mut self, id: i32, why: Failure, now: Instant) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        if matches!(node.phase, Phase::Connecting(_)) {
            node.setup_failures += 1;
        }
        let backoff = self.config.reconnect_backoff(id, node);
        node.phase = Phase::Disconnected;
        node.connection = None;
        node.versions = BrokerVersions::default();
        node.failures += 1;
        node.connect_after = now + backoff;
        for request in std::mem::take(&mut node.in_flight) {
            self.finish(request.purpose, Err(why), now);
        }
        self.metadata.request_update();
    }

    fn finish(&mut self, purpose: Purpose<T>, answer: Result<Answer, Failure>, now: Instant) {
        match purpose {
            Purpose::Caller(tag) => self.completions.push(Completion { tag, answer }),
            Purpose::Metadata => match answer.and_then(Answer::decode::<MetadataRequest>) {
                Ok(response) => self.metadata.update(response, now),
                Err(_) => self.metadata.failed(now),
            },
            Purpose::ApiVersions => {}
        }
    }
}
