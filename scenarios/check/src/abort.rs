//! What a consumer's polls do after an abort: Jepsen's classification of the polls of its abort workload.
//!
//! Each pair of consecutive polls of one process in one topic that returned records, however they ended, counts as
//! *advance*, *rewind*, *rewind-further* or *other*, with or without a rebalance. Polls in between that returned
//! nothing are passed over, but their rebalances count. Kafka does not rewind a consumer's position when a transaction
//! aborts (KAFKA-17582), so on a healthy cluster polls advance, and rewind only where there was a rebalance. Jepsen
//! reports the counts, and so does this; it judges nothing.

use std::collections::BTreeMap;

/// A completed poll.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Poll {
    /// The logical client.
    pub process: i64,
    /// The topic, which has one partition.
    pub topic: String,
    /// The offsets of the records returned, in order.
    pub offsets: Vec<i64>,
    /// Whether a rebalance was logged before or during the poll.
    pub is_rebalanced: bool,
}

/// Where a poll began, seen from the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Behind its last record.
    Advance,
    /// At its first record.
    Rewind,
    /// Before its first record.
    RewindFurther,
    /// Anywhere else.
    Other,
}

/// The pairs of one class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Class {
    /// How many there are.
    pub count: usize,
    /// The first four: places in the list of polls.
    pub samples: Vec<(usize, usize)>,
}

/// By class: the step, and whether there was a rebalance.
pub type Classes = BTreeMap<(Step, bool), Class>;

/// What is remembered of a process: its last poll with records, and whether a rebalance came since.
#[derive(Clone, Copy, Debug, Default)]
struct Before {
    poll: Option<usize>,
    is_rebalanced: bool,
}

/// Two consecutive polls of one process in one topic that returned records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The place of the earlier one in the list of polls.
    pub before: usize,
    /// The place of the later one.
    pub after: usize,
    /// Where the later one began.
    pub step: Step,
    /// Whether there was a rebalance in between, or during the later one.
    pub is_rebalanced: bool,
}

/// Classifies the pairs of polls, which come in the order of their completion.
pub fn classify(polls: &[Poll]) -> Classes {
    let mut classes = Classes::new();
    for Pair { before, after, step, is_rebalanced } in pairs(polls) {
        let class = classes.entry((step, is_rebalanced)).or_default();
        class.count += 1;
        if class.samples.len() < 4 {
            class.samples.push((before, after));
        }
    }
    classes
}

/// All pairs of polls, which come in the order of their completion.
pub fn pairs(polls: &[Poll]) -> Vec<Pair> {
    let mut processes: BTreeMap<i64, Before> = BTreeMap::new();
    let mut pairs = Vec::new();
    for (at, poll) in polls.iter().enumerate() {
        let before = processes.entry(poll.process).or_default();
        let Some(first) = poll.offsets.first() else {
            before.is_rebalanced |= poll.is_rebalanced;
            continue;
        };
        let is_rebalanced = before.is_rebalanced || poll.is_rebalanced;
        let pair = before.poll.filter(|before| polls[*before].topic == poll.topic);
        pairs.extend(pair.map(|before| {
            let step = step(&polls[before].offsets, *first);
            Pair { before, after: at, step, is_rebalanced }
        }));
        *before = Before { poll: Some(at), is_rebalanced: false };
    }
    pairs
}

impl Step {
    /// Its name in Jepsen's report.
    pub fn name(self) -> &'static str {
        match self {
            Step::Advance => "advance",
            Step::Rewind => "rewind",
            Step::RewindFurther => "rewind-further",
            Step::Other => "other",
        }
    }
}

fn step(before: &[i64], first: i64) -> Step {
    match before {
        [.., last] if *last < first => Step::Advance,
        [start, ..] if *start == first => Step::Rewind,
        [start, ..] if first < *start => Step::RewindFurther,
        _ => Step::Other,
    }
}
