//! The tables of kafka.md 3.2 and 3.4, row by row.

use super::*;
use Phase::*;
use TransactionVersion::{V1, V2};

const PID: i64 = 7;

#[test]
fn what_is_idle_neither_runs_nor_ends() {
    let idle = Phase::ALL.into_iter().filter(|phase| phase.is_idle()).map(Phase::name);
    assert_eq!(idle.collect::<Vec<_>>(), ["Empty", "CompleteCommit", "CompleteAbort"]);
}

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
        assert_eq!(end(V1, Some(&state), PID, 2, true), commit, "commit in {phase:?}");
        assert_eq!(end(V1, Some(&state), PID, 2, false), abort, "abort in {phase:?}");
    }
}

#[test]
fn end_txn_is_for_the_current_producer_only() {
    for phase in Phase::ALL {
        let state = state(2, phase);
        for epoch in [1, 3] {
            let fenced = End::Refuse(ResponseError::ProducerFenced);
            assert_eq!(end(V1, Some(&state), PID, epoch, true), fenced, "epoch {epoch} in {phase:?}");
        }
        assert_eq!(end(V1, Some(&state), 8, 2, true), End::Refuse(ResponseError::InvalidProducerIdMapping));
    }
    assert_eq!(end(V1, None, PID, 2, true), End::Refuse(ResponseError::InvalidProducerIdMapping));
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
    let aborted = state(2, Ongoing).timed_out(V1).completed(false);
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
    let first = state(2, Empty).begun(None);
    let second = first.prepared(V1, true).completed(true).begun(None);
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
                admit(V1, outside, Some(&state), listed, PID, 2),
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
        for phase in Phase::ALL {
            let state = state(2, phase);
            for epoch in [1, 3] {
                let stale = Admission::Refuse(ResponseError::InvalidProducerEpoch);
                assert_eq!(
                    admit(V1, outside, Some(&state), true, PID, epoch),
                    stale,
                    "{outside:?} {phase:?}"
                );
            }
            let foreign = Admission::Refuse(ResponseError::InvalidProducerIdMapping);
            assert_eq!(admit(V1, outside, Some(&state), true, 8, 2), foreign);
            assert_eq!(admit(V1, outside, None, false, PID, 2), foreign);
        }
    }
    assert_eq!(
        admit(V1, Local, Some(&state(2, Ongoing)), false, PID, 1),
        Admission::Append,
        "the partition decides"
    );
}

/// The table of version 2 (kafka.md 3.4). Its rows for PrepareAbort and PrepareCommit are not reached: markers are out.
#[test]
fn end_txn_of_version_2_by_the_table() {
    let busy = || End::Refuse(ResponseError::ConcurrentTransactions);
    let fenced = || End::Refuse(ResponseError::ProducerFenced);
    let invalid = || End::Refuse(ResponseError::InvalidTxnState);
    let bumped = |phase| End::Decide(TxnState { last_epoch: 5, version: V2, ..state(6, phase) });
    let rows = [
        // phase, abort retry, abort current, commit retry, commit current
        (Empty, fenced(), bumped(PrepareAbort), fenced(), invalid()),
        (Ongoing, fenced(), bumped(PrepareAbort), fenced(), bumped(PrepareCommit)),
        (PrepareAbort, busy(), busy(), busy(), busy()),
        (PrepareCommit, busy(), busy(), busy(), busy()),
        (CompleteAbort, End::Already, bumped(PrepareAbort), invalid(), invalid()),
        (CompleteCommit, invalid(), bumped(PrepareAbort), End::Already, invalid()),
    ];
    for (phase, abort_retry, abort_current, commit_retry, commit_current) in rows {
        let state = state(5, phase);
        let end = |epoch, committed| end(V2, Some(&state), PID, epoch, committed);
        assert_eq!(end(4, false), abort_retry, "abort, retry, {phase:?}");
        assert_eq!(end(5, false), abort_current, "abort, current, {phase:?}");
        assert_eq!(end(4, true), commit_retry, "commit, retry, {phase:?}");
        assert_eq!(end(5, true), commit_current, "commit, current, {phase:?}");
        let settled = phase.prepared().is_none();
        for (epoch, committed) in [(3, true), (3, false), (6, true), (6, false)] {
            let expected = if settled { fenced() } else { busy() };
            assert_eq!(end(epoch, committed), expected, "epoch {epoch}, {phase:?}");
        }
        let foreign = super::end(V2, Some(&state), 8, 5, true);
        let unmapped = End::Refuse(ResponseError::InvalidProducerIdMapping);
        assert_eq!(foreign, if settled { unmapped } else { busy() }, "another producer id, {phase:?}");
    }
    assert_eq!(end(V2, None, PID, 5, true), End::Refuse(ResponseError::InvalidProducerIdMapping));
}

/// What the last epoch's end leaves behind, once the agent took producer id 9 for it.
fn rotated_by_end(committed: bool) -> TxnState {
    let End::Decide(mut prepared) = end(V2, Some(&state(32_766, Ongoing)), PID, 32_766, committed) else {
        panic!("decided")
    };
    assert!(prepared.wants_producer_id());
    assert_eq!((prepared.producer_id, prepared.epoch), (PID, i16::MAX), "the markers carry these");
    prepared.next_producer_id = 9;
    assert_eq!(prepared.held(), (9, 0), "the client is told these at once");
    prepared.completed(committed)
}

#[test]
fn the_last_epochs_end_rotates_the_producer_id_and_knows_its_retry() {
    for committed in [true, false] {
        let fresh = rotated_by_end(committed);
        let ids = (fresh.producer_id, fresh.epoch, fresh.last_producer_id, fresh.next_producer_id);
        assert_eq!(ids, (9, 0, PID, -1));
        assert_eq!((fresh.last_epoch, fresh.held()), (32_766, (9, 0)));
        assert_eq!(end(V2, Some(&fresh), PID, 32_766, committed), End::Already);
        let other_way = end(V2, Some(&fresh), PID, 32_766, !committed);
        assert_eq!(other_way, End::Refuse(ResponseError::InvalidTxnState));
        let unmapped = End::Refuse(ResponseError::InvalidProducerIdMapping);
        assert_eq!(end(V2, Some(&fresh), PID, 32_765, committed), unmapped);
        assert_eq!(end(V2, Some(&fresh.begun(None)), PID, 32_766, committed), fenced(), "its next has begun");
        assert_eq!(init(&fresh, Some((PID, 32_766)), 5), Init::Repeat);
    }
    let End::Decide(before) = end(V2, Some(&state(32_765, Ongoing)), PID, 32_765, true) else {
        panic!("decided")
    };
    assert!(!before.wants_producer_id());
    assert_eq!(before.completed(true).held(), (PID, 32_766), "the last epoch that is handed out");
}

fn fenced() -> End {
    End::Refuse(ResponseError::ProducerFenced)
}

#[test]
fn the_fences_epoch_is_never_handed_out() {
    let Init::Fence(fence) = init(&state(32_766, Ongoing), None, 5) else { panic!("fenced") };
    let aborted = fence.completed(false);
    assert_eq!((aborted.epoch, aborted.phase, fence.wants_producer_id()), (i16::MAX, CompleteAbort, false));
    for epoch in [32_766, i16::MAX] {
        assert_eq!(end(V2, Some(&aborted), PID, epoch, false), fenced(), "epoch {epoch}");
    }
}

#[test]
fn a_producer_of_version_2_recovers_from_a_time_out_by_its_abort() {
    let aborting = state(5, Ongoing).timed_out(V2);
    assert_eq!((aborting.epoch, aborting.last_epoch, aborting.phase), (6, 5, PrepareAbort), "once");
    let aborted = aborting.completed(false);
    assert_eq!(end(V2, Some(&aborted), PID, 5, false), End::Already);
    assert_eq!(aborted.held(), (PID, 6));
    assert_eq!(end(V2, Some(&aborted), PID, 5, true), End::Refuse(ResponseError::InvalidTxnState));
    assert_eq!(end(V1, Some(&aborted), PID, 5, false), fenced(), "a client of version 1 does not");
    assert_eq!(init(&aborted, Some((PID, 5)), 5), Init::Repeat);

    let mut last = state(32_766, Ongoing).timed_out(V2);
    assert!(last.wants_producer_id());
    last.next_producer_id = 9;
    let aborted = last.completed(false);
    assert_eq!(end(V2, Some(&aborted), PID, 32_766, false), End::Already);
    assert_eq!(aborted.held(), (9, 0));
}

#[test]
fn a_fence_bumps_once_in_either_version() {
    let ended = TxnState { version: V2, ..state(5, Ongoing) };
    for state in [state(5, Ongoing), ended] {
        let Init::Fence(fence) = init(&state, None, 5) else { panic!("fenced") };
        assert_eq!((fence.epoch, fence.last_epoch), (6, -1), "KAFKA-19367");
        let Init::Grant(granted) = init(&fence.completed(false), None, 5) else { panic!("granted") };
        assert_eq!(granted.epoch, 7);
    }
}

#[test]
fn a_batch_of_version_2_joins_whatever_the_outside_setting() {
    use Outside::{Implicit, Local, Verify};
    let busy = Admission::Refuse(ResponseError::ConcurrentTransactions);
    let join = |begin| Admission::Join { begin };
    let rows = [
        (Empty, false, join(true)),
        (Ongoing, false, join(false)),
        (Ongoing, true, Admission::Append),
        (PrepareCommit, true, busy),
        (PrepareAbort, false, busy),
        (CompleteCommit, false, join(true)),
        (CompleteAbort, true, join(true)),
    ];
    for (phase, listed, expected) in rows {
        for outside in [Implicit, Local, Verify] {
            let state = state(2, phase);
            assert_eq!(admit(V2, outside, Some(&state), listed, PID, 2), expected, "{outside:?} {phase:?}");
            let stale = admit(V2, outside, Some(&state), listed, PID, 1);
            let foreign = admit(V2, outside, Some(&state), listed, 8, 0);
            let refused = if expected == busy {
                (busy, busy)
            } else {
                let refuse = Admission::Refuse;
                (refuse(ResponseError::InvalidProducerEpoch), refuse(ResponseError::InvalidProducerIdMapping))
            };
            assert_eq!((stale, foreign), refused, "{outside:?} {phase:?}");
        }
    }
}

/// A commit whose answer is lost, then the next transaction: the late copy meets a newer epoch (KAFKA-17754).
#[test]
fn a_late_end_of_version_2_does_nothing_to_the_next_transaction() {
    let first = state(5, Ongoing);
    let End::Decide(prepared) = end(V2, Some(&first), PID, 5, true) else { panic!("decided") };
    let next = prepared.completed(true).begun(None);
    for committed in [true, false] {
        assert_eq!(end(V2, Some(&next), PID, 5, committed), fenced());
    }
}
