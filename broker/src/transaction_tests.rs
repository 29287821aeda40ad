//! The tables of kafka.md 3.2 and 3.4, row by row.

use super::*;
use Phase::*;

const PID: i64 = 7;
const PHASES: [Phase; 6] = [Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort];

fn state(epoch: i16, phase: Phase) -> TxnState {
    TxnState { epoch, phase, ..TxnState::first(PID, 60_000) }
}

#[test]
fn end_txn_by_the_table() {
    let busy = End::Refuse(ResponseError::ConcurrentTransactions);
    let invalid = End::Refuse(ResponseError::InvalidTxnState);
    let rows = [
        (Empty, invalid.clone(), invalid.clone()),
        (Ongoing, End::Decide(state(2, PrepareCommit)), End::Decide(state(2, PrepareAbort))),
        (PrepareCommit, busy.clone(), invalid.clone()),
        (PrepareAbort, invalid.clone(), busy),
        (CompleteCommit, End::Already, invalid.clone()),
        (CompleteAbort, invalid, End::Already),
    ];
    for (phase, commit, abort) in rows {
        let state = state(2, phase);
        assert_eq!(end(Some(&state), PID, 2, true), commit, "commit in {phase:?}");
        assert_eq!(end(Some(&state), PID, 2, false), abort, "abort in {phase:?}");
    }
}

#[test]
fn end_txn_is_for_the_current_producer_only() {
    for phase in PHASES {
        let state = state(2, phase);
        for epoch in [1, 3] {
            let fenced = End::Refuse(ResponseError::ProducerFenced);
            assert_eq!(end(Some(&state), PID, epoch, true), fenced, "epoch {epoch} in {phase:?}");
        }
        assert_eq!(end(Some(&state), 8, 2, true), End::Refuse(ResponseError::InvalidProducerIdMapping));
    }
    assert_eq!(end(None, PID, 2, true), End::Refuse(ResponseError::InvalidProducerIdMapping));
}

#[test]
fn init_without_an_epoch_always_bumps() {
    for phase in [Empty, CompleteCommit, CompleteAbort] {
        let granted = TxnState { timeout_ms: 5, ..state(3, Empty) };
        assert_eq!(init(&state(2, phase), None, 5), Init::Grant(granted), "{phase:?}");
    }
    for phase in [PrepareCommit, PrepareAbort] {
        assert_eq!(init(&state(2, phase), None, 5), Init::Refuse(ResponseError::ConcurrentTransactions));
    }
    assert_eq!(init(&state(2, Ongoing), None, 5), Init::Fence(state(3, PrepareAbort)));
}

#[test]
fn init_with_an_epoch_bumps_once_and_recognises_its_repeat() {
    let Init::Grant(bumped) = init(&state(2, CompleteCommit), Some((PID, 2)), 5) else { panic!("granted") };
    assert_eq!((bumped.epoch, bumped.last_epoch, bumped.phase), (3, 2, Empty));
    assert_eq!(init(&bumped, Some((PID, 2)), 5), Init::Repeat);
    let again = init(&bumped, Some((PID, 3)), 5);
    assert!(matches!(again, Init::Grant(state) if (state.epoch, state.last_epoch) == (4, 3)));
    for stale in [0, 1, 4] {
        assert_eq!(
            init(&bumped, Some((PID, stale)), 5),
            Init::Refuse(ResponseError::ProducerFenced),
            "{stale}"
        );
    }
    assert_eq!(init(&bumped, Some((8, 3)), 5), Init::Refuse(ResponseError::ProducerFenced));
}

#[test]
fn a_bump_by_somebody_else_fences() {
    let Init::Grant(taken) = init(&state(2, Empty), None, 5) else { panic!("granted") };
    assert_eq!(init(&taken, Some((PID, 2)), 5), Init::Refuse(ResponseError::ProducerFenced));
    let aborted = state(2, Ongoing).timed_out().completed(false);
    assert_eq!((aborted.epoch, aborted.phase), (3, CompleteAbort));
    assert_eq!(init(&aborted, Some((PID, 2)), 5), Init::Refuse(ResponseError::ProducerFenced));
}

/// The strict client's rule: a client that bumps while its transaction is Ongoing ends at one new epoch, not fenced.
#[test]
fn the_epoch_is_checked_and_remembered_while_ongoing() {
    let ongoing = state(2, Ongoing);
    assert_eq!(init(&ongoing, Some((PID, 1)), 5), Init::Refuse(ResponseError::ProducerFenced));
    let Init::Fence(fenced) = init(&ongoing, Some((PID, 2)), 5) else { panic!("fenced") };
    assert_eq!((fenced.epoch, fenced.last_epoch, fenced.phase), (3, 2, PrepareAbort));
    assert_eq!(init(&fenced, Some((PID, 2)), 5), Init::Refuse(ResponseError::ConcurrentTransactions));
    assert_eq!(init(&fenced.completed(false), Some((PID, 2)), 5), Init::Repeat);
}

#[test]
fn the_last_epoch_rotates_the_producer_id() {
    let last = state(32_766, CompleteCommit);
    assert_eq!(init(&last, None, 5), Init::Rotate { last_epoch: -1 });
    assert_eq!(init(&last, Some((PID, 32_766)), 5), Init::Rotate { last_epoch: 32_766 });
    let fresh = rotated(&last, 9, 32_766, 5);
    assert_eq!((fresh.producer_id, fresh.epoch, fresh.last_producer_id), (9, 0, PID));
    assert_eq!(init(&fresh, Some((PID, 32_766)), 5), Init::Repeat);
    assert_eq!(init(&fresh, Some((PID, 32_765)), 5), Init::Refuse(ResponseError::ProducerFenced));

    let Init::Fence(fence) = init(&state(32_766, Ongoing), Some((PID, 32_766)), 5) else { panic!("fenced") };
    assert_eq!(fence.epoch, i16::MAX);
    let repeat = init(&fence.completed(false), Some((PID, 32_766)), 5);
    assert_eq!(repeat, Init::Rotate { last_epoch: 32_766 }, "no client is ever given the fence's epoch");
}

#[test]
fn one_epochs_transactions_look_alike() {
    let first = state(2, Empty).begun();
    let second = first.prepared(true).completed(true).begun();
    assert_eq!(first, second, "or the defect state-compare could not tell the story it is there to tell");
}

#[test]
fn state_compare_forgets_the_revision() {
    let (key, value) = (Bytes::from_static(b"k"), Bytes::from_static(b"v"));
    let sound = prepare_guard(&Defects::default(), key.clone(), 9, value.clone());
    assert_eq!(sound, Compare::unchanged(key.clone(), 9));
    let defects = Defects { state_compare: true, ..Defects::default() };
    assert_eq!(prepare_guard(&defects, key.clone(), 9, value.clone()), Compare::value(key, value));
}

#[test]
fn a_batch_is_admitted_by_the_outside_setting() {
    use Outside::{Implicit, Local, Verify};
    let refuse = Admission::Refuse;
    let busy = refuse(ResponseError::ConcurrentTransactions);
    let join = |begin| Admission::Join { begin };
    let unverified = refuse(ResponseError::TransactionAbortable);
    let rows = [
        // phase, listed, implicit, local, verify
        (Empty, false, join(true), Admission::Append, unverified),
        (Ongoing, false, join(false), Admission::Append, unverified),
        (Ongoing, true, Admission::Append, Admission::Append, Admission::Append),
        (PrepareCommit, true, busy, busy, busy),
        (PrepareAbort, true, busy, busy, busy),
        (PrepareAbort, false, busy, busy, busy),
        (CompleteCommit, false, join(true), Admission::Append, unverified),
        (CompleteAbort, false, join(true), Admission::Append, unverified),
    ];
    for (phase, listed, implicit, local, verify) in rows {
        let state = state(2, phase);
        for (outside, expected) in [(Implicit, implicit), (Local, local), (Verify, verify)] {
            assert_eq!(
                admit(outside, Some(&state), listed, PID, 2),
                expected,
                "{outside:?} {phase:?} {listed}"
            );
        }
    }
}

#[test]
fn a_batch_of_another_producer_or_epoch_is_not_admitted() {
    use Outside::{Implicit, Local, Verify};
    for outside in [Implicit, Verify] {
        for phase in PHASES {
            let state = state(2, phase);
            for epoch in [1, 3] {
                let stale = Admission::Refuse(ResponseError::InvalidProducerEpoch);
                assert_eq!(admit(outside, Some(&state), true, PID, epoch), stale, "{outside:?} {phase:?}");
            }
            let foreign = Admission::Refuse(ResponseError::InvalidProducerIdMapping);
            assert_eq!(admit(outside, Some(&state), true, 8, 2), foreign);
            assert_eq!(admit(outside, None, false, PID, 2), foreign);
        }
    }
    assert_eq!(
        admit(Local, Some(&state(2, Ongoing)), false, PID, 1),
        Admission::Append,
        "the partition decides"
    );
}
