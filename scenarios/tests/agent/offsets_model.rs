//! A group under trouble, against a model: whatever the coordinator's answers do, the group ends with what was committed.

use crate::calls::{Txn, again, offset_commit, stable_offsets};
use crate::harness::{Connection, World};
use sim::choice::Choices;
use sim::fault::{Fault, Scheduled, When};
use std::collections::BTreeMap;

const PARTITIONS: u64 = 4;
const TRANSACTIONS: u64 = 20;
/// Not now: ask again (request timed out, coordinator loading, not available, elsewhere; concurrent transactions).
const RETRIABLE: [i16; 5] = [7, 14, 15, 16, 51];

/// The group as it should be. Commits are numbered in the order in which they were sent.
#[derive(Default)]
struct Model {
    commits: u64,
    committed: BTreeMap<i32, (i64, u64)>,
    pending: BTreeMap<i32, (i64, u64)>,
}

impl Model {
    fn commit(&mut self, partition: i32, offset: i64) {
        self.commits += 1;
        self.committed.insert(partition, (offset, self.commits));
    }

    fn hold(&mut self, partition: i32, offset: i64) {
        self.commits += 1;
        self.pending.insert(partition, (offset, self.commits));
    }

    fn end(&mut self, committed: bool) {
        for (partition, pending) in std::mem::take(&mut self.pending) {
            let current = self.committed.entry(partition).or_insert((-1, 0));
            if committed && pending.1 > current.1 {
                *current = pending;
            }
        }
    }
}

/// Repeats a request until it is answered for good; the expression is its code.
macro_rules! insist {
    ($request:expr) => {
        loop {
            match $request {
                0 => break,
                code => assert!(RETRIABLE.contains(&code), "code {code}"),
            }
            again().await;
        }
    };
}

/// A transaction: through which agents, and what.
struct Step {
    lists: usize,
    holds: usize,
    ends: usize,
    /// Partition and offset that the transaction commits.
    held: (i32, i64),
    /// What the group commits by itself meanwhile, and through which agent.
    plain: Option<(usize, i32, i64)>,
    committed: bool,
}

fn steps(seed: u64) -> Vec<Step> {
    let choices = Choices::new(seed, &[]);
    let step = |n: u64| {
        let choose = |name: &str, below: u64| choices.world(name, seed, n).below(below);
        let (agent, partition) = (|name| choose(name, 2) as usize, |name| choose(name, PARTITIONS) as i32);
        let offset = 10 * n as i64;
        Step {
            lists: agent("lists"),
            holds: agent("holds"),
            ends: agent("ends"),
            held: (partition("held"), offset),
            plain: (choose("plain", 3) == 0).then(|| (agent("commits"), partition("committed"), offset + 1)),
            committed: choose("end", 4) > 0,
        }
    };
    (0..TRANSACTIONS).map(step).collect()
}

async fn plain(agent: &mut Connection, partition: i32, offset: i64) -> i16 {
    let answer = agent.call(8, &offset_commit("g", -1, &[(partition, offset)])).await;
    answer.topics[0].partitions[0].error_code
}

#[test]
fn the_group_ends_with_what_was_committed() {
    for seed in 0..12 {
        let deaf = |agent: &str| Fault::Cut {
            from: vec!["etcd".into()],
            to: vec![agent.into()],
            both_ways: seed % 2 == 0,
            for_ms: 1_500,
        };
        let at = |point: &str, agent: &str| When::Point {
            node: Some(agent.into()),
            point: point.into(),
            nth: 2 + (seed % 3) as u32,
        };
        let schedule = [
            (at("add-offsets.before-commit", "agent-1"), deaf("agent-1")),
            (When::AtMs(400), Fault::Pause { node: "etcd".into(), for_ms: 1_200 }),
            (at("txn-offset-commit.before-commit", "agent-2"), deaf("agent-2")),
        ];
        let faults = (1..).zip(schedule).map(|(id, (when, fault))| Scheduled { id, when, fault });
        let mut world = World { seed, faults: faults.collect(), ..World::default() };
        world.config.agents = 2;
        world.agent.transactions.scan_interval_ms = 1_000;
        world.run(move |cluster| async move {
            let mut agents = [cluster.connect("agent-1").await, cluster.connect("agent-2").await];
            agents[0].create_topic("t", PARTITIONS as i32, &[]).await;
            let mut model = Model::default();
            let txn = Txn::init(&mut agents[0], "jt1").await;
            for step in steps(seed) {
                let (partition, offset) = step.held;
                insist!(txn.add_offsets(&mut agents[step.lists], 3, "g").await);
                insist!(txn.commit_offsets(&mut agents[step.holds], 3, "g", &[step.held]).await[0]);
                model.hold(partition, offset);
                if let Some((agent, partition, offset)) = step.plain {
                    insist!(plain(&mut agents[agent], partition, offset).await);
                    model.commit(partition, offset);
                }
                insist!(txn.end(&mut agents[step.ends], step.committed).await);
                model.end(step.committed);
            }
            // The next transaction begins when the last one is complete.
            insist!(txn.add_offsets(&mut agents[0], 3, "h").await);
            let all: Vec<i32> = (0..PARTITIONS as i32).collect();
            let offset = |n| model.committed.get(n).map_or(-1, |(offset, _)| *offset);
            let expected: Vec<(i64, i16)> = all.iter().map(|n| (offset(n), 0)).collect();
            for agent in &mut agents {
                assert_eq!(stable_offsets(agent, "g", &all).await, expected, "seed {seed}");
            }
        });
    }
}
