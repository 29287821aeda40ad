//! The sender loop: Java's `Sender` thread, with its rules of who goes first.
//!
//! One transactional request is in flight at most. While one is, or waits for its node, no batch is sent and none
//! expires; before a retry the whole loop sleeps. `EndTxn` waits until every batch is finished.

use super::Shared;
use super::core::{Closing, Core};
use super::requests;
use super::transaction::{Call, Reply, State, TxnRequest};
use crate::codes;
use crate::config::ProducerConfig;
use crate::error::Error;
use crate::network::{Answer, Completion, Network};
use crate::node::{Failure, NetworkConfig};
use crate::types::TopicPartition;
use kafka_protocol::messages::ApiKey;
use rt::time::{Instant, sleep, sleep_until};
use std::sync::Arc;
use std::time::Duration;

/// What a request was for.
pub(super) enum Tag {
    Produce(Vec<(u64, TopicPartition)>),
    Transactional(TxnRequest),
}

/// The one transactional request.
enum Slot {
    Idle,
    /// Waiting for its node to be ready.
    Waiting(Waiting),
    InFlight,
}

struct Waiting {
    request: TxnRequest,
    node: i32,
    since: Instant,
    /// The backoff before a retry is over.
    rested: bool,
}

/// What the loop does next.
enum Next {
    Wait,
    Again,
    Sleep(Duration),
    Stop,
}

/// The task's state.
pub(crate) struct Sender {
    shared: Arc<Shared>,
    pub(super) network: Network<Tag>,
    slot: Slot,
    request_timeout: Duration,
    retry_backoff: Duration,
    metadata_version: u64,
}

impl Sender {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let config = shared.core().config.clone();
        Sender {
            network: Network::new(network_config(&config)),
            slot: Slot::Idle,
            request_timeout: Duration::from_millis(config.request_timeout_ms),
            retry_backoff: Duration::from_millis(config.retry_backoff_ms),
            metadata_version: 0,
            shared,
        }
    }

    /// Runs until the producer is closed.
    pub(crate) async fn run(mut self) {
        loop {
            let now = Instant::now();
            let next = self.step(now);
            // The step may have asked for new metadata, or sent what is refused at once.
            let came = self.network.tick(now);
            match next {
                Next::Stop => return,
                Next::Again => continue,
                Next::Wait if came || self.network.has_completions() => continue,
                Next::Sleep(pause) => {
                    sleep(pause).await;
                    continue;
                }
                Next::Wait => {}
            }
            let due = self.next_due(now);
            let event = tokio::select! {
                biased;
                event = self.network.signal() => Some(event),
                () = self.shared.wake.notified() => None,
                () = sleep_until(due.unwrap_or(now + IDLE)) => None,
            };
            let now = Instant::now();
            if let Some(event) = event {
                self.network.accept(event, now);
            }
        }
    }

    fn step(&mut self, now: Instant) -> Next {
        let shared = self.shared.clone();
        let mut core = shared.core();
        self.network.tick(now);
        for Completion { tag, answer } in self.network.take_completions() {
            match tag {
                Tag::Produce(batches) => self.produced(&mut core, batches, answer, now),
                Tag::Transactional(request) => self.transacted(&mut core, request, answer, now),
            }
        }
        self.sync_metadata(&mut core);
        if self.closes(&mut core) {
            return Next::Stop;
        }
        core.resolve_sequences();
        if core.transactions.state == State::FatalError {
            let error = core.transactions.last_error().cloned().unwrap_or(Error::Closed);
            core.fail_all(&error);
        }
        core.bump_idempotent_epoch();
        if core.is_idempotent() {
            core.transactions.init_idempotent();
            if let Some(next) = self.transact(&mut core, now) {
                return next;
            }
        }
        let sent = self.produce(&mut core, now);
        core.expire_batches(now);
        if sent { Next::Again } else { Next::Wait }
    }

    fn next_due(&self, now: Instant) -> Option<Instant> {
        let own = match &self.slot {
            Slot::Idle => {
                let core = self.shared.core();
                core.accumulator.next_due(core.is_flushing(), now)
            }
            Slot::Waiting(waiting) => Some(waiting.since + self.request_timeout),
            Slot::InFlight => None,
        };
        own.into_iter().chain(self.network.next_tick(now)).min()
    }

    fn sync_metadata(&mut self, core: &mut Core) {
        for topic in std::mem::take(&mut core.wanted) {
            self.network.metadata.want(&topic);
        }
        let version = self.network.metadata.version;
        if version != self.metadata_version {
            self.metadata_version = version;
            core.leaders = self.network.metadata.leaders();
            self.shared.metadata.tell(version);
        }
    }

    /// Whether the producer is closed now.
    fn closes(&mut self, core: &mut Core) -> bool {
        let busy =
            matches!(core.transactions.state, State::Committing | State::Aborting | State::Initializing);
        match core.closing {
            None => return false,
            Some(Closing::Soon) if core.accumulator.has_incomplete() => return false,
            Some(Closing::Soon)
                if matches!(core.transactions.state, State::InTransaction | State::AbortableError)
                    && core.transactions.end(false).is_ok() =>
            {
                return false;
            }
            Some(Closing::Soon) if busy => return false,
            Some(_) => {}
        }
        core.transactions.close();
        core.fail_all(&Error::Closed);
        true
    }

    // ---- transactional requests ----

    /// Sends the next transactional request, or waits for it. `None` when there is none, so that batches may go.
    fn transact(&mut self, core: &mut Core, now: Instant) -> Option<Next> {
        let waiting = match std::mem::replace(&mut self.slot, Slot::Idle) {
            Slot::InFlight => {
                self.slot = Slot::InFlight;
                return Some(Next::Wait);
            }
            Slot::Waiting(waiting) => waiting,
            Slot::Idle => {
                if matches!(core.transactions.state, State::Aborting | State::AbortableError) {
                    core.drop_undrained();
                }
                let request = core.transactions.next_request(core.accumulator.has_incomplete())?;
                match self.target(core, &request, now) {
                    Some(node) => Waiting { request, node, since: now, rested: false },
                    None => return Some(self.no_target(core, request, now)),
                }
            }
        };
        Some(self.send_waiting(core, waiting, now))
    }

    fn target(&mut self, core: &Core, request: &TxnRequest, now: Instant) -> Option<i32> {
        if matches!(request.call, Call::TxnOffsetCommit { .. }) {
            core.transactions.group_coordinator
        } else if needs_coordinator(core, request) {
            core.transactions.coordinator
        } else {
            let node = self.network.least_loaded(now);
            self.network.looked_up();
            node
        }
    }

    fn no_target(&mut self, core: &mut Core, request: TxnRequest, now: Instant) -> Next {
        let coordinator = needs_coordinator(core, &request);
        let call = request.call.clone();
        core.transactions.put_back(request, now);
        if coordinator {
            core.transactions.lookup_for(&call);
            Next::Again
        } else {
            self.network.metadata.request_update();
            Next::Sleep(self.retry_backoff)
        }
    }

    fn send_waiting(&mut self, core: &mut Core, mut waiting: Waiting, now: Instant) -> Next {
        let node = waiting.node;
        if !self.network.ready(node, now) {
            if self.network.backing_off(node, now) || waiting.since + self.request_timeout <= now {
                return self.no_target(core, waiting.request, now);
            }
            self.slot = Slot::Waiting(waiting);
            return Next::Wait;
        }
        let backoff = Duration::from_millis(waiting.request.backoff_ms);
        if !waiting.rested && !backoff.is_zero() {
            waiting.rested = true;
            self.slot = Slot::Waiting(waiting);
            return Next::Sleep(backoff);
        }
        core.transactions.sent(&mut waiting.request, now);
        self.slot = Slot::InFlight;
        self.send_transactional(core, node, waiting.request, now);
        Next::Wait
    }

    fn send_transactional(&mut self, core: &mut Core, node: i32, request: TxnRequest, now: Instant) {
        let label = requests::label(core, &request);
        let label = || label;
        let serves = |api| self.network.serves(node, api).unwrap_or(0);
        core.transactions.can_bump_epoch = serves(ApiKey::InitProducerId) >= 3;
        if matches!(request.call, Call::InitProducerId { producer_id: -1, .. }) {
            core.transactions.learn_transaction_version(self.network.transaction_version(node));
        }
        let batched = serves(ApiKey::FindCoordinator) >= 4;
        let call = request.call.clone();
        let tag = Tag::Transactional(request);
        let (net, cap) = (&mut self.network, i16::MAX);
        match call {
            Call::FindCoordinator => {
                net.send(node, &requests::find_coordinator(core, None, batched), cap, tag, label, now);
            }
            Call::FindGroupCoordinator(group) => {
                net.send(
                    node,
                    &requests::find_coordinator(core, Some(&group), batched),
                    cap,
                    tag,
                    label,
                    now,
                );
            }
            Call::AddOffsetsToTxn { producer_id, epoch, offsets } => {
                let request = requests::add_offsets(core, producer_id, epoch, &offsets.group.group_id);
                net.send(node, &request, cap, tag, label, now);
            }
            Call::TxnOffsetCommit { producer_id, epoch, offsets } => {
                let request = requests::txn_offset_commit(core, producer_id, epoch, &offsets);
                net.send(node, &request, txn_offset_commit_cap(core), tag, label, now);
            }
            Call::InitProducerId { producer_id, epoch } => {
                net.send(node, &requests::init_producer_id(core, producer_id, epoch), cap, tag, label, now);
            }
            Call::AddPartitionsToTxn { producer_id, epoch, partitions } => {
                let request = requests::add_partitions(core, producer_id, epoch, &partitions);
                net.send(node, &request, cap, tag, label, now);
            }
            Call::EndTxn { producer_id, epoch, committed } => {
                let request = requests::end_txn(core, producer_id, epoch, committed);
                net.send(node, &request, end_txn_cap(core), tag, label, now);
            }
        }
    }

    fn transacted(
        &mut self,
        core: &mut Core,
        request: TxnRequest,
        answer: Result<Answer, Failure>,
        now: Instant,
    ) {
        self.slot = Slot::Idle;
        let (reply, address) = requests::reply(&request.call, answer);
        if let (Reply::Coordinator { code: codes::NONE, node }, Some(address)) = (&reply, address) {
            self.network.learn(*node, address, now);
        }
        let before = (core.transactions.producer_id, core.transactions.epoch);
        core.transactions.ended(request, reply, now);
        if before != (core.transactions.producer_id, core.transactions.epoch) {
            core.renumber();
        }
    }
}

/// How long the loop waits when nothing is due: metadata is always due some day, so this is never the reason to wake.
const IDLE: Duration = Duration::from_secs(3_600);

/// Version 5 of `EndTxn` moves to the next epoch (TV2).
fn end_txn_cap(core: &Core) -> i16 {
    if core.transactions.speaks_second_protocol() { 5 } else { 4 }
}

/// Version 5 of `TxnOffsetCommit` brings the group into the transaction by itself (TV2).
fn txn_offset_commit_cap(core: &Core) -> i16 {
    if core.transactions.speaks_second_protocol() { 5 } else { 4 }
}

fn needs_coordinator(core: &Core, request: &TxnRequest) -> bool {
    let any = matches!(request.call, Call::FindCoordinator | Call::FindGroupCoordinator(_));
    core.transactions.is_transactional() && !any
}

fn network_config(config: &ProducerConfig) -> NetworkConfig {
    NetworkConfig {
        client_id: config.client_id.clone(),
        bootstrap_servers: config.bootstrap_servers.clone(),
        request_timeout: Duration::from_millis(config.request_timeout_ms),
        reconnect_backoff: Duration::from_millis(config.reconnect_backoff_ms),
        reconnect_backoff_max: Duration::from_millis(config.reconnect_backoff_max_ms),
        setup_timeout: Duration::from_millis(config.socket_connection_setup_timeout_ms),
        setup_timeout_max: Duration::from_millis(config.socket_connection_setup_timeout_max_ms),
        metadata_max_age: Duration::from_millis(config.metadata_max_age_ms),
        retry_backoff: Duration::from_millis(config.retry_backoff_ms),
        max_in_flight: config.max_in_flight_requests_per_connection,
    }
}
