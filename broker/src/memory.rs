//! The memory of requests: Kafka's `queued.max.request.bytes` (KIP-72). A connection reads on only while there is room for
//! what it reads; when there is none it stops reading, and TCP holds the client back.
//!
//! Counted are frames as they arrive and, on top, what their decoded form takes (see `wire`), from the first byte until
//! the request is executed. Requests wait in the order in which they came. Half-read requests could hold all the
//! room and wait for each other for ever; so one request at a time may go beyond the limit, and is not counted.
//! The bound is therefore the limit, and one request more.
//!
//! Limits. Answers are not counted: a Fetch answer is bounded by `fetch_max_bytes`, and there is one for each connection.

use tokio::sync::{Semaphore, SemaphorePermit};

pub(crate) struct RequestMemory {
    room: Semaphore,
    /// The right to go beyond the limit.
    beyond: Semaphore,
}

/// The memory of one request, given back when dropped.
pub(crate) struct Held<'a> {
    memory: &'a RequestMemory,
    counted: Option<SemaphorePermit<'a>>,
    beyond: Option<SemaphorePermit<'a>>,
}

impl RequestMemory {
    pub(crate) fn new(max_bytes: usize) -> Self {
        let room = Semaphore::new(max_bytes.min(Semaphore::MAX_PERMITS));
        RequestMemory { room, beyond: Semaphore::new(1) }
    }

    /// A request that holds nothing yet.
    pub(crate) fn request(&self) -> Held<'_> {
        Held { memory: self, counted: None, beyond: None }
    }
}

impl Held<'_> {
    /// Waits until there is room for `bytes` more.
    pub(crate) async fn grow(&mut self, bytes: usize) {
        if self.beyond.is_some() || bytes == 0 {
            return;
        }
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let (room, beyond) = (&self.memory.room, &self.memory.beyond);
        // Neither semaphore is ever closed, so neither answers with an error.
        tokio::select! {
            biased;
            counted = room.acquire_many(bytes) => match (&mut self.counted, counted.ok()) {
                (Some(held), Some(more)) => held.merge(more),
                (held, more) => *held = more,
            },
            beyond = beyond.acquire() => {
                rt::mark!(reachable, "a request went beyond the memory of requests");
                self.beyond = beyond.ok();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    fn poll_once(future: impl Future<Output = ()>) -> bool {
        pin!(future).poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(())
    }

    #[test]
    fn what_does_not_fit_waits_and_one_request_goes_beyond() {
        let memory = RequestMemory::new(100);
        let (mut first, mut second, mut third) = (memory.request(), memory.request(), memory.request());
        assert!(poll_once(first.grow(60)) && poll_once(first.grow(30)));
        assert_eq!(memory.room.available_permits(), 10);
        assert!(poll_once(second.grow(11)), "the one beyond the limit");
        assert!(poll_once(second.grow(1 << 40)), "as far as it likes");
        assert!(poll_once(third.grow(10)), "the last of the room");
        assert!(!poll_once(first.grow(1)), "no room, and another is beyond");
        drop(third);
        assert!(poll_once(first.grow(10)));
        drop((first, second));
        assert_eq!((memory.room.available_permits(), memory.beyond.available_permits()), (100, 1));
    }

    #[test]
    fn half_read_requests_do_not_wait_for_each_other_for_ever() {
        let memory = RequestMemory::new(10);
        let mut half_read: Vec<_> = (0..5).map(|_| memory.request()).collect();
        assert!(half_read.iter_mut().all(|request| poll_once(request.grow(2))));
        let mut read = 0;
        while let Some(at) = (0..half_read.len()).find(|at| poll_once(half_read[*at].grow(2))) {
            drop(half_read.remove(at));
            read += 1;
        }
        assert_eq!(read, 5);
    }
}
