//! The task of a member: Java's heartbeat thread, with all that is said to the coordinator. It looks the coordinator
//! up, sends what the shared state wants sent, and brings back what was answered.
//!
//! The coordinator has a connection of its own, under a node id of its own, as in Java: a `JoinGroup` that waits must
//! hold up nothing else.

use super::Shared;
use super::core::{Call, Commit, Core};
use super::membership::{self, Generation, Rebalance};
use super::requests::{self, Joining};
use crate::codes;
use crate::network::{Answer, Completion, Network};
use crate::node::Failure;
use crate::types::TopicPartition;
use kafka_protocol::messages::ApiKey;
use rt::time::{Instant, sleep_until};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// What `JoinGroup` may take beyond the rebalance timeout (Java's `JOIN_GROUP_TIMEOUT_LAPSE`).
const JOIN_LAPSE: Duration = Duration::from_secs(5);
/// How long the loop waits when nothing is due.
const IDLE: Duration = Duration::from_secs(3_600);

/// What a request was for.
enum Tag {
    Lookup,
    Call(Call, Generation),
}

/// The task's state.
pub(crate) struct Task {
    shared: Arc<Shared>,
    network: Network<Tag>,
    looking_up: bool,
    look_up_at: Instant,
    retry_backoff: Duration,
    /// Metadata must be newer than this before this member assigns as the leader.
    metadata_before: Option<u64>,
    metadata_version: u64,
}

impl Task {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let core = shared.core();
        let mut network = Network::new(crate::consumer::network_config(&core.config));
        core.topics.iter().for_each(|topic| network.metadata.want(topic));
        let retry_backoff = Duration::from_millis(core.config.retry_backoff_ms);
        drop(core);
        Task {
            shared,
            network,
            looking_up: false,
            look_up_at: Instant::now(),
            retry_backoff,
            metadata_before: None,
            metadata_version: 0,
        }
    }

    /// Runs until the member is closed.
    pub(crate) async fn run(mut self) {
        loop {
            let now = Instant::now();
            if self.step(now) {
                return;
            }
            // The step may have asked for new metadata, or sent what is refused at once.
            if self.network.tick(now) || self.network.has_completions() {
                continue;
            }
            let due = self.next_due(now);
            let event = tokio::select! {
                biased;
                event = self.network.signal() => Some(event),
                () = self.shared.wake.notified() => None,
                () = sleep_until(due) => None,
            };
            if let Some(event) = event {
                self.network.accept(event, Instant::now());
            }
        }
    }

    /// Whether it is over.
    fn step(&mut self, now: Instant) -> bool {
        let shared = self.shared.clone();
        let mut core = shared.core();
        if core.dropped {
            return true;
        }
        if core.hangs {
            self.network.wait_for_ever(now);
        }
        self.network.tick(now);
        let completions = self.network.take_completions();
        let told = !completions.is_empty();
        for Completion { tag, answer } in completions {
            match tag {
                Tag::Lookup => self.looked_up(&mut core, answer, now),
                Tag::Call(call, sent) => ended(&mut core, call, &sent, answer, now),
            }
        }
        core.membership.tick(now);
        core.topics.iter().for_each(|topic| self.network.metadata.want(topic));
        self.sync_metadata(&mut core);
        if let Some(node) = core.membership.hang_up.take() {
            self.network.hang_up(node, now);
        }
        if core.active {
            self.send_calls(&mut core, now);
        }
        if told {
            shared.changed.notify_one();
        }
        let busy = core.membership.coordinator.is_some_and(|node| self.network.is_busy(node));
        let given_up = core.membership.coordinator.is_none() && !core.hangs;
        core.closing && !busy && (core.is_idle() || given_up)
    }

    fn next_due(&self, now: Instant) -> Instant {
        let core = self.shared.core();
        let unknown = core.active && core.membership.coordinator.is_none() && !self.looking_up;
        let look_up = (unknown && self.look_up_at > now).then_some(self.look_up_at);
        let all = core.next_due(now).into_iter().chain(look_up).chain(self.network.next_tick(now));
        all.min().unwrap_or(now + IDLE)
    }

    /// Tells what metadata says of topics; the leader assigns once it knows them all.
    fn sync_metadata(&mut self, core: &mut Core) {
        let version = self.network.metadata.version;
        if core.membership.rebalance == Rebalance::Assign {
            let topics = core.topics_of_all();
            topics.iter().for_each(|topic| self.network.metadata.want(topic));
            let partitions = self.partitions(&topics);
            let before = *self.metadata_before.get_or_insert(version);
            // A topic that is missing is asked for once more: it may be new.
            if partitions.len() == topics.len() || version > before {
                core.assign(&partitions);
                self.metadata_before = None;
            } else {
                self.network.metadata.request_update();
            }
        } else {
            self.metadata_before = None;
            if version != self.metadata_version {
                self.metadata_version = version;
                core.topics_have(&self.partitions(&core.topics));
            }
        }
    }

    fn partitions(&self, topics: &BTreeSet<String>) -> BTreeMap<String, i32> {
        let known = |topic: &String| {
            let found = self.network.metadata.topic(topic)?;
            Some((topic.clone(), found.partitions.len() as i32))
        };
        topics.iter().filter_map(known).collect()
    }

    // ---- sending ----

    fn send_calls(&mut self, core: &mut Core, now: Instant) {
        let Some(node) = core.membership.coordinator else {
            if !self.looking_up && self.look_up_at <= now {
                self.look_up(core, now);
            }
            return;
        };
        if self.network.backing_off(node, now) {
            return core.membership.lose_coordinator(false);
        }
        while core.membership.coordinator.is_some() && self.network.ready(node, now) {
            let Some((call, as_whom)) = core.next(now) else { return };
            self.send(core, node, call, as_whom, now);
        }
    }

    /// Any agent can say who coordinates.
    fn look_up(&mut self, core: &Core, now: Instant) {
        self.look_up_at = now + self.retry_backoff;
        let Some(node) = self.network.least_loaded(now) else {
            return self.network.metadata.request_update();
        };
        if !self.network.ready(node, now) {
            return;
        }
        self.network.looked_up();
        self.looking_up = true;
        let batched = self.network.serves(node, ApiKey::FindCoordinator).is_some_and(|version| version > 3);
        let request = requests::find_coordinator(&core.config, batched);
        let label = format!("FindCoordinator group client={}", core.config.client_id);
        self.network.send(node, &request, i16::MAX, Tag::Lookup, || label, now);
    }

    fn send(&mut self, core: &Core, node: i32, call: Call, as_whom: Generation, now: Instant) {
        let client = core.config.client_id.clone();
        let label = move |what: &str| format!("{what} client={client}");
        let network = &mut self.network;
        let tag = |call| Tag::Call(call, as_whom.clone());
        match call {
            Call::Membership(membership::Call::Join) => {
                let request = requests::join(core, &as_whom);
                let tag = tag(Call::Membership(membership::Call::Join));
                network.send(node, &request, i16::MAX, tag, || label("JoinGroup"), now);
                let rebalance = Duration::from_millis(core.config.max_poll_interval_ms) + JOIN_LAPSE;
                let timeout = rebalance.max(Duration::from_millis(core.config.request_timeout_ms));
                network.wait_longer(node, timeout, now);
            }
            Call::Membership(membership::Call::Sync(assignments)) => {
                let request = requests::sync(core, &as_whom, &assignments);
                let tag = tag(Call::Membership(membership::Call::Sync(assignments)));
                network.send(node, &request, i16::MAX, tag, || label("SyncGroup"), now);
            }
            Call::Membership(membership::Call::Heartbeat) => {
                let request = requests::heartbeat(core, &as_whom);
                let tag = tag(Call::Membership(membership::Call::Heartbeat));
                network.send(node, &request, i16::MAX, tag, || label("Heartbeat"), now);
            }
            Call::Membership(membership::Call::Leave) => {
                let request = requests::leave(core, &as_whom);
                let tag = tag(Call::Membership(membership::Call::Leave));
                network.send(node, &request, i16::MAX, tag, || label("LeaveGroup"), now);
            }
            Call::Commit(commit) => {
                let request = requests::commit(&core.config, &as_whom, &commit.offsets);
                tell_commit(core, &as_whom, &commit);
                network.send(
                    node,
                    &request,
                    i16::MAX,
                    tag(Call::Commit(commit)),
                    || label("OffsetCommit"),
                    now,
                );
            }
            Call::Offsets(number, partitions) => {
                let request = requests::offset_fetch(&core.config, &partitions);
                rt::event!("member.asks", client = &core.config.client_id, number = number);
                let tag = tag(Call::Offsets(number, partitions));
                network.send(node, &request, i16::MAX, tag, || label("OffsetFetch"), now);
            }
        }
    }

    fn looked_up(&mut self, core: &mut Core, answer: Result<Answer, Failure>, now: Instant) {
        self.looking_up = false;
        self.look_up_at = now + self.retry_backoff;
        match answer.and_then(requests::found_coordinator) {
            Ok(Ok((node, address))) => {
                let connection = i32::MAX - node;
                self.network.learn(connection, address, now);
                core.membership.found_coordinator(connection, now);
            }
            Ok(Err(code)) if !codes::is_retriable(code) => {
                core.membership.fail(crate::Error::Kafka(code));
            }
            // Asked again after the backoff.
            Ok(Err(_)) | Err(_) => {}
        }
    }
}

/// Brings the end of a call back.
fn ended(core: &mut Core, call: Call, sent: &Generation, answer: Result<Answer, Failure>, now: Instant) {
    if let Err(Failure::UnsupportedVersion) = answer {
        core.membership.fail(crate::Error::Kafka(codes::UNSUPPORTED_VERSION));
    }
    let Ok(answer) = answer else { return lost(core, call, now) };
    let decoded = match call {
        Call::Membership(membership::Call::Join) => {
            requests::joined(answer).map(|joined| take_join(core, sent, joined, now))
        }
        Call::Membership(membership::Call::Sync(_)) => requests::synced(answer).map(|synced| {
            core.membership.synced(sent, synced, now);
            tell_synced(core);
        }),
        Call::Membership(membership::Call::Heartbeat) => {
            let code = answer.decode::<kafka_protocol::messages::HeartbeatRequest>();
            code.map(|response| core.membership.beaten(sent, response.error_code, now))
        }
        // Nobody waits for it.
        Call::Membership(membership::Call::Leave) => Ok(()),
        Call::Commit(commit) => match requests::committed(answer) {
            Ok(codes) => {
                tell_commit_end(core, &commit, Some(&codes));
                core.committed(commit, sent, &codes);
                Ok(())
            }
            Err(_) => return lost(core, Call::Commit(commit), now),
        },
        Call::Offsets(number, _) => requests::offsets(answer).map(|found| {
            tell_offsets(core, number, &found);
            core.offsets_found(number, found, now);
        }),
    };
    // What cannot be read is a broken broker's.
    if decoded.is_err() {
        core.membership.fail(crate::Error::Kafka(codes::UNKNOWN));
    }
}

fn lost(core: &mut Core, call: Call, now: Instant) {
    if let Call::Commit(commit) = &call {
        tell_commit_end(core, commit, None);
    }
    core.lost(call, now);
}

fn take_join(core: &mut Core, sent: &Generation, joined: Joining, now: Instant) {
    match joined {
        Joining::In(answer, members) => {
            let generation = answer.generation.id;
            let identity =
                core.config.group_instance_id.as_ref().unwrap_or(&answer.generation.member_id).clone();
            rt::event!(
                "member.joined",
                client = &core.config.client_id,
                identity = &identity,
                member = &answer.generation.member_id,
                generation = generation,
                leads = answer.leads
            );
            core.joined = members;
            core.membership.joined(sent, Ok(answer), now);
        }
        Joining::MemberId(member_id) => core.membership.take_member_id(member_id, now),
        Joining::Refused(code) => core.membership.joined(sent, Err(code), now),
    }
}

// ---- what is told to whoever watches ----

fn list(partitions: &BTreeSet<TopicPartition>) -> String {
    partitions.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

fn tell_synced(core: &Core) {
    if let Rebalance::Synced(partitions) = &core.membership.rebalance {
        rt::event!(
            "member.synced",
            client = &core.config.client_id,
            generation = core.membership.generation.id,
            partitions = &list(partitions)
        );
    }
}

fn tell_commit(core: &Core, as_whom: &Generation, commit: &Commit) {
    for (partition, offset) in &commit.offsets {
        rt::event!(
            "member.commits",
            client = &core.config.client_id,
            number = commit.number,
            generation = as_whom.id,
            partition = &partition.to_string(),
            offset = *offset
        );
    }
}

/// `codes` is `None` without an answer.
fn tell_commit_end(core: &Core, commit: &Commit, codes: Option<&[i16]>) {
    let outcome = requests::commit_outcome(codes);
    let client = &core.config.client_id;
    rt::event!("member.commit_end", client = client, number = commit.number, outcome = outcome);
}

fn tell_offsets(core: &Core, number: u64, found: &Result<requests::Offsets, i16>) {
    for (partition, offset) in found.iter().flatten() {
        if let Ok(offset) = offset {
            rt::event!(
                "member.finds",
                client = &core.config.client_id,
                number = number,
                partition = &partition.to_string(),
                offset = offset.unwrap_or(-1)
            );
        }
    }
}
