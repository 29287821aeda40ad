//! When there was trouble.

use sim::fault::{Fault, Scheduled, When};
use std::ops::Range;

const NS_PER_MS: u64 = 1_000_000;

/// When the faults of `schedule` that strike by time had their effect, in nanoseconds since the start, in order and
/// without overlaps. A clock that jumped counts until it is set right; if it never is, and for a process that never comes
/// back, only the moment counts. Of faults that wait for frames or events nothing is known.
pub(crate) fn windows(schedule: &[Scheduled]) -> Vec<Range<u64>> {
    let mut each: Vec<Range<u64>> = schedule.iter().filter_map(|fault| window(fault, schedule)).collect();
    each.sort_by_key(|window| window.start);
    let mut joined: Vec<Range<u64>> = Vec::new();
    for window in each {
        match joined.last_mut() {
            Some(last) if window.start <= last.end => last.end = last.end.max(window.end),
            _ => joined.push(window),
        }
    }
    joined
}

fn window(scheduled: &Scheduled, schedule: &[Scheduled]) -> Option<Range<u64>> {
    let When::AtMs(at_ms) = scheduled.when else { return None };
    let end_ms = match &scheduled.fault {
        // They end trouble, or are none.
        Fault::ClockReset { .. } | Fault::Start { .. } => return None,
        Fault::Hold { .. } | Fault::Delay { .. } | Fault::Reset { .. } => return None,
        Fault::ClockJump { node, .. } => set_right_ms(schedule, node, at_ms).unwrap_or(at_ms),
        fault => at_ms + fault.lasts_ms(),
    };
    Some(at_ms * NS_PER_MS..end_ms * NS_PER_MS)
}

/// When a node's clock is next set right.
fn set_right_ms(schedule: &[Scheduled], node: &str, after_ms: u64) -> Option<u64> {
    let resets = schedule.iter().filter_map(|scheduled| match (&scheduled.when, &scheduled.fault) {
        (When::AtMs(at_ms), Fault::ClockReset { node: other }) if other == node && *at_ms >= after_ms => {
            Some(*at_ms)
        }
        _ => None,
    });
    resets.min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::fault::FramePattern;

    #[test]
    fn windows_are_in_order_joined_and_as_long_as_the_effect() {
        let node = || "a".to_string();
        let faults = [
            (50, Fault::Pause { node: node(), for_ms: 10 }),
            (10, Fault::Pause { node: node(), for_ms: 5 }),
            (15, Fault::Crash { node: node(), restart_after_ms: Some(5) }),
            (70, Fault::ClockJump { node: node(), by_ms: 3 }),
            (95, Fault::ClockReset { node: node() }),
            (80, Fault::ClockReset { node: node() }),
            (75, Fault::ClockReset { node: "b".into() }),
            (99, Fault::ClockJump { node: node(), by_ms: 3 }),
            (120, Fault::Start { node: node() }),
            (130, Fault::Reset { frame: FramePattern::words("EndTxn") }),
        ];
        let at = |(at_ms, fault)| Scheduled { id: 1, when: When::AtMs(at_ms), fault };
        let found = windows(&faults.map(at));
        let expected = [(10, 20), (50, 60), (70, 80), (99, 99)];
        assert_eq!(found, expected.map(|(from, to)| from * NS_PER_MS..to * NS_PER_MS));
    }
}
