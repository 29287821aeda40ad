//! Notices that this process was paused, for the quirks that follow a pause.
//!
//! A ticker that finds much more time gone than it slept was not running in between. It ticks only if such a quirk is
//! on. What it knows of the time before the pause is as old as a tick.

use super::{Shared, lock};
use crate::quirks::Quirks;
use rt::time::Instant;
use std::sync::Arc;
use std::time::Duration;

/// How often it looks.
const TICK: Duration = Duration::from_millis(50);
/// From here on it was a pause, and not a busy machine: etcd's default election timeout.
const PAUSE: Duration = Duration::from_millis(1_000);
/// How long a member that was paused takes to learn what it missed.
const STALE_FOR: Duration = Duration::from_millis(1_000);

/// What a member that was paused still believes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stale {
    /// The revision when the pause began.
    pub(super) revision: i64,
    /// When it catches up.
    pub(super) until: Instant,
}

/// Watches for pauses for as long as the server runs.
pub(super) async fn notice(shared: Arc<Shared>, quirks: Quirks) {
    let mut before = Instant::now();
    loop {
        let revision = lock(&shared.disk).revision();
        rt::time::sleep(TICK).await;
        let now = Instant::now();
        if now - before >= PAUSE {
            rt::event!("etcd.was-paused", revision = revision);
            let mut volatile = shared.volatile();
            if quirks.stale_reads_after_pause {
                volatile.stale = Some(Stale { revision, until: now + STALE_FOR });
            }
            if quirks.pause_ends_watches_silently {
                volatile.hub.forget();
            }
        }
        before = now;
    }
}
