//! Members of groups under real frames: they join, sync, beat, leave and commit, through rebalances and the loss of agents.

mod admin;
mod classic;
mod consumer;
mod consumer_storm;
mod owner;
mod storm;

use crate::calls::again;
use crate::harness::{Cluster, Connection, text};
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::{
    FindCoordinatorRequest, HeartbeatRequest, JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest,
    OffsetCommitRequest, SyncGroupRequest,
};

/// What a member waits for that is to be asked again: coordinator loading, not available, elsewhere.
const RETRIABLE: [i16; 3] = [14, 15, 16];
/// JoinGroup, SyncGroup and Heartbeat as the members of these tests speak them.
const JOIN: i16 = 9;
const SYNC: i16 = 5;
const BEAT: i16 = 4;

/// The agent that owns a group, as `agent` says.
async fn owner(agent: &mut Connection, group: &str) -> String {
    let request = FindCoordinatorRequest::default().with_coordinator_keys(vec![text(group)]);
    loop {
        let found = agent.call(4, &request).await.coordinators.remove(0);
        if found.error_code == 0 {
            assert_eq!(found.host.as_str(), format!("agent-{}", found.node_id.0));
            return found.host.to_string();
        }
        assert!(RETRIABLE.contains(&found.error_code), "code {}", found.error_code);
        again().await;
    }
}

/// A member of the group `g`, on a connection of its own to the group's owner.
struct Member {
    agent: Connection,
    group: &'static str,
    id: String,
    instance_id: Option<&'static str>,
    generation: i32,
    session_timeout_ms: i32,
    rebalance_timeout_ms: i32,
    protocols: Vec<(&'static str, &'static str)>,
}

impl Member {
    /// Somebody who is no member yet, once the group has an owner.
    async fn new(cluster: Cluster, agent: &str) -> Self {
        let mut agent = cluster.connect(agent).await;
        owner(&mut agent, "g").await;
        Member {
            agent,
            group: "g",
            id: String::new(),
            instance_id: None,
            generation: -1,
            session_timeout_ms: 10_000,
            rebalance_timeout_ms: 20_000,
            protocols: vec![("range", "m")],
        }
    }

    /// One who is given an id, and sends its second JoinGroup.
    async fn entering(cluster: Cluster, owner: &str) -> Self {
        let mut member = Member::new(cluster, owner).await;
        let told = member.join().await;
        assert_eq!((told.error_code, told.generation_id), (79, -1));
        assert!(told.member_id.starts_with("test-"), "{}", told.member_id);
        member.id = told.member_id.to_string();
        member.send_join().await;
        member
    }

    fn join_request(&self) -> JoinGroupRequest {
        let protocol = |(name, metadata): &(&str, &'static str)| {
            JoinGroupRequestProtocol::default().with_name(text(name)).with_metadata((*metadata).into())
        };
        JoinGroupRequest::default()
            .with_group_id(text(self.group).into())
            .with_session_timeout_ms(self.session_timeout_ms)
            .with_rebalance_timeout_ms(self.rebalance_timeout_ms)
            .with_member_id(text(&self.id))
            .with_group_instance_id(self.instance_id.map(text))
            .with_protocol_type(text("consumer"))
            .with_protocols(self.protocols.iter().map(protocol).collect())
    }

    async fn send_join(&mut self) {
        let request = self.join_request();
        self.agent.send(JOIN, &request).await;
    }

    /// The answer to the JoinGroup sent.
    async fn joined(&mut self) -> JoinGroupResponse {
        let told = self.agent.receive::<JoinGroupRequest>(JOIN).await;
        if told.error_code == 0 {
            self.id = told.member_id.to_string();
            self.generation = told.generation_id;
        }
        told
    }

    async fn join(&mut self) -> JoinGroupResponse {
        self.send_join().await;
        self.joined().await
    }

    /// The answer to the JoinGroup sent, which must be a generation: its number, whether this member leads, and how many
    /// members the answer tells of.
    async fn generation(&mut self) -> (i32, bool, usize) {
        let told = self.joined().await;
        assert_eq!(told.error_code, 0);
        assert_eq!(told.protocol_name.as_deref(), Some("range"));
        (told.generation_id, told.leader == told.member_id, told.members.len())
    }

    async fn send_sync(&mut self, assignments: &[(&str, &'static str)]) {
        let assignment = |(id, assignment): &(&str, &'static str)| {
            SyncGroupRequestAssignment::default()
                .with_member_id(text(id))
                .with_assignment((*assignment).into())
        };
        let request = SyncGroupRequest::default()
            .with_group_id(text(self.group).into())
            .with_generation_id(self.generation)
            .with_member_id(text(&self.id))
            .with_group_instance_id(self.instance_id.map(text))
            .with_protocol_type(Some(text("consumer")))
            .with_protocol_name(Some(text("range")))
            .with_assignments(assignments.iter().map(assignment).collect());
        self.agent.send(SYNC, &request).await;
    }

    /// The answer to the SyncGroup sent: code and assignment.
    async fn synced(&mut self) -> (i16, String) {
        let told = self.agent.receive::<SyncGroupRequest>(SYNC).await;
        (told.error_code, String::from_utf8_lossy(&told.assignment).into_owned())
    }

    async fn sync(&mut self, assignments: &[(&str, &'static str)]) -> (i16, String) {
        self.send_sync(assignments).await;
        self.synced().await
    }

    /// Heartbeat; its code.
    async fn beat(&mut self) -> i16 {
        let request = HeartbeatRequest::default()
            .with_group_id(text(self.group).into())
            .with_generation_id(self.generation)
            .with_member_id(text(&self.id))
            .with_group_instance_id(self.instance_id.map(text));
        self.agent.call(BEAT, &request).await.error_code
    }

    async fn leave(&mut self) -> i16 {
        let member = MemberIdentity::default()
            .with_member_id(text(&self.id))
            .with_group_instance_id(self.instance_id.map(text));
        let request =
            LeaveGroupRequest::default().with_group_id(text(self.group).into()).with_members(vec![member]);
        let told = self.agent.call(5, &request).await;
        assert_eq!(told.error_code, 0);
        told.members[0].error_code
    }

    /// OffsetCommit of partition 0 of the topic `t`, as this member; its code.
    async fn commit(&mut self, offset: i64) -> i16 {
        let request: OffsetCommitRequest =
            crate::calls::offset_commit(self.group, self.generation, &[(0, offset)])
                .with_member_id(text(&self.id))
                .with_group_instance_id(self.instance_id.map(text));
        self.agent.call(9, &request).await.topics[0].partitions[0].error_code
    }
}

/// Two members of generation 1, the first of them the leader, with the assignments `0` and `1`.
async fn two_members(cluster: Cluster, owner: &str) -> [Member; 2] {
    let mut a = Member::entering(cluster, owner).await;
    let mut b = Member::entering(cluster, owner).await;
    let (first, second) = (a.generation().await, b.generation().await);
    if second.1 {
        std::mem::swap(&mut a, &mut b);
        assert_eq!((first, second), ((1, false, 0), (1, true, 2)));
    } else {
        assert_eq!((first, second), ((1, true, 2), (1, false, 0)));
    }
    b.send_sync(&[]).await;
    let ids = [a.id.clone(), b.id.clone()];
    assert_eq!(a.sync(&[(&ids[0], "0"), (&ids[1], "1")]).await, (0, "0".to_string()));
    assert_eq!(b.synced().await, (0, "1".to_string()));
    [a, b]
}

/// Both join anew, the leader first: the next generation is made of the two.
async fn join_anew([a, b]: &mut [Member; 2]) {
    a.send_join().await;
    while b.beat().await != 27 {
        again().await;
    }
    b.send_join().await;
    let generation = a.generation + 1;
    assert_eq!((a.generation().await, b.generation().await), ((generation, true, 2), (generation, false, 0)));
}
