//! What a producer's conversation was in one run: the frames by which its course can be cut, and where it stood at each.

use super::load::PRODUCER;
use crate::outcome::Outcome;
use sim::fault::FramePattern;
use sim::trace::{Entry, EventId};
use std::collections::BTreeMap;

/// The requests of a transaction's life, by the first word of their labels.
const REQUESTS: [&str; 6] =
    ["InitProducerId", "AddPartitionsToTxn", "Produce", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn"];

/// A frame of the producer's, named so that a fault can catch it.
#[derive(Clone, Debug)]
pub(super) struct Cut {
    pub(super) frame: FramePattern,
    pub(super) event: EventId,
    /// Where the producer stood.
    pub(super) stands: Stand,
}

/// Where a producer stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Stand {
    /// The transaction, from 1; 0 before the first.
    pub(super) transaction: u32,
    pub(super) phase: Phase,
}

/// How far a transaction has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// It is over, and the next has not begun.
    #[default]
    Between,
    /// None of its records is acknowledged.
    Begun,
    /// Some of its records are.
    Midway,
    /// All of its records are.
    Sent,
    /// The application has asked for its end.
    Ending,
}

impl Phase {
    pub(super) fn words(self) -> &'static str {
        match self {
            Phase::Between => "between transactions",
            Phase::Begun => "before the first record",
            Phase::Midway => "midway",
            Phase::Sent => "after the last record",
            Phase::Ending => "during the end",
        }
    }
}

/// Records of one transaction.
const RECORDS: u32 = 2;

/// The frames between the producer and the agents, in order.
pub(super) fn cuts(outcome: &Outcome) -> Vec<Cut> {
    let mut seen: BTreeMap<(String, String, String), u32> = BTreeMap::new();
    let (mut stands, mut acknowledged) = (Stand::default(), 0);
    let mut cuts = Vec::new();
    for entry in &outcome.trace {
        if outcome.node(entry.node) == PRODUCER {
            follow(entry, &mut stands, &mut acknowledged);
        }
        if entry.name != "net.frame" {
            continue;
        }
        let (from, to, label) = (outcome.node(entry.node).to_string(), entry.text("to"), entry.text("label"));
        if from != PRODUCER && to != PRODUCER {
            continue;
        }
        let words = label.split_once(".reply").map_or(label.clone(), |(api, _)| format!("{api}.reply"));
        let nth = seen.entry((words.clone(), from.clone(), to.clone())).or_default();
        *nth += 1;
        let frame = FramePattern { from: Some(from), to: Some(to), nth: *nth, ..FramePattern::words(words) };
        cuts.push(Cut { frame, event: entry.id, stands });
    }
    cuts
}

fn follow(entry: &Entry, stands: &mut Stand, acknowledged: &mut u32) {
    match entry.name {
        "producer.begin" => {
            *acknowledged = 0;
            *stands =
                Stand { transaction: entry.number("txn").unwrap_or_default() as u32, phase: Phase::Begun };
        }
        "producer.delivered" => {
            *acknowledged += 1;
            stands.phase = if *acknowledged < RECORDS { Phase::Midway } else { Phase::Sent };
        }
        "producer.ending" => stands.phase = Phase::Ending,
        "producer.end" => stands.phase = Phase::Between,
        _ => {}
    }
}

/// The requests of a transaction's life that the producer sent.
pub(super) fn requests(outcome: &Outcome) -> Vec<Cut> {
    let sent = cuts(outcome).into_iter().filter(|cut| cut.frame.from.as_deref() == Some(PRODUCER));
    sent.filter(|cut| REQUESTS.contains(&api(&cut.frame))).collect()
}

/// What a request is, without which and where: `Produce`, `EndTxn commit`.
pub(super) fn request_words(frame: &FramePattern) -> String {
    let ends = frame.words.split(' ').find(|word| ["commit", "abort"].contains(word));
    [Some(api(frame)), ends].into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// The first word of a frame's label.
fn api(frame: &FramePattern) -> &str {
    frame.words.split(' ').next().unwrap_or_default()
}
