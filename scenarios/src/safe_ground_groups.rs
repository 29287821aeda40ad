//! The safe ground for consumer groups: under all faults at once, nothing goes wrong with a group either.
//!
//! World: that of `safe-ground`, with four partitions; the coordinator's settings for groups are drawn.
//! Load: transactions and records outside them; a group whose members are eager or cooperative, one of them static; they
//! come, go, crash, and stop polling; they commit by themselves, after their
//! work, or with the transaction in which they write what they made of it. Somebody watches what is committed.
//! Trouble: everything that `storm` knows, at the machines of members too.
//! Claims, beside those of `safe-ground`: no two owners of a partition in one generation; committed offsets never move
//! back but by their owner, and who was cut off commits nothing; what was committed is not handed out again to a member
//! of the current generation; nothing below a committed offset stays undelivered; no record has two committed results;
//! and in the end all is consumed.

use crate::config::Config;
use crate::plan::{Commits, Life, Op, Operation, Plan};
use crate::safe_ground::{self, LOAD_MS, Load, pick};
use crate::scenario::{Expect, Scenario};
use crate::storm::{self, Committing};
use broker::Outside;
use client::Variant;
use sim::choice::Choices;
use std::collections::BTreeMap;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "safe-ground-groups",
    claim: "no fault gives a partition two owners, moves a commit back, or leaves a record below it unread",
    config: || Config { client: Variant::Strict, partitions: 4, ..Config::default() },
    plan,
    expect: |config| match (config.defects.stale_commits, config.member_flaws.resume_from_memory) {
        (true, _) => Expect::Finds {
            must: &["commit-moved-back"],
            may: &[
                "zombie-commit",
                "redelivered",
                "processed-twice",
                "unprocessed",
                "uncommitted-result",
                "undelivered",
                "stuck-group",
            ],
        },
        (_, true) => Expect::Finds {
            must: &["redelivered"],
            may: &[
                "commit-moved-back",
                "processed-twice",
                "unprocessed",
                "uncommitted-result",
                "undelivered",
                "stuck-group",
            ],
        },
        // What a stale end of a transaction does to clients of the old protocol (finding 9).
        _ if config.client != Variant::Strict && !config.is_second_protocol() => {
            Expect::Allows { may: &["torn-transaction", "G1a", "lost-write", "unseen", "wrong-decision"] }
        }
        _ => Expect::Clean,
    },
};

/// Producers with transactions, and what each does.
const PRODUCERS: u32 = 3;
const TRANSACTIONS: u32 = 6;
/// What the producer without transactions does.
const BURSTS: u32 = 8;
/// `session.timeout.ms` of members. The agents allow the shortest.
const SESSIONS_MS: [u64; 2] = [1_000, 6_000];
/// Members, and how many lives each has: the last goes on until all is consumed.
const MEMBERS: u32 = 4;

fn plan(seed: u64, config: &Config) -> Plan {
    let choices = Choices::new(seed, &[]);
    let mut load = Load::new(&choices, config);
    let mut operations = BTreeMap::new();
    for producer in 1..=PRODUCERS {
        let ids = (1..=TRANSACTIONS).map(|n| producer * 1000 + n);
        operations.insert(format!("t{producer}"), ids.map(|id| load.transaction(id)).collect());
    }
    operations.insert("p1".into(), (1..=BURSTS).map(|n| load.burst(10_000 + n)).collect());
    let clients: Vec<String> = operations.keys().cloned().collect();
    let members: Vec<String> = (1..=MEMBERS).map(|n| format!("m{n}")).collect();
    let draw = choices.world("member.committing", 0, 0);
    let committing = pick(draw, [Committing::Transactions, Committing::Themselves, Committing::Mixed]);
    for (name, n) in members.iter().zip(1..) {
        operations.insert(name.clone(), lives(&choices, n, committing));
    }
    let one = |what| vec![Operation { id: 1, think_ms: 0, what }];
    operations.insert("l1".into(), one(Op::Look { for_ms: LOAD_MS, every_ms: 900 }));
    operations.insert("w1".into(), one(Op::Watch { for_ms: LOAD_MS, every_ms: 400 }));
    let mut faults = storm::draw(&choices, config, &clients, LOAD_MS - 2_000);
    faults.extend(storm::draw_at_members(&choices, config, &members, committing, LOAD_MS - 2_000));
    Plan {
        scenario: SCENARIO.name.into(),
        seed,
        config: world(&choices, config),
        operations,
        faults,
        overrides: vec![],
    }
}

/// The world of `safe-ground`, with settings of groups that must not matter.
fn world(choices: &Choices, config: &Config) -> Config {
    let mut config = safe_ground::world(choices, config);
    let delay = choices.world("world.rebalance-delay", 0, 0);
    config.agent.groups.min_session_timeout_ms = SESSIONS_MS[0] as i32;
    // Without verification a TxnOffsetCommit that arrives after its transaction leaves offsets pending for good, and who
    // gets the partition next waits for them for good: in Kafka as here (S9).
    config.agent.transactions.outside = Outside::Verify;
    config.agent.groups.initial_rebalance_delay_ms = pick(delay, [0, 300, 3_000]);
    config
}

/// The lives of the `n`-th member. Only the first may be static: an instance id is one machine's.
///
/// A static member is eager. One that is cooperative and restarts after an assignment that takes a partition from it, but
/// before it has joined again without it, leaves that partition to nobody until the next rebalance, in Kafka as here: its
/// next incarnation is given the same assignment without a rebalance, and does not know that it had more.
fn lives(choices: &Choices, n: u32, committing: Committing) -> Vec<Operation> {
    let draw = |what, ordinal| choices.world(what, u64::from(n), ordinal);
    let is_static = n == 1 && draw("member.static", 0).chance(0.5);
    let cooperative = !is_static && draw("member.cooperative", 0).chance(0.5);
    let commits = match committing {
        Committing::Transactions => Commits::Transaction,
        Committing::Themselves => pick(draw("member.commits", 0), [Commits::Sync, Commits::Auto]),
        Committing::Mixed => {
            pick(draw("member.commits", 0), [Commits::Sync, Commits::Auto, Commits::Transaction])
        }
    };
    // Short ones, as Jepsen set them, so that a pause or a cut puts a member out of the group.
    let session_timeout_ms = pick(draw("member.session", 0), SESSIONS_MS);
    let max_poll_interval_ms = pick(draw("member.max-poll", 0), [1_500, 8_000, 300_000]);
    let count = draw("member.lives", 0).below(3);
    let life = |nth: u64| Life {
        for_ms: (nth < count).then(|| draw("member.for", nth).between(1_500, 7_000)),
        // Who works for longer than it may never commits: it must not be the last.
        think_ms: pick(draw("member.think", nth), [0, 30, 200, if nth < count { 2_000 } else { 1_000 }]),
        cooperative,
        is_static,
        session_timeout_ms,
        max_poll_interval_ms,
        commits,
        closes: draw("member.closes", nth).chance(0.5),
    };
    let operation = |nth: u64| Operation {
        id: n * 100 + nth as u32,
        think_ms: draw("member.pause", nth).between(0, 2_000),
        what: Op::Member(life(nth)),
    };
    (0..=count).map(operation).collect()
}
