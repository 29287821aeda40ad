//! Finding 13, scripted: a consumer commits what it has not worked on.
//!
//! World: three agents, one partition; a member with `enable.auto.commit=true`, Kafka's default.
//! Load: six records, written when the member is there. Its work on the third of them throws; the application closes the
//! member, as one should, and goes on with another.
//! Trouble: the exception.
//! Claim: `close` commits the position, which is behind everything that the last poll returned. The third record and what came
//! with it are committed, and nobody has worked on them. With `enable.auto.commit=false` and a commit after the work, the next
//! member gets them again.

use super::script::{Script, look, member, send_all};
use super::{Class, Finding};
use crate::config::{Config, Members};
use crate::plan::Plan;
use crate::scenario::{Expect, Scenario};

pub(super) const FINDING: Finding = Finding {
    id: 13,
    title: "auto-commit commits what was polled, whether or not it was worked on",
    what: "A consumer with enable.auto.commit=true commits its positions in a later poll and in close, and a position is behind \
           what a poll returned, not behind what the application has done. An exception between poll and the end of the \
           work, and then close(), skips records for good.",
    class: Class::Configuration,
    cause: "enable.auto.commit=true, Kafka's default, and an exception before the work is done, followed by close()",
    scenario: SCENARIO,
    fix: "enable.auto.commit=false, and a commit after the work",
    fixed: |config| config.members.enable_auto_commit = Some(false),
    echo: "no number in the report, whose consumers did not commit by themselves in the main workload",
};

const SCENARIO: Scenario = Scenario {
    name: "auto-commit",
    claim: "an exception in the work and a close(), and an offset is committed past records that nobody worked on",
    config: || Config {
        partitions: 1,
        members: Members { enable_auto_commit: Some(true), fails_on: Some(3), ..Members::default() },
        ..Config::default()
    },
    plan,
    expect: |config| match config.members.enable_auto_commit {
        Some(true) => Expect::Shows { must: &["unprocessed"], may: &[] },
        _ => Expect::Clean,
    },
};

fn plan(seed: u64, config: &Config) -> Plan {
    let records: Vec<_> = (1..=6).map(|value| (0, value)).collect();
    Script::new(SCENARIO.name, seed, config)
        .worker("l1", vec![(0, look(8_000))])
        .worker("m1", vec![(100, member())])
        // The first generation takes 3 s.
        .worker("p1", vec![(5_000, send_all(&records))])
        .plan()
}
