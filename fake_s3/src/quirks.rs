//! What an object store may do to its clients. S3 does the errors without breaking a promise, and rarely; lists lag in
//! stores that are not strongly consistent, as S3 was before December 2020. All off by default.

use serde::{Deserialize, Serialize};

/// Which deviations are on; rates are in thousandths of all requests. Part of a run's plan. Read where a request is
/// served.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Quirks {
    /// Answers `SlowDown` (503) and does nothing, as when a prefix gets too many requests.
    pub slow_down_per_mille: u64,
    /// Answers `InternalError` (500) and does nothing.
    pub failed_per_mille: u64,
    /// Answers `InternalError` (500) to a request it has done: a conditional put that is sent again then fails on
    /// itself.
    pub applied_but_failed_per_mille: u64,
    /// A list of objects shows the bucket as it was up to so many milliseconds ago, each list its own drawn time. All
    /// else stays strongly consistent, and a server that was started again has forgotten what is to be hidden.
    pub list_lag_ms_max: u64,
}
