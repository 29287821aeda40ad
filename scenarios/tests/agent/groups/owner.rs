//! Many agents: one owns a group at a time, and what it knew goes on in the next.

use super::*;
use crate::harness::World;
use rt::time::{Instant, sleep};
use sim::fault::{Fault, Scheduled, When};
use std::time::Duration;

fn three(faults: Vec<(When, Fault)>) -> World {
    let fault = |(id, (when, fault))| Scheduled { id, when, fault };
    let mut world = World { faults: (1..).zip(faults).map(fault).collect(), ..World::default() };
    world.config.agents = 3;
    world.agent.lease_ttl_s = 3;
    world
}

/// Waits until all three agents are registered: from then on only the loss of one moves a group.
async fn settled(cluster: Cluster) {
    while cluster.keys("agents/").await.len() < 3 {
        again().await;
    }
}

#[test]
fn every_agent_names_the_owner_and_only_the_owner_serves_members() {
    three(Vec::new()).run(|cluster| async move {
        settled(cluster).await;
        let mut agents = Vec::new();
        for name in ["agent-1", "agent-2", "agent-3"] {
            agents.push((name, cluster.connect(name).await));
        }
        let first = owner(&mut agents[0].1, "g").await;
        for (name, agent) in &mut agents {
            assert_eq!(owner(agent, "g").await, first);
            let mut member = Member::new(cluster, name).await;
            let told = (member.join().await.error_code, member.beat().await, member.sync(&[]).await.0);
            let expected = if *name == first { (79, 25, 25) } else { (16, 16, 16) };
            assert_eq!(told, expected, "{name}");
        }
    });
}
