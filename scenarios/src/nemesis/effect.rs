//! What would have no effect is taken out: a fault without one makes a run vacuous.
//!
//! * what is down, or about to be, is not paused, killed or asked to stop
//! * what is paused is not asked to stop, since it might be killed before it notices; nor is what may still be stopping
//! * a clock that no jump made wrong is not set right
//! * a spare agent joins once

use super::package::Planned;
use crate::config::Config;
use sim::fault::Fault;
use std::collections::{BTreeMap, BTreeSet};

/// The longest that an agent takes over ending in order, in milliseconds: the requests in flight, then the coordinator.
pub(super) fn drain_ms(config: &Config) -> u64 {
    config.agent.drain_limit_ms + 2 * config.agent.coordinator_timeout_ms
}

/// What a cluster has been through so far.
#[derive(Default)]
struct Past {
    drain_ms: u64,
    /// The last millisecond at which a node is down.
    down_until_ms: BTreeMap<String, u64>,
    /// The last millisecond at which a node may be paused or stopping.
    unsettled_until_ms: BTreeMap<String, u64>,
    /// What jumps did to a node's clock since it was last set right.
    wrong_by_ms: BTreeMap<String, i64>,
    started: BTreeSet<String>,
}

/// Those of `planned` that have an effect, in the order in which they strike. Who is asked to stop has done so after
/// `drain_ms`.
pub(super) fn only_effective(mut planned: Vec<Planned>, drain_ms: u64) -> Vec<Planned> {
    planned.sort_by_key(|planned| planned.at_ms);
    let mut past = Past { drain_ms, ..Past::default() };
    planned.retain(|planned| past.admits(planned));
    planned
}

impl Past {
    fn admits(&mut self, planned: &Planned) -> bool {
        let at_ms = planned.at_ms;
        match &planned.fault {
            Fault::Pause { node, for_ms } => {
                let is_up = self.is_up(node, at_ms);
                if is_up {
                    self.unsettle(node, at_ms, at_ms + for_ms);
                }
                is_up
            }
            Fault::Crash { node, restart_after_ms } => {
                let is_up = self.is_up(node, at_ms);
                if is_up {
                    self.take_down(node, at_ms, *restart_after_ms);
                }
                is_up
            }
            Fault::Stop { node, restart_after_ms } => {
                let is_settled = self.is_up(node, at_ms) && is_past(&self.unsettled_until_ms, node, at_ms);
                if is_settled {
                    self.take_down(node, at_ms, *restart_after_ms);
                    self.unsettle(node, at_ms, at_ms + self.drain_ms);
                }
                is_settled
            }
            Fault::Start { node } => self.started.insert(node.clone()),
            Fault::ClockJump { node, by_ms } => {
                *self.wrong_by_ms.entry(node.clone()).or_default() += by_ms;
                true
            }
            Fault::ClockReset { node } => self.wrong_by_ms.remove(node).is_some_and(|by_ms| by_ms != 0),
            _ => true,
        }
    }

    fn is_up(&self, node: &str, at_ms: u64) -> bool {
        is_past(&self.down_until_ms, node, at_ms)
    }

    fn take_down(&mut self, node: &str, at_ms: u64, restart_after_ms: Option<u64>) {
        let up_ms = restart_after_ms.map_or(u64::MAX, |after_ms| at_ms + after_ms);
        self.down_until_ms.insert(node.to_string(), up_ms);
    }

    /// Notes that a node is paused or stopping until `until_ms`; who was so already may then take as long again.
    fn unsettle(&mut self, node: &str, at_ms: u64, until_ms: u64) {
        let again_ms = if is_past(&self.unsettled_until_ms, node, at_ms) { 0 } else { self.drain_ms };
        let last_ms = self.unsettled_until_ms.entry(node.to_string()).or_default();
        *last_ms = (*last_ms).max(until_ms + again_ms);
    }
}

fn is_past(last_ms: &BTreeMap<String, u64>, node: &str, at_ms: u64) -> bool {
    last_ms.get(node).is_none_or(|last_ms| at_ms > *last_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(faults: Vec<(u64, Fault)>) -> Vec<u64> {
        let planned = faults.into_iter().map(|(at_ms, fault)| Planned { at_ms, fault }).collect();
        only_effective(planned, 30).into_iter().map(|planned| planned.at_ms).collect()
    }

    #[test]
    fn what_is_down_or_stopping_is_left_alone_until_it_is_up_again() {
        let node = || "a".to_string();
        let pause = |at_ms| (at_ms, Fault::Pause { node: node(), for_ms: 50 });
        let crash = |at_ms| (at_ms, Fault::Crash { node: node(), restart_after_ms: Some(10) });
        let stop = |at_ms| (at_ms, Fault::Stop { node: node(), restart_after_ms: Some(20) });
        let other = (5, Fault::Pause { node: "b".into(), for_ms: 1 });
        let faults =
            vec![pause(11), crash(1), stop(8), other, crash(12), pause(13), stop(30), pause(50), pause(51)];
        // Down from 1 to 11, from 12 to 22, and from 30 to 50.
        assert_eq!(kept(faults), [1, 5, 12, 30, 51]);
        assert_eq!(kept(vec![stop(1), stop(22), stop(31), stop(32)]), [1, 32], "it may stop until 31");
        assert_eq!(kept(vec![pause(1), stop(51), stop(52)]), [1, 52], "paused until 51");
        assert_eq!(kept(vec![pause(1), pause(2), stop(82), stop(83)]), [1, 2, 83], "perhaps until 82");
        // A paused process can be killed.
        assert_eq!(kept(vec![pause(1), crash(2)]), [1, 2]);
    }

    #[test]
    fn clocks_are_set_right_only_if_wrong_and_spares_join_once() {
        let jump = |at_ms, by_ms| (at_ms, Fault::ClockJump { node: "a".into(), by_ms });
        let reset = |at_ms| (at_ms, Fault::ClockReset { node: "a".into() });
        let start = |at_ms| (at_ms, Fault::Start { node: "c".into() });
        let faults = vec![
            reset(1),
            jump(2, 5),
            start(3),
            reset(4),
            reset(5),
            jump(6, 7),
            jump(7, -7),
            reset(8),
            start(9),
        ];
        assert_eq!(kept(faults), [2, 3, 4, 6, 7]);
    }
}
