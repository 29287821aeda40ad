//! Frames seen on their way, and what becomes of them.
//!
//! The kernel network asks once per application frame, when the frame's header enters the sender's buffer, so a frame
//! larger than a window is no special case. The answer comes from the faults that are armed (see [`crate::fault`]).

use crate::trace::NodeId;

/// What becomes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It goes on as usual.
    Pass,
    /// It, and with it all that follows on its connection in its direction, arrives this much later, in nanoseconds.
    Delay(u64),
    /// It, and all that follows on its connection in its direction, waits until the hold is released.
    Hold(HoldId),
    /// Its connection is reset at once, at both ends; the frame is lost.
    Reset,
}

/// A hold, by which a frame is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct HoldId(pub(crate) u64);

/// One frame as its header enters the sender's buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameSeen<'a> {
    /// The words by which the sender's own layer calls it; empty if it did not say.
    pub(crate) label: &'a str,
    pub(crate) from: NodeId,
    pub(crate) to: NodeId,
}
