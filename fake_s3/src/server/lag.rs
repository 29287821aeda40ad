//! Lists that lag: which of the latest changes a list does not show yet.

use super::Disk;
use crate::api::{ListRequest, Response};
use crate::error::S3Error;
use crate::store::Store;
use rt::time::Instant;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// Changes that can be hidden at once.
const REMEMBERED: usize = 10_000;

/// When the latest changes happened, by the machine's monotonic clock: the wall clock may jump.
pub(super) struct Lag {
    longest: Duration,
    changes: Mutex<VecDeque<Instant>>,
}

impl Lag {
    /// None where lists do not lag.
    pub(super) fn new(disk: &Disk, list_lag_ms_max: u64) -> Option<Self> {
        let remembered = if list_lag_ms_max > 0 { REMEMBERED } else { 0 };
        disk.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).remember(remembered);
        (list_lag_ms_max > 0)
            .then(|| Lag { longest: Duration::from_millis(list_lag_ms_max), changes: Mutex::default() })
    }

    /// Notes the changes of a request that had just this many.
    pub(super) fn note(&self, changes: u64) {
        let now = Instant::now();
        let mut times = self.lock();
        times.extend((0..changes).map(|_| now));
        while times.front().is_some_and(|time| now - *time > self.longest) {
            times.pop_front();
        }
    }

    /// The list as it was a drawn time ago.
    pub(super) fn list(
        &self,
        store: &Store,
        request: &ListRequest,
        lag: rt::choice::Choice,
    ) -> Result<Response, S3Error> {
        let lag = lag.duration(Duration::ZERO, self.longest);
        let now = Instant::now();
        let unseen = self.lock().iter().rev().take_while(|time| now - **time < lag).count();
        store.list_behind(request, unseen as u64)
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Instant>> {
        self.changes.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
