//! Polls of Jepsen's abort workload, `kq-abort/1`: read for `wavetank check`, and written for `--history`.

use check::Status;
use check::abort::{Poll, classify};
use serde::Deserialize;
use serde_json::{Map, Value, json};

#[derive(Deserialize)]
struct File {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    id: String,
    polls: Vec<Told>,
}

#[derive(Deserialize)]
struct Told {
    p: i64,
    topic: String,
    offsets: Vec<i64>,
    #[serde(default)]
    rebalance: bool,
}

/// Prints how often each kind of step was made, which is no verdict: each kind is legal, and which occur is the finding.
///
/// # Errors
/// The field that is wrong.
pub(super) fn tell(aborts: &Value, as_json: bool) -> Result<(), String> {
    let file: File = serde_path_to_error::deserialize(aborts).map_err(|error| {
        format!("field {}: {}: expected cases of kq-abort/1, see docs/check.md", error.path(), error.inner())
    })?;
    for case in file.cases {
        let polls: Vec<Poll> = case
            .polls
            .into_iter()
            .map(|told| Poll {
                process: told.p,
                topic: told.topic,
                offsets: told.offsets,
                is_rebalanced: told.rebalance,
            })
            .collect();
        let counts: Map<String, Value> = classify(&polls)
            .into_iter()
            .map(|((step, is_rebalanced), class)| {
                let with = if is_rebalanced { "rebalance" } else { "none" };
                (format!("{}/{with}", step.name()), json!(class.count))
            })
            .collect();
        if as_json {
            say!("{}", json!({"id": case.id, "counts": counts}));
        } else {
            let counts: Vec<String> = counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
            say!("{}: polls after polls: {}", case.id, counts.join(", "));
        }
    }
    Ok(())
}

/// The polls of one run, and how their operations ended.
pub(super) fn write(id: &str, polls: &[(Status, Poll)]) -> String {
    let polls: Vec<Value> = polls.iter().map(|(status, poll)| told(*status, poll)).collect();
    json!({"schema": "kq-abort/1", "cases": [{"id": id, "polls": polls}]}).to_string() + "\n"
}

fn told(status: Status, poll: &Poll) -> Value {
    let Poll { process, topic, offsets, is_rebalanced } = poll;
    json!({"p": process, "s": status.name(), "topic": topic, "offsets": offsets, "rebalance": is_rebalanced})
}
