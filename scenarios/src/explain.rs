//! Anomalies in words that name transactions and records, not events.

use crate::config::partition_of;
use crate::log::{Fact, Work};
use crate::oracle::Decision;
use check::oracle::Asked;
use check::{Atom, Status, Verdict};

/// One line for each anomaly, the most telling first.
pub(crate) fn anomalies(
    verdict: &Verdict,
    decisions: &[Decision],
    facts: &[Fact],
    queue: bool,
) -> Vec<String> {
    let record = |key, value| record(key, value, queue);
    let records = |all: &[(Atom, Atom)]| {
        all.iter().map(|(key, value)| record(*key, *value)).collect::<Vec<_>>().join(" ")
    };
    let mut lines = Vec::new();
    for torn in &verdict.torn_transactions {
        let (there, gone) = (records(&torn.visible), records(&torn.hidden));
        lines.push(format!(
            "TORN  {}: {there} committed, {gone} aborted; the client was told {}",
            operation(facts, torn.event),
            told(facts, torn.event)
        ));
    }
    for read in &verdict.aborted_reads {
        lines.push(format!(
            "G1a  {} saw {} of {}, whose client was told {}",
            operation(facts, read.reader),
            record(read.key, read.value),
            operation(facts, read.writer),
            told(facts, read.writer)
        ));
    }
    for lost in &verdict.lost_writes {
        let (lost_record, writer, reader) =
            (record(lost.key, lost.value), operation(facts, lost.writer), operation(facts, lost.max_read));
        lines.push(format!("LOST  {lost_record} of {writer}, acknowledged; {reader} read past it"));
    }
    for unseen in &verdict.unseen {
        let values: Vec<_> = unseen.values.iter().map(|value| record(unseen.key, *value)).collect();
        lines.push(format!("UNSEEN  {}, acknowledged and never polled", values.join(" ")));
    }
    for duplicate in &verdict.duplicates {
        lines.push(format!(
            "DUPLICATE  {} at offsets {:?}",
            record(duplicate.key, duplicate.value),
            duplicate.offsets
        ));
    }
    for inconsistent in &verdict.inconsistent_offsets {
        let values: Vec<_> =
            inconsistent.values.iter().map(|value| record(inconsistent.key, *value)).collect();
        lines.push(format!("INCONSISTENT  offset {} holds {}", inconsistent.offset, values.join(" and ")));
    }
    lines.extend(others(verdict, facts));
    for decision in decisions {
        lines.push(wrong(decision));
    }
    lines
}

/// Anomalies that need no more words than the checker's own.
fn others(verdict: &Verdict, facts: &[Fact]) -> Vec<String> {
    const TOLD: [&str; 6] =
        ["torn-transaction", "G1a", "lost-write", "unseen", "duplicate", "inconsistent-offsets"];
    if verdict.signature().iter().all(|name| TOLD.contains(name)) {
        return Vec::new();
    }
    let found = verdict.anomalies(&crate::log::history(facts)).into_iter();
    let found = found.filter(|found| !TOLD.contains(&found.name));
    found
        .map(|found| {
            let (name, event) = (found.name.to_uppercase(), operation(facts, found.event));
            format!("{name}  {}; decided by {event}", found.words)
        })
        .collect()
}

fn wrong(decision: &Decision) -> String {
    let asked = match decision.wrong.asked {
        Asked::Nothing => "had not asked for its end",
        Asked::Commit => "had asked to commit it",
        Asked::Abort => "had asked to abort it",
    };
    format!(
        "MARKER  a {} marker in {} decided about offsets {:?} of transaction {} of {}, whose client {asked} (event {})",
        if decision.committed { "commit" } else { "abort" },
        decision.partition,
        decision.wrong.offsets,
        decision.wrong.transaction,
        decision.wrong.producer,
        decision.event
    )
}

/// "transaction 3 of producer jt1", "a poll of c1 at 4.563 s".
fn operation(facts: &[Fact], event: usize) -> String {
    match facts.get(event) {
        Some(Fact { client, work: Work::Txn { number, .. }, .. }) => {
            format!("transaction {number} of producer {client}")
        }
        Some(Fact { client, work: Work::Queue(_, details), .. }) if details.number > 0 => {
            format!("transaction {} of producer {client}", details.number)
        }
        Some(fact @ Fact { client, work: Work::Queue(function, _), .. }) => {
            format!("{function:?} of {client} at {}", seconds(fact.at_ns)).to_lowercase()
        }
        Some(fact) => format!("a poll of {} at {}", fact.client, seconds(fact.at_ns)),
        None => "an unknown operation".into(),
    }
}

/// What the client was told at the end of an operation.
fn told(facts: &[Fact], event: usize) -> String {
    match facts.get(event) {
        Some(Fact { status: Status::Ok, .. }) => "\"committed\"".into(),
        Some(Fact { status: Status::Fail, error: None, .. }) => "\"aborted\"".into(),
        Some(Fact { error: Some(error), .. }) => format!("\"{error}\""),
        _ => "nothing".into(),
    }
}

/// A record as `topic-partition:value`.
fn record(key: Atom, value: Atom, queue: bool) -> String {
    let number = |atom| match atom {
        Atom::Int(number) => number,
        Atom::Name(at) => i64::from(at),
    };
    format!("{}:{}", partition_of(number(key) as u32, queue), number(value))
}

/// Simulated time as seconds with milliseconds.
pub(crate) fn seconds(at_ns: u64) -> String {
    format!("{}.{:03} s", at_ns / 1_000_000_000, at_ns / 1_000_000 % 1000)
}
