//! Commits and committed offsets: kafka.md 6, `ConsumerCoordinator` of Java's client.

use super::*;
use crate::group::membership::State;

const NOW: Instant = Instant::from_nanos(1_000_000_000);

fn third() -> Generation {
    Generation { id: 3, member_id: "m-1".into(), protocol: Some("range".into()) }
}

fn stable() -> Core {
    let mut core = Core::new(ConsumerConfig::jepsen(), ["t".to_string()].into(), NOW);
    core.membership.found_coordinator(7, NOW);
    (core.membership.state, core.membership.generation) = (State::Stable, third());
    core
}

fn t0() -> TopicPartition {
    TopicPartition::new("t", 0)
}

/// Sends a commit that is answered with `code`: what the application is told, and what is left of the coordinator.
fn end_of_commit(mut core: Core, code: i16) -> (Committed, Core) {
    let mut ended = core.commit([(t0(), 5)].into());
    let Some((Call::Commit(commit), sent)) = core.next(NOW) else { panic!("a commit goes first") };
    assert_eq!(sent, third());
    core.committed(commit, &sent, &[0, code]);
    (ended.try_recv().unwrap(), core)
}

#[test]
fn commits_end_as_in_offset_commit_response_handler() {
    let retriable = |code| Err(CommitError::Retriable(Error::Kafka(code)));
    for (code, end, coordinator) in [
        (0, Ok(()), Some(7)),
        (14, retriable(14), Some(7)),
        (3, retriable(3), Some(7)),
        (15, retriable(15), None),
        (16, retriable(16), None),
        (7, retriable(7), None),
        (12, Err(CommitError::Final(Error::Kafka(12))), Some(7)),
        (82, Err(CommitError::Final(Error::Kafka(82))), Some(7)),
    ] {
        let (told, core) = end_of_commit(stable(), code);
        assert_eq!((told, core.membership.coordinator), (end, coordinator), "{code}");
        assert_eq!(core.membership.stable_generation(), Some(&third()));
    }
}

#[test]
fn a_fenced_commit_takes_the_member_out_and_a_rebalance_only_calls_it() {
    for (code, member_id) in [(22, "m-1"), (25, "")] {
        let (told, core) = end_of_commit(stable(), code);
        assert_eq!(told, Err(CommitError::Final(Error::CommitFailed)));
        assert_eq!((core.membership.generation.id, &*core.membership.generation.member_id), (-1, member_id));
    }
    let (told, core) = end_of_commit(stable(), 27);
    assert_eq!(told, Err(CommitError::Final(Error::RebalanceInProgress)));
    assert_eq!(core.membership.stable_generation(), Some(&third()));
}

#[test]
fn who_is_in_no_generation_commits_nothing() {
    for (state, error) in [
        (State::Unjoined, Error::CommitFailed),
        (State::PreparingRebalance, Error::RebalanceInProgress),
        (State::CompletingRebalance, Error::RebalanceInProgress),
    ] {
        let mut core = stable();
        core.membership.state = state;
        let mut ended = core.commit([(t0(), 5)].into());
        assert!(!matches!(core.next(NOW), Some((Call::Commit(_), _))));
        assert_eq!(ended.try_recv(), Ok(Err(CommitError::Final(error))));
    }
}

/// Asks for t-0 and t-1, of which t-1 is undecided.
#[test]
fn an_undecided_offset_is_asked_for_again() {
    let mut core = stable();
    let t1 = TopicPartition::new("t", 1);
    core.want([t0(), t1.clone()].into());
    let Some((Call::Offsets(number, both), _)) = core.next(NOW) else { panic!("offsets are asked for") };
    assert_eq!((number, both.len()), (1, 2));
    core.offsets_found(number, Ok([(t0(), Ok(Some(5))), (t1.clone(), Err(88))].into()), NOW);
    assert_eq!(core.found, [(t0(), Some(5))].into());
    assert_eq!(core.next(NOW).map(|_| ()), None, "not before the backoff");
    let later = NOW + Duration::from_millis(100);
    let Some((Call::Offsets(2, rest), _)) = core.next(later) else { panic!("the rest is asked for") };
    assert_eq!(rest, [t1.clone()].into());
    // Nothing committed is an answer, too.
    core.offsets_found(2, Ok([(t1.clone(), Ok(None))].into()), later);
    assert_eq!(core.found.get(&t1), Some(&None));
}

#[test]
fn offsets_asked_for_before_an_assignment_are_not_taken_for_it() {
    let mut core = stable();
    core.want([t0()].into());
    let Some((Call::Offsets(1, _), _)) = core.next(NOW) else { panic!("offsets are asked for") };
    core.want([t0()].into());
    core.offsets_found(1, Ok([(t0(), Ok(Some(5)))].into()), NOW);
    assert_eq!(core.found, [].into());
    assert!(matches!(core.next(NOW), Some((Call::Offsets(2, _), _))));
}

#[test]
fn a_leader_assigns_by_the_protocol_chosen_and_joins_again_when_a_topic_grows() {
    let mut core = stable();
    core.membership.leads = true;
    let subscription = Subscription { topics: core.topics.clone(), owned: [].into(), generation: -1 };
    core.joined = vec![Joined { member_id: "m-1".into(), group_instance_id: None, subscription }];
    core.assign(&[("t".to_string(), 1)].into());
    let given = encode_assignment(&[t0()].into());
    assert_eq!(core.membership.rebalance, Rebalance::Sync(vec![("m-1".into(), given)]));
    core.membership.rebalance = Rebalance::None;
    core.membership.rejoin_needed = false;
    core.topics_have(&[("t".to_string(), 1)].into());
    assert!(!core.membership.must_rejoin());
    core.topics_have(&[("t".to_string(), 2)].into());
    assert!(core.membership.must_rejoin());
    // A protocol that nobody offered.
    core.membership.generation.protocol = Some("sticky".into());
    core.assign(&BTreeMap::new());
    assert_eq!(core.membership.failure, Some(Error::Kafka(23)));
}
