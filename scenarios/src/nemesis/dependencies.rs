//! Agents are cut off from what they depend on: a random mix of cuts and heals, not in turn, so that cuts pile up.

use super::draw::Draw;
use super::package::Planned;
use super::period::Period;
use sim::fault::Fault;

/// Faults between `dependencies` and some of `agents`.
pub(super) fn plan(
    draw: &Draw<'_>,
    dependencies: &[&str],
    agents: &[String],
    period: &Period,
) -> Vec<Planned> {
    let operations: Vec<Option<&str>> =
        [None].into_iter().chain(dependencies.iter().copied().map(Some)).collect();
    let drawn: Vec<(u64, Option<&str>, u64)> = (0..)
        .zip(period.moments(draw))
        .map(|(ordinal, at_ms)| (at_ms, draw.one("jepsen.cut", ordinal, &operations), ordinal))
        .collect();
    let heals = |at_ms: u64| {
        let next = drawn.iter().find(|(heal_ms, operation, _)| operation.is_none() && *heal_ms > at_ms);
        next.map_or(period.end_ms, |(heal_ms, ..)| *heal_ms)
    };
    let cut = |(at_ms, operation, ordinal): &(u64, Option<&str>, u64)| {
        let from = vec![(*operation)?.to_string()];
        let to = draw.part("jepsen.targets", *ordinal, agents);
        let fault = Fault::Cut { from, to, both_ways: true, for_ms: heals(*at_ms) - at_ms };
        Some(Planned { at_ms: *at_ms, fault })
    };
    drawn.iter().filter_map(cut).collect()
}
