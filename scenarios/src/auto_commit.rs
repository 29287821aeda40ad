//! Jepsen's auto-commit workload (jepsen.md C): members that commit by themselves lose nothing.
//!
//! World: that of the safe ground, with two partitions; members with `enable.auto.commit`, `auto.commit.interval.ms` 5 and
//! `max.poll.records` 4, as Jepsen set them.
//! Load: idempotent producers; members that come, go, crash, and are closed or not. What a poll returns is worked on before
//! the next poll, which is what makes it at least once.
//! Trouble: the machines and processes of members, their networks and their frames.
//! Claims: no offset is committed above a record that was handed to nobody (`undelivered`); committed offsets do not move
//! back, nobody who was put out commits, and in the end all is consumed. An agent that accepts commits of an older
//! generation (`--with stale-commits`) is caught.

use crate::config::{Config, Members};
use crate::life;
use crate::plan::{Commits, Op, Operation, Plan};
use crate::safe_ground::Load;
use crate::scenario::{Expect, Scenario};
use crate::storm::{self, Committing};
use client::Variant;
use sim::choice::Choices;
use std::collections::BTreeMap;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "auto-commit-random",
    claim: "members that commit by themselves every 5 ms commit no offset above a record that was handed to nobody",
    config: || {
        let mut config = Config {
            client: Variant::Strict,
            members: Members { auto_commit_interval_ms: 5, max_poll_records: 4, ..Members::default() },
            ..Config::default()
        };
        config.agent.groups.min_session_timeout_ms = life::SESSION_MS as i32;
        config
    },
    plan,
    expect: |config| match config.defects.stale_commits {
        true => Expect::Finds {
            must: &["zombie-commit"],
            may: &["commit-moved-back", "redelivered", "undelivered", "stuck-group"],
        },
        false => Expect::Clean,
    },
};

/// Producers, and what each does.
const PRODUCERS: u32 = 2;
const BURSTS: u32 = 8;
const MEMBERS: u32 = 3;
/// Time for the whole load, faults included.
const LOAD_MS: u64 = 9_000;

fn plan(seed: u64, config: &Config) -> Plan {
    let choices = Choices::new(seed, &[]);
    let mut load = Load::new(&choices, config);
    let mut operations = BTreeMap::new();
    for producer in 1..=PRODUCERS {
        let ids = (1..=BURSTS).map(|n| producer * 1_000 + n);
        operations.insert(format!("p{producer}"), ids.map(|id| load.burst(id)).collect());
    }
    let members: Vec<String> = (1..=MEMBERS).map(|n| format!("m{n}")).collect();
    // Who does not commit by itself commits after the work.
    let by_themselves = config.members.enable_auto_commit.unwrap_or(true);
    let commits = if by_themselves { Commits::Auto } else { Commits::Sync };
    for (name, n) in members.iter().zip(1..) {
        let mut lives = life::draw(&choices, n, commits);
        if config.members.work_beside {
            lives.iter_mut().for_each(slow_down);
        }
        operations.insert(name.clone(), lives);
    }
    let one = |what| vec![Operation { id: 1, think_ms: 0, what }];
    operations.insert("l1".into(), one(Op::Look { for_ms: LOAD_MS, every_ms: 600 }));
    operations.insert("w1".into(), one(Op::Watch { for_ms: LOAD_MS, every_ms: 200 }));
    Plan {
        scenario: SCENARIO.name.into(),
        seed,
        faults: storm::draw_at_members(&choices, config, &members, Committing::Themselves, LOAD_MS - 2_000),
        config: config.clone(),
        operations,
        overrides: vec![],
    }
}

/// Who works beside its polls does so because its work takes long.
fn slow_down(operation: &mut Operation) {
    if let Op::Member(life) = &mut operation.what {
        life.think_ms *= 10;
    }
}
