//! Lives of group members in short runs: they come, go, crash, and are closed or not.

use crate::plan::{Commits, Life, Op, Operation};
use crate::safe_ground::pick;
use sim::choice::Choices;

/// `session.timeout.ms`, short, so that a pause or a cut puts a member out of the group.
pub(crate) const SESSION_MS: u64 = 1_000;

/// The lives of the `n`-th member; the last of them goes on until all is consumed.
pub(crate) fn draw(choices: &Choices, n: u32, commits: Commits) -> Vec<Operation> {
    let of = |what, nth| choices.world(what, u64::from(n), nth);
    let cooperative = of("life.cooperative", 0).chance(0.5);
    let count = of("life.count", 0).between(1, 3);
    let life = |nth: u64| Life {
        for_ms: (nth < count).then(|| of("life.for", nth).between(600, 3_000)),
        think_ms: pick(of("life.think", nth), [0, 20, 100]),
        cooperative,
        is_static: false,
        session_timeout_ms: SESSION_MS,
        max_poll_interval_ms: 8_000,
        commits,
        closes: of("life.closes", nth).chance(0.5),
    };
    let operation = |nth: u64| Operation {
        id: n * 100 + nth as u32,
        think_ms: of("life.pause", nth).between(0, 1_000),
        what: Op::Member(life(nth)),
    };
    (0..=count).map(operation).collect()
}
