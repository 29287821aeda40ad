//! Two records of a key that should stand side by side in its version order, and do not.

use super::version_order::VersionOrders;
use crate::history::Message;
use std::ops::Range;

/// A step of one process, or within one event, from one record of a key to the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Jump {
    /// The event of the first record and that of the second; within one event, that event twice.
    pub events: (usize, usize),
    /// How far the second stands behind the first, in occupied offsets.
    pub delta: i64,
    /// The first record and the second.
    pub(super) messages: (Message, Message),
    /// What stands between them, if it goes forward.
    pub(super) skipped: Range<u32>,
}

/// The steps that went too far, and those that went nowhere or backwards.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Jumps {
    pub(super) skips: Vec<Jump>,
    pub(super) nonmonotonic: Vec<Jump>,
}

impl Jumps {
    /// Judges one step. Where a place is not known, nothing is said.
    pub(super) fn step(
        &mut self,
        orders: &VersionOrders,
        events: (usize, usize),
        messages: (Message, Message),
    ) {
        let Some(delta) = orders.delta(messages.0, messages.1) else { return };
        if delta > 1 {
            let skipped = orders.gap(messages.0, messages.1);
            self.skips.push(Jump { events, delta, messages, skipped });
        } else if delta < 1 {
            self.nonmonotonic.push(Jump { events, delta, messages, skipped: 0..0 });
        }
    }
}
