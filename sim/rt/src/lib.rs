//! The door through which everything else meets the world.
//!
//! A broker agent, a fake server or a client model written against this crate runs unchanged in two worlds: on real
//! tokio and real TCP, and in the tank. Which one serves is decided at run time, per thread, by [`host::enter`].
//!
//! * [`spawn`], [`JoinHandle`], [`JoinSet`]: tasks
//! * [`time`]: monotonic time, timers, and the node's own wall clock
//! * [`net`]: TCP, length-prefixed frames and their labels
//! * [`choice()`]: the only source of chance
//! * [`observe`]: events, marks and intent, which cost nothing when nobody listens
//! * [`stop_requested`]: the wish that this process end in order
//! * [`host`]: what a host must offer; the real one lives here, the simulated one in `sim`
//!
//! This crate knows no simulator, and no protocol.

pub mod choice;
mod frame_writer;
pub mod host;
pub mod net;
pub mod observe;
mod real;
pub mod task;
pub mod time;

pub use choice::choice;
pub use task::{JoinError, JoinHandle, JoinSet, spawn};

/// A point at which the host may hold up, pause or crash this process.
///
/// In the tank a pause can land only where code awaits. Put one between a check and its use (lease check, store put,
/// coordinator commit), or the race between them can never be found. `point` is a stable name, such as
/// `"produce.before-commit"`. On the real host this returns at once.
pub async fn preempt(point: &'static str) {
    if let Some(held) = host::current().preempt(point) {
        held.await;
    }
}

/// Waits until this process is asked to end in order, as by SIGTERM; returns at once if it was before. What the process
/// then does, and when its first task returns, is its own affair. On the real host this never returns: a real program
/// listens for the signals it wants.
pub async fn stop_requested() {
    host::current().stop_requested().await;
}
