//! Members that come, go and commit while agents and the coordinator fail under them. Whatever happens: a generation has one
//! leader, an assignment is that of its generation and of nobody else, and once anybody was told of a generation
//! nobody commits in an older one.

use super::*;
use crate::harness::World;
use kafka_protocol::protocol::Request;
use rt::time::{Instant, sleep, timeout};
use sim::choice::Choices;
use sim::fault::{Fault, Scheduled, When};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const MEMBERS: u64 = 4;
/// How long members come and go.
const LASTS: Duration = Duration::from_secs(40);
/// Longest wait for an answer: longer than any rebalance here takes.
const LIMIT: Duration = Duration::from_secs(12);

/// What all members know together.
#[derive(Default)]
struct Known {
    /// The leader of each generation.
    leaders: BTreeMap<i32, String>,
    commits: u64,
    refused: u64,
}

impl Known {
    fn newest(&self) -> i32 {
        self.leaders.last_key_value().map_or(0, |(generation, _)| *generation)
    }
}

/// A member that finds its group's owner anew whenever it has lost it.
struct Nomad {
    cluster: Cluster,
    member: Option<Member>,
    id: String,
    generation: i32,
    known: Arc<Mutex<Known>>,
    choices: Choices,
    number: u64,
    asked: u64,
}

impl Nomad {
    fn choose(&mut self, name: &str, below: u64) -> u64 {
        self.asked += 1;
        self.choices.world(name, self.number, self.asked).below(below)
    }

    /// A request to the owner, repeated until it is answered with something else than to try again.
    async fn call<R: Request>(
        &mut self,
        version: i16,
        request: impl Fn(&Member) -> R,
        code: fn(&R::Response) -> i16,
    ) -> R::Response {
        loop {
            let member = self.at_owner().await;
            let request = request(member);
            let answer = member.agent.try_call(version, &request, LIMIT).await;
            match answer {
                Some(answer) if !RETRIABLE.contains(&code(&answer)) => return answer,
                _ => self.member = None,
            }
            again().await;
        }
    }

    async fn at_owner(&mut self) -> &mut Member {
        while self.member.is_none() {
            let through = format!("agent-{}", 1 + self.choose("through", 3));
            let found = timeout(Duration::from_secs(2), async {
                let mut agent = self.cluster.connect(&through).await;
                let request = FindCoordinatorRequest::default().with_coordinator_keys(vec![text("g")]);
                let found = agent.try_call(4, &request, LIMIT).await?.coordinators.remove(0);
                if found.error_code != 0 {
                    return None;
                }
                Some(self.cluster.connect(&found.host).await)
            });
            match found.await.ok().flatten() {
                Some(agent) => {
                    self.member = Some(Member {
                        agent,
                        group: "g",
                        id: self.id.clone(),
                        instance_id: None,
                        generation: self.generation,
                        session_timeout_ms: 6_000,
                        rebalance_timeout_ms: 8_000,
                        protocols: vec![("range", "m")],
                    });
                }
                None => again().await,
            }
        }
        let member = self.member.as_mut().expect("it was found");
        (member.id, member.generation) = (self.id.clone(), self.generation);
        member
    }

    /// Joins, however long it takes. The members that the answer tells of.
    async fn join(&mut self) -> Vec<String> {
        loop {
            let told = self.call(JOIN, Member::join_request, |told| told.error_code).await;
            match told.error_code {
                0 => {
                    (self.id, self.generation) = (told.member_id.to_string(), told.generation_id);
                    let mut known = self.known.lock().unwrap();
                    let leader = told.leader.to_string();
                    let first = known.leaders.entry(self.generation).or_insert_with(|| leader.clone());
                    assert_eq!(*first, leader, "a generation with two leaders");
                    return told.members.iter().map(|member| member.member_id.to_string()).collect();
                }
                79 => self.id = told.member_id.to_string(),
                25 => self.id = String::new(),
                27 => {}
                code => panic!("JoinGroup: code {code}"),
            }
        }
    }

    /// Joins and gets its assignment; false if the group rebalanced meanwhile.
    async fn enter(&mut self) -> bool {
        let members = self.join().await;
        let generation = self.generation;
        let request = |member: &Member| {
            let assignment = |id: &String| {
                SyncGroupRequestAssignment::default()
                    .with_member_id(text(id))
                    .with_assignment(format!("{generation} {id}").into())
            };
            SyncGroupRequest::default()
                .with_group_id(text("g").into())
                .with_generation_id(generation)
                .with_member_id(text(&member.id))
                .with_protocol_type(Some(text("consumer")))
                .with_protocol_name(Some(text("range")))
                .with_assignments(members.iter().map(assignment).collect())
        };
        let told = self.call(SYNC, request, |told| told.error_code).await;
        match told.error_code {
            0 => assert_eq!(told.assignment, format!("{generation} {}", self.id), "somebody else's"),
            25 => self.id = String::new(),
            22 | 27 => {}
            code => panic!("SyncGroup: code {code}"),
        }
        told.error_code == 0
    }

    /// Heartbeats and commits for as long as its generation lasts, and a little in the next.
    async fn work(&mut self) {
        for _ in 0..self.choose("beats", 8) {
            sleep(Duration::from_millis(500)).await;
            let (id, generation) = (self.id.clone(), self.generation);
            let beat = |_: &Member| {
                HeartbeatRequest::default()
                    .with_group_id(text("g").into())
                    .with_generation_id(generation)
                    .with_member_id(text(&id))
            };
            let told = self.call(BEAT, beat, |told| told.error_code).await.error_code;
            assert!([0, 22, 25, 27].contains(&told), "Heartbeat: code {told}");
            self.commit().await;
            if told == 25 {
                self.id = String::new();
            }
            if told != 0 {
                return;
            }
        }
    }

    async fn commit(&mut self) {
        let (id, generation) = (self.id.clone(), self.generation);
        let newest = self.known.lock().unwrap().newest();
        let commit = |_: &Member| {
            crate::calls::offset_commit("g", generation, &[(0, generation.into())]).with_member_id(text(&id))
        };
        let code =
            |told: &kafka_protocol::messages::OffsetCommitResponse| told.topics[0].partitions[0].error_code;
        let told = code(&self.call(8, commit, code).await);
        assert!([0, 22, 25, 27].contains(&told), "OffsetCommit: code {told}");
        assert!(told != 0 || generation >= newest, "a commit of {generation} when {newest} was known");
        let mut known = self.known.lock().unwrap();
        if told == 0 { known.commits += 1 } else { known.refused += 1 }
    }
}

async fn live(mut nomad: Nomad) {
    while Instant::now() < Instant::from_nanos(LASTS.as_nanos() as u64) {
        if nomad.enter().await {
            nomad.work().await;
        }
        if nomad.choose("leaves", 3) == 0 {
            let id = nomad.id.clone();
            let leave = |_: &Member| {
                let member = MemberIdentity::default().with_member_id(text(&id));
                LeaveGroupRequest::default().with_group_id(text("g").into()).with_members(vec![member])
            };
            nomad.call(5, leave, |told| told.error_code).await;
            nomad.id = String::new();
        }
    }
}

pub(super) fn faults(seed: u64) -> Vec<Scheduled> {
    let agent = |n: u64| format!("agent-{}", 1 + (seed + n) % 3);
    let cut = Fault::Cut {
        from: vec![agent(2)],
        to: vec!["etcd".into()],
        both_ways: seed.is_multiple_of(2),
        for_ms: 6_000,
    };
    let faults = [
        (4_000, Fault::Crash { node: agent(0), restart_after_ms: Some(4_000) }),
        (9_000, Fault::Pause { node: agent(1), for_ms: 5_000 }),
        (15_000, cut),
        (23_000, Fault::Pause { node: "etcd".into(), for_ms: 2_500 }),
        (27_000, Fault::MachineCrash { node: agent(1), restart_after_ms: Some(2_000) }),
    ];
    let fault = |(id, (at_ms, fault))| Scheduled { id, when: When::AtMs(at_ms + 97 * seed), fault };
    (1..).zip(faults).map(fault).collect()
}

#[test]
fn a_group_keeps_its_promises_in_a_storm() {
    for seed in 0..8 {
        let mut world = World { seed, faults: faults(seed), ..World::default() };
        world.config.agents = 3;
        world.agent.lease_ttl_s = 3;
        world.agent.groups.initial_rebalance_delay_ms = 500;
        world.run(move |cluster| async move {
            cluster.connect("agent-1").await.create_topic("t", 1, &[]).await;
            let known = Arc::new(Mutex::new(Known::default()));
            let mut members = rt::JoinSet::new();
            for number in 0..MEMBERS {
                let nomad = Nomad {
                    cluster,
                    member: None,
                    id: String::new(),
                    generation: -1,
                    known: known.clone(),
                    choices: Choices::new(seed, &[]),
                    number,
                    asked: 0,
                };
                members.spawn("member", live(nomad));
            }
            while members.join_next().await.is_some() {}
            let known = known.lock().unwrap();
            assert!(known.newest() >= 5, "only {} generations", known.newest());
            assert!(known.commits > 20, "only {} commits", known.commits);
        });
    }
}
