//! Finding 14, scripted: what was written while a consumer subscribed is handed to nobody.
//!
//! World: three agents, one partition, a group that has committed nothing yet; a member with `auto.offset.reset=latest`,
//! Kafka's default.
//! Load: the member subscribes. While the group forms, which takes 3 s, a record is written; two more when it is there.
//! Trouble: none.
//! Claim: the member begins at the end of the log as it is when the group has formed. It commits behind the two records, and
//! the first one, which is below that, was handed to nobody. With `earliest` it was.

use super::blind::{Blind, QUICK};
use super::script::{Script, look, member, send_all};
use super::{Class, Finding};
use crate::config::{Config, Members};
use crate::plan::{Commits, Plan};
use crate::scenario::{Expect, Scenario};
use client::OffsetReset;

pub(super) const FINDING: Finding = Finding {
    id: 14,
    title: "a consumer that begins at the latest offset misses what was written while it subscribed",
    what: "A consumer of a group without committed offsets began at the end of the partition, as it was when the position was \
           asked for and not when the consumer subscribed. Records written in between were below the first commit, and \
           nobody ever got them.",
    class: Class::Configuration,
    cause: "auto.offset.reset=latest, Kafka's default, and no committed offset",
    scenario: SCENARIO,
    blind: Blind {
        scenario: "auto-commit-random",
        with: &["latest"],
        must: &[&["undelivered"]],
        without: &[],
        may: &[],
        left: &[],
        limits: QUICK,
    },
    fix: "auto.offset.reset=earliest",
    fixed: Some(|config| config.members.auto_offset_reset = OffsetReset::Earliest),
    echo: "no number in the report, which tested with earliest",
};

const SCENARIO: Scenario = Scenario {
    name: "reset-latest",
    claim: "a record written between subscribe and the first position is below the group's commit and was never delivered",
    config: || Config {
        partitions: 1,
        members: Members { auto_offset_reset: OffsetReset::Latest, ..Members::default() },
        ..Config::default()
    },
    plan,
    expect: |config| match config.members.auto_offset_reset {
        OffsetReset::Latest => Expect::Shows { must: &["undelivered"], may: &[] },
        OffsetReset::Earliest | OffsetReset::None => Expect::Clean,
    },
};

fn plan(seed: u64, config: &Config) -> Plan {
    Script::new(SCENARIO.name, seed, config)
        .worker("l1", vec![(0, look(8_000))])
        .worker("m1", vec![(100, member(Commits::Sync, 50))])
        .worker("p1", vec![(1_500, send_all(&[(0, 1)])), (4_000, send_all(&[(0, 2), (0, 3)]))])
        .plan()
}
