//! Histories made by hand: for each family one that must fail and one, as near to it as can be, that must pass.

use check::strict::vacuity::Vacuity;
use check::{Ack, Atom, FinalReads, Function, History, Polled, Status, Verdict, strict};
use proptest::prelude::*;
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

/// A transaction of the model: what its client was told, whether it is visible, and the keys it writes to.
type Model = (Status, bool, Vec<i64>);

fn model() -> impl Strategy<Value = Vec<Model>> {
    let outcome = prop_oneof![
        Just((Status::Ok, true)),
        Just((Status::Fail, false)),
        Just((Status::Info, true)),
        Just((Status::Info, false)),
    ];
    let txn = (outcome, prop::collection::vec(0..3i64, 1..5))
        .prop_map(|((status, visible), keys)| (status, visible, keys));
    prop::collection::vec(txn, 1..12)
}

/// Writes the model's history, and reads all visible records but those of `lose` (transaction, place) at the end.
fn play(model: &[Model], lose: Option<(usize, usize)>) -> Verdict {
    let mut history = History::default();
    let mut next = [0; 3];
    let mut seen = Vec::new();
    let mut finals: FinalReads = (0..3).map(|key| (Atom::Int(key), BTreeSet::new())).collect();
    for (number, (status, visible, keys)) in model.iter().enumerate() {
        let mut sends = Vec::new();
        for (place, key) in keys.iter().enumerate() {
            let value = (number * 10 + place) as i64;
            sends.push((*key, value, next[*key as usize]));
            next[*key as usize] += 1;
            if *visible && lose != Some((number, place)) {
                seen.push((*key, value, next[*key as usize] - 1));
                finals.get_mut(&Atom::Int(*key)).unwrap().insert(Atom::Int(value));
            }
        }
        txn(&mut history, 0, *status, &sends);
    }
    poll(&mut history, Status::Ok, &seen);
    strict(&history, &finals)
}

proptest! {
    /// Transactions that are visible as a whole or not at all, as their clients were told, raise no alarm.
    #[test]
    fn atomic_transactions_raise_no_alarm(model in model()) {
        prop_assert_eq!(play(&model, None).signature(), BTreeSet::new());
    }

    /// One record missing from a visible transaction of two or more tears it, and nothing else.
    #[test]
    fn one_missing_record_tears_exactly_its_transaction(model in model(), pick in any::<prop::sample::Index>()) {
        let candidates: Vec<usize> =
            (0..model.len()).filter(|number| model[*number].1 && model[*number].2.len() > 1).collect();
        prop_assume!(!candidates.is_empty());
        let number = candidates[pick.index(candidates.len())];
        let verdict = play(&model, Some((number, pick.index(model[number].2.len()))));
        let torn: Vec<usize> = verdict.torn_transactions.iter().map(|torn| torn.event).collect();
        prop_assert_eq!(torn, vec![number * 2 + 1]);
    }
}
