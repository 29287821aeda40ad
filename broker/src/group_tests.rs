//! Tables of `group`.

use super::*;
use Outside::{Implicit, Local, Verify};
use Phase::{CompleteAbort, CompleteCommit, Empty, Ongoing, PrepareAbort, PrepareCommit};

const PID: i64 = 7;

fn state(epoch: i16, phase: Phase) -> TxnState {
    TxnState { epoch, phase, ..TxnState::first(PID, 60_000) }
}

#[test]
fn metadata_is_counted_as_java_counts() {
    assert!(fits(""));
    assert!(fits(&"x".repeat(4_096)));
    assert!(!fits(&"x".repeat(4_097)));
    assert!(fits(&"ü".repeat(4_096)), "two bytes, one unit");
    assert!(!fits(&"\u{1f30a}".repeat(2_049)), "four bytes, two units");
}

#[test]
fn only_who_claims_no_generation_commits_to_a_group_without_members() {
    let group = GroupHead::default();
    let told = |group, generation| may_commit(group, generation).map_err(|error| error.code());
    assert_eq!(told(None, -1), Ok(()));
    assert_eq!(told(Some(&group), -1), Ok(()));
    assert_eq!(told(None, 0), Err(22));
    assert_eq!(told(Some(&group), 0), Err(25));
    assert_eq!(told(Some(&group), 5), Err(25));
}

#[test]
fn version_9_is_told_that_there_is_no_group() {
    assert_eq!(commit_error(ResponseError::IllegalGeneration, 8).code(), 22);
    assert_eq!(commit_error(ResponseError::IllegalGeneration, 9).code(), 69);
    assert_eq!(commit_error(ResponseError::UnknownMemberId, 9).code(), 25);
}

#[test]
fn a_transactions_offsets_count_from_when_they_were_sent() {
    let offset = |pending_revision| CommittedOffset {
        offset: 3,
        leader_epoch: -1,
        metadata: String::new(),
        committed_ms: 0,
        topic_revision: 2,
        pending_revision,
    };
    assert_eq!(offset(0).order(9), 9);
    assert_eq!(offset(5).order(9), 5);
}

#[test]
fn offsets_are_admitted_by_the_outside_setting_and_the_version() {
    let refuse = Admission::Refuse;
    let busy = refuse(ResponseError::ConcurrentTransactions);
    let unverified = refuse(ResponseError::TransactionAbortable);
    let join = |begin| Admission::Join { begin };
    let rows = [
        // phase, listed, implicit, local, verify, any setting with version 5
        (Empty, false, Admission::Append, Admission::Append, unverified, join(true)),
        (Ongoing, false, Admission::Append, Admission::Append, unverified, join(false)),
        (Ongoing, true, Admission::Append, Admission::Append, Admission::Append, Admission::Append),
        (PrepareCommit, true, busy, busy, busy, busy),
        (PrepareCommit, false, busy, busy, busy, busy),
        (PrepareAbort, true, busy, busy, busy, busy),
        (CompleteCommit, false, Admission::Append, Admission::Append, unverified, join(true)),
        (CompleteAbort, false, Admission::Append, Admission::Append, unverified, join(true)),
    ];
    for (phase, listed, implicit, local, verify, joining) in rows {
        let state = state(2, phase);
        for (outside, expected) in [(Implicit, implicit), (Local, local), (Verify, verify)] {
            let plain = admit(outside, false, Some(&state), listed, PID, 2);
            assert_eq!(plain, expected, "{outside:?} {phase:?} {listed}");
            let implied = admit(outside, true, Some(&state), listed, PID, 2);
            assert_eq!(implied, joining, "{outside:?} {phase:?} {listed}, version 5");
        }
    }
}

#[test]
fn offsets_of_another_epoch_or_producer_are_refused_by_every_setting() {
    for outside in [Implicit, Local, Verify] {
        for joins in [false, true] {
            let state = state(2, Ongoing);
            let told =
                |producer_id, epoch| match admit(outside, joins, Some(&state), true, producer_id, epoch) {
                    Admission::Refuse(error) => error.code(),
                    _ => 0,
                };
            assert_eq!((told(PID, 1), told(PID, 3), told(8, 2)), (47, 47, 49));
            let unknown = Admission::Refuse(ResponseError::InvalidProducerIdMapping);
            assert_eq!(admit(outside, joins, None, false, PID, 2), unknown);
        }
    }
}
