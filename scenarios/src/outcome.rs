//! What came of a run, and how it compares with what was expected or recorded.

use crate::attribution::Attribution;
use crate::config::Config;
use crate::plan::{Op, Plan, Queued, Recording};
use crate::scenario::{self, Expect, Reading};
use check::abort::Poll;
use check::{History, Status};
use client::Variant;
use sim::property::Marks;
use sim::trace::{Entry, Fingerprint, NodeId};
use std::collections::{BTreeMap, BTreeSet};

/// What came of a run.
#[derive(Debug)]
pub struct Outcome {
    /// Anomaly types found.
    pub signature: BTreeSet<String>,
    /// Every anomaly, a line each.
    pub anomalies: Vec<String>,
    /// What made them.
    pub attribution: Attribution,
    /// How the first came about, a line a step.
    pub story: Vec<String>,
    /// What the run exercised, in a line.
    pub summary: String,
    /// Why the run proves nothing, if it does not.
    pub vacuous: Vec<String>,
    /// Broken claims, panics, and a run that did not end.
    pub failures: Vec<String>,
    /// The rolling hash of the trace.
    pub fingerprint: Fingerprint,
    /// The part of the trace that was kept.
    pub trace: Vec<Entry>,
    /// Names of nodes, by id.
    pub nodes: Vec<String>,
    /// Marks reached.
    pub marks: Marks,
    /// Events in the trace, kept or not.
    pub events: u64,
    /// Polls of tasks.
    pub steps: u64,
    /// Simulated time, in nanoseconds.
    pub simulated_ns: u64,
    /// What clients did and were told, for any checker.
    pub history: History,
    /// Polls of the queue workload but for its final phase, and how their operations ended, for `check::abort`.
    pub polls: Vec<(Status, Poll)>,
    /// Keys chosen by operations that choose while they run, by worker and operation.
    pub(crate) chosen: BTreeMap<(String, u32), Vec<u32>>,
}

impl Outcome {
    /// Reads the outcome against an expectation. A run that failed by itself, or that proves nothing, is never expected.
    pub fn reading(&self, expect: &Expect) -> Reading {
        if self.failures.is_empty() && self.vacuous.is_empty() {
            expect.read(&self.signature)
        } else {
            Reading::Unexpected
        }
    }

    /// The plan, with what its operations chose while they ran: a recording is complete.
    pub fn complete(&self, mut plan: Plan) -> Plan {
        for (name, operations) in &mut plan.operations {
            for operation in operations {
                let chosen = self.chosen.get(&(name.clone(), operation.id));
                if let Op::Queue(Queued::Give { keys, .. } | Queued::FinalReads { keys }) =
                    &mut operation.what
                    && let Some(chosen) = chosen
                {
                    *keys = Some(chosen.clone());
                }
            }
        }
        plan
    }

    /// The name of a node.
    pub fn node(&self, id: NodeId) -> &str {
        self.nodes.get(id.0 as usize).map_or("?", String::as_str)
    }
}

/// How a replay compares with its recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// The replay shows what was recorded.
    pub as_recorded: bool,
    /// In words.
    pub words: String,
}

/// Compares a replay with its recording: by trace for the same build, by verdict for another.
pub fn compare(recording: &Recording, outcome: &Outcome) -> Comparison {
    let recorded: BTreeSet<String> = recording.signature.iter().cloned().collect();
    let same_verdict = recorded == outcome.signature && outcome.failures.is_empty();
    let same_build = recording.build == sim::plan::build_id();
    let same_trace = recording.seal.as_ref().map(|seal| seal.fingerprint == outcome.fingerprint.to_string());
    let verdict = |same| if same { "the same verdict" } else { "ANOTHER VERDICT" };
    let (as_recorded, words) = match (same_trace, same_build) {
        (Some(true), _) => (same_verdict, format!("the same trace, byte for byte; {}", verdict(same_verdict))),
        (Some(false), true) => (
            false,
            "NONDETERMINISM: the same build and plan gave another trace: find the first diverging event by writing \
             `wavetank trace --all` twice and comparing with `wavetank diff`"
                .into(),
        ),
        (Some(false), false) => {
            (same_verdict, format!("another build than the recording's, so another trace; {}", verdict(same_verdict)))
        }
        (None, _) => (same_verdict, format!("the plan has no seal, so only the verdict counts; {}", verdict(same_verdict))),
    };
    Comparison { as_recorded, words }
}

/// Whether a plan can be run: its scenario is known, and its faults and workers fit its world.
///
/// # Errors
/// The field, what is wrong with it, and the remedy.
pub fn validate(plan: &Plan) -> Result<(), String> {
    if scenario::find(&plan.scenario).is_none() {
        return Err(format!("plan.scenario: no scenario is called {}: see `wavetank list`", plan.scenario));
    }
    let Config { agents, partitions, .. } = plan.config;
    if agents == 0 || partitions == 0 {
        return Err("plan.config: agents and partitions must be at least 1".into());
    }
    plan.config.net.check().map_err(|problem| format!("plan.config.net: {problem}"))?;
    let mut nodes: BTreeSet<String> = plan.config.agent_names().into_iter().collect();
    nodes.extend(plan.config.spare_names());
    nodes.extend([crate::cluster::COORDINATOR, crate::cluster::STORAGE].map(str::to_string));
    let reserved =
        ["admin", "reader", "looker", "watcher", "newcomer", "results", "offsets", sim::choice::WORLD];
    if let Some(name) =
        plan.operations.keys().find(|name| nodes.contains(*name) || reserved.contains(&name.as_str()))
    {
        return Err(format!("plan.operations: {name} is the name of another node: rename the worker"));
    }
    let is_queue = plan.config.queue.is_some();
    let foreign = |what: &Op| matches!(what, Op::Queue(_)) != is_queue;
    if let Some((name, _)) = plan.operations.iter().find(|(_, all)| all.iter().any(|one| foreign(&one.what)))
    {
        return Err(format!(
            "plan.operations.{name}: operations of the queue workload, and only they, go with plan.config.queue: \
             add or remove it"
        ));
    }
    nodes.extend(plan.operations.keys().cloned());
    for (index, fault) in plan.faults.iter().enumerate() {
        if let Some(name) = fault.fault.nodes().into_iter().find(|name| !nodes.contains(*name)) {
            let known: Vec<_> = nodes.iter().cloned().collect();
            return Err(format!(
                "plan.faults[{index}]: no node is called {name}: use one of {}",
                known.join(", ")
            ));
        }
    }
    let sends = plan.operations.values().flatten().filter_map(|operation| match &operation.what {
        Op::Txn { sends, .. } | Op::Send { sends } => Some(sends),
        _ => None,
    });
    match sends.flatten().find(|send| send.key >= partitions) {
        Some(send) => Err(format!(
            "plan.operations: key {} needs more than {partitions} partitions: raise plan.config.partitions",
            send.key
        )),
        None => Ok(()),
    }
}

/// A client variant's name on the command line.
pub fn variant_name(variant: Variant) -> &'static str {
    match variant {
        Variant::Java38 => "java-3.8 (TV1)",
        Variant::Strict => "strict (TV1)",
        Variant::Java4 => "java-4 (TV2)",
        Variant::Tv2 => "second protocol (TV2)",
        Variant::FranzGo118 => "franz-go-1.18 (TV1)",
        Variant::FranzGo1214 => "franz-go-1.21.4 (TV2)",
        Variant::Numbered => "java-3.8 with numbered transactions (TV1)",
    }
}
