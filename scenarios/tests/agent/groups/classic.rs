//! The classic protocol with one agent.

use super::*;
use crate::calls::{Txn, offset_commit, stable_offsets};
use crate::harness::World;
use rt::time::{Instant, sleep};
use std::time::Duration;

#[test]
fn two_members_share_a_group_through_its_rebalances() {
    World::default().run(|cluster| async move {
        let mut agent = cluster.connect("agent-1").await;
        agent.create_topic("t", 1, &[]).await;
        assert_eq!(owner(&mut agent, "g").await, "agent-1");
        let began = Instant::now();
        let mut a = Member::entering(cluster, "agent-1").await;
        assert_eq!(a.generation().await, (1, true, 1));
        let took = began.elapsed();
        assert!((3_000..3_200).contains(&took.as_millis()), "the initial delay: {took:?}");
        let id = a.id.clone();
        assert_eq!(a.sync(&[(&id, "all")]).await, (0, "all".to_string()));
        assert_eq!((a.beat().await, a.commit(5).await), (0, 0));

        let mut b = Member::entering(cluster, "agent-1").await;
        while a.beat().await == 0 {
            again().await;
        }
        assert_eq!((a.beat().await, a.commit(6).await), (27, 0), "what was read may be committed");
        a.send_join().await;
        assert_eq!((a.generation().await, b.generation().await), ((2, true, 2), (2, false, 0)));
        assert_eq!(a.commit(7).await, 27, "but not before the assignment");
        b.send_sync(&[]).await;
        let ids = [a.id.clone(), b.id.clone()];
        assert_eq!(a.sync(&[(&ids[0], "half"), (&ids[1], "other half")]).await, (0, "half".to_string()));
        assert_eq!(b.synced().await, (0, "other half".to_string()));
        assert_eq!((a.commit(8).await, b.commit(9).await, b.beat().await), (0, 0, 0));

        b.generation = 1;
        assert_eq!((b.beat().await, b.commit(1).await), (22, 22), "an old generation");
        assert_eq!(b.leave().await, 0);
        assert_eq!((b.leave().await, b.beat().await, b.commit(1).await), (25, 25, 25));
        while a.beat().await == 0 {
            again().await;
        }
        assert_eq!(a.join().await.generation_id, 3);
        assert_eq!(stable_offsets(&mut agent, "g", &[0]).await, [(9, 0)]);
        assert_eq!(a.leave().await, 0);
        assert_eq!(cluster.keys("group_state/").await, ["group_state/g"], "empty, but known");
        let answer = agent.call(8, &offset_commit("g", -1, &[(0, 10)])).await;
        assert_eq!(answer.topics[0].partitions[0].error_code, 0, "nobody is in its way");
    });
}

#[test]
fn members_that_come_while_the_first_waits_are_in_the_first_generation() {
    World::default().run(|cluster| async move {
        let began = Instant::now();
        let mut a = Member::entering(cluster, "agent-1").await;
        sleep(Duration::from_secs(2)).await;
        let mut b = Member::entering(cluster, "agent-1").await;
        assert_eq!(a.generation().await, (1, true, 2));
        assert_eq!(b.generation().await, (1, false, 0));
        // Somebody came, so the delay was extended once, by as much again.
        let took = began.elapsed();
        assert!((6_000..6_300).contains(&took.as_millis()), "{took:?}");
    });
}

#[test]
fn who_falls_silent_is_taken_out_and_who_beats_stays() {
    World::default().run(|cluster| async move {
        let [mut a, mut b] = two_members(cluster, "agent-1").await;
        let began = Instant::now();
        loop {
            sleep(Duration::from_secs(2)).await;
            match a.beat().await {
                0 => assert!(began.elapsed() < Duration::from_secs(14), "b has a session of 10 s"),
                code => {
                    assert_eq!(code, 27);
                    break;
                }
            }
        }
        assert!(began.elapsed() > Duration::from_secs(9));
        assert_eq!(a.join().await.members.len(), 1);
        assert_eq!((a.generation, b.beat().await), (2, 25));
    });
}

#[test]
fn who_does_not_join_anew_in_time_is_out() {
    World::default().run(|cluster| async move {
        let [mut a, mut b] = two_members(cluster, "agent-1").await;
        let began = Instant::now();
        a.send_join().await;
        // b beats, but does not come.
        again().await;
        while began.elapsed() < Duration::from_secs(16) {
            assert_eq!(b.beat().await, 27);
            sleep(Duration::from_secs(3)).await;
        }
        assert_eq!(a.generation().await, (2, true, 1));
        let took = began.elapsed();
        assert!((20_000..20_500).contains(&took.as_millis()), "the rebalance time-out: {took:?}");
        assert_eq!(b.beat().await, 25);
    });
}

#[test]
fn a_leader_that_is_lost_between_join_and_sync_is_replaced() {
    World::default().run(|cluster| async move {
        let mut a = Member::entering(cluster, "agent-1").await;
        let mut b = Member::entering(cluster, "agent-1").await;
        let (first, _) = (a.generation().await, b.generation().await);
        if first.1 {
            std::mem::swap(&mut a, &mut b);
        }
        // a follows and waits; b leads and is never heard of again.
        assert_eq!(a.sync(&[]).await.0, 27);
        assert_eq!(a.join().await.members.len(), 1);
        let id = a.id.clone();
        assert_eq!(a.sync(&[(&id, "all")]).await, (0, "all".to_string()));
        assert_eq!((a.generation, b.beat().await), (2, 25));
    });
}

#[test]
fn a_static_member_that_restarts_goes_on_in_the_same_generation() {
    World::default().run(|cluster| async move {
        let mut members = Vec::new();
        for instance_id in ["i", "j"] {
            let mut member = Member::new(cluster, "agent-1").await;
            member.instance_id = Some(instance_id);
            member.send_join().await;
            members.push(member);
        }
        let mut leader = String::new();
        for member in &mut members {
            let told = member.joined().await;
            assert_eq!((told.error_code, told.generation_id), (0, 1));
            assert!(told.member_id.starts_with(&format!("{}-", member.instance_id.unwrap())));
            leader = told.leader.to_string();
        }
        members.sort_by_key(|member| member.id != leader);
        let [mut a, mut b] = <[Member; 2]>::try_from(members).unwrap_or_else(|_| panic!("two"));
        b.send_sync(&[]).await;
        let ids = [a.id.clone(), b.id.clone()];
        assert_eq!(a.sync(&[(&ids[0], "0"), (&ids[1], "1")]).await.0, 0);
        assert_eq!(b.synced().await, (0, "1".to_string()));

        // The leader restarts: it is told not to assign.
        let mut back = Member::new(cluster, "agent-1").await;
        back.instance_id = a.instance_id;
        let told = back.join().await;
        assert_eq!((told.error_code, told.generation_id, told.skip_assignment), (0, 1, true));
        assert_eq!((told.leader == told.member_id, told.members.len()), (true, 2));
        assert_eq!(back.sync(&[]).await, (0, "0".to_string()));
        assert_eq!((b.beat().await, a.beat().await, back.beat().await), (0, 82, 0));
        assert_eq!(a.join().await.error_code, 82);
        assert_eq!((a.sync(&[]).await.0, a.leave().await), (82, 82));
        back.agent.create_topic("t", 1, &[]).await;
        assert_eq!((back.commit(1).await, a.commit(1).await), (0, 82));
    });
}

#[test]
fn a_transactions_offsets_are_fenced_by_the_generation() {
    World::default().run(|cluster| async move {
        let mut agent = cluster.connect("agent-1").await;
        agent.create_topic("t", 1, &[]).await;
        let [mut a, mut b] = two_members(cluster, "agent-1").await;
        let txn = Txn::init(&mut agent, "jt1").await;
        assert_eq!(txn.add_offsets(&mut agent, 3, "g").await, 0);
        let request = |member: &Member, offset| {
            txn.offsets("g", &[(0, offset)])
                .with_generation_id(member.generation)
                .with_member_id(text(&member.id))
        };
        let mut told = Vec::new();
        told.push(agent.call(3, &request(&b, 5)).await.topics[0].partitions[0].error_code);
        assert_eq!(a.leave().await, 0);
        b.generation = 1;
        // The leader is gone; b is a member of generation 1 until the next one is made.
        told.push(agent.call(3, &request(&b, 6)).await.topics[0].partitions[0].error_code);
        told.push(agent.call(3, &request(&a, 7)).await.topics[0].partitions[0].error_code);
        let before = b.join_request();
        assert_eq!(b.agent.call(JOIN, &before).await.generation_id, 2);
        told.push(agent.call(3, &request(&b, 8)).await.topics[0].partitions[0].error_code);
        told.push(agent.call(2, &txn.offsets("g", &[(0, 9)])).await.topics[0].partitions[0].error_code);
        assert_eq!(told, [0, 0, 25, 22, 0], "version 2 claims no generation");
        assert_eq!(stable_offsets(&mut agent, "g", &[0]).await, [(-1, 88)]);
        assert_eq!(txn.end(&mut agent, true).await, 0);
        while stable_offsets(&mut agent, "g", &[0]).await == [(-1, 88)] {
            again().await;
        }
        assert_eq!(stable_offsets(&mut agent, "g", &[0]).await, [(9, 0)]);
    });
}

#[test]
fn requests_without_sense_are_refused() {
    World::default().run(|cluster| async move {
        let mut member = Member::new(cluster, "agent-1").await;
        for timeout_ms in [5_999, 1_800_001] {
            member.session_timeout_ms = timeout_ms;
            assert_eq!(member.join().await.error_code, 26);
        }
        member.session_timeout_ms = 6_000;
        member.id = "nobody".into();
        assert_eq!(member.join().await.error_code, 25);
        assert_eq!((member.beat().await, member.sync(&[]).await.0, member.leave().await), (25, 25, 25));
        member.group = "";
        assert_eq!((member.join().await.error_code, member.beat().await), (24, 24));
        assert_eq!(member.sync(&[]).await.0, 24);
        member.group = "g";
        member.id = String::new();
        member.protocols.clear();
        assert_eq!(member.join().await.error_code, 23);
        assert!(cluster.keys("group_state/").await.is_empty(), "no group was made of it");
    });
}

/// Clients before version 4 are members at once, and those before version 1 have one time-out for both.
#[test]
fn old_versions_join_sync_and_leave() {
    World::default().run(|cluster| async move {
        let mut member = Member::new(cluster, "agent-1").await;
        for (version, generation) in [(0, 1), (3, 3)] {
            member.id = String::new();
            let request = member.join_request();
            let told = member.agent.call(version, &request).await;
            assert_eq!((told.error_code, told.generation_id), (0, generation), "version {version}");
            let request = SyncGroupRequest::default()
                .with_group_id(text("g").into())
                .with_generation_id(generation)
                .with_member_id(told.member_id.clone())
                .with_assignments(vec![
                    SyncGroupRequestAssignment::default()
                        .with_member_id(told.member_id.clone())
                        .with_assignment("x".into()),
                ]);
            assert_eq!(member.agent.call(version.min(2), &request).await.assignment, "x");
            let request = LeaveGroupRequest::default()
                .with_group_id(text("g").into())
                .with_member_id(told.member_id.clone());
            assert_eq!(member.agent.call(version.min(2), &request).await.error_code, 0);
            assert_eq!(member.agent.call(version.min(2), &request).await.error_code, 25);
        }
    });
}
