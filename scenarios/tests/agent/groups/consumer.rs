//! The consumer protocol (KIP-848) under real frames.

use super::*;
use crate::calls::{Txn, offset_commit, stable_offsets};
use crate::harness::World;
use kafka_protocol::messages::consumer_group_describe_response::DescribedGroup;
use kafka_protocol::messages::consumer_group_heartbeat_request::TopicPartitions;
use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use kafka_protocol::messages::{
    ApiVersionsRequest, ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse, CreatePartitionsRequest, DeleteGroupsRequest, DescribeGroupsRequest,
    ListGroupsRequest, OffsetFetchRequest,
};
use rt::time::{Instant, sleep};
use sim::fault::{EventPattern, Fault, Scheduled, When};
use std::collections::BTreeMap;
use std::time::Duration;

/// Partitions by topic id.
pub(super) type Owned = BTreeMap<[u8; 16], Vec<i32>>;

/// A member of the group `g` that has what it is told, and says so.
pub(super) struct Consumer {
    pub(super) agent: Connection,
    pub(super) id: String,
    instance_id: Option<&'static str>,
    pub(super) epoch: i32,
    pub(super) owned: Owned,
    topics: Vec<&'static str>,
}

impl Consumer {
    /// Somebody who is no member yet, once the group has an owner.
    pub(super) async fn new(cluster: Cluster, agent: &str, id: &str) -> Self {
        let mut agent = cluster.connect(agent).await;
        owner(&mut agent, "g").await;
        Consumer {
            agent,
            id: id.to_string(),
            instance_id: None,
            epoch: 0,
            owned: Owned::new(),
            topics: vec!["t"],
        }
    }

    pub(super) fn request(&self) -> ConsumerGroupHeartbeatRequest {
        let owned = |(id, partitions): (&[u8; 16], &Vec<i32>)| {
            TopicPartitions::default()
                .with_topic_id(id.to_vec().try_into().expect("16 bytes"))
                .with_partitions(partitions.clone())
        };
        let request = ConsumerGroupHeartbeatRequest::default()
            .with_group_id(text("g").into())
            .with_member_id(text(&self.id))
            .with_member_epoch(self.epoch)
            .with_instance_id(self.instance_id.map(text))
            .with_topic_partitions(Some(self.owned.iter().map(owned).collect()));
        if self.epoch != 0 {
            return request;
        }
        let names = self.topics.iter().map(|name| text(name).into()).collect();
        request.with_rebalance_timeout_ms(60_000).with_subscribed_topic_names(Some(names))
    }

    /// Takes an answer in.
    pub(super) fn hears(&mut self, told: &ConsumerGroupHeartbeatResponse) {
        assert_eq!(told.error_code, 0, "{:?}", told.error_message);
        assert_eq!(told.heartbeat_interval_ms, 5_000);
        self.epoch = told.member_epoch;
        if let Some(assignment) = &told.assignment {
            let topics = assignment.topic_partitions.iter();
            self.owned =
                topics.map(|topic| (topic.topic_id.into_bytes(), topic.partitions.clone())).collect();
        }
    }

    /// Heartbeats; epoch and partitions of its one topic.
    async fn beats(&mut self) -> (i32, Vec<i32>) {
        let request = self.request();
        let told = self.agent.call(1, &request).await;
        self.hears(&told);
        (self.epoch, self.owned.values().flatten().copied().collect())
    }

    /// Heartbeats that are refused; the code.
    async fn refused(&mut self) -> i16 {
        let request = self.request();
        let told = self.agent.call(1, &request).await;
        assert_ne!(told.error_code, 0);
        assert_eq!((told.member_epoch, &told.assignment), (0, &None));
        told.error_code
    }

    async fn leaves(&mut self, epoch: i32) -> i16 {
        let request = ConsumerGroupHeartbeatRequest::default()
            .with_group_id(text("g").into())
            .with_member_id(text(&self.id))
            .with_instance_id(self.instance_id.map(text))
            .with_member_epoch(epoch);
        self.agent.call(1, &request).await.error_code
    }

    async fn commits(&mut self, version: i16, offset: i64) -> i16 {
        let request = offset_commit("g", self.epoch, &[(0, offset)]).with_member_id(text(&self.id));
        self.agent.call(version, &request).await.topics[0].partitions[0].error_code
    }

    /// OffsetFetch of partition 0 in its epoch: the group's code, and the offset.
    async fn fetches(&mut self) -> (i16, Option<i64>) {
        let topic =
            OffsetFetchRequestTopics::default().with_name(text("t").into()).with_partition_indexes(vec![0]);
        let group = OffsetFetchRequestGroup::default()
            .with_group_id(text("g").into())
            .with_member_id(Some(text(&self.id)))
            .with_member_epoch(self.epoch)
            .with_topics(Some(vec![topic]));
        let request = OffsetFetchRequest::default().with_groups(vec![group]);
        let told = self.agent.call(9, &request).await.groups.remove(0);
        (told.error_code, told.topics.first().map(|topic| topic.partitions[0].committed_offset))
    }
}

async fn describe(agent: &mut Connection, version: i16) -> DescribedGroup {
    let request = ConsumerGroupDescribeRequest::default().with_group_ids(vec![text("g").into()]);
    agent.call(version, &request).await.groups.remove(0)
}

/// Two members of epoch 2, with two of the four partitions of `t` each.
async fn two_consumers(cluster: Cluster, agent: &str) -> [Consumer; 2] {
    cluster.connect(agent).await.create_topic("t", 4, &[]).await;
    let mut a = Consumer::new(cluster, agent, "a").await;
    let mut b = Consumer::new(cluster, agent, "b").await;
    assert_eq!(a.beats().await, (1, vec![0, 1, 2, 3]));
    assert_eq!(b.beats().await, (2, vec![]));
    assert_eq!(a.beats().await, (1, vec![0, 1]), "to give two up");
    assert_eq!(b.beats().await, (2, vec![]), "not before it has");
    assert_eq!(a.beats().await, (2, vec![0, 1]));
    assert_eq!(b.beats().await, (2, vec![2, 3]));
    [a, b]
}

#[test]
fn partitions_move_from_member_to_member() {
    World::default().run(|cluster| async move {
        let [mut a, mut b] = two_consumers(cluster, "agent-1").await;
        let features = a.agent.call(3, &ApiVersionsRequest::default()).await.finalized_features;
        let group = features.iter().find(|feature| feature.name.as_str() == "group.version");
        assert_eq!(group.map(|feature| feature.max_version_level), Some(1));
        // What has grown is found at the next heartbeat.
        let more = CreatePartitionsTopic::default().with_name(text("t").into()).with_count(6);
        let more = more.with_assignments(None);
        let request = CreatePartitionsRequest::default().with_topics(vec![more]).with_timeout_ms(5_000);
        assert_eq!(a.agent.call(3, &request).await.results[0].error_code, 0);
        assert_eq!(a.beats().await, (3, vec![0, 1, 4]));
        assert_eq!(b.beats().await, (3, vec![2, 3, 5]));
        assert_eq!(a.leaves(-1).await, 0);
        assert_eq!(a.leaves(-1).await, 25);
        assert_eq!(b.beats().await, (4, vec![0, 1, 2, 3, 4, 5]));
        assert_eq!(b.leaves(-1).await, 0);
        let told = describe(&mut b.agent, 1).await;
        assert_eq!((told.error_code, told.group_state.as_str(), told.group_epoch), (0, "Empty", 5));
    });
}

#[test]
fn offsets_are_fenced_by_the_member_epoch() {
    World::default().run(|cluster| async move {
        let [mut a, mut b] = two_consumers(cluster, "agent-1").await;
        assert_eq!((a.commits(9, 5).await, a.fetches().await), (0, (0, Some(5))));
        assert_eq!(a.commits(8, 6).await, 35, "a generation is no epoch");
        // In an earlier epoch it commits what it has had since then (KIP-1251), but fetches nothing.
        a.epoch = 1;
        assert_eq!((a.commits(9, 6).await, a.fetches().await), (0, (113, None)));
        a.epoch = 0;
        assert_eq!(a.commits(9, 7).await, 113);
        (a.epoch, a.id) = (1, "x".into());
        assert_eq!((a.commits(9, 6).await, a.fetches().await, a.refused().await), (25, (25, None), 25));
        let txn = Txn::init(&mut b.agent, "jt1").await;
        assert_eq!(txn.add_offsets(&mut b.agent, 3, "g").await, 0);
        let mut told = Vec::new();
        for (epoch, member_id) in [(2, "b"), (1, "b"), (2, "x"), (-1, "")] {
            let request =
                txn.offsets("g", &[(1, 7)]).with_generation_id(epoch).with_member_id(text(member_id));
            told.push(b.agent.call(3, &request).await.topics[0].partitions[0].error_code);
        }
        assert_eq!(told, [0, 22, 25, 0]);
        assert_eq!(stable_offsets(&mut b.agent, "g", &[0, 1]).await, [(6, 0), (-1, 88)]);
    });
}

#[test]
fn a_group_of_the_consumer_protocol_is_told_as_one() {
    World::default().run(|cluster| async move {
        let [mut a, mut b] = two_consumers(cluster, "agent-1").await;
        for version in 0..=1 {
            let told = describe(&mut a.agent, version).await;
            assert_eq!((told.error_code, told.group_state.as_str()), (0, "Stable"));
            assert_eq!(
                (told.group_epoch, told.assignment_epoch, told.assignor_name.as_str()),
                (2, 2, "uniform")
            );
            let [first, _] = &told.members[..] else { panic!("two members") };
            assert_eq!(
                (first.member_id.as_str(), first.member_epoch, first.client_id.as_str()),
                ("a", 2, "test")
            );
            assert_eq!(first.subscribed_topic_names[0].as_str(), "t");
            let topic = &first.assignment.topic_partitions[0];
            assert_eq!((topic.topic_name.as_str(), &topic.partitions[..]), ("t", &[0, 1][..]));
            assert_eq!(first.target_assignment, first.assignment);
            assert_eq!(first.member_type, if version == 0 { -1 } else { 1 });
        }
        let listed = a.agent.call(5, &ListGroupsRequest::default()).await.groups.remove(0);
        let told = (listed.group_state.as_str(), listed.group_type.as_str(), listed.protocol_type.as_str());
        assert_eq!(told, ("Stable", "consumer", "consumer"));
        let classic = DescribeGroupsRequest::default().with_groups(vec![text("g").into()]);
        assert_eq!(a.agent.call(5, &classic).await.groups[0].group_state.as_str(), "Dead");

        // A member of the other protocol has no place, until the group is empty.
        let mut member = Member::new(cluster, "agent-1").await;
        assert_eq!((member.join().await.error_code, member.beat().await), (23, 25));
        let delete = DeleteGroupsRequest::default().with_groups_names(vec![text("g").into()]);
        assert_eq!(a.agent.call(2, &delete).await.results[0].error_code, 68);
        assert_eq!((a.leaves(-1).await, b.leaves(-1).await), (0, 0));
        let mut member = Member::entering(cluster, "agent-1").await;
        assert_eq!(member.generation().await, (1, true, 1));
        a.epoch = 0;
        a.owned.clear();
        assert_eq!(a.refused().await, 69);
        assert_eq!(member.leave().await, 0);
        assert_eq!(a.beats().await, (1, vec![0, 1, 2, 3]));
        assert_eq!(describe(&mut a.agent, 1).await.members.len(), 1);
    });
}

#[test]
fn requests_that_make_no_sense_are_refused() {
    World::default().run(|cluster| async move {
        let mut agent = cluster.connect("agent-1").await;
        agent.create_topic("t", 1, &[]).await;
        let valid = Consumer::new(cluster, "agent-1", "a").await.request();
        let invalid = [
            valid.clone().with_group_id(text("").into()),
            valid.clone().with_member_id(text("")),
            valid.clone().with_instance_id(Some(text(""))),
            valid.clone().with_rack_id(Some(text(""))),
            valid.clone().with_rebalance_timeout_ms(-1),
            valid.clone().with_topic_partitions(None),
            valid.clone().with_topic_partitions(Some(vec![TopicPartitions::default()])),
            valid.clone().with_subscribed_topic_names(None),
            valid.clone().with_member_epoch(-2),
            valid.clone().with_member_epoch(-3),
        ];
        for (nth, request) in invalid.iter().enumerate() {
            assert_eq!(agent.call(1, request).await.error_code, 42, "request {nth}");
        }
        let assignor = |name: &str| valid.clone().with_server_assignor(Some(text(name)));
        assert_eq!(agent.call(1, &assignor("sticky")).await.error_code, 112);
        let pattern = valid.clone().with_subscribed_topic_regex(Some(text("(")));
        assert_eq!(agent.call(1, &pattern).await.error_code, 128);
        assert_eq!(agent.call(1, &valid.clone().with_member_epoch(1)).await.error_code, 69);
        assert!(cluster.keys("group_state/").await.is_empty(), "no group was made of it");
        // Version 0 gives who comes in a member id.
        let told = agent.call(0, &valid.with_member_id(text(""))).await;
        assert_eq!((told.error_code, told.member_epoch), (0, 1));
        assert_eq!(told.member_id.as_ref().map(|id| id.len()), Some(36));
        let by_pattern = Consumer::new(cluster, "agent-1", "p").await.request();
        let by_pattern =
            by_pattern.with_subscribed_topic_names(None).with_subscribed_topic_regex(Some(text("[t-z]+")));
        let told = agent.call(1, &by_pattern).await;
        assert_eq!((told.error_code, told.member_epoch), (0, 2));
    });
}

#[test]
fn who_falls_silent_is_out_and_a_static_member_may_be_away() {
    let mut world = World::default();
    world.agent.groups.consumer_session_timeout_ms = 10_000;
    world.run(|cluster| async move {
        let mut agent = cluster.connect("agent-1").await;
        agent.create_topic("t", 2, &[]).await;
        let mut a = Consumer::new(cluster, "agent-1", "a").await;
        let mut s = Consumer::new(cluster, "agent-1", "s1").await;
        s.instance_id = Some("i");
        assert_eq!((a.beats().await, s.beats().await), ((1, vec![0, 1]), (2, vec![])));
        assert_eq!((a.beats().await, a.beats().await), ((1, vec![0]), (2, vec![0])));
        assert_eq!(s.beats().await, (2, vec![1]));
        let mut thief = Consumer::new(cluster, "agent-1", "s2").await;
        thief.instance_id = Some("i");
        assert_eq!(thief.refused().await, 111);
        assert_eq!((thief.leaves(-2).await, s.leaves(-2).await, s.leaves(-2).await), (82, 0, 0));
        for _ in 0..4 {
            sleep(Duration::from_secs(2)).await;
            assert_eq!(a.beats().await, (2, vec![0]), "the partition stays the other's");
        }
        assert_eq!(thief.beats().await, (2, vec![1]), "the same epoch");
        assert_eq!(s.refused().await, 82);
        let began = Instant::now();
        while a.beats().await == (2, vec![0]) {
            sleep(Duration::from_secs(1)).await;
        }
        assert!((9..12).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
        assert_eq!(a.beats().await, (3, vec![0, 1]));
        assert_eq!(thief.refused().await, 25);
    });
}

#[test]
fn a_heartbeat_that_changes_nothing_writes_nothing_and_a_group_outlives_its_owner() {
    let strike = When::Event(EventPattern::words("test.strike"));
    let crash = Fault::Crash { node: "agent-2".into(), restart_after_ms: None };
    let mut world =
        World { faults: vec![Scheduled { id: 1, when: strike, fault: crash }], ..World::default() };
    world.config.agents = 3;
    world.agent.lease_ttl_s = 3;
    world.agent.groups.consumer_session_timeout_ms = 10_000;
    world.run(|cluster| async move {
        while cluster.keys("agents/").await.len() < 3 {
            again().await;
        }
        let mut consumers = two_consumers(cluster, "agent-2").await;
        let stored = async || {
            let key = bytes::Bytes::from_static(b"group_state/g");
            let range = fake_etcd::api::RangeRequest { key, ..Default::default() };
            cluster.etcd().range(range).await.expect("the coordinator answers").kvs[0].mod_revision
        };
        let revision = stored().await;
        for _ in 0..3 {
            for consumer in &mut consumers {
                consumer.beats().await;
            }
        }
        assert_eq!(stored().await, revision);
        rt::event!("test.strike");
        let mut agent = cluster.connect("agent-3").await;
        while owner(&mut agent, "g").await != "agent-1" {
            again().await;
        }
        for _ in 0..8 {
            for (consumer, owned) in consumers.iter_mut().zip([[0, 1], [2, 3]]) {
                let mut elsewhere = cluster.connect("agent-3").await;
                assert_eq!(elsewhere.call(1, &consumer.request()).await.error_code, 16);
                consumer.agent = cluster.connect("agent-1").await;
                assert_eq!(consumer.beats().await, (2, owned.to_vec()));
            }
            sleep(Duration::from_secs(2)).await;
        }
        assert_eq!(stored().await, revision);
    });
}

/// The coordinator's answer to the n-th write of the group's life is lost.
#[test]
fn a_group_lives_through_lost_answers() {
    for nth in 1..=6 {
        let fault = Fault::Cut {
            from: vec!["etcd".into()],
            to: vec!["agent-1".into()],
            both_ways: false,
            for_ms: 1_500,
        };
        let when = When::Point { node: Some("agent-1".into()), point: "group.before-commit".into(), nth };
        let faults = vec![Scheduled { id: 1, when, fault }];
        World { seed: u64::from(nth), faults, ..World::default() }.run(|cluster| async move {
            let [mut a, mut b] = two_consumers(cluster, "agent-1").await;
            assert_eq!(b.leaves(-1).await, 0);
            assert_eq!(a.beats().await, (3, vec![0, 1, 2, 3]));
        });
    }
}
