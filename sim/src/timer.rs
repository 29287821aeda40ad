//! Cancellable timers in one heap.
//!
//! A cancelled timer leaves its heap entry behind; when dead entries outnumber live ones the heap is rebuilt, so a task
//! that arms `timeout(30 s, 1 ms of work)` in a loop costs the memory of its live timers.

use crate::fault::Action;
use crate::trace::{EventId, NodeId};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::task::Waker;

/// What happens when a timer is due.
pub(crate) enum Due {
    /// A task is woken.
    Wake(Waker),
    /// The world acts: a pause ends, a node restarts.
    Act(Action),
}

/// A live timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimerId {
    slot: u32,
    generation: u32,
}

struct Slot {
    generation: u32,
    armed: Option<Armed>,
}

/// An armed timer: what it does, whose it is, and the event that armed it (its causal parent).
pub(crate) struct Armed {
    pub(crate) due: Due,
    pub(crate) node: NodeId,
    pub(crate) armed_by: EventId,
}

/// All timers of a world.
#[derive(Default)]
pub(crate) struct Timers {
    /// (time, arming order, slot, generation)
    heap: BinaryHeap<Reverse<(u64, u64, u32, u32)>>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    armed: u64,
}

/// Below this many heap entries a rebuild is not worth its cost.
const REBUILD_MIN: usize = 256;

impl Timers {
    /// Arms a timer for `at_ns`.
    pub(crate) fn arm(&mut self, at_ns: u64, node: NodeId, armed_by: EventId, due: Due) -> TimerId {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { generation: 0, armed: None });
            (self.slots.len() - 1) as u32
        });
        let entry = &mut self.slots[slot as usize];
        entry.armed = Some(Armed { due, node, armed_by });
        let generation = entry.generation;
        self.armed += 1;
        self.heap.push(Reverse((at_ns, self.armed, slot, generation)));
        if self.heap.len() > REBUILD_MIN && self.heap.len() > 2 * self.live() {
            self.rebuild();
        }
        TimerId { slot, generation }
    }

    /// Makes a pending timer wake `waker` instead of whoever it would have woken; false if it was due already.
    pub(crate) fn rewake(&mut self, id: TimerId, waker: &Waker) -> bool {
        let Some(Armed { due: Due::Wake(current), .. }) = self.get(id) else { return false };
        if !current.will_wake(waker) {
            current.clone_from(waker);
        }
        true
    }

    /// Cancels a timer; nothing happens if it was due already.
    pub(crate) fn cancel(&mut self, id: TimerId) -> Option<Armed> {
        self.get(id)?;
        self.take(id.slot)
    }

    /// When the next timer is due.
    pub(crate) fn next_at(&mut self) -> Option<u64> {
        while let Some(Reverse((at, _, slot, generation))) = self.heap.peek() {
            if self.slots[*slot as usize].generation == *generation {
                return Some(*at);
            }
            self.heap.pop();
        }
        None
    }

    /// Takes the next timer due at `now_ns` or before.
    pub(crate) fn pop_due(&mut self, now_ns: u64) -> Option<Armed> {
        if self.next_at()? > now_ns {
            return None;
        }
        let Reverse((_, _, slot, _)) = self.heap.pop()?;
        self.take(slot)
    }

    fn get(&mut self, id: TimerId) -> Option<&mut Armed> {
        let slot = &mut self.slots[id.slot as usize];
        (slot.generation == id.generation).then_some(slot.armed.as_mut())?
    }

    fn take(&mut self, slot: u32) -> Option<Armed> {
        let entry = &mut self.slots[slot as usize];
        entry.generation = entry.generation.wrapping_add(1);
        self.free.push(slot);
        entry.armed.take()
    }

    fn live(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    fn rebuild(&mut self) {
        let slots = &self.slots;
        self.heap.retain(|Reverse((_, _, slot, generation))| slots[*slot as usize].generation == *generation);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arm(timers: &mut Timers, at_ns: u64) -> TimerId {
        timers.arm(at_ns, NodeId::WORLD, EventId(at_ns), Due::Wake(Waker::noop().clone()))
    }

    fn order(timers: &mut Timers) -> Vec<u64> {
        std::iter::from_fn(|| timers.pop_due(u64::MAX)).map(|armed| armed.armed_by.0).collect()
    }

    #[test]
    fn timers_come_due_by_time_and_cancelled_ones_never() {
        let mut timers = Timers::default();
        arm(&mut timers, 30);
        let cancelled = arm(&mut timers, 10);
        arm(&mut timers, 20);
        assert!(timers.cancel(cancelled).is_some());
        assert!(timers.cancel(cancelled).is_none(), "cancelled twice");
        assert_eq!(timers.next_at(), Some(20));
        assert!(timers.pop_due(19).is_none());
        assert_eq!(order(&mut timers), [20, 30]);
    }

    #[test]
    fn a_reused_slot_is_another_timer() {
        let mut timers = Timers::default();
        let old = arm(&mut timers, 10);
        timers.cancel(old);
        arm(&mut timers, 20);
        assert!(timers.cancel(old).is_none());
        assert_eq!(order(&mut timers), [20]);
    }

    #[test]
    fn dead_timers_do_not_pile_up() {
        let mut timers = Timers::default();
        for n in 0..100_000 {
            let id = arm(&mut timers, 1_000_000 + n);
            timers.cancel(id);
        }
        assert!(timers.heap.len() <= REBUILD_MIN + 1, "{} heap entries for no live timer", timers.heap.len());
    }
}
