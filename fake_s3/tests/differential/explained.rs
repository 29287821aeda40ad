//! Where a real server differs from what Amazon documents, and we follow the documentation. Each has an example, run
//! as a test: it must still differ, in this very way.

use crate::ops::{Op, Step};
use crate::side::Outcome;

pub(crate) struct Explained {
    pub(crate) server: &'static str,
    /// Short, and the same as in `docs/fidelity-s3.md`.
    pub(crate) name: &'static str,
    /// Whether the stores hold different things afterwards, so that the case ends here.
    pub(crate) ends: bool,
    pub(crate) fits: fn(&Op, &Outcome, &Outcome) -> bool,
    /// Steps, of which the last differs so.
    pub(crate) example: fn() -> Vec<Step>,
}

pub(crate) const EXPLAINED: &[Explained] = &[];

pub(crate) fn explain(server: &str, op: &Op, ours: &Outcome, theirs: &Outcome) -> Option<&'static Explained> {
    EXPLAINED.iter().find(|one| one.server == server && (one.fits)(op, ours, theirs))
}
