//! Rule by rule: kafka.md 1.7 and 6, `AbstractCoordinator`, `ConsumerCoordinator` of Java's client.

use super::*;
use crate::codes::*;
use crate::group::membership::Rebalance::{Join, Joining, Sync, Synced, Syncing};

fn at(ms: u64) -> Instant {
    Instant::from_nanos(0) + Duration::from_millis(ms)
}

/// `jepsen`: heartbeats every 300 ms, sessions of 6 s, retries after 100 ms, polls within 300 s.
fn unjoined() -> Membership {
    let mut membership = Membership::new(&ConsumerConfig::jepsen(), at(0));
    membership.found_coordinator(7, at(0));
    membership
}

fn generation(id: i32, member_id: &str, protocol: Option<&str>) -> Generation {
    Generation { id, member_id: member_id.into(), protocol: protocol.map(str::to_string) }
}

fn third() -> Generation {
    generation(3, "m-1", Some("range"))
}

fn answer(leads: bool) -> Result<JoinAnswer, i16> {
    Ok(JoinAnswer { generation: third(), leads, skip_assignment: false })
}

fn assigned() -> BTreeSet<TopicPartition> {
    [TopicPartition::new("t", 0)].into()
}

/// Sends the join that the application asked for, as the member that it is.
fn joining(mut membership: Membership) -> (Membership, Generation) {
    membership.prepared = true;
    assert_eq!(membership.join(at(0)), None);
    assert_eq!(membership.state, State::PreparingRebalance);
    let (call, sent) = membership.next(at(0)).unwrap();
    assert_eq!((call, &membership.rebalance), (Call::Join, &Joining));
    (membership, sent)
}

fn syncing() -> (Membership, Generation) {
    let (mut membership, sent) = joining(unjoined());
    membership.joined(&sent, answer(false), at(1_000));
    let (call, sent) = membership.next(at(1_000)).unwrap();
    assert_eq!((call, &membership.rebalance), (Call::Sync(vec![]), &Syncing));
    (membership, sent)
}

/// In generation 3 since 1 s.
fn stable() -> Membership {
    let (mut membership, sent) = syncing();
    membership.synced(&sent, Ok((assigned(), Some("range".into()))), at(1_000));
    assert_eq!(membership.rebalance, Synced(assigned()));
    assert_eq!(membership.complete(), Some(assigned()));
    membership
}

#[test]
fn a_first_join_is_refused_with_an_id_under_which_it_joins() {
    let (mut membership, sent) = joining(unjoined());
    assert_eq!(sent, Generation::NONE);
    membership.take_member_id("m-1".into(), at(5));
    // MEMBER_ID_REQUIRED: at once, and without giving anything up again.
    assert!(membership.must_rejoin() && membership.prepared);
    assert_eq!(membership.join(at(5)), None);
    assert_eq!(membership.next(at(5)), Some((Call::Join, generation(-1, "m-1", None))));
}

#[test]
fn a_follower_syncs_and_is_stable() {
    let membership = stable();
    assert_eq!((membership.state, &membership.generation), (State::Stable, &third()));
    assert!(!membership.must_rejoin() && !membership.prepared);
    assert_eq!(membership.stable_generation(), Some(&third()));
}

#[test]
fn a_leader_assigns_first_unless_the_group_goes_on_as_it_is() {
    let (mut membership, sent) = joining(unjoined());
    membership.joined(&sent, answer(true), at(0));
    assert_eq!(membership.rebalance, Rebalance::Assign);
    assert_eq!(membership.next(at(0)), None);
    // KIP-814: a static leader that came back.
    let (mut membership, sent) = joining(unjoined());
    let skip = JoinAnswer { generation: third(), leads: true, skip_assignment: true };
    membership.joined(&sent, Ok(skip), at(0));
    assert_eq!((&membership.rebalance, membership.leads), (&Sync(vec![]), true));
}

#[test]
fn nothing_is_committed_between_join_and_sync() {
    let (membership, _) = syncing();
    assert_eq!(membership.stable_generation(), None);
    assert!(membership.is_rebalancing());
}

#[test]
fn joins_that_fail_are_tried_again_at_once_or_after_the_backoff_or_never() {
    for (code, retry_at, coordinator) in [
        (UNKNOWN_MEMBER_ID, Some(0), Some(7)),
        (REBALANCE_IN_PROGRESS, Some(0), Some(7)),
        (COORDINATOR_LOAD_IN_PROGRESS, Some(100), Some(7)),
        (NOT_COORDINATOR, Some(100), None),
        (COORDINATOR_NOT_AVAILABLE, Some(100), None),
        (FENCED_INSTANCE_ID, None, Some(7)),
        (INCONSISTENT_GROUP_PROTOCOL, None, Some(7)),
        (GROUP_AUTHORIZATION_FAILED, None, Some(7)),
        // INVALID_SESSION_TIMEOUT, GROUP_MAX_SIZE_REACHED
        (26, None, Some(7)),
        (81, None, Some(7)),
    ] {
        let (mut membership, sent) = joining(unjoined());
        membership.joined(&sent, Err(code), at(0));
        assert_eq!(membership.coordinator, coordinator, "{code}");
        assert_eq!(membership.failure.is_none(), retry_at.is_some(), "{code}");
        if let Some(retry_ms) = retry_at {
            membership.found_coordinator(7, at(0));
            let waits = (retry_ms > 0).then(|| at(retry_ms));
            assert_eq!(membership.join(at(0)), waits, "{code}");
            assert_eq!(membership.join(at(retry_ms)), None);
            assert_eq!(membership.rebalance, Join);
        }
    }
}

#[test]
fn a_member_that_is_unknown_forgets_its_id_and_one_of_another_generation_keeps_it() {
    for (code, id) in [(UNKNOWN_MEMBER_ID, ""), (ILLEGAL_GENERATION, "m-1")] {
        let mut membership = stable();
        membership.beaten(&third(), code, at(2_000));
        assert_eq!((membership.state, &membership.generation), (State::Unjoined, &generation(-1, id, None)));
        assert!(membership.must_rejoin() && !membership.prepared, "what it had is lost first");
        let (mut membership, sent) = syncing();
        membership.synced(&sent, Err(code), at(1_000));
        assert_eq!(membership.generation, generation(-1, id, None));
        assert!(membership.must_rejoin() && !membership.prepared);
    }
}

#[test]
fn a_heartbeat_brings_the_word_of_a_rebalance_and_the_member_stays() {
    let mut membership = stable();
    membership.beaten(&third(), REBALANCE_IN_PROGRESS, at(2_000));
    assert!(membership.must_rejoin());
    assert_eq!(membership.stable_generation(), Some(&third()), "it may still commit");
    // While it is joining, it is no news.
    let (mut membership, sent) = syncing();
    membership.beaten(&sent, REBALANCE_IN_PROGRESS, at(2_000));
    assert_eq!(membership.rebalance, Syncing);
}

#[test]
fn a_late_refusal_of_an_older_generation_is_ignored() {
    let mut membership = stable();
    membership.beaten(&generation(2, "m-1", Some("range")), ILLEGAL_GENERATION, at(2_000));
    assert_eq!(membership.stable_generation(), Some(&third()));
}

#[test]
fn a_fenced_static_member_is_done_for() {
    let mut membership = stable();
    membership.beaten(&third(), FENCED_INSTANCE_ID, at(2_000));
    assert_eq!(membership.failure, Some(Error::Kafka(82)));
    assert_eq!(membership.next(at(60_000)), None, "it sends no heartbeats");
}

#[test]
fn heartbeats_begin_when_the_join_is_answered() {
    let (mut membership, sent) = joining(unjoined());
    assert_eq!(membership.next(at(60_000)), None);
    membership.joined(&sent, answer(false), at(60_000));
    assert!(matches!(membership.next(at(60_000)), Some((Call::Sync(_), _))));
    assert_eq!(membership.next(at(60_299)), None);
    assert_eq!(membership.next(at(60_300)), Some((Call::Heartbeat, third())));
}

#[test]
fn a_coordinator_that_does_not_answer_for_a_session_is_looked_up_again() {
    let mut membership = stable();
    membership.tick(at(6_999));
    assert_eq!(membership.coordinator, Some(7));
    membership.tick(at(7_000));
    assert_eq!((membership.coordinator, membership.hang_up), (None, Some(7)));
    assert_eq!(
        membership.stable_generation(),
        Some(&third()),
        "it is in the group until it is told otherwise"
    );
}

#[test]
fn an_application_that_does_not_poll_leaves_the_group() {
    let mut membership = stable();
    membership.polled(at(2_000));
    for second in 2..302 {
        membership.beaten(&third(), NONE, at(second * 1_000));
    }
    membership.tick(at(301_999));
    assert_eq!(membership.state, State::Stable);
    membership.tick(at(302_000));
    assert_eq!((membership.state, &membership.generation), (State::Unjoined, &Generation::NONE));
    assert_eq!(membership.next(at(302_000)), Some((Call::Leave, third())));
    assert!(membership.must_rejoin() && !membership.prepared);
}

#[test]
fn a_static_member_never_says_that_it_leaves() {
    let config = ConsumerConfig { group_instance_id: Some("i".into()), ..ConsumerConfig::jepsen() };
    let mut membership = Membership { is_static: Membership::new(&config, at(0)).is_static, ..stable() };
    membership.leave();
    assert!(!membership.is_leaving());
    assert_eq!(membership.state, State::Unjoined);
}

#[test]
fn who_is_in_no_group_has_nothing_to_leave() {
    let mut membership = unjoined();
    membership.leave();
    assert!(!membership.is_leaving());
    let mut membership = stable();
    membership.lose_coordinator(false);
    membership.leave();
    assert!(!membership.is_leaving(), "nobody is there to be told");
}

#[test]
fn a_connection_that_ends_is_a_coordinator_to_be_looked_up_and_a_join_to_be_repeated() {
    let (mut membership, _) = joining(unjoined());
    membership.lost(&Call::Join, at(0));
    assert_eq!((membership.coordinator, membership.hang_up), (None, None));
    membership.found_coordinator(8, at(10));
    assert_eq!(membership.join(at(10)), Some(at(100)));
    let (mut membership, _) = syncing();
    membership.lost(&Call::Sync(vec![]), at(1_000));
    assert!(membership.must_rejoin() && membership.rebalance == Rebalance::None);
    assert_eq!(membership.generation, third(), "it joins again as the member that it is");
}

#[test]
fn a_generation_that_was_reset_meanwhile_is_not_completed() {
    let (mut membership, sent) = syncing();
    membership.synced(&sent, Ok((assigned(), None)), at(1_000));
    membership.beaten(&third(), UNKNOWN_MEMBER_ID, at(2_000));
    assert_eq!(membership.complete(), None);
    assert!(membership.must_rejoin() && membership.rebalance == Rebalance::None);
    // And an answer to a join that was given up changes nothing.
    let (mut membership, sent) = joining(unjoined());
    membership.leave();
    membership.joined(&sent, answer(false), at(0));
    assert_eq!((membership.state, &membership.rebalance), (State::Unjoined, &Rebalance::None));
}

#[test]
fn an_assignment_by_another_protocol_is_refused() {
    let (mut membership, sent) = syncing();
    membership.synced(&sent, Ok((assigned(), Some("cooperative-sticky".into()))), at(1_000));
    assert_eq!(membership.failure, Some(Error::Kafka(INCONSISTENT_GROUP_PROTOCOL)));
}

#[test]
fn a_refused_commit_takes_the_member_out_of_its_generation_unless_it_is_joining_another() {
    let mut membership = stable();
    assert_eq!(membership.commit_refused(&third(), ILLEGAL_GENERATION), Error::CommitFailed);
    assert_eq!(membership.generation, generation(-1, "m-1", None));
    let (mut membership, _) = joining(stable());
    assert_eq!(
        membership.commit_refused(&generation(2, "m-1", None), UNKNOWN_MEMBER_ID),
        Error::RebalanceInProgress
    );
    assert_eq!(membership.rebalance, Joining);
}
