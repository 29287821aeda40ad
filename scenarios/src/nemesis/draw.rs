//! Chance within one entity's name: every draw has a name and an ordinal of its own.

use rt::choice::Choice;
use sim::choice::Choices;

/// The draws of one entity, such as a package in a period.
pub(super) struct Draw<'a> {
    choices: &'a Choices,
    entity: String,
}

impl<'a> Draw<'a> {
    pub(super) fn new(choices: &'a Choices, entity: String) -> Self {
        Draw { choices, entity }
    }

    pub(super) fn choice(&self, what: &str, ordinal: u64) -> Choice {
        self.choices.world(what, self.entity.as_str(), ordinal)
    }

    /// One of `all`, which is not empty.
    pub(super) fn one<T: Clone>(&self, what: &str, ordinal: u64, all: &[T]) -> T {
        all[self.choice(what, ordinal).below(all.len() as u64) as usize].clone()
    }

    /// `size` of `all`, in their order.
    pub(super) fn some<T: Clone>(&self, what: &str, ordinal: u64, all: &[T], size: usize) -> Vec<T> {
        let lot = |n: usize| self.choice(what, ordinal << 16 | (n as u64 + 1)).raw();
        let mut drawn: Vec<usize> = (0..all.len()).collect();
        drawn.sort_by_key(|n| lot(*n));
        drawn.truncate(size);
        drawn.sort_unstable();
        drawn.into_iter().map(|n| all[n].clone()).collect()
    }

    /// A part of `all`, which is not empty: of one item or of more, each number with even odds.
    pub(super) fn part<T: Clone>(&self, what: &str, ordinal: u64, all: &[T]) -> Vec<T> {
        let size = self.choice(what, ordinal << 16).between(1, all.len() as u64);
        self.some(what, ordinal, all, size as usize)
    }

    /// `base` to a power between `least` and `most`, drawn evenly, in whole numbers. Between whole powers it is a straight
    /// line, so that every machine draws the same.
    pub(super) fn power(&self, what: &str, ordinal: u64, base: f64, (least, most): (u64, u64)) -> u64 {
        const STEPS: u64 = 1_000;
        let steps = self.choice(what, ordinal).between(least * STEPS, most * STEPS);
        let whole = (0..steps / STEPS).fold(1.0, |power, _| power * base);
        let rest = (steps % STEPS) as f64 / STEPS as f64;
        (whole * (1.0 + (base - 1.0) * rest)).round() as u64
    }
}
