//! Lines of requests that append to one partition.
//!
//! A commit that met another one would meet the next as well, as long as many come: with n at once, n squared rounds. So an
//! append whose chunk is written lines up: until it is done it holds a place for each of its partitions, first come first
//! served, and mostly succeeds at once. Places are taken in the order of the partitions, so nobody waits for somebody
//! who waits for him.
//!
//! This only saves rounds, and only among the requests of one agent: what keeps appends apart is the head's guard.

use crate::layout;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

#[derive(Default)]
pub(crate) struct Lines(Mutex<BTreeMap<String, Arc<AsyncMutex<()>>>>);

/// Being the first in some lines, until dropped.
pub(crate) struct Place<'a> {
    lines: &'a Lines,
    held: Vec<OwnedMutexGuard<()>>,
}

impl Lines {
    /// Waits to be the first in the lines of these partitions.
    pub(crate) async fn place(&self, partitions: impl Iterator<Item = (&str, i32)>) -> Place<'_> {
        let names: BTreeSet<String> =
            partitions.map(|(topic, partition)| layout::partition_name(topic, partition)).collect();
        let mut place = Place { lines: self, held: Vec::with_capacity(names.len()) };
        for name in names {
            let line = self.lines().entry(name).or_default().clone();
            place.held.push(line.lock_owned().await);
        }
        place
    }

    fn lines(&self) -> MutexGuard<'_, BTreeMap<String, Arc<AsyncMutex<()>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.held.clear();
        // A line that nobody stands in is forgotten.
        self.lines.lines().retain(|_, line| Arc::strong_count(line) > 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    #[test]
    fn one_at_a_time_in_the_order_they_came_and_nothing_is_left_behind() {
        let lines = Lines::default();
        let mut context = Context::from_waker(Waker::noop());
        let both = [("t", 0), ("t", 1)];
        let mut first = Box::pin(lines.place(both.into_iter()));
        let Poll::Ready(held) = first.as_mut().poll(&mut context) else { panic!("nobody is before it") };
        let mut second = pin!(lines.place(both.into_iter().rev()));
        let mut third = pin!(lines.place([("t", 1)].into_iter()));
        let mut other = Box::pin(lines.place([("u", 1)].into_iter()));
        assert!(second.as_mut().poll(&mut context).is_pending());
        assert!(third.as_mut().poll(&mut context).is_pending());
        let elsewhere = other.as_mut().poll(&mut context);
        assert!(elsewhere.is_ready(), "another topic has a line of its own");
        drop(held);
        let Poll::Ready(held) = third.as_mut().poll(&mut context) else {
            panic!("it waited before the second")
        };
        assert!(second.as_mut().poll(&mut context).is_pending(), "it has the place of partition 0 only");
        drop(held);
        assert!(second.as_mut().poll(&mut context).is_ready());
        drop(elsewhere);
        drop((first, other));
        assert!(lines.lines().is_empty());
    }
}
