//! What is held against a run of the queue workload beside the strict verdict: the verdict of Jepsen's checker, damaged
//! payloads, offsets with two values, and ends of logs below what was acknowledged.

use super::aborts;
use super::settings::Queue;
use crate::ground::{self, Findings};
use crate::log::{Details, Done, Facts, Work};
use crate::plan::{Op, Plan, Queued};
use check::listed_below::{self, Known, Listed};
use check::reading::{self, Reading};
use check::{Ack, Conditions, History, Status, Timeouts, jepsen, zombie};
use serde_json::Value;
use sim::trace::Entry;
use std::collections::BTreeMap;

/// What is known of a run beside its events.
pub(crate) fn conditions(plan: &Plan, queue: &Queue) -> Conditions {
    let (producer, consumer) =
        (plan.config.producer("", None), plan.config.consumer("", client::IsolationLevel::ReadCommitted));
    let healed = sim::fault::over_after(&plan.faults).as_nanos() as u64;
    Conditions {
        heal_ns: Some(healed.max(queue.until_ms * 1_000_000)),
        faults: crate::nemesis::windows(&plan.faults),
        moves_logged: true,
        timeouts: Some(Timeouts {
            delivery_timeout_ms: producer.delivery_timeout_ms,
            max_block_ms: producer.max_block_ms,
            default_api_timeout_ms: consumer.default_api_timeout_ms,
            transaction_timeout_ms: u64::try_from(producer.transaction_timeout_ms).unwrap_or_default(),
            session_timeout_ms: consumer.session_timeout_ms,
        }),
    }
}

pub(crate) fn judge(
    history: &History,
    facts: &Facts,
    trace: &[Entry],
    plan: &Plan,
    queue: &Queue,
) -> Findings {
    let mut findings = Findings::default();
    let sub_via = queue.sub_via.into();
    let verdict = jepsen::verdict(history, jepsen::Options { ww_deps: true, sub_via });
    let mut bad = verdict.bad_types(sub_via);
    bad.extend(verdict.types().into_iter().filter(|name| queue.counts.iter().any(|counts| counts == name)));
    let does = |wanted: fn(&Queued) -> bool| {
        let is_it = |what: &Op| matches!(what, Op::Queue(queued) if wanted(queued));
        plan.operations.values().flatten().any(|operation| is_it(&operation.what))
    };
    let is_about_aborts = does(|queued| matches!(queued, Queued::Aborts { .. }));
    let errors = if bad.is_empty() { Value::Null } else { verdict.to_json(history)["errors"].take() };
    for name in bad {
        match name {
            "empty-transaction-graph" => findings.vacuous.push("no operation depends on another".into()),
            // An application that does not seek back gives those records up (KAFKA-17582): its polls are judged below.
            "poll-skip" if !queue.seeks_back && is_about_aborts => {}
            name => findings.add(name, vec![errors[name].to_string()]),
        }
    }
    findings.add("close-hung", facts.queue.hung.iter().collect());
    findings.add("payload-damage", facts.queue.damaged.iter().collect());
    let mut readings: Vec<Reading> = facts.readings.values().cloned().collect();
    readings.extend(acknowledged(facts));
    findings.add("conflict", reading::conflicts(&readings));
    findings.add("listed-below", listed_below::find(&known(facts), &listed(facts)));
    findings.add("zombie-end", zombie::ends(&ground::grants(trace), &ground::ends(trace)));
    if is_about_aborts {
        let about_aborts = aborts::judge(&aborts::polls(facts));
        findings.anomalies.extend(about_aborts.anomalies);
        findings.vacuous.extend(about_aborts.vacuous);
    }
    let is_refused = facts.queue.zombies.contains(&Status::Fail);
    if does(|queued| matches!(queued, Queued::Haunt { .. })) && !is_refused {
        findings.vacuous.push("no zombie was refused anything".into());
    }
    // Who looks for what is lost never gets to the end.
    if facts.queue.found.is_empty() && findings.anomalies.is_empty() {
        findings.vacuous.push("no worker read everything in the end".into());
    }
    findings
}

/// Completed operations of workers.
fn completed(facts: &Facts) -> impl Iterator<Item = (&crate::log::Fact, &Details)> {
    facts.facts.iter().filter_map(|fact| match &fact.work {
        Work::Queue(_, details) if fact.status != Status::Invoke => Some((fact, &**details)),
        _ => None,
    })
}

/// What producers were told is at which offset. An offset told by an operation of unknown outcome counts too: the record was
/// appended, whatever became of its transaction.
fn acknowledged(facts: &Facts) -> Vec<Reading> {
    let mut by_key: BTreeMap<u32, Reading> = BTreeMap::new();
    for (_, details) in completed(facts) {
        for done in &details.done {
            let Done::Send { key, value, ack: Ack::At(offset) } = done else { continue };
            let reading = by_key.entry(*key).or_insert_with(|| Reading {
                reader: "producers".to_string(),
                partition: i64::from(*key),
                committed: false,
                records: Vec::new(),
            });
            reading.records.push((*offset, crate::log::value_number(*value)));
        }
    }
    by_key.into_values().collect()
}

fn known(facts: &Facts) -> Vec<Known> {
    let mut known = Vec::new();
    for (fact, details) in completed(facts) {
        let sent = details.done.iter().filter_map(|done| match done {
            Done::Send { key, ack: Ack::At(offset), .. } => Some((*key, *offset)),
            _ => None,
        });
        known.extend(sent.map(|(key, offset)| Known {
            partition: i64::from(key),
            offset,
            told_ns: fact.at_ns,
        }));
    }
    known
}

fn listed(facts: &Facts) -> Vec<Listed> {
    let listed = facts.queue.listed.iter();
    listed
        .map(|(key, end, invoked_ns)| Listed {
            partition: i64::from(*key),
            end: *end,
            invoked_ns: *invoked_ns,
        })
        .collect()
}
