//! Histories made by hand: for each family one that must fail and one, as near to it as can be, that must pass.

use check::vacuity::Vacuity;
use check::{Ack, Atom, FinalReads, Function, History, Polled, Status, Verdict, strict};
use std::collections::BTreeSet;

const NOWHERE: [(i64, i64, i64); 0] = [];

/// An operation: invoked and completed with the same sends.
fn txn(history: &mut History, process: i64, status: Status, sends: &[(i64, i64, i64)]) -> usize {
    history.push(process, Status::Invoke, Function::Txn, 0);
    for (key, value, _) in sends {
        history.send(*key, *value, Ack::None);
    }
    let index = history.push(process, status, Function::Txn, 0);
    for (key, value, offset) in sends {
        history.send(*key, *value, if *offset < 0 { Ack::None } else { Ack::At(*offset) });
    }
    index
}

fn poll(history: &mut History, status: Status, records: &[(i64, i64, i64)]) -> usize {
    history.push(9, Status::Invoke, Function::Poll, 0);
    history.poll_unanswered();
    let index = history.push(9, status, Function::Poll, 0);
    history.poll(records.iter().map(|(key, value, offset)| Polled {
        key: Atom::Int(*key),
        offset: Some(*offset),
        value: Atom::Int(*value),
    }));
    index
}

fn judge(history: &History) -> Verdict {
    strict(history, &FinalReads::new())
}

fn signature(history: &History) -> Vec<&'static str> {
    judge(history).signature().into_iter().collect()
}

#[test]
fn a_faultless_history_passes() {
    let mut history = History::default();
    txn(&mut history, 0, Status::Ok, &[(1, 1, 0), (2, 1, 0)]);
    txn(&mut history, 0, Status::Fail, &[(1, 2, 2), (2, 2, 2)]);
    txn(&mut history, 1, Status::Info, &[(1, 3, 4), (2, 3, -1)]);
    poll(&mut history, Status::Ok, &[(1, 1, 0), (1, 3, 4), (2, 1, 0), (2, 3, 4)]);
    assert!(judge(&history).is_valid(), "{:?}", judge(&history).explain(&history));
}

#[test]
fn a_transaction_with_one_half_visible_is_torn_whatever_its_client_was_told() {
    for status in [Status::Ok, Status::Fail, Status::Info] {
        let mut history = History::default();
        let torn = txn(&mut history, 0, status, &[(1, 1, 0), (2, 1, 0)]);
        txn(&mut history, 0, Status::Ok, &[(1, 2, 2), (2, 2, 2)]);
        poll(&mut history, Status::Ok, &[(1, 1, 0), (1, 2, 2), (2, 2, 2)]);
        let verdict = judge(&history);
        assert_eq!(verdict.torn_transactions.len(), 1);
        let found = &verdict.torn_transactions[0];
        assert_eq!((found.event, found.told), (torn, status));
        assert_eq!(found.visible, [(Atom::Int(1), Atom::Int(1))]);
        assert_eq!(found.hidden, [(Atom::Int(2), Atom::Int(1))]);
        assert!(verdict.explain(&history)[0].starts_with("torn-transaction: event 1: 1:1 visible, 2:1 not"));
    }
}

#[test]
fn a_record_that_nobody_read_past_may_still_come() {
    let mut history = History::default();
    txn(&mut history, 0, Status::Info, &[(1, 1, 0), (2, 1, 0)]);
    txn(&mut history, 0, Status::Ok, &[(1, 2, 2)]);
    poll(&mut history, Status::Ok, &[(1, 1, 0), (1, 2, 2)]);
    assert_eq!(signature(&history), [""; 0]);
    // Final reads of the whole partition say that it did not.
    let finals = FinalReads::from([
        (Atom::Int(1), BTreeSet::from([Atom::Int(1), Atom::Int(2)])),
        (Atom::Int(2), BTreeSet::new()),
    ]);
    assert_eq!(strict(&history, &finals).torn_transactions.len(), 1);
}

#[test]
fn a_send_without_an_answer_is_held_against_nobody() {
    let mut history = History::default();
    txn(&mut history, 0, Status::Info, &[(1, 1, 0), (2, 1, -1)]);
    txn(&mut history, 0, Status::Ok, &[(2, 2, 2)]);
    poll(&mut history, Status::Ok, &[(1, 1, 0), (2, 2, 2)]);
    assert_eq!(signature(&history), [""; 0]);
}

#[test]
fn a_value_seen_once_and_gone_at_the_end_is_torn_only_by_final_reads() {
    let mut history = History::default();
    txn(&mut history, 0, Status::Ok, &[(1, 1, 0), (2, 1, 0)]);
    poll(&mut history, Status::Ok, &[(1, 1, 0), (2, 1, 0)]);
    assert_eq!(signature(&history), [""; 0]);
    let finals =
        FinalReads::from([(Atom::Int(1), BTreeSet::from([Atom::Int(1)])), (Atom::Int(2), BTreeSet::new())]);
    assert_eq!(strict(&history, &finals).signature(), BTreeSet::from(["torn-transaction"]));
}

#[test]
fn an_aborted_read_needs_a_failed_writer_and_an_ok_reader() {
    for (writer, reader, expected) in [
        (Status::Fail, Status::Ok, &["G1a"][..]),
        (Status::Fail, Status::Info, &[]),
        (Status::Info, Status::Ok, &[]),
    ] {
        let mut history = History::default();
        let write = txn(&mut history, 0, writer, &[(1, 1, 0)]);
        let read = poll(&mut history, reader, &[(1, 1, 0)]);
        assert_eq!(signature(&history), expected);
        if let Some(found) = judge(&history).aborted_reads.first() {
            assert_eq!((found.writer, found.reader), (write, read));
        }
    }
}

#[test]
fn a_lost_write_was_read_past_and_an_unseen_one_perhaps_not() {
    let mut history = History::default();
    let lost = txn(&mut history, 0, Status::Ok, &[(1, 1, 0)]);
    txn(&mut history, 0, Status::Ok, &[(1, 2, 1)]);
    txn(&mut history, 0, Status::Ok, &[(1, 3, 2)]);
    let read = poll(&mut history, Status::Ok, &[(1, 2, 1)]);
    let verdict = judge(&history);
    assert_eq!(signature(&history), ["lost-write", "unseen"]);
    let found = verdict.lost_writes[0];
    assert_eq!((found.value, found.index, found.writer), (Atom::Int(1), 0, lost));
    assert_eq!((found.max_read_index, found.max_read), (1, read));
    assert_eq!(verdict.lost_writes.len(), 1);
    assert_eq!(verdict.unseen[0].values, [Atom::Int(1), Atom::Int(3)]);
}

#[test]
fn an_info_write_is_lost_only_if_its_transaction_is_proven() {
    for (proof, lost) in [(&[(2, 1, 0)][..], 1), (&NOWHERE[..], 0)] {
        let mut history = History::default();
        txn(&mut history, 0, Status::Info, &[(1, 1, 0), (2, 1, 0)]);
        txn(&mut history, 0, Status::Ok, &[(1, 2, 2)]);
        poll(&mut history, Status::Ok, &[(1, 2, 2)]);
        poll(&mut history, Status::Ok, proof);
        assert_eq!(judge(&history).lost_writes.len(), lost);
    }
}

#[test]
fn one_offset_holds_one_value_and_one_value_has_one_offset() {
    let mut history = History::default();
    txn(&mut history, 0, Status::Ok, &[(1, 1, 0)]);
    txn(&mut history, 0, Status::Ok, &[(1, 2, 0)]);
    poll(&mut history, Status::Ok, &[(1, 1, 0), (1, 2, 1)]);
    let verdict = judge(&history);
    assert_eq!(signature(&history), ["duplicate", "inconsistent-offsets"]);
    assert_eq!(verdict.duplicates[0].offsets, [0, 1]);
    assert_eq!(verdict.inconsistent_offsets[0].values, [Atom::Int(1), Atom::Int(2)]);
    let mut other_key = History::default();
    txn(&mut other_key, 0, Status::Ok, &[(1, 1, 0), (2, 2, 0)]);
    poll(&mut other_key, Status::Ok, &[(1, 1, 0), (2, 2, 0)]);
    assert_eq!(signature(&other_key), [""; 0]);
}

#[test]
fn a_history_that_could_not_fail_says_so() {
    let all = [Vacuity::NothingSent, Vacuity::NothingAcknowledged, Vacuity::NothingRead];
    assert_eq!(judge(&History::default()).vacuous, all);
    let mut history = History::default();
    txn(&mut history, 0, Status::Info, &[(1, 1, -1)]);
    poll(&mut history, Status::Ok, &[]);
    assert_eq!(judge(&history).vacuous, all[1..]);
    txn(&mut history, 0, Status::Ok, &[(1, 2, 0)]);
    poll(&mut history, Status::Fail, &[(1, 2, 0)]);
    assert_eq!(judge(&history).vacuous, all[2..]);
    poll(&mut history, Status::Ok, &[(1, 2, 0)]);
    assert!(judge(&history).is_valid());
}
