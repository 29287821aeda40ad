//! A node's two clocks.
//!
//! *Skew* moves only the wall clock; *drift* scales both. The monotonic clock never jumps, and goes on while the process
//! is paused. A timer armed before a change of drift still comes due by the rate at its arming.

use crate::trace::NodeId;

/// Nanoseconds since the Unix epoch at the start of every run: 2026-01-01T00:00:00Z.
pub(crate) const EPOCH_NS: u64 = 1_767_225_600_000_000_000;

/// A wall clock that jumps there and back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Strobe {
    pub(crate) node: NodeId,
    pub(crate) delta_ms: i64,
    pub(crate) period_ns: u64,
    /// World time at which it ends.
    pub(crate) until_ns: u64,
    /// Whether the next jump is the one away.
    pub(crate) away: bool,
}

/// The clocks of one machine.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clock {
    /// World time at which the current rate began, and this clock's reading then.
    since_world_ns: u64,
    since_local_ns: u64,
    /// Parts per million by which the clock runs fast.
    drift_ppm: i64,
    skew_ns: i64,
    /// What strobes add to the skew at present. Apart, so that a clock set right amid a strobe is right at its end.
    strobe_ns: i64,
}

impl Clock {
    /// The monotonic reading at world time `now_ns`.
    pub(crate) fn monotonic_ns(&self, now_ns: u64) -> u64 {
        let passed = now_ns.saturating_sub(self.since_world_ns);
        self.since_local_ns
            + if self.drift_ppm == 0 { passed } else { scale(passed, 1_000_000 + self.drift_ppm, 1_000_000) }
    }

    /// The wall reading at world time `now_ns`, in nanoseconds since the Unix epoch.
    pub(crate) fn wall_ns(&self, now_ns: u64) -> u64 {
        (EPOCH_NS + self.monotonic_ns(now_ns))
            .saturating_add_signed(self.skew_ns.saturating_add(self.strobe_ns))
    }

    /// World time at which the monotonic clock will read `local_ns`.
    pub(crate) fn world_ns(&self, local_ns: u64) -> u64 {
        let ahead = local_ns.saturating_sub(self.since_local_ns);
        self.since_world_ns
            + if self.drift_ppm == 0 { ahead } else { scale_up(ahead, 1_000_000, 1_000_000 + self.drift_ppm) }
    }

    /// Moves the wall clock by `by_ms`.
    pub(crate) fn jump(&mut self, by_ms: i64) {
        self.skew_ns = self.skew_ns.saturating_add(by_ms.saturating_mul(1_000_000));
    }

    /// Sets the wall clock to the true time, but for what strobes add; whether it was wrong.
    pub(crate) fn reset(&mut self, now_ns: u64) -> bool {
        let skew_ns = now_ns as i64 - self.monotonic_ns(now_ns) as i64;
        std::mem::replace(&mut self.skew_ns, skew_ns) != skew_ns
    }

    /// Moves the wall clock by one jump of a strobe.
    pub(crate) fn strobe(&mut self, by_ms: i64) {
        self.strobe_ns = self.strobe_ns.saturating_add(by_ms.saturating_mul(1_000_000));
    }

    /// Changes the rate from `now_ns` on.
    pub(crate) fn set_drift(&mut self, now_ns: u64, drift_ppm: i64) {
        self.since_local_ns = self.monotonic_ns(now_ns);
        self.since_world_ns = now_ns;
        self.drift_ppm = drift_ppm;
    }
}

fn scale(value: u64, numerator: i64, denominator: i64) -> u64 {
    (u128::from(value) * numerator.max(1) as u128 / denominator.max(1) as u128) as u64
}

fn scale_up(value: u64, numerator: i64, denominator: i64) -> u64 {
    (u128::from(value) * numerator.max(1) as u128).div_ceil(denominator.max(1) as u128) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skew_moves_the_wall_clock_only() {
        let mut clock = Clock::default();
        clock.jump(-5000);
        assert_eq!(clock.monotonic_ns(7), 7);
        assert_eq!(clock.wall_ns(0), EPOCH_NS - 5_000_000_000);
    }

    #[test]
    fn a_reset_undoes_jumps_and_drift_but_not_a_strobe() {
        let mut clock = Clock::default();
        assert!(!clock.reset(5), "it was right");
        clock.jump(-5000);
        assert!(clock.reset(7));
        assert_eq!(clock.wall_ns(7), EPOCH_NS + 7);
        clock.strobe(3);
        clock.jump(40);
        assert!(clock.reset(8));
        assert_eq!(clock.wall_ns(8), EPOCH_NS + 8 + 3_000_000);
        clock.strobe(-3);
        assert_eq!(clock.wall_ns(9), EPOCH_NS + 9);
        clock.set_drift(9, 1_000_000);
        assert_eq!(clock.wall_ns(19), EPOCH_NS + 29);
        assert!(clock.reset(19));
        assert_eq!((clock.wall_ns(19), clock.monotonic_ns(19)), (EPOCH_NS + 19, 29));
    }

    #[test]
    fn drift_scales_both_clocks_and_is_inverted_exactly_enough_for_timers() {
        let mut clock = Clock::default();
        clock.set_drift(1_000, 100_000);
        assert_eq!(clock.monotonic_ns(1_000), 1_000);
        assert_eq!(clock.monotonic_ns(11_000), 12_000);
        assert_eq!(clock.wall_ns(11_000), EPOCH_NS + 12_000);
        for local in [1_000, 1_001, 1_007, 12_000] {
            assert!(
                clock.monotonic_ns(clock.world_ns(local)) >= local,
                "a timer would come due early at {local}"
            );
        }
        clock.set_drift(11_000, -500_000);
        assert_eq!(clock.monotonic_ns(13_000), 13_000);
    }
}
