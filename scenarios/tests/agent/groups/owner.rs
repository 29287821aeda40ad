//! Many agents: one owns a group at a time, and what it knew goes on in the next. The group `g` is agent-2's; when that one is
//! gone agent-1's; when both are agent-3's.

use super::*;
use crate::calls::{Txn, stable_offsets};
use crate::harness::World;
use kafka_protocol::messages::TxnOffsetCommitRequest;
use rt::time::{Instant, sleep};
use sim::fault::{EventPattern, Fault, Scheduled, When};
use std::time::Duration;

/// Three agents whose leases last for 3 s, and what happens to them when the test strikes.
fn three(faults: Vec<Fault>) -> World {
    let strike = || When::Event(EventPattern::words("test.strike"));
    let fault = |(id, fault)| Scheduled { id, when: strike(), fault };
    let mut world = World { faults: (1..).zip(faults).map(fault).collect(), ..World::default() };
    world.config.agents = 3;
    world.agent.lease_ttl_s = 3;
    world
}

fn strike() {
    rt::event!("test.strike");
}

/// Waits until all three agents are registered: from then on only the loss of one moves a group.
async fn settled(cluster: Cluster) {
    while cluster.keys("agents/").await.len() < 3 {
        again().await;
    }
}

/// Waits until the group is owned by `name`, as `at` says.
async fn owned_by(cluster: Cluster, at: &str, name: &str) {
    let mut agent = cluster.connect(at).await;
    while owner(&mut agent, "g").await != name {
        again().await;
    }
}

impl Member {
    /// Goes on with another agent.
    async fn moves_to(&mut self, cluster: Cluster, agent: &str) {
        self.agent = cluster.connect(agent).await;
    }

    /// Heartbeats until it is answered with something else than to try again.
    async fn beat_until_told(&mut self) -> i16 {
        loop {
            let code = self.beat().await;
            if !RETRIABLE.contains(&code) {
                return code;
            }
            again().await;
        }
    }
}

#[test]
fn every_agent_names_the_owner_and_only_the_owner_serves_members() {
    three(Vec::new()).run(|cluster| async move {
        settled(cluster).await;
        for name in ["agent-1", "agent-2", "agent-3"] {
            let mut agent = cluster.connect(name).await;
            assert_eq!(owner(&mut agent, "g").await, "agent-2");
            let mut member = Member::new(cluster, name).await;
            let told = (member.join().await.error_code, member.beat().await, member.sync(&[]).await.0);
            let expected = if name == "agent-2" { (79, 25, 25) } else { (16, 16, 16) };
            assert_eq!(told, expected, "{name}");
        }
    });
}

#[test]
fn a_stable_group_outlives_its_owner() {
    three(vec![Fault::Crash { node: "agent-2".into(), restart_after_ms: None }]).run(|cluster| async move {
        settled(cluster).await;
        let mut members = two_members(cluster, "agent-2").await;
        members[0].agent.create_topic("t", 1, &[]).await;
        strike();
        owned_by(cluster, "agent-3", "agent-1").await;
        for member in &mut members {
            member.moves_to(cluster, "agent-1").await;
            assert_eq!((member.beat_until_told().await, member.commit(3).await), (0, 0));
            assert_eq!(member.generation, 1);
        }
        // The new owner hears who is silent.
        let [mut a, _b] = members;
        let began = Instant::now();
        while a.beat().await == 0 {
            sleep(Duration::from_secs(1)).await;
            assert!(began.elapsed() < Duration::from_secs(12));
        }
        assert!(began.elapsed() > Duration::from_secs(8));
        assert_eq!(a.join().await.generation_id, 2);
    });
}

#[test]
fn a_join_phase_outlives_its_owner() {
    three(vec![Fault::MachineCrash { node: "agent-2".into(), restart_after_ms: None }]).run(
        |cluster| async move {
            settled(cluster).await;
            let [mut a, mut b] = two_members(cluster, "agent-2").await;
            let mut c = Member::entering(cluster, "agent-2").await;
            while b.beat().await == 0 {
                again().await;
            }
            a.send_join().await;
            again().await;
            strike();
            owned_by(cluster, "agent-3", "agent-1").await;
            for member in [&mut a, &mut b, &mut c] {
                member.moves_to(cluster, "agent-1").await;
                member.send_join().await;
            }
            let told = [a.generation().await, b.generation().await, c.generation().await];
            assert_eq!(told, [(2, true, 3), (2, false, 0), (2, false, 0)]);
        },
    );
}

#[test]
fn an_assignment_outlives_its_owner() {
    three(vec![Fault::Crash { node: "agent-2".into(), restart_after_ms: Some(20_000) }]).run(
        |cluster| async move {
            settled(cluster).await;
            let mut members = two_members(cluster, "agent-2").await;
            join_anew(&mut members).await;
            let [mut a, mut b] = members;
            b.send_sync(&[]).await;
            again().await;
            strike();
            owned_by(cluster, "agent-3", "agent-1").await;
            for member in [&mut a, &mut b] {
                member.moves_to(cluster, "agent-1").await;
            }
            b.send_sync(&[]).await;
            let ids = [a.id.clone(), b.id.clone()];
            assert_eq!(a.sync(&[(&ids[0], "x"), (&ids[1], "y")]).await, (0, "x".to_string()));
            assert_eq!(b.synced().await, (0, "y".to_string()));
            assert_eq!((a.beat().await, b.beat().await), (0, 0));
        },
    );
}

/// A member waits at an agent that stops and loses the group; the next owner completes the generation, and when the first one
/// goes on its member is told of it.
#[test]
fn who_waits_at_a_former_owner_is_told_what_the_next_one_made() {
    three(vec![Fault::Pause { node: "agent-2".into(), for_ms: 8_000 }]).run(|cluster| async move {
        settled(cluster).await;
        let [mut a, mut b] = two_members(cluster, "agent-2").await;
        a.send_join().await;
        while b.beat().await == 0 {
            again().await;
        }
        strike();
        owned_by(cluster, "agent-3", "agent-1").await;
        b.moves_to(cluster, "agent-1").await;
        b.send_join().await;
        assert_eq!(b.generation().await, (2, false, 0));
        assert_eq!(a.generation().await, (2, true, 2), "told by agent-2, which owns nothing by now");
        owned_by(cluster, "agent-3", "agent-2").await;
        let ids = [a.id.clone(), b.id.clone()];
        assert_eq!(a.sync(&[(&ids[0], "x"), (&ids[1], "y")]).await, (0, "x".to_string()));
        b.moves_to(cluster, "agent-2").await;
        assert_eq!(b.sync(&[]).await, (0, "y".to_string()));
        // Both are heard again by the agent that slept through their sessions.
        for _ in 0..8 {
            assert_eq!((a.beat().await, b.beat().await), (0, 0));
            sleep(Duration::from_secs(2)).await;
        }
    });
}

/// An owner that cannot reach the coordinator, and one that was cut off until it lost its lease, take nobody out for it.
#[test]
fn an_owner_that_lost_its_lease_takes_nobody_out() {
    let cut =
        Fault::Cut { from: vec!["agent-2".into()], to: vec!["etcd".into()], both_ways: true, for_ms: 14_000 };
    three(vec![cut]).run(|cluster| async move {
        settled(cluster).await;
        let mut members = two_members(cluster, "agent-2").await;
        strike();
        owned_by(cluster, "agent-3", "agent-1").await;
        for member in &mut members {
            member.moves_to(cluster, "agent-1").await;
        }
        for _ in 0..10 {
            for member in &mut members {
                assert!([0, 16].contains(&member.beat().await));
            }
            sleep(Duration::from_secs(1)).await;
        }
        owned_by(cluster, "agent-3", "agent-2").await;
        for member in &mut members {
            member.moves_to(cluster, "agent-2").await;
        }
        for _ in 0..10 {
            for member in &mut members {
                assert_eq!((member.beat().await, member.generation), (0, 1));
            }
            sleep(Duration::from_secs(2)).await;
        }
    });
}

/// The pause of an owner is longer than every session, and its lease longer still. Its members' sessions end long before it
/// goes on, or right then.
#[test]
fn a_pause_of_the_owner_is_nobodys_silence() {
    for lasts_s in [13, 10] {
        let mut world = three(vec![Fault::Pause { node: "agent-2".into(), for_ms: 1_000 * lasts_s }]);
        world.agent.lease_ttl_s = 60;
        world.run(move |cluster| async move {
            settled(cluster).await;
            let [mut a, mut b] = two_members(cluster, "agent-2").await;
            strike();
            sleep(Duration::from_secs(lasts_s + 8)).await;
            assert_eq!((a.beat().await, b.beat().await), (0, 0), "{lasts_s}");
        });
    }
}

#[test]
fn a_pause_of_the_coordinator_is_nobodys_silence() {
    let mut world = three(vec![Fault::Pause { node: "etcd".into(), for_ms: 14_000 }]);
    world.agent.lease_ttl_s = 60;
    world.run(|cluster| async move {
        settled(cluster).await;
        let [mut a, mut b] = two_members(cluster, "agent-2").await;
        sleep(Duration::from_secs(5)).await;
        strike();
        again().await;
        let mut tries = 0;
        while a.beat().await != 0 {
            tries += 1;
        }
        assert!(tries > 3, "the coordinator was away for long");
        sleep(Duration::from_secs(5)).await;
        assert_eq!((a.beat().await, b.beat().await), (0, 0));
    });
}

/// The coordinator's answer to the n-th write of a group's life is lost; nobody notices but by the time it takes.
#[test]
fn a_group_lives_through_lost_answers() {
    let points = (1..=10).map(|nth| ("group.before-commit", nth)).chain([("group-timer.before-commit", 1)]);
    for (point, nth) in points {
        let cut = Fault::Cut {
            from: vec!["etcd".into()],
            to: vec!["agent-1".into()],
            both_ways: false,
            for_ms: 1_500,
        };
        let when = When::Point { node: Some("agent-1".into()), point: point.into(), nth };
        let faults = vec![Scheduled { id: 1, when, fault: cut }];
        World { seed: u64::from(nth), faults, ..World::default() }.run(move |cluster| async move {
            let mut members = two_members(cluster, "agent-1").await;
            join_anew(&mut members).await;
            let [mut a, mut b] = members;
            assert_eq!(a.sync(&[]).await.0, 0);
            assert_eq!(b.sync(&[]).await.0, 0);
            assert_eq!(b.leave().await, 0, "{point} {nth}");
            while a.beat_until_told().await == 0 {
                again().await;
            }
            assert_eq!(a.join().await.members.len(), 1);
            assert_eq!((a.generation, a.leave().await), (3, 0), "{point} {nth}");
        });
    }
}

/// An agent stops between deciding over a commit and writing it; meanwhile its member is taken out elsewhere.
#[test]
fn a_commit_that_was_decided_before_a_rebalance_is_decided_anew() {
    for (transactional, point) in
        [(false, "offset-commit.before-commit"), (true, "txn-offset-commit.before-commit")]
    {
        let when = When::Point { node: Some("agent-1".into()), point: point.into(), nth: 1 };
        let fault = Fault::Pause { node: "agent-1".into(), for_ms: 2_000 };
        let mut world = three(Vec::new());
        world.agent.lease_ttl_s = 15;
        world.faults = vec![Scheduled { id: 1, when, fault }];
        world.run(move |cluster| async move {
            settled(cluster).await;
            let [mut a, mut b] = two_members(cluster, "agent-2").await;
            a.agent.create_topic("t", 1, &[]).await;
            let txn = Txn::init(&mut a.agent, "jt1").await;
            assert_eq!(txn.add_offsets(&mut a.agent, 3, "g").await, 0);
            let mut elsewhere = cluster.connect("agent-1").await;
            let commit =
                txn.offsets("g", &[(0, 5)]).with_generation_id(b.generation).with_member_id(text(&b.id));
            let plain = crate::calls::offset_commit("g", b.generation, &[(0, 5)]).with_member_id(text(&b.id));
            match transactional {
                true => elsewhere.send(3, &commit).await,
                false => elsewhere.send(8, &plain).await,
            }
            again().await;
            assert_eq!(b.leave().await, 0);
            assert_eq!(a.join().await.generation_id, 2);
            let told = match transactional {
                true => {
                    elsewhere.receive::<TxnOffsetCommitRequest>(3).await.topics[0].partitions[0].error_code
                }
                false => elsewhere.receive::<OffsetCommitRequest>(8).await.topics[0].partitions[0].error_code,
            };
            assert_eq!(told, 25, "{point}");
            assert_eq!(stable_offsets(&mut a.agent, "g", &[0]).await, [(-1, 0)]);
        });
    }
}

/// The owner stops between deciding to take a silent member out and writing it, and loses the group; the member is heard
/// by the next owner. Heartbeats are written nowhere, so the members' state alone does not tell.
#[test]
fn who_was_heard_by_the_next_owner_is_not_taken_out_by_the_last() {
    let point =
        When::Point { node: Some("agent-2".into()), point: "group-timer.before-commit".into(), nth: 2 };
    let fault = Fault::Pause { node: "agent-2".into(), for_ms: 7_000 };
    let mut world = three(Vec::new());
    world.faults = vec![Scheduled { id: 1, when: point, fault }];
    world.run(|cluster| async move {
        settled(cluster).await;
        let [mut a, mut b] = two_members(cluster, "agent-2").await;
        let mut agent = cluster.connect("agent-3").await;
        // a beats until the owner stops, which is when b has been silent for its session.
        while owner(&mut agent, "g").await == "agent-2" {
            let beat = a.beat_request();
            a.agent.try_call(BEAT, &beat, Duration::from_millis(500)).await;
            sleep(Duration::from_millis(500)).await;
        }
        for member in [&mut a, &mut b] {
            member.moves_to(cluster, "agent-1").await;
            assert_eq!(member.beat_until_told().await, 0);
        }
        owned_by(cluster, "agent-3", "agent-2").await;
        for member in [&mut a, &mut b] {
            member.moves_to(cluster, "agent-2").await;
            assert_eq!(member.beat_until_told().await, 0);
        }
    });
}

/// The owner stops while it takes one member out; the sessions of the others end before it goes on.
#[test]
fn a_pause_amid_one_members_end_is_not_the_others_silence() {
    let point =
        When::Point { node: Some("agent-2".into()), point: "group-timer.before-commit".into(), nth: 2 };
    let fault = Fault::Pause { node: "agent-2".into(), for_ms: 14_000 };
    let mut world = three(Vec::new());
    world.agent.lease_ttl_s = 60;
    world.faults = vec![Scheduled { id: 1, when: point, fault }];
    world.run(|cluster| async move {
        settled(cluster).await;
        let [mut a, mut b] = two_members(cluster, "agent-2").await;
        // b is silent from now on, and a while the owner stops: its session ends 5 s before the owner goes on.
        for _ in 0..3 {
            sleep(Duration::from_secs(3)).await;
            assert_eq!(a.beat().await, 0);
        }
        sleep(Duration::from_secs(16)).await;
        assert_eq!((a.beat().await, b.beat().await), (27, 25));
        assert_eq!(a.join().await.generation_id, 2);
    });
}
