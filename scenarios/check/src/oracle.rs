//! The white-box oracle: which marker decided about a record that it had no business with.
//!
//! It joins what no client can see: the transaction each record was meant for (told by the client that sent it), where
//! the record was appended, and which marker decided about it. A marker of a producer decides about that producer's
//! records in its partition since its previous marker there. It decides wrongly if, for one of them, the client had
//! not yet asked for the end of the transaction it was meant for, or had asked for the other end. An abort by the
//! coordinator itself (timeout, fencing) is its right, unless the client was told that the commit succeeded.
//!
//! Trace event ids must grow with time. A record whose value is not unique within its partition is joined to the
//! intent told last before it.

use std::collections::BTreeMap;

/// A client says which transaction a record is meant for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intent {
    /// Its transactional id.
    pub producer: String,
    /// The client's number of the transaction.
    pub transaction: u64,
    /// `topic-partition`.
    pub partition: String,
    /// The payload.
    pub value: Vec<u8>,
    /// The trace event.
    pub event: u64,
}

/// A record was appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Append {
    /// `topic-partition`.
    pub partition: String,
    /// Its offset.
    pub offset: i64,
    /// The producer id in its batch.
    pub producer_id: i64,
    /// The payload.
    pub value: Vec<u8>,
    /// The trace event.
    pub event: u64,
}

/// A marker was appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marker {
    /// `topic-partition`.
    pub partition: String,
    /// Its offset.
    pub offset: i64,
    /// Whose records it decides about.
    pub producer_id: i64,
    /// The epoch in it.
    pub epoch: i16,
    /// Commit or abort.
    pub committed: bool,
    /// The coordinator decided by itself (timeout, fencing), not asked by an `EndTxn`.
    pub by_coordinator: bool,
    /// The trace event that decided.
    pub event: u64,
}

/// A client asked for the end of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// Its transactional id.
    pub producer: String,
    /// The client's number of the transaction.
    pub transaction: u64,
    /// Commit or abort.
    pub committed: bool,
    /// The client was told that it succeeded.
    pub succeeded: bool,
    /// The trace event of asking.
    pub event: u64,
}

/// What the client had asked for when the marker decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Asked {
    /// Nothing yet.
    Nothing,
    /// To commit.
    Commit,
    /// To abort.
    Abort,
}

/// A marker that decided wrongly about one transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongDecision {
    /// The marker's place in the input.
    pub marker: usize,
    /// Its deciding trace event.
    pub event: u64,
    /// Whose transaction it was.
    pub producer: String,
    /// Its number.
    pub transaction: u64,
    /// What the client had asked for.
    pub asked: Asked,
    /// Offsets of the records decided about.
    pub offsets: Vec<i64>,
}

/// Names every marker that decided wrongly, in the order of the markers.
pub fn wrong_decisions(
    intents: &[Intent],
    appends: &[Append],
    markers: &[Marker],
    ends: &[End],
) -> Vec<WrongDecision> {
    let meant = Meant::new(intents);
    let ends: BTreeMap<(&str, u64), &End> =
        ends.iter().map(|end| ((end.producer.as_str(), end.transaction), end)).collect();
    let mut log: BTreeMap<(&str, i64), BTreeMap<i64, &Append>> = BTreeMap::new();
    for append in appends {
        log.entry((&append.partition, append.producer_id)).or_default().insert(append.offset, append);
    }
    let mut in_order: Vec<(usize, &Marker)> = markers.iter().enumerate().collect();
    in_order.sort_by_key(|(_, marker)| (&marker.partition, marker.offset));
    let mut wrong = Vec::new();
    for (index, marker) in in_order {
        let Some(undecided) = log.get_mut(&(marker.partition.as_str(), marker.producer_id)) else { continue };
        let later = undecided.split_off(&marker.offset);
        let decided = std::mem::replace(undecided, later);
        let mut transactions: BTreeMap<(&str, u64), Vec<i64>> = BTreeMap::new();
        for append in decided.values() {
            if let Some(intent) = meant.of(append) {
                let transaction = (intent.producer.as_str(), intent.transaction);
                transactions.entry(transaction).or_default().push(append.offset);
            }
        }
        for ((producer, transaction), offsets) in transactions {
            if let Some(asked) = wrongly(marker, ends.get(&(producer, transaction)).copied()) {
                let producer = producer.to_string();
                wrong.push(WrongDecision {
                    marker: index,
                    event: marker.event,
                    producer,
                    transaction,
                    asked,
                    offsets,
                });
            }
        }
    }
    wrong.sort_by_key(|decision| (decision.marker, decision.transaction));
    wrong
}

/// What the client had asked for, if the marker went against it.
fn wrongly(marker: &Marker, end: Option<&End>) -> Option<Asked> {
    let before = end.filter(|end| end.event <= marker.event);
    let asked = match before.map(|end| end.committed) {
        None => Asked::Nothing,
        Some(true) => Asked::Commit,
        Some(false) => Asked::Abort,
    };
    let as_asked = asked == if marker.committed { Asked::Commit } else { Asked::Abort };
    let broken_promise = end.is_some_and(|end| end.committed && end.succeeded);
    let rightful = as_asked || (marker.by_coordinator && !marker.committed && !broken_promise);
    (!rightful).then_some(asked)
}

/// Intents by partition and payload, in the order told.
struct Meant<'a>(BTreeMap<(&'a str, &'a [u8]), Vec<&'a Intent>>);

impl<'a> Meant<'a> {
    fn new(intents: &'a [Intent]) -> Self {
        let mut meant: BTreeMap<_, Vec<&Intent>> = BTreeMap::new();
        for intent in intents {
            meant.entry((intent.partition.as_str(), intent.value.as_slice())).or_default().push(intent);
        }
        meant.values_mut().for_each(|intents| intents.sort_by_key(|intent| intent.event));
        Meant(meant)
    }

    fn of(&self, append: &Append) -> Option<&'a Intent> {
        let told = self.0.get(&(append.partition.as_str(), append.value.as_slice()))?;
        told.iter().rev().find(|intent| intent.event <= append.event).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn intent(transaction: u64, partition: &str, value: &str, event: u64) -> Intent {
        let (producer, partition) = ("jt1".to_string(), partition.to_string());
        Intent { producer, transaction, partition, value: value.into(), event }
    }

    fn append(partition: &str, offset: i64, value: &str, event: u64) -> Append {
        Append { partition: partition.to_string(), offset, producer_id: 7, value: value.into(), event }
    }

    fn marker(partition: &str, offset: i64, committed: bool, event: u64) -> Marker {
        let (partition, by_coordinator) = (partition.to_string(), false);
        Marker { partition, offset, producer_id: 7, epoch: 0, committed, by_coordinator, event }
    }

    fn end(transaction: u64, committed: bool, event: u64) -> End {
        End { producer: "jt1".to_string(), transaction, committed, succeeded: true, event }
    }

    #[test]
    fn a_late_commit_that_decides_the_next_transaction_is_named() {
        let intents = [intent(2, "t-0", "a", 1), intent(3, "t-0", "r1", 20), intent(3, "t-1", "r2", 40)];
        let appends = [append("t-0", 0, "a", 2), append("t-0", 2, "r1", 21), append("t-1", 0, "r2", 41)];
        let markers = [
            marker("t-0", 1, true, 10),
            // The old EndTxn of transaction 2, executed while the client is in transaction 3.
            marker("t-0", 3, true, 30),
            marker("t-1", 1, false, 50),
        ];
        let ends = [end(2, true, 5), end(3, false, 45)];
        let wrong = wrong_decisions(&intents, &appends, &markers, &ends);
        assert_eq!(
            wrong,
            [WrongDecision {
                marker: 1,
                event: 30,
                producer: "jt1".to_string(),
                transaction: 3,
                asked: Asked::Nothing,
                offsets: vec![2],
            }]
        );
    }

    #[test]
    fn transactions_that_end_as_asked_are_right() {
        let intents = [intent(1, "t-0", "a", 1), intent(2, "t-0", "b", 10)];
        let appends = [append("t-0", 0, "a", 2), append("t-0", 2, "b", 11)];
        let markers = [marker("t-0", 1, true, 6), marker("t-0", 3, false, 15)];
        assert_eq!(wrong_decisions(&intents, &appends, &markers, &[end(1, true, 5), end(2, false, 14)]), []);
    }

    #[test]
    fn the_other_end_than_asked_is_wrong() {
        let intents = [intent(1, "t-0", "a", 1)];
        let appends = [append("t-0", 0, "a", 2)];
        let wrong = wrong_decisions(&intents, &appends, &[marker("t-0", 1, false, 9)], &[end(1, true, 5)]);
        assert_eq!((wrong.len(), wrong[0].asked), (1, Asked::Commit));
    }

    #[test]
    fn a_coordinator_may_abort_unless_the_commit_was_acknowledged() {
        let intents = [intent(1, "t-0", "a", 1)];
        let appends = [append("t-0", 0, "a", 2)];
        let timeout = Marker { by_coordinator: true, ..marker("t-0", 1, false, 9) };
        assert_eq!(wrong_decisions(&intents, &appends, std::slice::from_ref(&timeout), &[]), []);
        let refused = End { succeeded: false, ..end(1, true, 12) };
        assert_eq!(wrong_decisions(&intents, &appends, std::slice::from_ref(&timeout), &[refused]), []);
        let promised = end(1, true, 12);
        assert_eq!(wrong_decisions(&intents, &appends, &[timeout], &[promised]).len(), 1);
        let commits = Marker { by_coordinator: true, ..marker("t-0", 1, true, 9) };
        assert_eq!(wrong_decisions(&intents, &appends, &[commits], &[]).len(), 1);
    }

    #[test]
    fn another_producers_marker_decides_nothing_of_mine() {
        let intents = [intent(1, "t-0", "a", 1)];
        let other = Marker { producer_id: 8, ..marker("t-0", 1, true, 3) };
        assert_eq!(wrong_decisions(&intents, &[append("t-0", 0, "a", 2)], &[other], &[]), []);
    }
}
