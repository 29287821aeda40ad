//! The classification of polls around aborts, against Jepsen's counts (`tests/cases/abort`, schema `kq-abort/1`).

use check::abort::{self, Classes, Poll, Step};
use serde_json::{Value, json};
use std::collections::BTreeMap;

#[test]
fn counts_agree_with_jepsens_checker() {
    let cases = cases();
    for case in &cases {
        let classes = abort::classify(&polls(case));
        assert_eq!(counts(&classes), case["oracle"]["counts"], "{}", case["id"]);
        assert_eq!(counts(&classes), case["expect"], "{}", case["id"]);
        // Jepsen's verdict is invalid as soon as there is a pair: it looks for groups under other names.
        assert_eq!(json!(classes.is_empty()), case["oracle"]["valid"], "{}", case["id"]);
    }
    assert_eq!(cases.len(), 10);
}

/// Every count can be wrong: without its rebalance, or one record further, a pair is in another class.
#[test]
fn a_changed_poll_changes_the_counts() {
    for case in cases().iter().filter(|case| case["expect"] != json!({})) {
        let polls = polls(case);
        let changed = (0..polls.len()).any(|at| {
            let mut moved = polls.clone();
            moved[at].offsets.iter_mut().for_each(|offset| *offset += 20);
            counts(&abort::classify(&moved)) != case["expect"]
        });
        assert!(changed, "{}", case["id"]);
        let mut settled = polls.clone();
        settled.iter_mut().for_each(|poll| poll.is_rebalanced = false);
        let had_rebalance = polls.iter().any(|poll| poll.is_rebalanced);
        assert_eq!(counts(&abort::classify(&settled)) != case["expect"], had_rebalance, "{}", case["id"]);
    }
}

#[test]
fn four_samples_are_kept() {
    let poll = |offset: i64| Poll {
        process: 0,
        topic: "t".to_string(),
        offsets: vec![offset],
        is_rebalanced: false,
    };
    let polls: Vec<Poll> = (0..9).map(poll).collect();
    let class = &abort::classify(&polls)[&(Step::Advance, false)];
    assert_eq!((class.count, class.samples.as_slice()), (8, &[(0, 1), (1, 2), (2, 3), (3, 4)][..]));
}

fn counts(classes: &Classes) -> Value {
    let name = |(step, is_rebalanced): &(Step, bool)| {
        format!("{}/{}", step.name(), if *is_rebalanced { "rebalance" } else { "none" })
    };
    json!(classes.iter().map(|(class, pairs)| (name(class), pairs.count)).collect::<BTreeMap<_, _>>())
}

fn polls(case: &Value) -> Vec<Poll> {
    let polls = case["polls"].as_array().unwrap();
    let poll = |poll: &Value| Poll {
        process: poll["p"].as_i64().unwrap(),
        topic: poll["topic"].as_str().unwrap().to_string(),
        offsets: poll["offsets"].as_array().unwrap().iter().map(|offset| offset.as_i64().unwrap()).collect(),
        is_rebalanced: poll["rebalance"].as_bool().unwrap_or_default(),
    };
    polls.iter().map(poll).collect()
}

#[expect(clippy::disallowed_methods, reason = "fixtures are files")]
fn cases() -> Vec<Value> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases/abort/abort-cases.json");
    let file: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    file["cases"].as_array().unwrap().clone()
}
