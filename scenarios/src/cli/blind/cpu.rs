//! CPU time of this process: how dear a search was, outside all runs.

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// What all its threads have used so far, user and system.
pub(super) fn used() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let (seconds, nanos) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
    Duration::new(seconds.unwrap_or_default(), nanos.unwrap_or_default())
}

/// What they have used since.
pub(super) fn since(before: Duration) -> Duration {
    used().saturating_sub(before)
}
