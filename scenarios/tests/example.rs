//! The example of the README: a scenario of your own in twenty lines.

use scenarios::{Config, Decision, Keep, Op, Operation, Plan, Send, execute};
use sim::fault::{Fault, FramePattern, Scheduled};

#[test]
fn a_commit_whose_answer_is_lost_still_commits_once() {
    // World: three agents, a coordinator, an object store.
    let config = Config::default();
    // Load: two transactions of one record each.
    let txn = |id: u32| {
        let sends = vec![Send { key: 0, value: u64::from(id), think_ms: 0 }];
        Operation { id, think_ms: 20, what: Op::Txn { sends, offset: None, end: Decision::Commit } }
    };
    let operations = [("jt1".to_string(), vec![txn(1), txn(2)])].into();
    // Trouble: the connection is reset as the first answer to a commit leaves the agent.
    let faults = vec![Scheduled::from_start(1, Fault::Reset { frame: FramePattern::words("EndTxn.reply") })];

    let plan =
        Plan { scenario: "torn-transaction".into(), seed: 7, config, operations, faults, overrides: vec![] };
    let outcome = execute(&plan, Keep::Story);

    // Claims: the reset happened, and nothing is torn, lost, doubled or seen too early.
    assert!(outcome.vacuous.is_empty() && outcome.failures.is_empty(), "{outcome:#?}");
    assert!(outcome.signature.is_empty(), "{:#?}", outcome.anomalies);
}

#[test]
fn the_readme_shows_this_file() {
    let readme = include_str!("../../README.md");
    let body: Vec<_> =
        include_str!("example.rs").lines().skip_while(|line| !line.starts_with("#[test]")).collect();
    let example = body[..body.iter().position(|line| *line == "}").expect("an end") + 1].join("\n");
    assert!(readme.contains(&example), "the example in README.md differs from tests/example.rs");
}
