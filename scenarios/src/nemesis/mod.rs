//! Trouble as Jepsen's suite for Bufstream makes it (jepsen.md, section D; `facts/nemesis.json`).
//!
//! Packages of operations, each at the nodes of one role. Time is cut into periods; each draws a new mixture: a quarter of
//! them nothing, the others a part of the roles and a part of their packages, which work side by side. Operations of one
//! package come 0 to twice [`Nemesis::interval_ms`] apart. At a period's end everything is healed.
//!
//! * [`Nemesis`], [`draw`]: a schedule is a pure function of the choices
//! * [`Package`]; `processes`, `partition`, `dependencies`, `clock`, `membership`: what each draws
//! * [`flags`]: packages by the names that Jepsen's command line has for faults, and its mixes
//! * `effect`: takes out what would have no effect, such as a pause of what is down
//! * [`windows()`]: when there was trouble
//!
//! Differences. Jepsen's faults begin with one operation and end with another; here both are one fault with its length. In
//! Jepsen a heal of one package's partition also heals the other's, here each ends its own. A strobe holds up nobody.
//! Jepsen knows no agents that leave and join in order: `membership` is ours.

mod clock;
mod dependencies;
mod draw;
mod effect;
mod flags;
mod membership;
mod package;
mod partition;
mod period;
mod processes;
#[cfg(test)]
mod tests;
mod windows;

pub(crate) use flags::{MIXES, packages};
pub(crate) use package::Package;
pub(crate) use windows::windows;

use crate::config::Config;
use draw::Draw;
use package::Planned;
use period::Period;
use sim::choice::Choices;
use sim::fault::{Scheduled, When};
use sim::node::Role;

/// What the nemesis may do, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Nemesis {
    /// The packages to draw from.
    pub(crate) packages: Vec<Package>,
    /// Nothing strikes before, in milliseconds since the start.
    pub(crate) from_ms: u64,
    /// Everything is healed by then, in milliseconds since the start.
    pub(crate) until_ms: u64,
    /// How long one mixture lasts, in milliseconds.
    pub(crate) period_ms: u64,
    /// The mean time between two operations of one package, in milliseconds.
    pub(crate) interval_ms: u64,
    /// The id of the first fault; the others count up from it. Two of one run need ids, and so draws, of their own.
    pub(crate) first_id: u32,
}

impl Nemesis {
    /// Jepsen's times: 5 s of quiet, a new mixture every 30 s, operations 10 s apart in the mean.
    pub(crate) fn jepsen(packages: Vec<Package>, until_ms: u64) -> Self {
        let (from_ms, period_ms, interval_ms) = (5_000, 30_000, 10_000);
        Nemesis { packages, from_ms, until_ms, period_ms, interval_ms, first_id: 1 }
    }
}

/// The share of periods in which nothing happens.
const QUIET: f64 = 0.25;

/// Draws a schedule, in which every fault has an effect, in the order in which they strike.
pub(crate) fn draw(choices: &Choices, config: &Config, nemesis: &Nemesis) -> Vec<Scheduled> {
    let able: Vec<Package> =
        nemesis.packages.iter().copied().filter(|package| package.has_targets(config)).collect();
    let mut planned: Vec<Planned> = Vec::new();
    for period in period::all(nemesis) {
        for package in mixture(choices, &able, &period) {
            let draw = Draw::new(choices, format!("{} {} {package}", nemesis.first_id, period.number));
            planned.extend(package.plan(&draw, config, &period));
        }
    }
    let lasting = effect::only_effective(planned, effect::drain_ms(config));
    let numbered = (nemesis.first_id..).zip(lasting);
    numbered.map(|(id, Planned { at_ms, fault })| Scheduled { id, when: When::AtMs(at_ms), fault }).collect()
}

/// The packages that work in a period: those of some roles, and of them some, each number of them with even odds.
fn mixture(choices: &Choices, packages: &[Package], period: &Period) -> Vec<Package> {
    let draw = Draw::new(choices, format!("{} {}", period.first_id, period.number));
    if packages.is_empty() || draw.choice("jepsen.quiet", 0).chance(QUIET) {
        return Vec::new();
    }
    // As Jepsen does: roles that have no package are drawn as well, and then it draws again.
    let drawn = (0..).find_map(|attempt| {
        let roles = draw.part("jepsen.roles", attempt, &[Role::Coordinator, Role::Storage, Role::Agent]);
        let of_roles: Vec<Package> =
            packages.iter().copied().filter(|package| roles.contains(&package.role())).collect();
        (!of_roles.is_empty()).then(|| draw.part("jepsen.packages", attempt, &of_roles))
    });
    drawn.unwrap_or_default()
}
