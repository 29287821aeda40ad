//! Monotonic time, timers, and the node's wall clock.

use crate::host::{self, BoxFuture};
use std::future::Future;
use std::ops::{Add, AddAssign, Sub};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// A moment of monotonic time: nanoseconds since an origin that is the same for all nodes of one world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// This moment.
    pub fn now() -> Self {
        host::current().now()
    }

    /// The moment `nanos` after the origin.
    pub const fn from_nanos(nanos: u64) -> Self {
        Instant(nanos)
    }

    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Time from this moment until now; zero if it lies ahead.
    pub fn elapsed(self) -> Duration {
        Instant::now() - self
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;
    fn add(self, wait: Duration) -> Instant {
        Instant(self.0.saturating_add(u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, wait: Duration) {
        *self = *self + wait;
    }
}

impl Sub for Instant {
    type Output = Duration;
    /// Time from `earlier` to this moment; zero if `earlier` is later.
    fn sub(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// Time since the Unix epoch by this node's own clock, which may be wrong and may jump. Use it for timestamps that
/// others will read, never to measure.
pub fn wall() -> Duration {
    host::current().wall()
}

/// Milliseconds since the Unix epoch by this node's own clock, the unit of Kafka's timestamps.
pub fn wall_ms() -> i64 {
    wall().as_millis() as i64
}

/// Waits for `wait`.
pub fn sleep(wait: Duration) -> Sleep {
    sleep_until(Instant::now() + wait)
}

/// Waits until `deadline`.
pub fn sleep_until(deadline: Instant) -> Sleep {
    Sleep { deadline, timer: host::current().sleep_until(deadline) }
}

/// A pending wait. Dropping it cancels the timer.
#[must_use = "a wait does nothing unless awaited"]
pub struct Sleep {
    deadline: Instant,
    timer: BoxFuture<()>,
}

impl Sleep {
    /// When it completes.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }
}

impl Future for Sleep {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.timer.as_mut().poll(cx)
    }
}

/// The time allowed for an operation ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed;

impl std::fmt::Display for Elapsed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the time allowed ran out")
    }
}

impl std::error::Error for Elapsed {}

/// Waits for `operation`, at most `limit`. When both are due the operation wins.
pub async fn timeout<F: Future>(limit: Duration, operation: F) -> Result<F::Output, Elapsed> {
    timeout_at(Instant::now() + limit, operation).await
}

/// Waits for `operation` until `deadline`. When both are due the operation wins.
pub async fn timeout_at<F: Future>(deadline: Instant, operation: F) -> Result<F::Output, Elapsed> {
    let timer = sleep_until(deadline);
    tokio::select! {
        biased;
        output = operation => Ok(output),
        () = timer => Err(Elapsed),
    }
}

/// Ticks every `period`, first at once. A late tick delays the ones after it.
pub fn interval(period: Duration) -> Interval {
    Interval { next: Instant::now(), period }
}

/// A repeating timer.
#[derive(Debug)]
pub struct Interval {
    next: Instant,
    period: Duration,
}

impl Interval {
    /// Waits for the next tick. Safe to drop and call again: no tick is lost.
    pub async fn tick(&mut self) -> Instant {
        sleep_until(self.next).await;
        let now = Instant::now();
        self.next = now + self.period;
        now
    }
}
