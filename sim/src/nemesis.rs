//! A nemesis: faults drawn by swarm.
//!
//! Each run draws which kinds of fault it may use, which nodes they strike, and how often; then the faults themselves.
//! Drawing is a pure function of the choices, and its result is plain data: a run's schedule.

use crate::choice::Choices;
use crate::fault::{Fault, Scheduled, When};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A process pauses.
    Pause,
    /// A process crashes and is started again.
    Crash,
    /// A machine crashes and is started again.
    MachineCrash,
    /// A node is cut off from the others, one way or both.
    Cut,
    /// A node's packets are lost at random.
    Loss,
    /// A node's packets take longer.
    Slow,
    /// Less fits through to and from a node.
    Narrow,
    /// A node's wall clock jumps.
    ClockJump,
    /// A node's clocks drift.
    ClockDrift,
}

/// What the nemesis may do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Swarm {
    /// Kinds of fault to draw from. Each run uses a non-empty part of them.
    pub kinds: Vec<Kind>,
    /// Nodes to strike. Each run strikes a non-empty part of them.
    pub targets: Vec<String>,
    /// All other nodes, from which a target can be cut off.
    pub others: Vec<String>,
    /// The first fault strikes no earlier, in milliseconds.
    pub from_ms: u64,
    /// The last fault strikes no later, in milliseconds.
    pub until_ms: u64,
    /// Time between faults, at least and at most, in milliseconds. Each run draws its own mean between them.
    pub every_ms: (u64, u64),
    /// How long a fault lasts, at least and at most, in milliseconds.
    pub for_ms: (u64, u64),
    /// The id of the first fault; the others count up from it. Two swarms of one run need ids, and so draws, of their
    /// own.
    pub first_id: u32,
}

/// Draws a schedule, in which every fault has an effect.
pub fn draw(choices: &Choices, swarm: &Swarm) -> Vec<Scheduled> {
    let of_swarm = u64::from(swarm.first_id) - 1;
    let kinds = part(choices, "nemesis.kinds", of_swarm, &swarm.kinds);
    let targets = part(choices, "nemesis.targets", of_swarm, &swarm.targets);
    if kinds.is_empty() || targets.is_empty() {
        return Vec::new();
    }
    let mean_ms =
        choices.world("nemesis.every", 0, of_swarm).between(swarm.every_ms.0, swarm.every_ms.1).max(1);
    let mut schedule = Vec::new();
    let mut at_ms = swarm.from_ms;
    let mut down_until_ms = BTreeMap::new();
    for id in swarm.first_id..=u32::MAX {
        let choice = |what| choices.world(what, u64::from(id), 0);
        at_ms += choice("nemesis.gap").between(mean_ms / 2, mean_ms + mean_ms / 2);
        if at_ms > swarm.until_ms {
            break;
        }
        let kind = kinds[choice("nemesis.kind").below(kinds.len() as u64) as usize];
        let node = targets[choice("nemesis.target").below(targets.len() as u64) as usize].clone();
        let for_ms = choice("nemesis.for").between(swarm.for_ms.0, swarm.for_ms.1);
        if matches!(kind, Kind::Pause | Kind::Crash | Kind::MachineCrash) {
            // A process that is down can be neither paused nor crashed.
            let up_ms = down_until_ms.entry(node.clone()).or_insert(0);
            if at_ms <= *up_ms {
                continue;
            }
            if kind != Kind::Pause {
                *up_ms = at_ms + for_ms;
            }
        }
        let fault = one(choices, u64::from(id), kind, node, for_ms, swarm);
        schedule.push(Scheduled { id, when: When::AtMs(at_ms), fault });
    }
    schedule
}

fn one(choices: &Choices, id: u64, kind: Kind, node: String, for_ms: u64, swarm: &Swarm) -> Fault {
    let everyone = swarm.targets.iter().chain(&swarm.others);
    let rest: Vec<String> = everyone.filter(|other| **other != node).cloned().collect();
    let choice = |what| choices.world(what, id, 0);
    match kind {
        Kind::Pause => Fault::Pause { node, for_ms },
        Kind::Crash => Fault::Crash { node, restart_after_ms: Some(for_ms) },
        Kind::MachineCrash => Fault::MachineCrash { node, restart_after_ms: Some(for_ms) },
        Kind::Cut => match choice("nemesis.cut").below(3) {
            0 => Fault::Cut { from: vec![node], to: rest, both_ways: true, for_ms },
            1 => Fault::Cut { from: vec![node], to: rest, both_ways: false, for_ms },
            _ => Fault::Cut { from: rest, to: vec![node], both_ways: false, for_ms },
        },
        Kind::Loss => {
            let probability = choice("nemesis.loss").between(1, 30) as f64 / 100.0;
            Fault::Loss { from: vec![node], to: rest, probability, for_ms }
        }
        Kind::Slow => {
            Fault::Slow { from: vec![node], to: rest, by_ms: choice("nemesis.slow").between(1, 500), for_ms }
        }
        Kind::Narrow => {
            let bytes_per_s = choice("nemesis.narrow").between(10_000, 1_000_000);
            Fault::Narrow { from: vec![node], to: rest, bytes_per_s, for_ms }
        }
        Kind::ClockJump => {
            let by_ms = choice("nemesis.jump").between(0, 120_000) as i64 - 60_000;
            Fault::ClockJump { node, by_ms }
        }
        Kind::ClockDrift => {
            let ppm = choice("nemesis.drift").between(0, 200_000) as i64 - 100_000;
            Fault::ClockDrift { node, ppm, for_ms }
        }
    }
}

/// A non-empty part of `all`, each item with even odds.
fn part<T: Clone>(choices: &Choices, what: &str, of_swarm: u64, all: &[T]) -> Vec<T> {
    let drawn = |n: usize| choices.world(what, n as u64, of_swarm).chance(0.5);
    let some: Vec<T> =
        all.iter().enumerate().filter(|(n, _)| drawn(*n)).map(|(_, item)| item.clone()).collect();
    if some.is_empty() { all.to_vec() } else { some }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_keeps_to_its_window_kinds_and_targets() {
        let swarm = Swarm {
            kinds: vec![Kind::Pause, Kind::Cut],
            targets: vec!["a".into(), "b".into()],
            others: vec!["c".into()],
            from_ms: 1000,
            until_ms: 20_000,
            every_ms: (500, 2000),
            for_ms: (100, 300),
            first_id: 1,
        };
        let (mut pauses, mut cuts) = (0, 0);
        for seed in 0..100 {
            let schedule = draw(&Choices::new(seed, &[]), &swarm);
            assert!(!schedule.is_empty());
            for Scheduled { when, fault, .. } in schedule {
                let When::AtMs(at_ms) = when else { panic!("drawn faults strike by time") };
                assert!((1000..=20_000).contains(&at_ms));
                match fault {
                    Fault::Pause { node, for_ms } => {
                        assert!((node == "a" || node == "b") && (100..=300).contains(&for_ms));
                        pauses += 1;
                    }
                    Fault::Cut { from, to, .. } => {
                        assert_eq!(from.len() + to.len(), 3);
                        cuts += 1;
                    }
                    other => panic!("a kind that was not asked for: {other:?}"),
                }
            }
        }
        assert!(pauses > 100 && cuts > 100, "{pauses} pauses, {cuts} cuts");
    }

    #[test]
    fn what_is_down_is_not_struck_and_swarms_have_ids_of_their_own() {
        let swarm = Swarm {
            kinds: vec![Kind::Pause, Kind::Crash],
            targets: vec!["a".into()],
            others: vec![],
            from_ms: 0,
            until_ms: 20_000,
            every_ms: (200, 200),
            for_ms: (1000, 1000),
            first_id: 101,
        };
        let mut crashes = 0;
        for seed in 0..20 {
            let schedule = draw(&Choices::new(seed, &[]), &swarm);
            assert!(schedule.iter().all(|scheduled| scheduled.id > 100));
            let mut up_ms = 0;
            for Scheduled { when, fault, .. } in schedule {
                let When::AtMs(at_ms) = when else { panic!("drawn faults strike by time") };
                assert!(at_ms >= up_ms, "struck at {at_ms} ms, down until {up_ms} ms");
                if matches!(fault, Fault::Crash { .. }) {
                    up_ms = at_ms + 1001;
                    crashes += 1;
                }
            }
        }
        assert!(crashes > 50, "{crashes} crashes");
    }
}
