//! All faults at once, drawn by swarm: what the safe ground must bear.
//!
//! * processes and machines of agents, coordinator and store pause and crash; networks are cut, lose, slow down and
//!   narrow; clocks jump and drift
//! * or agents crash at a poll, instead of pausing and crashing by the clock, so that neither strikes what is down
//! * the machines of clients pause, are cut off, and lose packets; they do not crash, since what a worker has done is
//!   in its memory
//! * the machines of group members crash as well, as do their processes, and all that at any time: a member begins anew
//! * requests arrive long after their sender gave them up, and answers are lost on their way

use crate::cluster::{COORDINATOR, STORAGE};
use crate::config::Config;
use sim::choice::Choices;
use sim::fault::{Fault, FramePattern, Scheduled, When};
use sim::nemesis::{self, Kind, Swarm};

/// When trouble may begin: the cluster and its clients stand by then.
const FROM_MS: u64 = 2_000;
/// The same in a short run of the queue workload.
const QUEUE_FROM_MS: u64 = 700;
/// Clients are still at work for this long, whatever happens to them.
const CLIENTS_UNTIL_MS: u64 = 4_000;
/// An agent is polled this often in every run.
const POLLS_MIN: u64 = 800;

const NETWORK: [Kind; 6] =
    [Kind::Cut, Kind::Loss, Kind::Slow, Kind::Narrow, Kind::ClockJump, Kind::ClockDrift];
const PROCESSES: [Kind; 3] = [Kind::Pause, Kind::Crash, Kind::MachineCrash];

/// Frames that are lost, with their connections, as they leave.
const LOST: [&str; 7] = [
    "Produce.reply",
    "EndTxn.reply",
    "AddPartitionsToTxn.reply",
    "InitProducerId.reply",
    "Fetch.reply",
    "etcd.txn.reply",
    "s3.put.reply",
];
/// Frames that arrive late.
const LATE: [&str; 5] = ["Produce", "EndTxn", "AddPartitionsToTxn", "InitProducerId", "etcd.txn"];

/// Frames of group members that are lost, as above, and that arrive late.
const GROUP_LOST: [&str; 4] = ["JoinGroup.reply", "SyncGroup.reply", "Heartbeat.reply", "OffsetFetch.reply"];
const GROUP_LATE: [&str; 3] = ["JoinGroup", "SyncGroup", "Heartbeat"];
/// And of those that commit: by themselves, and with transactions.
const COMMITS: [&str; 2] = ["OffsetCommit.reply", "OffsetCommit"];
const TRANSACTIONAL: [&str; 4] =
    ["TxnOffsetCommit.reply", "AddOffsetsToTxn.reply", "TxnOffsetCommit", "AddOffsetsToTxn"];

/// A schedule for a load that goes on until `until_ms`.
pub(crate) fn draw(choices: &Choices, config: &Config, clients: &[String], until_ms: u64) -> Vec<Scheduled> {
    let agents = config.agent_names();
    let dependencies = vec![COORDINATOR.to_string(), STORAGE.to_string()];
    let by_poll = choices.world("storm.by-poll", 0, 0).chance(0.3);
    let every = Swarm {
        kinds: [&PROCESSES[..], &NETWORK[..]].concat(),
        targets: [agents.clone(), dependencies.clone()].concat(),
        others: clients.to_vec(),
        from_ms: FROM_MS,
        until_ms,
        every_ms: (800, 5_000),
        for_ms: (20, 6_000),
        first_id: 1,
    };
    let mut faults = match by_poll {
        false => nemesis::draw(choices, &every),
        true => {
            let agents = Swarm { kinds: NETWORK.to_vec(), targets: agents.clone(), ..every.clone() };
            let others = Swarm { targets: dependencies, first_id: 101, ..every.clone() };
            [nemesis::draw(choices, &agents), nemesis::draw(choices, &others), poll_crashes(choices, config)]
                .concat()
        }
    };
    let at_clients = Swarm {
        kinds: vec![Kind::Pause, Kind::Cut, Kind::Loss, Kind::Slow, Kind::ClockJump],
        targets: clients.to_vec(),
        others: agents,
        until_ms: CLIENTS_UNTIL_MS,
        first_id: 201,
        ..every
    };
    if choices.world("storm.clients", 0, 0).chance(0.5) {
        faults.extend(nemesis::draw(choices, &at_clients));
    }
    // Nobody sends AddPartitionsToTxn under the second protocol.
    let is_sent =
        |(words, _): &(&str, u32)| !(config.is_second_protocol() && words.starts_with("AddPartitionsToTxn"));
    faults.extend(on_frames(choices, LOST.into_iter().chain(LATE).zip(401..).filter(is_sent)));
    faults
}

/// Answers lost and requests late in a short run of the queue workload, whose transactions are few.
pub(crate) fn on_queue_frames(choices: &Choices, config: &Config) -> Vec<Scheduled> {
    let txn = config.queue.as_ref().is_some_and(|queue| queue.txn);
    let of_txn = |words: &str| words.contains("Txn") || words.starts_with("InitProducerId");
    let is_sent = |(words, _): &(&str, u32)| {
        (txn || !of_txn(words)) && !(config.is_second_protocol() && words.starts_with("AddPartitionsToTxn"))
    };
    let mut faults = on_frames(choices, LOST.into_iter().chain(LATE).zip(401..).filter(is_sent));
    // After all clients have begun, and before any other trouble, so that such frames surely come.
    for scheduled in &mut faults {
        if scheduled.when == When::AtMs(FROM_MS) {
            scheduled.when = When::AtMs(QUEUE_FROM_MS);
        }
        if let Fault::Delay { frame, .. } | Fault::Reset { frame } = &mut scheduled.fault {
            frame.nth = 1;
        }
    }
    faults
}

/// Pauses of agents, and cuts between them and everybody else, the workers included, in a short run.
pub(crate) fn at_agents<'a>(
    choices: &Choices,
    config: &Config,
    workers: impl Iterator<Item = &'a String>,
    until_ms: u64,
) -> Vec<Scheduled> {
    let swarm = Swarm {
        kinds: vec![Kind::Pause, Kind::Cut],
        targets: config.agent_names(),
        others: [COORDINATOR, STORAGE].map(str::to_string).into_iter().chain(workers.cloned()).collect(),
        from_ms: 500,
        until_ms,
        every_ms: (300, 1_000),
        for_ms: (20, 1_500),
        first_id: 701,
    };
    nemesis::draw(choices, &swarm)
}

/// How the members of a group commit. A group commits in the end, so what all of them do is done at least once; of a
/// mixed group nothing is sure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Committing {
    /// All with transactions.
    Transactions,
    /// None with a transaction.
    Themselves,
    /// Each in its way.
    Mixed,
}

/// What strikes group members, beside [`draw`], in a load that goes on until `until_ms`. Members must be up all the
/// time.
pub(crate) fn draw_at_members(
    choices: &Choices,
    config: &Config,
    members: &[String],
    committing: Committing,
    until_ms: u64,
) -> Vec<Scheduled> {
    let at_members = Swarm {
        kinds: [&PROCESSES[..], &NETWORK[..]].concat(),
        targets: members.to_vec(),
        others: config.agent_names(),
        from_ms: FROM_MS,
        until_ms,
        every_ms: (800, 5_000),
        for_ms: (20, 6_000),
        first_id: 501,
    };
    let frames = GROUP_LOST.into_iter().chain(GROUP_LATE);
    let mut faults = on_frames(choices, frames.zip(601..));
    // Under the second protocol nobody sends AddOffsetsToTxn.
    let is_sent =
        |(words, _): &(&str, u32)| !(config.is_second_protocol() && words.starts_with("AddOffsetsToTxn"));
    faults.extend(match committing {
        Committing::Transactions => on_frames(choices, TRANSACTIONAL.into_iter().zip(621..).filter(is_sent)),
        Committing::Themselves => on_frames(choices, COMMITS.into_iter().zip(641..)),
        Committing::Mixed => Vec::new(),
    });
    if choices.world("storm.members", 0, 0).chance(0.7) {
        faults.extend(nemesis::draw(choices, &at_members));
    }
    faults
}

/// Crashes of agents right after one of their polls.
fn poll_crashes(choices: &Choices, config: &Config) -> Vec<Scheduled> {
    let agents = config.agent_names();
    let crash = |(node, id): (&String, u32)| {
        let draw = |what| choices.world(what, u64::from(id), 0);
        Scheduled {
            id,
            when: When::Poll { node: node.clone(), nth: draw("storm.nth").between(200, POLLS_MIN) },
            fault: Fault::Crash {
                node: node.clone(),
                restart_after_ms: Some(draw("storm.for").between(0, 3_000)),
            },
        }
    };
    agents.iter().zip(301..).map(crash).collect()
}

/// Answers that are lost and requests that are late: a part of those that every run has.
fn on_frames(choices: &Choices, frames: impl Iterator<Item = (&'static str, u32)>) -> Vec<Scheduled> {
    let mut faults = Vec::new();
    for (words, id) in frames {
        let draw = |what| choices.world(what, u64::from(id), 0);
        if draw("storm.frame").chance(0.7) {
            continue;
        }
        // Some runs have one commit only, and few heartbeats.
        let few = words.contains("Offset") || words.starts_with("Heartbeat");
        let most = if few { 1 } else { 4 };
        let frame =
            FramePattern { nth: draw("storm.nth").between(1, most) as u32, ..FramePattern::words(words) };
        let fault = match words.ends_with(".reply") {
            true => Fault::Reset { frame },
            false => Fault::Delay { frame, by_ms: draw("storm.for").between(100, 9_000) },
        };
        // Producers ask for their ids when they begin, and members join; some commit all there is at once.
        let early = ["InitProducerId", "JoinGroup", "SyncGroup", "Heartbeat", "Offset"]
            .iter()
            .any(|early| words.contains(early));
        let from_ms = if early { 0 } else { FROM_MS };
        faults.push(Scheduled { id, when: When::AtMs(from_ms), fault });
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_kind_of_fault_is_drawn_and_every_fault_has_an_id_of_its_own() {
        let mut seen = BTreeSet::new();
        for seed in 0..200 {
            let (choices, config) = (Choices::new(seed, &[]), Config::default());
            let mut faults = draw(&choices, &config, &["t1".into()], 20_000);
            let committing = [Committing::Transactions, Committing::Themselves, Committing::Mixed];
            let committing = committing[seed as usize % 3];
            faults.extend(draw_at_members(&choices, &config, &["m1".into()], committing, 20_000));
            let ids: BTreeSet<u32> = faults.iter().map(|scheduled| scheduled.id).collect();
            assert_eq!(ids.len(), faults.len(), "seed {seed}");
            for Scheduled { when, fault, .. } in &faults {
                let by_poll = matches!(when, When::Poll { .. });
                let name = format!("{fault:?}");
                seen.insert((name.split([' ', '{']).next().unwrap_or_default().to_string(), by_poll));
            }
        }
        let mut names: Vec<_> = seen.iter().map(|(name, _)| name.as_str()).collect();
        names.dedup();
        let all = "ClockDrift ClockJump Crash Cut Delay Loss MachineCrash Narrow Pause Reset Slow";
        assert_eq!(names.join(" "), all);
        assert!(seen.contains(&("Crash".to_string(), true)));
    }
}
