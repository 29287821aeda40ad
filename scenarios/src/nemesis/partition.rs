//! Agents are cut off from agents: a flip-flop. Either one of them is alone, or they are split in two.

use super::draw::Draw;
use super::package::Planned;
use super::period::Period;
use sim::fault::Fault;

/// Faults among `agents`, of which there are at least two.
pub(super) fn plan(draw: &Draw<'_>, agents: &[String], period: &Period) -> Vec<Planned> {
    let moments = period.moments(draw);
    let pairs = moments.chunks(2).zip(0..);
    let cut = |(pair, ordinal): (&[u64], u64)| {
        let at_ms = pair[0];
        let for_ms = pair.get(1).unwrap_or(&period.end_ms) - at_ms;
        let size = draw.one("jepsen.size", ordinal, &[1, agents.len() / 2]);
        let from = draw.some("jepsen.targets", ordinal, agents, size);
        let to = agents.iter().filter(|agent| !from.contains(agent)).cloned().collect();
        Planned { at_ms, fault: Fault::Cut { from, to, both_ways: true, for_ms } }
    };
    pairs.map(cut).collect()
}
