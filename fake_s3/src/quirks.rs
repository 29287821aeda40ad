//! What S3 may do to its clients without breaking a promise, and does rarely. All off by default.

use serde::{Deserialize, Serialize};

/// Which deviations are on, each as a rate in thousandths of all requests. Part of a run's plan. Read where a request
/// is served.
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
}
