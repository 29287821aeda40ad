//! What a rebalance does to partitions: kafka.md 6, `ConsumerCoordinator` of Java's client. The task does not run: the
//! tests bring the ends of its calls.

use super::super::core::Call;
use super::super::membership::{self, Generation, Rebalance, State};
use super::*;
use crate::config::ConsumerConfig;
use crate::flaws::Flaws;
use crate::group::Assignor;
use std::sync::MutexGuard;

fn partitions(numbers: &[i32]) -> BTreeSet<TopicPartition> {
    numbers.iter().map(|number| TopicPartition::new("t", *number)).collect()
}

fn third() -> Generation {
    Generation { id: 3, member_id: "m-1".into(), protocol: Some("cooperative-sticky".into()) }
}

/// A member that is told its partitions in generation 3.
fn synced(config: ConsumerConfig, numbers: &[i32]) -> Member {
    let config = ConsumerConfig {
        group_id: Some("g".into()),
        bootstrap_servers: vec!["localhost:1".into()],
        auto_offset_reset: crate::OffsetReset::Earliest,
        ..config
    };
    let member = Member::new(config, Flaws::default(), &["t"]).unwrap();
    {
        let mut core = core(&member);
        core.membership.found_coordinator(7, Instant::now());
        (core.membership.state, core.membership.generation) = (State::Stable, third());
        core.membership.rejoin_needed = false;
        core.membership.prepared = true;
        core.membership.rebalance = Rebalance::Synced(partitions(numbers));
    }
    member
}

/// As [`synced`], and its application has them, at offset 5.
fn owner(config: ConsumerConfig, numbers: &[i32]) -> Member {
    let mut member = synced(config, numbers);
    step(&mut member);
    core(&member).found = partitions(numbers).into_iter().map(|partition| (partition, Some(5))).collect();
    step(&mut member);
    assert_eq!(member.take_rebalances(), [Rebalanced::Assigned(partitions(numbers))]);
    member
}

fn core(member: &Member) -> MutexGuard<'_, Core> {
    member.shared.core()
}

fn step(member: &mut Member) -> Option<Instant> {
    member.coordinate(Instant::now()).unwrap()
}

fn cooperative() -> ConsumerConfig {
    let partition_assignment_strategy = vec![Assignor::CooperativeSticky];
    ConsumerConfig { partition_assignment_strategy, ..ConsumerConfig::jepsen() }
}

#[tokio::test]
async fn an_assigned_partition_starts_at_its_committed_offset_and_without_one_as_the_policy_says() {
    let mut member = synced(ConsumerConfig::jepsen(), &[0, 1]);
    step(&mut member);
    assert_eq!(member.positions(), [].into(), "nothing is fetched before that is known");
    let found = [(TopicPartition::new("t", 0), Some(5)), (TopicPartition::new("t", 1), None)];
    core(&member).found = found.into();
    step(&mut member);
    // The second is to be had from ListOffsets.
    assert_eq!(member.positions(), [(TopicPartition::new("t", 0), 5)].into());
    assert_eq!(member.group_metadata().generation_id, 3);
}

#[tokio::test]
async fn an_eager_member_gives_everything_up_before_it_joins() {
    let mut member = owner(ConsumerConfig::jepsen(), &[0, 1]);
    core(&member).membership.request_rejoin();
    step(&mut member);
    assert_eq!(member.take_rebalances(), [Rebalanced::Revoked(partitions(&[0, 1]))]);
    let core = core(&member);
    assert_eq!((&core.membership.rebalance, &core.owned), (&Rebalance::Join, &[].into()));
}

#[tokio::test]
async fn a_cooperative_member_keeps_what_it_has_gives_up_what_moves_and_joins_again_at_once() {
    let mut member = owner(cooperative(), &[0, 1]);
    core(&member).membership.request_rejoin();
    step(&mut member);
    assert_eq!(member.take_rebalances(), []);
    assert_eq!(core(&member).owned, partitions(&[0, 1]), "and says so when it joins");
    {
        let mut core = core(&member);
        core.membership.state = State::Stable;
        core.membership.rejoin_needed = false;
        core.membership.rebalance = Rebalance::Synced(partitions(&[1, 2]));
    }
    step(&mut member);
    let told = [Rebalanced::Revoked(partitions(&[0])), Rebalanced::Assigned(partitions(&[2]))];
    assert_eq!(member.take_rebalances(), told);
    assert_eq!(member.positions(), [(TopicPartition::new("t", 1), 5)].into(), "what it kept goes on");
    let core = core(&member);
    assert_eq!((&core.membership.rebalance, &core.owned), (&Rebalance::Join, &partitions(&[1, 2])));
}

#[tokio::test]
async fn a_member_that_was_put_out_loses_everything_whatever_its_protocol() {
    for config in [cooperative(), ConsumerConfig::jepsen()] {
        let mut member = owner(config, &[0]);
        core(&member).membership.beaten(&third(), crate::codes::UNKNOWN_MEMBER_ID, Instant::now());
        step(&mut member);
        assert_eq!(member.take_rebalances(), [Rebalanced::Lost(partitions(&[0]))]);
    }
}

#[tokio::test]
async fn auto_commit_goes_before_the_revocation() {
    let config = ConsumerConfig { enable_auto_commit: true, ..ConsumerConfig::jepsen() };
    let mut member = owner(config, &[0]);
    core(&member).membership.request_rejoin();
    assert!(step(&mut member).is_some());
    assert_eq!(member.take_rebalances(), [], "not before the commit has ended");
    assert!(member.preparing.is_some(), "and nothing is handed out meanwhile (KAFKA-14196)");
    let Some((Call::Commit(commit), sent)) = core(&member).next(Instant::now()) else {
        panic!("a commit goes out");
    };
    assert_eq!((sent, &commit.offsets), (third(), &[(TopicPartition::new("t", 0), 5)].into()));
    core(&member).committed(commit, &third(), &[0]);
    step(&mut member);
    assert_eq!(member.take_rebalances(), [Rebalanced::Revoked(partitions(&[0]))]);
}

#[tokio::test]
async fn auto_commit_comes_again_after_its_interval() {
    let config = ConsumerConfig { enable_auto_commit: true, ..ConsumerConfig::jepsen() };
    let mut member = owner(config, &[0]);
    assert!(!matches!(core(&member).next(Instant::now()), Some((Call::Commit(_), _))));
    let later = Instant::now() + Duration::from_millis(5_000);
    assert!(member.coordinate(later).unwrap().is_some());
    let mut core = core(&member);
    assert!(matches!(core.next(later), Some((Call::Commit(_), _))));
    assert!(matches!(core.next(later), Some((Call::Membership(membership::Call::Heartbeat), _)) | None));
}
