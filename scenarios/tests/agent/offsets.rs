//! Groups' offsets: committed by themselves, and as part of transactions.

use crate::calls::{Txn, again, offset_commit, stable_offsets};
use crate::harness::{World, text};
use broker::{AgentConfig, Outside, TransactionConfig, TransactionVersion};
use kafka_protocol::messages::OffsetFetchRequest;
use kafka_protocol::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use sim::fault::{Fault, Scheduled, When};

fn outside(outside: Outside) -> World {
    let transactions = TransactionConfig { outside, ..TransactionConfig::default() };
    World { agent: AgentConfig { transactions, ..AgentConfig::default() }, ..World::default() }
}

#[test]
fn a_transactions_offsets_are_pending_until_it_ends() {
    for (committed, at_last) in [(true, (5, 0)), (false, (2, 0))] {
        World::default().run(move |cluster| async move {
            let mut agent = cluster.connect("agent-1").await;
            agent.create_topic("t", 2, &[]).await;
            let answer = agent.call(8, &offset_commit("g", -1, &[(0, 2)])).await;
            assert_eq!(answer.topics[0].partitions[0].error_code, 0);
            let txn = Txn::init(&mut agent, "jt1").await;
            assert_eq!(txn.add_offsets(&mut agent, 3, "g").await, 0);
            assert_eq!(txn.add_offsets(&mut agent, 3, "g").await, 0, "again");
            assert_eq!(stable_offsets(&mut agent, "g", &[0, 1]).await, [(2, 0), (-1, 0)]);
            assert_eq!(txn.commit_offsets(&mut agent, 3, "g", &[(0, 5)]).await, [0]);
            assert_eq!(stable_offsets(&mut agent, "g", &[0, 1]).await, [(-1, 88), (-1, 0)]);
            assert_eq!(txn.end(&mut agent, committed).await, 0);
            while stable_offsets(&mut agent, "g", &[0]).await == [(-1, 88)] {
                again().await;
            }
            assert_eq!(stable_offsets(&mut agent, "g", &[0, 1]).await, [at_last, (-1, 0)]);
            assert!(cluster.keys("group_pending/").await.is_empty());
            // The next transaction can begin only when this one is complete.
            assert_eq!(txn.add_offsets(&mut agent, 3, "other").await, 0);
            assert_eq!(cluster.keys("txn_groups/").await, ["txn_groups/jt1/other"]);
        });
    }
}

#[test]
fn more_offsets_than_one_coordinator_transaction_carries() {
    World::default().run(|cluster| async move {
        let mut agent = cluster.connect("agent-1").await;
        agent.create_topic("t", 250, &[]).await;
        let offsets: Vec<(i32, i64)> = (0..250).map(|n| (n, 1_000 + i64::from(n))).collect();
        let all: Vec<i32> = (0..250).collect();
        let txn = Txn::init(&mut agent, "jt1").await;
        assert_eq!(txn.add_offsets(&mut agent, 4, "g").await, 0);
        assert_eq!(txn.commit_offsets(&mut agent, 4, "g", &offsets).await, [0; 250]);
        assert_eq!(stable_offsets(&mut agent, "g", &all).await, [(-1, 88); 250]);
        assert_eq!(txn.end(&mut agent, true).await, 0);
        while stable_offsets(&mut agent, "g", &[249]).await == [(-1, 88)] {
            again().await;
        }
        let settled: Vec<(i64, i16)> = offsets.iter().map(|(_, offset)| (*offset, 0)).collect();
        assert_eq!(stable_offsets(&mut agent, "g", &all).await, settled);

        let plain: Vec<(i32, i64)> = (0..250).map(|n| (n, 7)).collect();
        let answer = agent.call(2, &offset_commit("g", -1, &plain)).await;
        assert!(answer.topics[0].partitions.iter().all(|partition| partition.error_code == 0));
        assert_eq!(stable_offsets(&mut agent, "g", &all).await, [(7, 0); 250]);
    });
}

/// S9 of kafka.md 4: the request is delayed into the next transaction of the same epoch. Without verification it waits there,
/// and the first transaction after it that lists the group decides it: here the group goes back from 9 to 5.
#[test]
fn s9_a_late_txn_offset_commit_is_decided_by_a_later_transaction() {
    for setting in [Outside::Implicit, Outside::Local] {
        outside(setting).run(move |cluster| async move {
            let mut agent = cluster.connect("agent-1").await;
            agent.create_topic("t", 2, &[]).await;
            let txn = Txn::init(&mut agent, "jt1").await;
            // Transaction 1: a first copy of the request is lost on its way, the group gets to 9 by the second.
            assert_eq!(txn.add_offsets(&mut agent, 3, "g").await, 0);
            assert_eq!(txn.commit_offsets(&mut agent, 3, "g", &[(0, 9)]).await, [0]);
            assert_eq!(txn.end(&mut agent, true).await, 0);
            // Transaction 2 writes only; the late copy of an older request arrives.
            assert_eq!(txn.add_partition(&mut agent, "t", 0).await, 0);
            assert_eq!(stable_offsets(&mut agent, "g", &[0]).await, [(9, 0)]);
            assert_eq!(txn.commit_offsets(&mut agent, 3, "g", &[(0, 5)]).await, [0]);
            assert_eq!(txn.end(&mut agent, true).await, 0);
            // It does not list the group, so its end leaves the offset pending.
            assert_eq!(txn.add_partition(&mut agent, "t", 1).await, 0);
            assert_eq!(stable_offsets(&mut agent, "g", &[0]).await, [(-1, 88)]);
            // Transaction 3 lists the group and commits.
            assert_eq!(txn.add_offsets(&mut agent, 3, "g").await, 0);
            assert_eq!(txn.end(&mut agent, true).await, 0);
            assert_eq!(txn.add_partition(&mut agent, "t", 1).await, 0);
            assert_eq!(stable_offsets(&mut agent, "g", &[0]).await, [(5, 0)], "back from 9");
        });
    }
}

#[test]
fn s9_is_refused_under_verification() {
    outside(Outside::Verify).run(|cluster| async move {
        let mut agent = cluster.connect("agent-1").await;
        agent.create_topic("t", 1, &[]).await;
        let txn = Txn::init(&mut agent, "jt1").await;
        assert_eq!(txn.commit_offsets(&mut agent, 3, "g", &[(0, 5)]).await, [48], "no transaction");
        assert_eq!(txn.add_partition(&mut agent, "t", 0).await, 0);
        assert_eq!(txn.commit_offsets(&mut agent, 3, "g", &[(0, 5)]).await, [48], "not listed");
        assert_eq!(txn.commit_offsets(&mut agent, 4, "g", &[(0, 5)]).await, [120]);
        assert_eq!(txn.add_offsets(&mut agent, 3, "g").await, 0);
        assert_eq!(txn.commit_offsets(&mut agent, 3, "g", &[(0, 5)]).await, [0]);
        assert_eq!(stable_offsets(&mut agent, "g", &[0]).await, [(-1, 88)]);
    });
}

/// Version 5 lists the group by itself, whatever `outside` says, and what is late meets a newer epoch: there is no S9.
#[test]
fn transaction_version_2_leaves_no_offsets_to_be_late() {
    for outside in [Outside::Implicit, Outside::Local, Outside::Verify] {
        let version = TransactionVersion::V2;
        let transactions = TransactionConfig { version, outside, ..TransactionConfig::default() };
        let agent = AgentConfig { transactions, ..AgentConfig::default() };
        World { agent, ..World::default() }.run(|cluster| async move {
            let mut agent = cluster.connect("agent-1").await;
            agent.create_topic("t", 1, &[]).await;
            let first = Txn::init(&mut agent, "jt1").await;
            assert_eq!(first.commit_offsets(&mut agent, 5, "g", &[(0, 5)]).await, [0]);
            assert_eq!(first.commit_offsets(&mut agent, 5, "g", &[(0, 6)]).await, [0], "listed already");
            assert_eq!(cluster.keys("txn_groups/").await, ["txn_groups/jt1/g"]);
            assert_eq!(stable_offsets(&mut agent, "g", &[0]).await, [(-1, 88)]);
            let second = first.end_v2(&mut agent, true).await;
            assert_eq!((second.producer_id, second.epoch), (first.producer_id, first.epoch + 1));
            assert_eq!(first.commit_offsets(&mut agent, 5, "g", &[(0, 3)]).await, [47]);
            // The end of the first transaction is waited for on the client's behalf, but not for ever.
            while second.commit_offsets(&mut agent, 5, "g", &[(0, 9)]).await == [51] {}
            assert_eq!(first.commit_offsets(&mut agent, 5, "g", &[(0, 3)]).await, [47]);
            second.end_v2(&mut agent, false).await;
            while stable_offsets(&mut agent, "g", &[0]).await == [(-1, 88)] {
                again().await;
            }
            assert_eq!(stable_offsets(&mut agent, "g", &[0]).await, [(6, 0)]);
        });
    }
}

#[test]
fn a_fenced_producer_commits_no_offsets_and_a_newer_epoch_drops_what_it_left() {
    World::default().run(|cluster| async move {
        let mut agent = cluster.connect("agent-1").await;
        agent.create_topic("t", 2, &[]).await;
        let old = Txn::init(&mut agent, "jt1").await;
        // Outside a transaction: nothing will ever settle it (S9).
        assert_eq!(old.commit_offsets(&mut agent, 3, "g", &[(0, 5)]).await, [0]);
        let new = Txn::init(&mut agent, "jt1").await;
        assert_eq!(new.epoch, old.epoch + 1);
        assert_eq!(old.add_offsets(&mut agent, 3, "g").await, 90);
        assert_eq!(old.add_offsets(&mut agent, 1, "g").await, 47, "PRODUCER_FENCED is not known before");
        assert_eq!(old.commit_offsets(&mut agent, 3, "g", &[(0, 6)]).await, [47]);
        let foreign = Txn { producer_id: old.producer_id + 1_000, ..new };
        assert_eq!(foreign.add_offsets(&mut agent, 3, "g").await, 49);
        assert_eq!(foreign.commit_offsets(&mut agent, 3, "g", &[(0, 6)]).await, [49]);

        assert_eq!(stable_offsets(&mut agent, "g", &[0, 1]).await, [(-1, 88), (-1, 0)]);
        assert_eq!(new.add_offsets(&mut agent, 3, "g").await, 0);
        assert_eq!(new.commit_offsets(&mut agent, 3, "g", &[(1, 7)]).await, [0]);
        assert_eq!(stable_offsets(&mut agent, "g", &[0, 1]).await, [(-1, 0), (-1, 88)]);
        assert_eq!(new.end(&mut agent, true).await, 0);
        assert_eq!(new.add_partition(&mut agent, "t", 0).await, 0);
        assert_eq!(stable_offsets(&mut agent, "g", &[0, 1]).await, [(-1, 0), (7, 0)]);
    });
}

/// The new epoch lists the group but commits nothing for it: what the old one left is not its to commit.
#[test]
fn a_transaction_commits_no_pending_offsets_of_an_older_epoch() {
    World::default().run(|cluster| async move {
        let mut agent = cluster.connect("agent-1").await;
        agent.create_topic("t", 2, &[]).await;
        let old = Txn::init(&mut agent, "jt1").await;
        assert_eq!(old.commit_offsets(&mut agent, 3, "g", &[(0, 5)]).await, [0]);
        let new = Txn::init(&mut agent, "jt1").await;
        assert_eq!(new.add_offsets(&mut agent, 3, "g").await, 0);
        assert_eq!(new.end(&mut agent, true).await, 0);
        assert_eq!(new.add_partition(&mut agent, "t", 0).await, 0);
        assert_eq!(stable_offsets(&mut agent, "g", &[0]).await, [(-1, 0)]);
    });
}

/// As in Kafka, a transaction's offsets count from when they were sent: one that the group committed since stays.
#[test]
fn a_later_commit_outlives_the_transaction_that_was_first() {
    World::default().run(|cluster| async move {
        let mut agent = cluster.connect("agent-1").await;
        agent.create_topic("t", 2, &[]).await;
        let txn = Txn::init(&mut agent, "jt1").await;
        assert_eq!(txn.add_offsets(&mut agent, 3, "g").await, 0);
        assert_eq!(txn.commit_offsets(&mut agent, 3, "g", &[(0, 5), (1, 5)]).await, [0, 0]);
        let answer = agent.call(8, &offset_commit("g", -1, &[(0, 8)])).await;
        assert_eq!(answer.topics[0].partitions[0].error_code, 0);
        assert_eq!(txn.end(&mut agent, true).await, 0);
        assert_eq!(txn.add_partition(&mut agent, "t", 0).await, 0);
        assert_eq!(stable_offsets(&mut agent, "g", &[0, 1]).await, [(8, 0), (5, 0)]);
    });
}

#[test]
fn members_are_unknown_and_errors_stay_with_their_partitions() {
    World::default().run(|cluster| async move {
        let mut agent = cluster.connect("agent-1").await;
        agent.create_topic("t", 1, &[]).await;
        let mut told = Vec::new();
        for (version, generation) in [(8, 0), (9, 0), (8, -1), (8, 0), (9, 3)] {
            let answer = agent.call(version, &offset_commit("g", generation, &[(0, 1), (1, 1)])).await;
            told.push([0, 1].map(|n| answer.topics[0].partitions[n].error_code));
        }
        assert_eq!(told, [[22, 3], [69, 3], [0, 3], [25, 3], [25, 3]]);
        let mut long = offset_commit("g", -1, &[(0, 2), (0, 3)]);
        long.topics[0].partitions[0].committed_metadata = Some(text(&"x".repeat(4_097)));
        let answer = agent.call(8, &long).await;
        assert_eq!([0, 1].map(|n| answer.topics[0].partitions[n].error_code), [12, 0]);

        let txn = Txn::init(&mut agent, "jt1").await;
        let mut told = Vec::new();
        let ask = [("g2", 0), ("g2", -1), ("g2", 0), ("", -1)];
        for (group, generation) in ask {
            let request = txn.offsets(group, &[(0, 1), (1, 1)]).with_generation_id(generation);
            let answer = agent.call(3, &request).await;
            told.push([0, 1].map(|n| answer.topics[0].partitions[n].error_code));
        }
        assert_eq!(told, [[22, 3], [0, 3], [25, 3], [24, 24]]);
        assert_eq!(txn.add_offsets(&mut agent, 3, "").await, 24);
        let nobody = Txn { id: "", producer_id: 1, epoch: 0 };
        assert_eq!(nobody.add_offsets(&mut agent, 3, "g").await, 42);
        assert_eq!(nobody.commit_offsets(&mut agent, 3, "g", &[(0, 1)]).await, [42]);
    });
}

#[test]
fn offsets_are_fetched_in_every_shape() {
    World::default().run(|cluster| async move {
        let mut agent = cluster.connect("agent-1").await;
        agent.create_topic("t", 3, &[]).await;
        for group in ["g", "h"] {
            let answer = agent.call(6, &offset_commit(group, -1, &[(0, 4), (2, 6)])).await;
            assert_eq!(answer.topics[0].partitions.len(), 2);
        }
        // All of a group, in the single form and the batched one.
        for version in 2..=7 {
            let request = OffsetFetchRequest::default().with_group_id(text("g").into()).with_topics(None);
            let answer = agent.call(version, &request).await;
            let partitions = &answer.topics[0].partitions;
            let offsets: Vec<_> =
                partitions.iter().map(|p| (p.partition_index, p.committed_offset)).collect();
            assert_eq!((offsets, answer.topics.len()), (vec![(0, 4), (2, 6)], 1), "version {version}");
            assert_eq!(partitions[0].metadata.as_deref(), Some("m"));
            assert_eq!(partitions[0].committed_leader_epoch, -1);
        }
        let some = OffsetFetchRequestTopics::default()
            .with_name(text("t").into())
            .with_partition_indexes(vec![1, 2]);
        let group = |id: &str| OffsetFetchRequestGroup::default().with_group_id(text(id).into());
        let groups = vec![
            group("h").with_topics(Some(vec![some])),
            group("g").with_topics(None),
            group("nobody").with_topics(None),
        ];
        for version in 8..=9 {
            let request = OffsetFetchRequest::default().with_groups(groups.clone());
            let answer = agent.call(version, &request).await;
            let told = |n: usize| -> Vec<(i32, i64, i16)> {
                let partitions = answer.groups[n].topics.iter().flat_map(|topic| &topic.partitions);
                partitions.map(|p| (p.partition_index, p.committed_offset, p.error_code)).collect()
            };
            assert_eq!(told(0), [(1, -1, 0), (2, 6, 0)]);
            assert_eq!(told(1), [(0, 4, 0), (2, 6, 0)]);
            assert!(told(2).is_empty() && answer.groups[2].error_code == 0);
        }
    });
}

/// The coordinator's answers to the writes of a TxnOffsetCommit and of the settling are lost, one after the other; and the
/// agent that ends the transaction dies before its offsets are settled.
#[test]
fn offsets_survive_lost_answers_and_the_agent_that_ends_the_transaction() {
    let at_point = |id, point: &str, fault| Scheduled {
        id,
        when: When::Point { node: Some("agent-1".into()), point: point.into(), nth: 1 },
        fault,
    };
    let cut = || Fault::Cut {
        from: vec!["etcd".into()],
        to: vec!["agent-1".into()],
        both_ways: false,
        for_ms: 1_500,
    };
    let crash = || Fault::Crash { node: "agent-1".into(), restart_after_ms: None };
    for (seed, point, fault) in [
        (1, "txn-offset-commit.before-commit", cut()),
        (2, "add-offsets.before-commit", cut()),
        (3, "offset-commit.before-commit", cut()),
        (4, "finish.before-offsets", cut()),
        (5, "finish.before-offsets", crash()),
    ] {
        let mut world = World { seed, faults: vec![at_point(1, point, fault)], ..World::default() };
        world.config.agents = 2;
        world.agent.transactions.scan_interval_ms = 1_000;
        world.run(|cluster| async move {
            let mut agent = cluster.connect("agent-1").await;
            agent.create_topic("t", 2, &[]).await;
            let answer = agent.call(8, &offset_commit("g", -1, &[(1, 3)])).await;
            assert_eq!(answer.topics[0].partitions[0].error_code, 0);
            let txn = Txn::init(&mut agent, "jt1").await;
            assert_eq!(txn.add_offsets(&mut agent, 3, "g").await, 0);
            assert_eq!(txn.commit_offsets(&mut agent, 3, "g", &[(0, 5)]).await, [0]);
            assert_eq!(txn.end(&mut agent, true).await, 0);
            let mut other = cluster.connect("agent-2").await;
            assert_eq!(txn.add_partition(&mut other, "t", 0).await, 0);
            assert_eq!(stable_offsets(&mut other, "g", &[0, 1]).await, [(5, 0), (3, 0)]);
            assert!(cluster.keys("group_pending/").await.is_empty());
        });
    }
}
