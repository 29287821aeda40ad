//! Processes are killed and started, paused and resumed: two flip-flops, of which every operation moves one.

use super::draw::Draw;
use super::package::Planned;
use super::period::Period;
use sim::fault::Fault;

/// Which flip-flops there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kinds {
    pub(super) kill: bool,
    pub(super) pause: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Kill,
    Pause,
}

/// A flip-flop.
struct Flip {
    kind: Kind,
    /// Since when its targets are struck, and which they are.
    on: Option<(u64, Vec<String>)>,
}

/// Faults at `nodes`.
pub(super) fn plan(draw: &Draw<'_>, kinds: Kinds, nodes: &[String], period: &Period) -> Vec<Planned> {
    let all = [(kinds.kill, Kind::Kill), (kinds.pause, Kind::Pause)];
    let mut flips: Vec<Flip> =
        all.into_iter().filter(|(is_on, _)| *is_on).map(|(_, kind)| Flip { kind, on: None }).collect();
    let mut planned = Vec::new();
    for (at_ms, ordinal) in period.moments(draw).into_iter().zip(0..) {
        let which = draw.choice("jepsen.flip", ordinal).below(flips.len() as u64) as usize;
        let flip = &mut flips[which];
        match flip.on.take() {
            Some(on) => planned.extend(faults(flip.kind, on, at_ms)),
            None => flip.on = Some((at_ms, targets(draw, ordinal, nodes))),
        }
    }
    for flip in flips {
        planned.extend(flip.on.into_iter().flat_map(|on| faults(flip.kind, on, period.end_ms)));
    }
    planned
}

/// One node, a majority or all of them.
fn targets(draw: &Draw<'_>, ordinal: u64, nodes: &[String]) -> Vec<String> {
    let size = draw.one("jepsen.size", ordinal, &[1, nodes.len() / 2 + 1, nodes.len()]);
    draw.some("jepsen.targets", ordinal, nodes, size)
}

fn faults(kind: Kind, (at_ms, nodes): (u64, Vec<String>), until_ms: u64) -> Vec<Planned> {
    let for_ms = until_ms - at_ms;
    let fault = |node| match kind {
        Kind::Kill => Fault::Crash { node, restart_after_ms: Some(for_ms) },
        Kind::Pause => Fault::Pause { node, for_ms },
    };
    nodes.into_iter().map(|node| Planned { at_ms, fault: fault(node) }).collect()
}
