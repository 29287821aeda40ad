//! A value that one side tells and others wait for.
//!
//! What tokio's `watch` does, but for one thing: `watch` spreads its waiters over eight lists by a random number, so the
//! order in which they wake differs from run to run. Here they wake in the order in which they began to wait.

use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::Notify;

struct Shared<T> {
    state: Mutex<State<T>>,
    changed: Notify,
}

struct State<T> {
    value: T,
    closed: bool,
}

impl<T> Shared<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// The side that tells. Dropping it tells those who wait that nothing more will come.
pub(crate) struct Teller<T>(Arc<Shared<T>>);

/// A side that waits.
pub(crate) struct Told<T>(Arc<Shared<T>>);

/// The teller is gone, and its last value is not the one waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Closed;

impl<T> Teller<T> {
    pub(crate) fn new(value: T) -> Self {
        let state = Mutex::new(State { value, closed: false });
        Teller(Arc::new(Shared { state, changed: Notify::new() }))
    }

    pub(crate) fn listen(&self) -> Told<T> {
        Told(self.0.clone())
    }

    pub(crate) fn tell(&self, value: T) {
        self.0.state().value = value;
        self.0.changed.notify_waiters();
    }
}

impl<T> Drop for Teller<T> {
    fn drop(&mut self) {
        self.0.state().closed = true;
        self.0.changed.notify_waiters();
    }
}

impl<T> Clone for Told<T> {
    fn clone(&self) -> Self {
        Told(self.0.clone())
    }
}

impl<T> std::fmt::Debug for Teller<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Teller")
    }
}

impl<T: Clone> Told<T> {
    /// What was told last.
    pub(crate) fn get(&self) -> T {
        self.0.state().value.clone()
    }

    /// Waits until what was told last satisfies `wanted`.
    pub(crate) async fn wait_for(&self, wanted: impl Fn(&T) -> bool) -> Result<T, Closed> {
        loop {
            // Made before the look, so that what is told in between wakes it.
            let changed = self.0.changed.notified();
            {
                let state = self.0.state();
                if wanted(&state.value) {
                    return Ok(state.value.clone());
                }
                if state.closed {
                    return Err(Closed);
                }
            }
            changed.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn those_who_wait_are_told_once_it_is_what_they_want() {
        let teller = Teller::new(0);
        let told = teller.listen();
        let mut three = Box::pin(told.wait_for(|value| *value >= 3));
        assert_eq!(three.as_mut().now_or_never(), None);
        teller.tell(2);
        assert_eq!(three.as_mut().now_or_never(), None);
        teller.tell(5);
        assert_eq!(three.now_or_never(), Some(Ok(5)));
        assert_eq!(told.get(), 5);
    }

    #[test]
    fn a_teller_that_goes_leaves_its_last_word() {
        let teller = Teller::new(1);
        let told = teller.listen();
        drop(teller);
        assert_eq!(told.wait_for(|value| *value == 1).now_or_never(), Some(Ok(1)));
        assert_eq!(told.wait_for(|value| *value == 2).now_or_never(), Some(Err(Closed)));
    }
}
