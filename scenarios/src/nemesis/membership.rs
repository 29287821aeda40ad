//! Agents leave in order and come back, and spare ones join: ours, not Jepsen's. One agent at a time is away for this
//! reason.

use super::draw::Draw;
use super::package::Planned;
use super::period::Period;
use crate::config::Config;
use sim::fault::Fault;

/// Faults at agents and spare agents. An agent that leaves is back when the next operation begins.
pub(super) fn plan(draw: &Draw<'_>, config: &Config, period: &Period) -> Vec<Planned> {
    let (agents, spares) = (config.agent_names(), config.spare_names());
    let all = [agents, spares.clone()].concat();
    let moments = period.moments(draw);
    let ends = moments.iter().skip(1).chain([&period.end_ms]);
    let change = |((at_ms, end_ms), ordinal): ((&u64, &u64), u64)| {
        let node = draw.one("jepsen.targets", ordinal, &all);
        let fault = match spares.contains(&node) {
            true => Fault::Start { node },
            false => Fault::Stop { node, restart_after_ms: Some(end_ms - at_ms) },
        };
        Planned { at_ms: *at_ms, fault }
    };
    moments.iter().zip(ends).zip(0..).map(change).collect()
}
