//! Groups as admin tools see them, and their end.

use super::*;
use crate::calls::{Txn, offset_commit, stable_offsets};
use crate::harness::World;
use kafka_protocol::messages::describe_groups_response::DescribedGroup;
use kafka_protocol::messages::offset_delete_request::{
    OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
};
use kafka_protocol::messages::{
    DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest, OffsetDeleteRequest,
};
use rt::time::sleep;
use sim::fault::{Fault, Scheduled, When};
use std::time::Duration;

/// What a consumer that reads the topic `t` says to its assignor.
const READS_T: &str = "\0\0\0\0\0\u{1}\0\u{1}t";

async fn describe(agent: &mut Connection, version: i16, group: &str) -> DescribedGroup {
    let request = DescribeGroupsRequest::default().with_groups(vec![text(group).into()]);
    agent.call(version, &request).await.groups.remove(0)
}

/// Group, state and type of all groups that pass the filters.
async fn list(agent: &mut Connection, states: &[&str], types: &[&str]) -> Vec<[String; 3]> {
    let names = |names: &[&str]| names.iter().map(|name| text(name)).collect();
    let request =
        ListGroupsRequest::default().with_states_filter(names(states)).with_types_filter(names(types));
    let answer = agent.call(5, &request).await;
    assert_eq!(answer.error_code, 0);
    let group = |group: &kafka_protocol::messages::list_groups_response::ListedGroup| {
        [group.group_id.to_string(), group.group_state.to_string(), group.group_type.to_string()]
    };
    answer.groups.iter().map(group).collect()
}

async fn delete(agent: &mut Connection, groups: &[&str]) -> Vec<i16> {
    let names = groups.iter().map(|name| text(name).into()).collect();
    let answer = agent.call(2, &DeleteGroupsRequest::default().with_groups_names(names)).await;
    answer.results.iter().map(|result| result.error_code).collect()
}

/// OffsetDelete of partitions of the topic `t`: the code of all, and that of each.
async fn delete_offsets(agent: &mut Connection, group: &str, partitions: &[i32]) -> (i16, Vec<i16>) {
    let partition = |n: &i32| OffsetDeleteRequestPartition::default().with_partition_index(*n);
    let topic = OffsetDeleteRequestTopic::default()
        .with_name(text("t").into())
        .with_partitions(partitions.iter().map(partition).collect());
    let request = OffsetDeleteRequest::default().with_group_id(text(group).into()).with_topics(vec![topic]);
    let answer = agent.call(0, &request).await;
    let partitions = answer.topics.iter().flat_map(|topic| &topic.partitions);
    (answer.error_code, partitions.map(|partition| partition.error_code).collect())
}

async fn commits(agent: &mut Connection, group: &str, offsets: &[(i32, i64)]) {
    let answer = agent.call(8, &offset_commit(group, -1, offsets)).await;
    assert!(answer.topics[0].partitions.iter().all(|partition| partition.error_code == 0));
}

#[test]
fn a_group_is_described_and_listed_as_it_is() {
    World::default().run(|cluster| async move {
        let mut agent = cluster.connect("agent-1").await;
        agent.create_topic("t", 1, &[]).await;
        commits(&mut agent, "simple", &[(0, 1)]).await;
        for version in 0..=6 {
            let told = describe(&mut agent, version, "nobody").await;
            let code = if version >= 6 { 69 } else { 0 };
            assert_eq!((told.error_code, told.group_state.as_str()), (code, "Dead"), "{version}");
            let told = describe(&mut agent, version, "simple").await;
            assert_eq!((told.error_code, told.group_state.as_str()), (0, "Empty"), "{version}");
            assert_eq!((told.protocol_type.as_str(), told.members.len()), ("", 0));
        }
        let mut members = two_members(cluster, "agent-1").await;
        for version in 0..=6 {
            let told = describe(&mut agent, version, "g").await;
            assert_eq!((told.error_code, told.group_state.as_str()), (0, "Stable"), "{version}");
            assert_eq!((told.protocol_type.as_str(), told.protocol_data.as_str()), ("consumer", "range"));
            for (member, assignment) in members.iter().zip(["0", "1"]) {
                let told = told.members.iter().find(|told| told.member_id.as_str() == member.id).unwrap();
                assert_eq!(
                    (&told.member_metadata[..], &told.member_assignment[..]),
                    (&b"m"[..], assignment.as_bytes())
                );
                assert_eq!((told.client_id.as_str(), &told.group_instance_id), ("test", &None));
                assert!(
                    told.client_host.starts_with('/') && told.client_host.len() > 7,
                    "{}",
                    told.client_host
                );
            }
        }
        let all = ["g", "simple"].map(String::from);
        let listed = list(&mut agent, &[], &[]).await;
        assert_eq!(listed.iter().map(|[name, ..]| name.clone()).collect::<Vec<_>>(), all);
        assert_eq!(listed[0], ["g", "Stable", "classic"]);
        assert_eq!(
            list(&mut agent, &["empty", "dead"], &["Classic"]).await,
            [["simple", "Empty", "classic"]]
        );
        assert!(list(&mut agent, &[], &["consumer"]).await.is_empty());
        members[0].send_join().await;
        again().await;
        let told = describe(&mut agent, 5, "g").await;
        assert_eq!((told.group_state.as_str(), told.protocol_data.as_str()), ("PreparingRebalance", ""));
        assert!(told.members.iter().all(|member| member.member_metadata.is_empty()));
    });
}

#[test]
fn a_deleted_group_leaves_nothing_to_its_successor() {
    World::default().run(|cluster| async move {
        let mut agent = cluster.connect("agent-1").await;
        agent.create_topic("t", 250, &[]).await;
        let all: Vec<(i32, i64)> = (0..250).map(|n| (n, 7)).collect();
        commits(&mut agent, "g", &all).await;
        let txn = Txn::init(&mut agent, "jt1").await;
        assert_eq!(txn.add_offsets(&mut agent, 3, "g").await, 0);
        assert_eq!(txn.commit_offsets(&mut agent, 3, "g", &[(3, 9)]).await, [0]);
        let [mut a, mut b] = two_members(cluster, "agent-1").await;
        assert_eq!(delete(&mut agent, &["g", "nobody"]).await, [68, 69]);
        assert_eq!((a.leave().await, b.leave().await), (0, 0));
        assert_eq!(delete(&mut agent, &["g", "g"]).await, [0]);
        assert_eq!(delete(&mut agent, &["g"]).await, [69]);
        for prefix in ["groups/", "group_state/", "group_offsets/", "group_pending/"] {
            assert!(cluster.keys(prefix).await.is_empty(), "{prefix}");
        }
        // What the transaction was about to commit went with the group.
        commits(&mut agent, "g", &[(0, 1)]).await;
        assert_eq!(txn.end(&mut agent, true).await, 0);
        assert_eq!(txn.add_offsets(&mut agent, 3, "other").await, 0);
        assert_eq!(stable_offsets(&mut agent, "g", &[0, 1, 3]).await, [(1, 0), (-1, 0), (-1, 0)]);
        let mut c = Member::entering(cluster, "agent-1").await;
        assert_eq!(c.generation().await, (1, true, 1), "the first generation of a new group");
    });
}

/// The agent dies when the group is gone and its offsets are not; the answer of the deletion is lost.
#[test]
fn offsets_of_a_deleted_group_are_dead_before_they_are_gone() {
    let crash = Fault::Crash { node: "agent-1".into(), restart_after_ms: None };
    let when =
        When::Point { node: Some("agent-1".into()), point: "sweep-group.before-commit".into(), nth: 2 };
    let faults = vec![Scheduled { id: 1, when, fault: crash }];
    let mut world = World { faults, ..World::default() };
    world.config.agents = 2;
    world.agent.lease_ttl_s = 3;
    world.agent.groups.offsets_retention_interval_ms = 20_000;
    world.run(|cluster| async move {
        let mut agent = cluster.connect("agent-1").await;
        agent.create_topic("t", 250, &[]).await;
        let all: Vec<(i32, i64)> = (0..250).map(|n| (n, 7)).collect();
        commits(&mut agent, "g", &all).await;
        let txn = Txn::init(&mut agent, "jt1").await;
        assert_eq!(txn.add_offsets(&mut agent, 3, "g").await, 0);
        assert_eq!(txn.commit_offsets(&mut agent, 3, "g", &[(3, 9)]).await, [0]);
        let names = vec![text("g").into()];
        agent.send(2, &DeleteGroupsRequest::default().with_groups_names(names)).await;
        assert!(agent.read().await.is_none(), "the agent died");
        let mut other = cluster.connect("agent-2").await;
        assert_eq!(cluster.keys("group_offsets/").await.len(), 150, "one step was done");
        assert_eq!(describe(&mut other, 6, "g").await.error_code, 69);
        assert!(list(&mut other, &[], &[]).await.is_empty());
        assert_eq!(delete(&mut other, &["g"]).await, [69]);
        assert_eq!(stable_offsets(&mut other, "g", &[100, 200]).await, [(-1, 0), (-1, 0)]);
        assert_eq!(cluster.keys("group_pending/").await.len(), 1);
        assert_eq!(txn.end(&mut other, true).await, 0);
        assert_eq!(txn.add_offsets(&mut other, 3, "other").await, 0);
        assert_eq!(stable_offsets(&mut other, "g", &[3]).await, [(-1, 0)], "dead before it was committed");
        commits(&mut other, "g", &[(200, 1)]).await;
        assert_eq!(stable_offsets(&mut other, "g", &[100, 200]).await, [(-1, 0), (1, 0)]);
        sleep(Duration::from_secs(25)).await;
        assert_eq!(cluster.keys("group_offsets/").await, ["group_offsets/g/t/0000000200"], "swept");
        assert_eq!(stable_offsets(&mut other, "g", &[200]).await, [(1, 0)]);
    });
}

#[test]
fn offsets_of_topics_that_a_group_does_not_read_can_be_deleted() {
    World::default().run(|cluster| async move {
        let mut agent = cluster.connect("agent-1").await;
        agent.create_topic("t", 3, &[]).await;
        assert_eq!(delete_offsets(&mut agent, "g", &[0]).await, (69, vec![]));
        assert_eq!(delete_offsets(&mut agent, "", &[0]).await, (24, vec![]));
        commits(&mut agent, "g", &[(0, 5), (1, 6), (2, 7)]).await;
        let txn = Txn::init(&mut agent, "jt1").await;
        assert_eq!(txn.add_offsets(&mut agent, 3, "g").await, 0);
        assert_eq!(txn.commit_offsets(&mut agent, 3, "g", &[(0, 9), (1, 9)]).await, [0, 0]);
        assert_eq!(delete_offsets(&mut agent, "g", &[0, 3]).await, (0, vec![0, 3]));
        assert_eq!(stable_offsets(&mut agent, "g", &[0, 1, 2]).await, [(-1, 0), (-1, 88), (7, 0)]);
        assert_eq!(txn.end(&mut agent, true).await, 0);
        assert_eq!(txn.add_offsets(&mut agent, 3, "other").await, 0);
        assert_eq!(stable_offsets(&mut agent, "g", &[0, 1, 2]).await, [(-1, 0), (9, 0), (7, 0)]);

        let mut member = Member::new(cluster, "agent-1").await;
        member.protocols = vec![("range", READS_T)];
        member.id = member.join().await.member_id.to_string();
        assert_eq!(member.join().await.error_code, 0);
        assert_eq!(delete_offsets(&mut agent, "g", &[1, 3]).await, (0, vec![86, 3]));
        member.protocols = vec![("range", "\0\0\0\0\0\u{1}\0\u{1}u")];
        assert_eq!(member.join().await.error_code, 0);
        assert_eq!(delete_offsets(&mut agent, "g", &[1]).await, (0, vec![0]));
        assert_eq!(stable_offsets(&mut agent, "g", &[1, 2]).await, [(-1, 0), (7, 0)]);

        let mut other = Member::new(cluster, "agent-1").await;
        other.group = "connect-cluster";
        let request = other.join_request().with_protocol_type(text("connect"));
        assert_eq!(other.agent.call(3, &request).await.error_code, 0);
        assert_eq!(delete_offsets(&mut agent, "connect-cluster", &[1]).await, (68, vec![]));
    });
}

#[test]
fn offsets_expire_when_nobody_has_needed_them_for_long() {
    let mut world = World::default();
    world.agent.groups.offsets_retention_ms = 60_000;
    world.agent.groups.offsets_retention_interval_ms = 5_000;
    world.run(|cluster| async move {
        let mut agent = cluster.connect("agent-1").await;
        agent.create_topic("t", 2, &[]).await;
        let mut member = Member::new(cluster, "agent-1").await;
        member.session_timeout_ms = 600_000;
        member.protocols = vec![("range", READS_T)];
        member.id = member.join().await.member_id.to_string();
        assert_eq!(member.join().await.error_code, 0);
        assert_eq!(member.sync(&[]).await.0, 0);
        assert_eq!(member.commit(5).await, 0);
        commits(&mut agent, "simple", &[(0, 1)]).await;
        let short = offset_commit("short", -1, &[(0, 1)]).with_retention_time_ms(10_000);
        assert_eq!(agent.call(4, &short).await.topics[0].partitions[0].error_code, 0);
        sleep(Duration::from_secs(20)).await;
        assert_eq!(cluster.keys("groups/").await, ["groups/g", "groups/simple"], "as its client said");
        commits(&mut agent, "simple", &[(1, 2)]).await;
        sleep(Duration::from_secs(50)).await;
        assert_eq!(stable_offsets(&mut agent, "simple", &[0, 1]).await, [(-1, 0), (2, 0)]);
        sleep(Duration::from_secs(20)).await;
        assert_eq!(cluster.keys("groups/").await, ["groups/g"], "a member reads the topic");
        assert_eq!(stable_offsets(&mut agent, "g", &[0]).await, [(5, 0)]);
        assert_eq!(member.leave().await, 0);
        sleep(Duration::from_secs(50)).await;
        assert_eq!(stable_offsets(&mut agent, "g", &[0]).await, [(5, 0)]);
        sleep(Duration::from_secs(20)).await;
        assert_eq!(stable_offsets(&mut agent, "g", &[0]).await, [(-1, 0)]);
        for prefix in ["groups/", "group_state/", "group_offsets/"] {
            assert!(cluster.keys(prefix).await.is_empty(), "{prefix}");
        }
    });
}
