//! The queue workload under Jepsen's nemesis: `queue` as large as Jepsen ran it, `queue-short` small enough for many seeds.
//!
//! World: three agents, clients with Jepsen's settings; a client that never reuses an epoch after doubt, unless switched.
//! Load: sends and polls in transactions, from consumers that assign; `--with subscribe` and `--with no-txn` change that.
//! Trouble: Jepsen's packages for every role, in mixtures that change; in short runs frames that are late or lost as well.
//! Claims: the history is valid for Jepsen's checker and for the strict one.

use crate::config::Config;
use crate::nemesis::{self, MIXES, Nemesis, Package};
use crate::plan::Plan;
use crate::queue::{Queue, generator};
use crate::safe_ground;
use crate::scenario::{Expect, Scenario};
use crate::storm;
use client::Variant;
use fake_s3::Latency;
use sim::choice::Choices;

pub(crate) const QUEUE: Scenario = Scenario {
    name: "queue",
    claim: "what Jepsen ran against Bufstream: 15 clients, 100 s, every kind of trouble, and nothing goes wrong",
    config: || config(Queue::default()),
    plan: |seed, config| {
        plan(QUEUE.name, seed, config, |queue| Nemesis::jepsen(everything(), queue.until_ms))
    },
    expect,
};

pub(crate) const SHORT: Scenario = Scenario {
    name: "queue-short",
    claim: "the same in five seconds, with five clients and more often something to go wrong",
    config: || {
        config(Queue {
            clients: 5,
            until_ms: 4_500,
            think_ms_max: 120,
            active_keys: 4,
            max_writes_per_key: 24,
            assign_chance: 0.125,
            crash_every_ms: Some(4_000),
            readers: 2,
            settle_ms: 2_000,
            ..Queue::default()
        })
    },
    plan: |seed, config| {
        let choices = Choices::new(seed, &[]);
        let config = &world(&choices, config);
        let mut plan = plan(SHORT.name, seed, config, |queue| Nemesis {
            packages: everything(),
            from_ms: 1_500,
            until_ms: queue.until_ms,
            period_ms: 1_000,
            interval_ms: 300,
            first_id: 1,
        });
        plan.faults.extend(storm::on_queue_frames(&choices, config));
        plan
    },
    expect,
};

/// `transaction.timeout.ms` as Jepsen set it.
const TRANSACTION_TIMEOUT_MS: i32 = 1_000;
/// Set through Bufstream's admin API, as its file was ignored.
const MIN_SESSION_TIMEOUT_MS: i32 = 1_000;

/// The world of the queue workload.
pub(crate) fn config(queue: Queue) -> Config {
    let mut config = Config {
        client: Variant::Strict,
        transaction_timeout_ms: TRANSACTION_TIMEOUT_MS,
        queue: Some(queue),
        ..Config::default()
    };
    // One etcd and one Minio on a network of their own, as in Jepsen's test.
    (config.coordinator.fsync_min_us, config.coordinator.fsync_max_us) = (300, 1_500);
    config.storage.write = Latency { base_us: 2_000, jitter_us: 5_000 };
    config.storage.read = Latency { base_us: 1_000, jitter_us: 2_000 };
    config.agent.chunk_linger_ms = 10;
    config.agent.groups.min_session_timeout_ms = MIN_SESSION_TIMEOUT_MS;
    config.agent.groups.initial_rebalance_delay_ms = 0;
    config
}

/// Settings that must not matter, as on the safe ground; but what was left open is aborted soon, and what is dead is soon
/// found to be so, for the run is short.
fn world(choices: &Choices, config: &Config) -> Config {
    let mut drawn = safe_ground::world(choices, config);
    drawn.transactional_ids = config.transactional_ids.clone();
    drawn.agent.transactions.scan_interval_ms = 1_000;
    drawn.agent.lease_ttl_s = 2;
    // One that may join while the others are at work.
    drawn.spare_agents = choices.world("world.spares", 0, 0).below(2) as u32;
    if choices.world("world.cloud", 0, 0).chance(0.5) {
        let cloud = Config::default();
        (drawn.coordinator, drawn.storage) = (cloud.coordinator, cloud.storage);
    }
    drawn
}

/// Five clients that are given up again and again.
pub(crate) fn restless() -> Queue {
    Queue {
        clients: 5,
        until_ms: 4_000,
        think_ms_max: 120,
        active_keys: 4,
        max_writes_per_key: 24,
        assign_chance: 0.25,
        crash_every_ms: Some(300),
        settle_ms: 2_000,
        ..Queue::default()
    }
}

/// Every package: what Jepsen's last and largest mix has, and agents that leave and come back.
fn everything() -> Vec<Package> {
    let flags = [MIXES[MIXES.len() - 1], &["membership"]].concat();
    nemesis::packages(&flags).expect("the flags of the mixes are flags")
}

/// The load of a seed, and the trouble that `nemesis` makes.
pub(crate) fn plan(name: &str, seed: u64, config: &Config, nemesis: impl Fn(&Queue) -> Nemesis) -> Plan {
    let choices = Choices::new(seed, &[]);
    let queue = config.queue.clone().unwrap_or_default();
    Plan {
        scenario: name.into(),
        seed,
        config: Config { queue: Some(queue.clone()), ..config.clone() },
        operations: generator::draw(&choices, &queue),
        faults: nemesis::draw(&choices, config, &nemesis(&queue)),
        overrides: vec![],
    }
}

/// Of the real clients under the old protocol, findings.md lists what may go wrong: a stale end of a transaction tears
/// another (9), a sequence is used again (11). With Jepsen's transaction timeout of 1 s it rarely does: what was fenced by
/// the timeout in between is not torn.
fn expect(config: &Config) -> Expect {
    if config.client == Variant::Strict || config.is_second_protocol() {
        return Expect::Clean;
    }
    Expect::Allows {
        may: &[
            "torn-transaction",
            "G1a",
            "lost-write",
            "unseen",
            "wrong-decision",
            "int-poll-skip",
            "poll-skip",
            "inconsistent-offsets",
            "conflict",
            "duplicate",
        ],
    }
}
