//! Tables of `group`.

use super::*;
use crate::group::{ConsumerMember, Member};
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

/// A group of generation 3 in `phase`, with the members `a` and, under the instance id `i`, `s`; without any if Empty.
fn group_in(phase: GroupPhase) -> GroupState {
    let member = |instance_id: Option<&str>| Member {
        instance_id: instance_id.map(str::to_string),
        client_id: String::new(),
        client_host: String::new(),
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: 60_000,
        protocols: Vec::new(),
        assignment: bytes::Bytes::new(),
        joining: false,
        is_new: false,
        synced: true,
    };
    let members = [("a".to_string(), member(None)), ("s".to_string(), member(Some("i")))];
    let members = members.into_iter().filter(|_| phase != GroupPhase::Empty).collect();
    GroupState::Classic(ClassicGroup { phase, generation: 3, members, ..ClassicGroup::default() })
}

const NOTHING: Claim<'_> =
    Claim { generation: -1, member_id: "", instance_id: None, transactional: false, version: 9 };
const A: Claim<'_> = Claim { generation: 3, member_id: "a", ..NOTHING };

fn told(state: Option<&GroupState>, claim: Claim<'_>) -> i16 {
    let head = GroupHead::default();
    may_commit(Some(&head), state, &claim, std::iter::once(([9; 16], 0)))
        .map_or_else(|error| error.code(), |()| 0)
}

#[test]
fn a_group_that_is_not_there_is_made_by_who_claims_nothing() {
    let told =
        |claim| may_commit(None, None, &claim, std::iter::empty()).map_or_else(|error| error.code(), |()| 0);
    assert_eq!((told(NOTHING), told(Claim { member_id: "a", ..NOTHING })), (0, 0));
    assert_eq!((told(A), told(Claim { generation: 0, ..NOTHING })), (69, 69));
}

#[test]
fn a_group_without_members_takes_commits_of_who_claims_no_generation() {
    for state in [None, Some(group_in(GroupPhase::Empty))] {
        let told = |claim| told(state.as_ref(), claim);
        assert_eq!((told(NOTHING), told(Claim { member_id: "a", ..NOTHING })), (0, 0));
        assert_eq!((told(A), told(Claim { generation: 0, ..NOTHING })), (25, 25));
    }
}

#[test]
fn only_members_of_the_generation_commit() {
    let state = group_in(GroupPhase::Stable);
    let told = |claim| told(Some(&state), claim);
    assert_eq!(told(A), 0);
    assert_eq!((told(Claim { generation: 2, ..A }), told(Claim { generation: 4, ..A })), (22, 22));
    assert_eq!((told(Claim { member_id: "x", ..A }), told(Claim { member_id: "", ..A })), (25, 25));
    assert_eq!((told(NOTHING), told(Claim { member_id: "a", ..NOTHING })), (25, 22));
    let s = Claim { member_id: "s", instance_id: Some("i"), ..A };
    assert_eq!((told(s), told(Claim { member_id: "a", ..s })), (0, 82), "another has the instance id");
    assert_eq!(told(Claim { instance_id: Some("x"), ..s }), 25);
}

#[test]
fn a_generation_that_is_being_made_commits_what_the_last_one_read_until_its_members_are_known() {
    assert_eq!(told(Some(&group_in(GroupPhase::PreparingRebalance)), A), 0);
    assert_eq!(told(Some(&group_in(GroupPhase::CompletingRebalance)), A), 27);
    assert_eq!(told(Some(&group_in(GroupPhase::CompletingRebalance)), Claim { generation: 2, ..A }), 22);
}

#[test]
fn transactions_that_claim_nothing_commit_always_and_the_others_as_members_do() {
    let transactional = |claim| Claim { transactional: true, ..claim };
    for phase in [GroupPhase::Empty, GroupPhase::CompletingRebalance, GroupPhase::Stable] {
        assert_eq!(told(Some(&group_in(phase)), transactional(NOTHING)), 0, "{phase:?}");
    }
    let stable = group_in(GroupPhase::Stable);
    assert_eq!(told(Some(&stable), transactional(A)), 0);
    assert_eq!(told(Some(&stable), transactional(Claim { generation: 2, ..A })), 22);
    assert_eq!(told(Some(&stable), transactional(Claim { member_id: "x", ..A })), 25);
    assert_eq!(told(Some(&group_in(GroupPhase::CompletingRebalance)), transactional(A)), 0);
}

#[test]
fn members_of_the_consumer_protocol_commit_and_fetch_in_their_epoch() {
    let group = |epochs: &[(&str, i32)]| {
        let member = |(id, epoch): &(&str, i32)| {
            (id.to_string(), ConsumerMember { epoch: *epoch, ..ConsumerMember::default() })
        };
        GroupState::Consumer(ConsumerGroup {
            members: epochs.iter().map(member).collect(),
            ..ConsumerGroup::default()
        })
    };
    let (empty, state) = (group(&[]), group(&[("a", 3)]));
    assert_eq!((told(Some(&empty), NOTHING), told(Some(&empty), A)), (0, 25));
    let told = |claim| told(Some(&state), claim);
    assert_eq!((told(A), told(NOTHING)), (0, 25));
    assert_eq!((told(Claim { generation: 2, ..A }), told(Claim { generation: 4, ..A })), (113, 113));
    assert_eq!(told(Claim { version: 8, ..A }), 35, "it cannot tell an epoch from a generation");
    let transactional = |claim| Claim { transactional: true, version: 3, ..claim };
    assert_eq!((told(transactional(A)), told(transactional(NOTHING))), (0, 0));
    assert_eq!(told(transactional(Claim { generation: 2, ..A })), 22);
    let fetch = |member_id, epoch| may_fetch(Some(&state), member_id, epoch).map_err(|error| error.code());
    assert_eq!((fetch(None, -1), fetch(Some(""), -1), fetch(Some("a"), 3)), (Ok(()), Ok(()), Ok(())));
    assert_eq!((fetch(Some("a"), 2), fetch(Some("b"), 3)), (Err(113), Err(25)));
    assert_eq!(may_fetch(Some(&group_in(GroupPhase::Stable)), Some("x"), 9), Ok(()));
}

/// KIP-1251: `a` is in epoch 5, and has had partition 0 since epoch 3 and partition 1 since epoch 5.
#[test]
fn a_member_commits_in_an_earlier_epoch_what_it_has_had_since_then() {
    let topic = [1; 16];
    let member = ConsumerMember {
        epoch: 5,
        since: BTreeMap::from([(topic, BTreeMap::from([(0, 3), (1, 5)]))]),
        ..ConsumerMember::default()
    };
    let members = BTreeMap::from([("a".to_string(), member)]);
    let state = GroupState::Consumer(ConsumerGroup { members, ..ConsumerGroup::default() });
    let told = |claim: Claim<'_>, generation, partitions: &[i32]| {
        let partitions = partitions.iter().map(|partition| (topic, *partition));
        let claim = Claim { generation, ..claim };
        may_commit(Some(&GroupHead::default()), Some(&state), &claim, partitions)
            .map_or_else(|error| error.code(), |()| 0)
    };
    assert_eq!((told(A, 5, &[0, 1]), told(A, 4, &[0]), told(A, 3, &[0])), (0, 0, 0));
    assert_eq!((told(A, 2, &[0]), told(A, 4, &[1]), told(A, 4, &[0, 1])), (113, 113, 113));
    assert_eq!(
        (told(A, 4, &[2]), told(A, 6, &[0]), told(A, -1, &[0])),
        (113, 113, 113),
        "not its, not yet, none"
    );
    let transactional = Claim { transactional: true, version: 3, ..A };
    assert_eq!((told(transactional, 4, &[0]), told(transactional, 4, &[1])), (0, 22));
    assert_eq!(told(Claim { version: 8, ..A }, 4, &[0]), 35);
}

#[test]
fn version_9_is_told_that_there_is_no_group() {
    assert_eq!(commit_error(ResponseError::GroupIdNotFound, 8).code(), 22);
    assert_eq!(commit_error(ResponseError::GroupIdNotFound, 9).code(), 69);
    assert_eq!(commit_error(ResponseError::IllegalGeneration, 9).code(), 22);
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
        expires_ms: None,
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
