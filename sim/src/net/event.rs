//! The heap of what is due: ordered by time, and at one time by the order in which it was planned.

use super::slab::Key;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    /// Segments of the flow of end `side` arrive.
    Deliver,
    /// A bare segment arrives at end `side`.
    Bare,
    /// End `side` looks at acknowledgements of its flow.
    Ack,
    /// The timer of end `side` fires.
    Timer,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    pub(super) at: u64,
    order: u64,
    pub(super) key: Key,
    pub(super) side: u8,
    pub(super) what: What,
}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}

impl Eq for Event {}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Event {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

#[derive(Default)]
pub(super) struct Heap {
    events: BinaryHeap<Reverse<Event>>,
    planned: u64,
}

impl Heap {
    pub(super) fn plan(&mut self, at: u64, key: Key, side: usize, what: What) {
        self.planned += 1;
        self.events.push(Reverse(Event { at, order: self.planned, key, side: side as u8, what }));
    }

    pub(super) fn peek(&self) -> Option<&Event> {
        self.events.peek().map(|event| &event.0)
    }

    pub(super) fn pop(&mut self) -> Option<Event> {
        self.events.pop().map(|event| event.0)
    }
}
