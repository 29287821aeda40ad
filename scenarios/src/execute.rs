//! Runs a plan and judges it.

use crate::cluster::{self, MakeAgent};
use crate::config::{Config, ETCD_PORT, KAFKA_PORT, RESULTS, S3_PORT, TOPIC};
use crate::log::{self, Facts, Log, Work, atom, value_atom};
use crate::outcome::Outcome;
use crate::plan::{Commits, Life, Op, Plan};
use crate::workload::{self, Reader};
use crate::{
    attribution, down, explain, false_fence, ground, group, looker, member, oracle, queue, story,
    torn_offsets, watcher,
};
use check::{FinalReads, Status};
use client::IsolationLevel;
use rt::host::BoxFuture;
use rt::time::Instant;
use sim::node::{self, Role};
use sim::run::{Config as RunConfig, Run};
use sim::trace::Keep;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::oneshot;

/// Every worker must be done this long after the last fault has ended.
const WORKERS_LIMIT: Duration = Duration::from_secs(300);
/// Members that stay until the end are gone this long after they may go.
const MEMBERS_LIMIT: Duration = Duration::from_secs(60);
/// The final reader gives up on what it has not read by then. Longer than a transaction may stay open.
const FINAL_READS_LIMIT: Duration = Duration::from_secs(120);
/// How long the final reader's polls wait, in milliseconds (Jepsen's).
const FINAL_POLL_MS: u64 = 1000;

/// Runs `plan` in a world of its own and judges what its clients were told. `keep` is at least [`Keep::Events`] for the
/// white-box oracle, and [`Keep::Story`] for the story.
pub fn execute(plan: &Plan, keep: Keep) -> Outcome {
    execute_with(plan, keep, &cluster::our_agent())
}

/// As [`execute`], with a story if there is one to tell. A run that shows nothing has none, and to keep its frames would
/// cost a third of its time; one that shows something is run again.
pub fn execute_to_tell(plan: &Plan) -> Outcome {
    let outcome = execute(plan, Keep::Events);
    match outcome.anomalies.is_empty() && outcome.failures.is_empty() {
        true => outcome,
        false => execute(plan, Keep::Story),
    }
}

/// As [`execute`], with agents of the caller's own making, such as somebody else's broker.
pub fn execute_with(plan: &Plan, keep: Keep, agent: &MakeAgent) -> Outcome {
    let log = Log::default();
    let (logged, planned) = (log.clone(), plan.clone());
    let run =
        sim::run(&run_config(plan, keep.max(Keep::Events)), move || course(planned, logged, agent.clone()));
    judge(plan, run, &log.lock())
}

fn run_config(plan: &Plan, keep: Keep) -> RunConfig {
    RunConfig {
        seed: plan.seed,
        overrides: plan.overrides.clone(),
        faults: plan.faults.clone(),
        net: plan.config.net.clone(),
        frame_ports: vec![KAFKA_PORT, ETCD_PORT, S3_PORT],
        preempt: plan.config.preempt,
        keep,
        limit_ms: 0,
    }
}

async fn course(plan: Plan, log: Log, agent: MakeAgent) {
    match plan.config.queue.clone() {
        Some(queue) => queue::script::run(plan, queue, log, agent).await,
        None => script(plan, log, agent).await,
    }
}

/// The world: a cluster, a topic, the plan's workers; after them, and after the faults, the final reads.
async fn script(plan: Plan, log: Log, agent: MakeAgent) {
    let config = plan.config.clone();
    cluster::start(&config, &agent);
    let has =
        |wanted: fn(&Op) -> bool| plan.operations.values().flatten().any(|operation| wanted(&operation.what));
    let writes = has(|op| matches!(op, Op::Member(Life { commits: Commits::Transaction, .. })));
    let topics = if writes { vec![TOPIC, RESULTS] } else { vec![TOPIC] };
    let created = config.clone();
    client_process("admin", async move {
        for topic in topics {
            workload::create_topic(&created, topic).await;
        }
    })
    .await;
    let looks = has(|op| matches!(op, Op::Look { .. }));
    let members = has(|op| matches!(op, Op::Member(_)));
    let offsets = has(|op| matches!(op, Op::Txn { offset: Some(_), .. }));
    let stays = |op: &Op| matches!(op, Op::Member(Life { for_ms: None, .. }));
    let all: BTreeSet<String> = plan.operations.keys().cloned().collect();
    let stay = plan.operations.iter().filter(|(_, all)| all.iter().any(|operation| stays(&operation.what)));
    let stay: BTreeSet<String> = stay.map(|(name, _)| name.clone()).collect();
    for (name, operations) in plan.operations {
        let (config, log) = (config.clone(), log.clone());
        node::add(&name.clone(), Role::Client, None, move |_| {
            Box::pin(workload::run(name.clone(), config.clone(), operations.clone(), log.clone()))
        });
    }
    let trouble = sim::fault::over_after(&plan.faults);
    let limit = trouble + WORKERS_LIMIT;
    let done = |awaited: &BTreeSet<String>| log.lock().finished.is_superset(awaited);
    let leave: BTreeSet<String> = all.difference(&stay).cloned().collect();
    if !sim::property::eventually("every worker is done", limit, || done(&leave)).await {
        return;
    }
    rt::time::sleep_until(Instant::from_nanos(trouble.as_nanos() as u64)).await;
    client_process("reader", final_reads(config.clone(), log.clone())).await;
    if members {
        client_process("watcher", watcher::drain(config.clone(), log.clone())).await;
        client_process("newcomer", member::newcomer(config.clone(), log.clone())).await;
        if !sim::property::eventually("every member is done", MEMBERS_LIMIT, || done(&stay)).await {
            return;
        }
    }
    if writes {
        client_process("results", watcher::results(config.clone(), log.clone())).await;
    }
    if offsets {
        client_process("offsets", watcher::last_offset(config.clone(), log.clone())).await;
    }
    if looks {
        client_process("looker", looker::last_looks(config, log)).await;
    }
}

/// Runs `body` as a client process on a machine of its own, to its end.
async fn client_process(name: &str, body: impl Future<Output = ()> + Send + 'static) {
    let (send, ended) = oneshot::channel::<()>();
    let once = Arc::new(Mutex::new(Some(async move {
        body.await;
        drop(send);
    })));
    node::add(name, Role::Client, None, move |_| -> BoxFuture<()> {
        let body = once.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        Box::pin(async move {
            if let Some(body) = body {
                body.await;
            }
        })
    });
    // The sender is dropped at the end; nothing is ever sent.
    let _ = ended.await;
}

/// A fresh consumer reads every key from the start, beyond everything that was acknowledged, and to the end.
async fn final_reads(config: Config, log: Log) {
    let targets = acknowledged(&log.lock());
    let target = |key| targets.get(&key).copied().unwrap_or(-1);
    let all: Vec<u32> = (0..config.partitions).collect();
    let mut reader = Reader::new("reader", &config, IsolationLevel::ReadCommitted, log.clone());
    let deadline = Instant::now() + FINAL_READS_LIMIT;
    while reader.keys_past(target) != all && Instant::now() < deadline {
        reader.poll(FINAL_POLL_MS).await;
    }
    while reader.poll(FINAL_POLL_MS).await > 0 && Instant::now() < deadline {}
    log.lock().read_whole = reader.keys_past(target);
}

/// By key, the highest offset of any acknowledged record, whatever became of its transaction.
fn acknowledged(facts: &Facts) -> BTreeMap<u32, i64> {
    let mut highest = BTreeMap::new();
    for fact in &facts.facts {
        let sends = match &fact.work {
            Work::Txn { sends, .. } => sends.iter().map(|(key, _, offset)| (*key, *offset)).collect(),
            Work::Send { key, offset, .. } => vec![(*key, *offset)],
            // The queue workload has final reads of its own.
            Work::Poll(_) | Work::Assign(_) | Work::Queue(..) => Vec::new(),
        };
        for (key, offset) in sends {
            let known = highest.entry(key).or_insert(-1);
            *known = offset.unwrap_or(-1).max(*known);
        }
    }
    highest
}

fn judge(plan: &Plan, run: Run<()>, facts: &Facts) -> Outcome {
    let mut history = log::history(&facts.facts);
    if let Some(queue) = &plan.config.queue {
        history.conditions = queue::judge::conditions(plan, queue);
    }
    let verdict = check::strict(&history, &final_values(facts));
    let decisions = oracle::judge(&run.trace);
    let mut signature: BTreeSet<String> = verdict.signature().into_iter().map(str::to_string).collect();
    if !decisions.is_empty() {
        signature.insert("wrong-decision".into());
    }
    let mut about_the_log = ground::judge(facts, &run.trace);
    let mut agents = plan.config.agent_names();
    agents.extend(plan.config.spare_names());
    about_the_log.add("agent-down", down::find(&run, &agents));
    let mut about_the_group = group::judge(facts, &run.trace);
    match &plan.config.queue {
        // Whether it has a group that rebalances is drawn. Its clients commit what they polled even if a rebalance came between,
        // as Jepsen's do, with the generation after it, and Kafka takes that: offsets move back, and records come again.
        Some(queue) => {
            // And they do not tell when they have worked on a record.
            let hazards = ["redelivered", "commit-moved-back", "unprocessed"];
            about_the_group.anomalies.retain(|(name, _)| !hazards.contains(name));
            let about_the_queue = queue::judge::judge(&history, facts, &run.trace, plan, queue);
            about_the_log.anomalies.extend(about_the_queue.anomalies);
            about_the_log.vacuous.extend(about_the_queue.vacuous);
        }
        None => {
            // Where transactions time out after a second, as in the queue workload, this is the rule (finding 6).
            about_the_log.add("false-fence", false_fence::judge(&run.trace));
            about_the_log.vacuous.extend(about_the_group.vacuous);
        }
    }
    about_the_log.anomalies.extend(about_the_group.anomalies);
    about_the_log.add("torn-offsets", torn_offsets::judge(plan, facts).into_iter().collect());
    signature.extend(about_the_log.anomalies.iter().map(|(name, _)| (*name).to_string()));
    let mut vacuous: Vec<String> = verdict.vacuous.iter().map(ToString::to_string).collect();
    vacuous.extend(about_the_log.vacuous);
    for fault in plan.faults.iter().filter(|fault| !run.landed.contains(&fault.id)) {
        vacuous.push(format!("fault {} had no effect ({})", fault.id, fault.fault.describe()));
    }
    let mut failures: Vec<String> = run
        .failures
        .iter()
        .map(|failure| {
            format!(
                "{} at {}: {} (event {})",
                failure.node,
                explain::seconds(failure.at_ns),
                failure.claim,
                failure.event.0
            )
        })
        .collect();
    if run.end != sim::run::End::Done {
        failures.push(format!("the run did not end by itself: {:?}", run.end));
    }
    let others = &about_the_log.anomalies;
    let attribution = attribution::attribute(&verdict, &history, &decisions, facts, &run.trace, others, plan);
    let mut anomalies = explain::anomalies(&verdict, &decisions, &facts.facts, plan.config.queue.is_some());
    anomalies.extend(about_the_log.anomalies.into_iter().map(|(name, words)| format!("{name}  {words}")));
    Outcome {
        signature,
        anomalies,
        attribution,
        story: story::tell(&decisions, &run.trace, &run.nodes),
        summary: match plan.config.queue {
            Some(_) => check::exercised(&history).to_string(),
            None => summary(facts),
        },
        polls: queue::aborts::polls(facts),
        chosen: facts.queue.chosen.clone(),
        vacuous,
        failures,
        fingerprint: run.fingerprint,
        trace: run.trace,
        nodes: run.nodes,
        marks: run.marks,
        events: run.events,
        steps: run.steps,
        simulated_ns: run.simulated_ns,
        history,
    }
}

/// What the final reader found, for the keys it read whole.
fn final_values(facts: &Facts) -> FinalReads {
    let of_queue = facts.queue.found.iter();
    let of_queue =
        of_queue.map(|(key, values)| (atom(*key), values.iter().map(|value| value_atom(*value)).collect()));
    let mut values: FinalReads = facts.read_whole.iter().map(|key| (atom(*key), BTreeSet::new())).collect();
    for (key, value) in facts.final_records() {
        if let Some(found) = values.get_mut(&atom(key)) {
            found.insert(value_atom(value));
        }
    }
    values.extend(of_queue);
    values
}

/// What the run exercised, in a line.
fn summary(facts: &Facts) -> String {
    let (mut ok, mut failed, mut unknown, mut polled, mut sent) = (0, 0, 0, 0, 0);
    for fact in &facts.facts {
        match (&fact.work, fact.status) {
            (Work::Txn { .. }, Status::Ok) => ok += 1,
            (Work::Txn { .. }, Status::Fail) => failed += 1,
            (Work::Txn { .. }, Status::Info) => unknown += 1,
            (Work::Send { .. }, Status::Ok) => sent += 1,
            (Work::Poll(records), _) => polled += records.len(),
            _ => {}
        }
    }
    let outside = if sent > 0 { format!("; {sent} records sent outside") } else { String::new() };
    format!(
        "{ok} transactions committed, {failed} aborted or failed, {unknown} of unknown outcome{outside}; \
         {polled} records polled"
    )
}
