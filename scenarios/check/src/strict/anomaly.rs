//! What the families have in common: a deciding event, words, and an encoding.

use crate::history::{Atom, History};
use serde_json::Value;

pub(super) use crate::jepsen::json::show;

/// One thing that went wrong.
pub(super) trait Anomaly {
    /// The index of the event that decided it: without that event, the history would not show it.
    fn event(&self) -> usize;

    /// In words, in a line; events by index.
    fn words(&self, history: &History) -> String;

    /// As one error in the encoding of the cases' field `oracle`.
    fn to_json(&self, history: &History) -> Value;
}

/// Several keys or values.
pub(super) fn values(history: &History, atoms: &[Atom]) -> Value {
    atoms.iter().map(|atom| show(history, *atom)).collect()
}
