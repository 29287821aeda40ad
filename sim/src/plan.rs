//! Plans and recordings: a failure is a file.
//!
//! A plan is everything one run is made of. A recording is a plan with what it must show. Every item of a plan can be
//! removed, by hand or by machine, and the rest still replays; a recording whose plan was changed by hand no longer has
//! the trace it was sealed with, so its seal must go too.

use crate::choice::Override;
use crate::fault::Scheduled;
use crate::trace::Fingerprint;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use xxhash_rust::xxh3::xxh3_64;

/// The format this build writes and reads.
pub const FORMAT: &str = "wavetank-recording/1";

/// Everything one run is made of. `C` is the scenario's configuration with its switches, `O` an operation of its
/// workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan<C, O> {
    /// The scenario's name.
    pub scenario: String,
    /// The seed of all choices.
    pub seed: u64,
    /// The scenario's configuration.
    pub config: C,
    /// What each worker does, in order.
    pub operations: BTreeMap<String, Vec<Operation<O>>>,
    /// What goes wrong.
    #[serde(default)]
    pub faults: Vec<Scheduled>,
    /// Choices forced to a value.
    #[serde(default)]
    pub overrides: Vec<Override>,
}

/// One operation of a worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Operation<O> {
    /// Names the operation for choices, and stays its own when others are removed.
    pub id: u32,
    /// How long the worker waits before it, in milliseconds.
    #[serde(default)]
    pub think_ms: u64,
    /// What it does.
    #[serde(rename = "do")]
    pub what: O,
}

/// A plan with what it must show.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recording<C, O> {
    /// [`FORMAT`].
    pub format: String,
    /// The build that recorded it (see [`build_id`]).
    pub build: String,
    /// Names of the anomaly types it shows, sorted; empty for a clean run.
    pub signature: Vec<String>,
    /// The trace it was recorded with; absent in a plan written or edited by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seal: Option<Seal>,
    /// The plan.
    pub plan: Plan<C, O>,
}

/// Binds a recording to its plan and its trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seal {
    /// Digest of the plan.
    pub plan: String,
    /// Fingerprint of the run.
    pub fingerprint: String,
}

/// Why a recording cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unusable {
    /// The file.
    pub file: PathBuf,
    /// The field, as a path; empty if the fault is in the file as a whole.
    pub field: String,
    /// What is wrong, and the remedy.
    pub problem: String,
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.file.display())?;
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        f.write_str(&self.problem)
    }
}

impl std::error::Error for Unusable {}

impl<C, O> Plan<C, O>
where
    C: Serialize,
    O: Serialize,
{
    /// A digest of the whole plan.
    pub fn digest(&self) -> String {
        let bytes = serde_json::to_vec(self).expect("a plan is plain data");
        format!("{:016x}", xxh3_64(&bytes))
    }
}

impl<C, O> Recording<C, O>
where
    C: Serialize + DeserializeOwned,
    O: Serialize + DeserializeOwned,
{
    /// Records a run of `plan`.
    pub fn new(plan: Plan<C, O>, signature: Vec<String>, fingerprint: Fingerprint) -> Self {
        let seal = Seal { plan: plan.digest(), fingerprint: fingerprint.to_string() };
        Recording { format: FORMAT.into(), build: build_id().into(), signature, seal: Some(seal), plan }
    }

    /// The recording as text.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("a recording is plain data");
        text.push('\n');
        text
    }

    /// Reads a recording from `text`; `file` is for messages.
    ///
    /// # Errors
    /// When it is not JSON, truncated, of another format, has an unknown or ill-typed field, or was edited under its
    /// seal.
    pub fn parse(file: &Path, text: &str) -> Result<Self, Unusable> {
        let unusable = |field: &str, problem: String| Unusable {
            file: file.to_path_buf(),
            field: field.into(),
            problem,
        };
        let raw: serde_json::Value = serde_json::from_str(text).map_err(|error| {
            let problem = match error.classify() {
                serde_json::error::Category::Eof => {
                    format!("the file is truncated ({error}): record it again")
                }
                _ => format!("not JSON ({error}): a recording is what `wavetank run` wrote"),
            };
            unusable("", problem)
        })?;
        match raw.get("format").and_then(serde_json::Value::as_str) {
            Some(FORMAT) => {}
            Some(other) => {
                let problem =
                    format!("this build reads {FORMAT}, not {other}: replay it with the build that wrote it");
                return Err(unusable("format", problem));
            }
            None => {
                return Err(unusable(
                    "format",
                    format!("missing: a recording begins with \"format\": \"{FORMAT}\""),
                ));
            }
        }
        let recording: Self = serde_path_to_error::deserialize(&raw).map_err(|error| {
            let field = error.path().to_string();
            unusable(&field, format!("{}: mend the field, or remove the item and the seal", error.inner()))
        })?;
        if let Some(seal) = &recording.seal
            && seal.plan != recording.plan.digest()
        {
            let problem = "the plan was edited after it was recorded: remove the field `seal` to replay it as it is now";
            return Err(unusable("seal.plan", problem.into()));
        }
        Ok(recording)
    }
}

/// Names this build: a digest of the running program.
#[expect(clippy::disallowed_methods, reason = "reads the program's own file, outside any run")]
pub fn build_id() -> &'static str {
    static BUILD: OnceLock<String> = OnceLock::new();
    BUILD.get_or_init(|| {
        let program = std::env::current_exe().and_then(std::fs::read);
        program.map_or_else(|_| "unknown".into(), |bytes| format!("{:016x}", xxh3_64(&bytes)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::{Fault, When};

    type Text = Recording<u32, String>;

    fn recording() -> Text {
        let faults = vec![Scheduled {
            id: 1,
            when: When::AtMs(5),
            fault: Fault::Pause { node: "agent-1".into(), for_ms: 10 },
        }];
        let operations =
            [("jt1".to_string(), vec![Operation { id: 1, think_ms: 0, what: "send".to_string() }])];
        let plan = Plan {
            scenario: "s".into(),
            seed: 7,
            config: 3,
            operations: operations.into_iter().collect(),
            faults,
            overrides: vec![],
        };
        Recording::new(plan, vec!["G1a".into()], Fingerprint(0xab))
    }

    fn problem(text: &str) -> String {
        Text::parse(Path::new("f.json"), text).expect_err("unusable").to_string()
    }

    #[test]
    fn a_recording_survives_its_file() {
        let recording = recording();
        assert_eq!(Text::parse(Path::new("f.json"), &recording.to_json()), Ok(recording));
    }

    #[test]
    fn what_cannot_be_used_is_refused_in_one_line_with_file_field_and_remedy() {
        let good = recording().to_json();
        let cases = [
            ("hello".to_string(), "f.json: not JSON"),
            (good[..good.len() / 2].to_string(), "f.json: the file is truncated"),
            (
                good.replace("recording/1", "recording/9"),
                "f.json: format: this build reads wavetank-recording/1, not",
            ),
            ("{}".to_string(), "f.json: format: missing"),
            (good.replace("\"pause\"", "\"puase\""), "f.json: plan.faults[0].fault: unknown variant `puase`"),
            (good.replace("\"seed\": 7", "\"seed\": \"x\""), "f.json: plan.seed: invalid type"),
            (good.replace("\"seed\": 7", "\"seed\": 8"), "f.json: seal.plan: the plan was edited"),
        ];
        for (text, expected) in cases {
            let problem = problem(&text);
            assert!(problem.starts_with(expected), "{problem}");
            assert!(!problem.contains('\n') && problem.contains(':'), "{problem}");
        }
    }

    #[test]
    fn an_edited_plan_replays_once_its_seal_is_gone() {
        let mut edited = recording();
        edited.plan.faults.clear();
        edited.seal = None;
        assert_eq!(Text::parse(Path::new("f.json"), &edited.to_json()), Ok(edited));
    }
}
