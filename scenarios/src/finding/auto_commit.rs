//! Finding 13, scripted: a consumer commits what it has not worked on.
//!
//! World: three agents, one partition; a member with `enable.auto.commit=true`, Kafka's default.
//! Load: six records, written when the member is there. As drawn, its work on the third of them throws, and the application
//! closes the member, as one should, and goes on with another; or it works beside its polls, for 3 s.
//! Trouble: the exception; or a crash of the member while it works.
//! Claim: a later poll, or `close`, commits the position, which is behind everything that a poll returned. What the member had
//! not worked on is committed, and nobody ever does. With `enable.auto.commit=false` and a commit after the work, the next
//! member gets it again.

use super::blind::{Blind, QUICK};
use super::script::{Script, look, member, send_all};
use super::{Class, Finding};
use crate::config::{Config, Members};
use crate::plan::{Commits, Plan};
use crate::scenario::{Expect, Scenario};
use sim::fault::{EventPattern, Fault, When};

pub(super) const FINDING: Finding = Finding {
    id: 13,
    title: "auto-commit commits what was polled, whether or not it was worked on",
    what: "A consumer with enable.auto.commit=true commits its positions in a later poll and in close, and a position is behind \
           what a poll returned, not behind what the application has done. An exception between poll and the end of the \
           work, and then close(), skips records for good; so does a crash, if the work goes on beside the polls.",
    class: Class::Configuration,
    cause: "enable.auto.commit=true, Kafka's default, and work that is not done at the next poll, or an exception and then close()",
    scenario: SCENARIO,
    blind: Blind {
        scenario: "auto-commit-random",
        with: &["work-beside"],
        must: &[&["unprocessed"]],
        without: &[],
        may: &[],
        left: &[],
        limits: QUICK,
    },
    fix: "enable.auto.commit=false, and a commit after the work",
    fixed: Some(|config| config.members.enable_auto_commit = Some(false)),
    echo: "no number in the report, whose consumers did not commit by themselves in the main workload",
};

const SCENARIO: Scenario = Scenario {
    name: "auto-commit",
    claim: "an exception or a crash while a member works, and an offset is committed past records that nobody worked on",
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
    let script = Script::new(SCENARIO.name, seed, config);
    let crashes = script.draw("auto-commit.crash").chance(0.5);
    let work_beside = crashes && config.members.enable_auto_commit == Some(true);
    let commits = if work_beside { Commits::Auto } else { Commits::Sync };
    let script = script
        .worker("l1", vec![(0, look(8_000))])
        .worker("m1", vec![(100, member(commits, if crashes { 3_000 } else { 50 }))])
        // The first generation takes 3 s.
        .worker("p1", vec![(5_000, send_all(&records))]);
    if !crashes {
        return script.plan();
    }
    // Longer than auto.commit.interval.ms, shorter than the work.
    let handed = EventPattern { after_ms: 1_200, ..EventPattern::words("consumer.polled client=m1") };
    script
        .members(|members| (members.fails_on, members.work_beside) = (None, work_beside))
        .fault(When::Event(handed), Fault::Crash { node: "m1".into(), restart_after_ms: Some(500) })
        .plan()
}
