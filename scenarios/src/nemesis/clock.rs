//! Wall clocks jump, strobe, and are set right, on some of a role's nodes at a time; in the end all are set right.

use super::draw::Draw;
use super::package::Planned;
use super::period::Period;
use sim::fault::Fault;

#[derive(Clone, Copy)]
enum Kind {
    Reset,
    Bump,
    Strobe,
}

/// The longest strobe, in tenths of the interval between operations: 32 s of Jepsen's 10.
const STROBE_TENTHS_MAX: u64 = 32;

/// Faults at `nodes`.
pub(super) fn plan(draw: &Draw<'_>, nodes: &[String], period: &Period) -> Vec<Planned> {
    let mut planned = Vec::new();
    for (at_ms, ordinal) in period.moments(draw).into_iter().zip(0..) {
        let kind = draw.one("jepsen.clock", ordinal, &[Kind::Reset, Kind::Bump, Kind::Strobe]);
        let targets = draw.part("jepsen.targets", ordinal, nodes);
        for (node, n) in targets.into_iter().zip(0..) {
            let fault = fault(draw, kind, node, ordinal << 16 | n, period, at_ms);
            planned.push(Planned { at_ms, fault });
        }
    }
    let reset = |node: &String| Fault::ClockReset { node: node.clone() };
    planned.extend(nodes.iter().map(|node| Planned { at_ms: period.end_ms, fault: reset(node) }));
    planned
}

fn fault(draw: &Draw<'_>, kind: Kind, node: String, ordinal: u64, period: &Period, at_ms: u64) -> Fault {
    match kind {
        Kind::Reset => Fault::ClockReset { node },
        Kind::Bump => {
            // 11 ms to 287.6 s, ahead or back.
            let by_ms = draw.power("jepsen.bump", ordinal, 1.5, (6, 31)) as i64;
            let is_ahead = draw.choice("jepsen.ahead", ordinal).chance(0.5);
            Fault::ClockJump { node, by_ms: if is_ahead { by_ms } else { -by_ms } }
        }
        Kind::Strobe => {
            let longest_ms = (STROBE_TENTHS_MAX * period.interval_ms / 10).max(1);
            let for_ms = draw.choice("jepsen.strobe", ordinal).between(1, longest_ms);
            Fault::ClockStrobe {
                node,
                // 4 ms to 262 s, there and back every 1 ms to 1 s.
                delta_ms: draw.power("jepsen.delta", ordinal, 2.0, (2, 18)) as i64,
                period_ms: draw.power("jepsen.period", ordinal, 2.0, (0, 10)),
                for_ms: for_ms.min(period.end_ms - at_ms),
            }
        }
    }
}
