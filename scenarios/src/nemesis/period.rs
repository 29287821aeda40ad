//! Periods: each has one mixture of packages, and ends healed.

use super::Nemesis;
use super::draw::Draw;

/// One period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Period {
    /// From 0.
    pub(super) number: u64,
    pub(super) first_id: u32,
    pub(super) start_ms: u64,
    /// Everything is healed by then.
    pub(super) end_ms: u64,
    pub(super) interval_ms: u64,
}

/// The periods of a nemesis. The last may be shorter.
pub(super) fn all(nemesis: &Nemesis) -> Vec<Period> {
    let Nemesis { from_ms, until_ms, period_ms, interval_ms, first_id, .. } = *nemesis;
    let period = |number: u64| {
        let start_ms = from_ms + number * period_ms;
        let end_ms = (start_ms + period_ms).min(until_ms);
        Period { number, first_id, start_ms, end_ms, interval_ms }
    };
    let count = until_ms.saturating_sub(from_ms).div_ceil(period_ms.max(1));
    (0..count).map(period).collect()
}

impl Period {
    /// When one package does something: up to twice the interval apart, within the period.
    pub(super) fn moments(&self, draw: &Draw<'_>) -> Vec<u64> {
        let mut moments = Vec::new();
        let mut at_ms = self.start_ms;
        for ordinal in 0.. {
            // At least 1 ms, so that what is begun lasts.
            at_ms += draw.choice("jepsen.gap", ordinal).between(1, (2 * self.interval_ms).max(1));
            if at_ms >= self.end_ms {
                break;
            }
            moments.push(at_ms);
        }
        moments
    }
}
