//! Whom clients are sent to. Any agent may serve anything but the membership of groups; see [`Routing`].

use crate::agent::Context;
use crate::config::Routing;
use crate::records::AgentEntry;
use rt::choice::stable_hash;

/// The agent named as leader of a partition.
pub(crate) fn leader(context: &Context, agents: &[AgentEntry], topic: &str, partition: i32) -> AgentEntry {
    choose(context, agents, || format!("{topic}/{partition}"))
}

/// The agent that owns a group, whatever [`Routing`] says: heartbeats are written nowhere, so one agent must hear them all.
/// `agents` are those registered, and no others: every agent must come to the same one.
pub(crate) fn owner<'a>(agents: &'a [AgentEntry], group: &str) -> Option<&'a AgentEntry> {
    rendezvous(agents, group)
}

/// The agent named as coordinator of a transactional id.
pub(crate) fn coordinator(context: &Context, agents: &[AgentEntry], key: &str) -> AgentEntry {
    choose(context, agents, || key.to_string())
}

fn choose(context: &Context, agents: &[AgentEntry], what: impl FnOnce() -> String) -> AgentEntry {
    match context.config.routing {
        Routing::AnsweringAgent => context.myself(),
        Routing::Rendezvous => rendezvous(agents, &what()).cloned().unwrap_or_else(|| context.myself()),
    }
}

/// Rendezvous hashing: when an agent comes or goes, only what it wins or held moves.
fn rendezvous<'a>(agents: &'a [AgentEntry], what: &str) -> Option<&'a AgentEntry> {
    agents.iter().max_by_key(|agent| mix(stable_hash(format!("{}/{what}", agent.node_id).as_bytes())))
}

/// FNV leaves the high bits of similar texts similar; this spreads them (the finalizer of MurmurHash3).
fn mix(mut hash: u64) -> u64 {
    for factor in [0xff51_afd7_ed55_8ccd, 0xc4ce_b9fe_1a85_ec53_u64] {
        hash = (hash ^ (hash >> 33)).wrapping_mul(factor);
    }
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_lost_agent_held_moves() {
        let agents: Vec<AgentEntry> =
            (1..=4).map(|node_id| AgentEntry { node_id, host: String::new(), port: 0 }).collect();
        let mut load = [0; 5];
        for partition in 0..400 {
            let what = format!("t/{partition}");
            let before = rendezvous(&agents, &what).unwrap().node_id;
            let after = rendezvous(&agents[..3], &what).unwrap().node_id;
            assert!(before == 4 || before == after, "{what} moved from {before} to {after}");
            load[before as usize] += 1;
        }
        assert!(load[1..].iter().all(|n| (60..140).contains(n)), "uneven: {load:?}");
        assert!(rendezvous(&[], "t/0").is_none());
    }
}
