//! Traces told by hand, and what the oracle makes of them.

use super::*;
use sim::trace::{EventId, NodeId};

/// One producer, id 7, in one partition; events are numbered as they are told.
struct Told(Vec<Entry>);

impl Told {
    fn tell(&mut self, name: &'static str, fields: &[(&'static str, Field)]) {
        let id = EventId(self.0.len() as u64 + 1);
        let fields = fields.to_vec();
        self.0.push(Entry { id, at_ns: id.0, node: NodeId(1), parent: EventId::NONE, name, fields });
    }

    fn sent(&mut self, transaction: u64, value: &str) {
        let (producer, partition) = (Field::Str("jt1".into()), Field::Str("orders-0".into()));
        let value = Field::Bytes(value.into());
        let fields = [
            ("producer", producer),
            ("transaction", Field::U64(transaction)),
            ("partition", partition),
            ("value", value),
        ];
        self.tell("intent", &fields);
    }

    fn appended(&mut self, offset: i64) {
        let numbers = [("base_offset", offset), ("count", 1), ("producer_id", 7)];
        let mut fields = vec![("partition", Field::Str("orders-0".into()))];
        fields.extend(numbers.map(|(name, number)| (name, Field::I64(number))));
        self.tell("produce.committed", &fields);
    }

    fn delivered(&mut self, offset: i64, value: &str) {
        let value = Field::Bytes(value.into());
        let partition = Field::Str("orders-0".into());
        self.tell(
            "producer.delivered",
            &[("partition", partition), ("offset", Field::I64(offset)), ("value", value)],
        );
    }

    fn ending(&mut self, transaction: u64, committed: bool) {
        let id = Field::Str("jt1".into());
        self.tell(
            "producer.ending",
            &[("id", id), ("txn", Field::U64(transaction)), ("committed", Field::Bool(committed))],
        );
    }

    fn prepared(&mut self, revision: i64, committed: bool) {
        let by = Field::Str("client".into());
        let revision = Field::I64(revision);
        self.tell(
            "txn.prepared",
            &[("committed", Field::Bool(committed)), ("by", by), ("revision", revision)],
        );
    }

    fn marker(&mut self, offset: i64, revision: i64, committed: bool) {
        let numbers = [("offset", offset), ("producer_id", 7), ("epoch", 0), ("prepared_revision", revision)];
        let mut fields =
            vec![("partition", Field::Str("orders-0".into())), ("committed", Field::Bool(committed))];
        fields.extend(numbers.map(|(name, number)| (name, Field::I64(number))));
        self.tell("marker.written", &fields);
    }

    /// A first transaction, committed as asked.
    fn first_transaction() -> Told {
        let mut told = Told(Vec::new());
        told.sent(1, "a");
        told.appended(0);
        told.delivered(0, "a");
        told.ending(1, true);
        told.prepared(10, true);
        told.marker(1, 10, true);
        told.sent(2, "b");
        told
    }
}

#[test]
fn a_late_commit_is_named_with_its_decision() {
    let mut told = Told::first_transaction();
    told.appended(2);
    told.delivered(2, "b");
    told.prepared(20, true);
    told.marker(3, 20, true);
    told.ending(2, false);
    let wrong = judge(&told.0);
    assert_eq!(wrong.len(), 1);
    assert_eq!((wrong[0].wrong.transaction, wrong[0].event), (2, 10), "the second decision: {wrong:?}");
}

#[test]
fn an_older_decision_does_not_stand_for_one_whose_answer_was_lost() {
    let mut told = Told::first_transaction();
    told.appended(2);
    told.delivered(2, "b");
    told.ending(2, true);
    told.marker(3, 20, true);
    assert_eq!(judge(&told.0), []);
}

#[test]
fn an_abort_that_nobody_told_may_be_the_coordinators_own() {
    for (told_by_client, wrong) in [(false, 0), (true, 1)] {
        let mut told = Told::first_transaction();
        told.appended(2);
        told.delivered(2, "b");
        if told_by_client {
            told.prepared(20, false);
        }
        told.marker(3, 20, false);
        told.ending(2, true);
        assert_eq!(judge(&told.0).len(), wrong);
    }
}

#[test]
fn what_a_paused_agent_tells_late_changes_nothing() {
    let mut told = Told(Vec::new());
    told.sent(1, "a");
    told.delivered(0, "a");
    told.ending(1, true);
    told.marker(1, 10, true);
    told.sent(2, "b");
    told.delivered(2, "b");
    // The agent that appended "a" and prepared transaction 1 resumes only now.
    told.appended(0);
    told.prepared(10, true);
    told.ending(2, true);
    told.marker(3, 20, true);
    told.appended(2);
    assert_eq!(judge(&told.0), []);
}

#[test]
fn a_decision_over_a_gap_is_not_judged() {
    let mut told = Told::first_transaction();
    told.appended(2);
    told.delivered(2, "b");
    // Offset 3 is nobody's: the marker of transaction 2, perhaps, whose answer was lost.
    told.sent(3, "c");
    told.appended(4);
    told.delivered(4, "c");
    told.ending(3, false);
    told.prepared(30, false);
    told.marker(5, 30, false);
    assert_eq!(judge(&told.0), []);
}
