//! Application frames in a stream of bytes: four bytes of big-endian length, then so many bytes.
//!
//! The scanner reads what enters the send buffer, however the writes are split, and says once per frame that its header
//! is complete. A length that is negative as Kafka reads it makes the rest of the stream one frame.

use crate::tap::HoldId;
use crate::trace::EventId;
use std::collections::VecDeque;

const HEADER_BYTES: usize = 4;

/// What keeps a frame from leaving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gate {
    Open,
    /// It leaves at once and takes so many nanoseconds longer.
    Slow(u64),
    Held(HoldId),
}

/// A frame that has not left whole yet.
#[derive(Debug)]
pub(super) struct Frame {
    /// Its place among the frames of its direction, from 0.
    pub(super) number: u64,
    /// Where its header begins in the stream.
    pub(super) start: u64,
    /// Where the next frame begins.
    pub(super) end: u64,
    /// Parts of it that have left.
    pub(super) parts: u32,
    pub(super) gate: Gate,
    pub(super) sent: EventId,
    pub(super) label: Option<String>,
}

/// The frames of one direction of a connection.
#[derive(Debug, Default)]
pub(super) struct Framing {
    header: [u8; HEADER_BYTES],
    filled: usize,
    body_left: u64,
    label: Option<String>,
    /// The name of the next frame to begin.
    next_label: Option<String>,
    next: u64,
    /// Frames that have not left whole, oldest first.
    pub(super) frames: VecDeque<Frame>,
}

impl Framing {
    /// Names the next frame to begin. A name given before, whose frame has not begun, was for a frame that was never
    /// written.
    pub(super) fn label(&mut self, label: String) {
        self.next_label = Some(label);
    }

    /// Reads on in `bytes`, which begin at `position` of the stream, to the end of the next header. Returns how many
    /// bytes it read; the new frame, if a header ended there, is the last of `frames`.
    pub(super) fn scan(&mut self, bytes: &[u8], position: u64) -> (usize, bool) {
        let body = self.body_left.min(bytes.len() as u64) as usize;
        self.body_left -= body as u64;
        let rest = &bytes[body..];
        if rest.is_empty() {
            return (body, false);
        }
        if self.filled == 0 {
            self.label = self.next_label.take();
        }
        let taken = rest.len().min(HEADER_BYTES - self.filled);
        self.header[self.filled..self.filled + taken].copy_from_slice(&rest[..taken]);
        self.filled += taken;
        if self.filled < HEADER_BYTES {
            return (body + taken, false);
        }
        let end_of_header = position + (body + taken) as u64;
        self.filled = 0;
        self.body_left = match u64::from(u32::from_be_bytes(self.header)) {
            length if length <= i32::MAX as u64 => length,
            _ => u64::MAX >> 1,
        };
        self.frames.push_back(Frame {
            number: self.next,
            start: end_of_header - HEADER_BYTES as u64,
            end: end_of_header + self.body_left,
            parts: 0,
            gate: Gate::Open,
            sent: EventId::NONE,
            label: self.label.take(),
        });
        self.next += 1;
        (body + taken, true)
    }

    /// Bytes of a header that is not complete: they wait, because what becomes of their frame is not decided yet.
    pub(super) fn undecided_bytes(&self) -> u64 {
        self.filled as u64
    }

    /// Nothing more will be written: bytes of an incomplete header go out as a last frame, with no name.
    pub(super) fn finish(&mut self, written: u64) {
        if self.filled > 0 {
            let start = written - self.filled as u64;
            self.filled = 0;
            self.frames.push_back(Frame {
                number: self.next,
                start,
                end: written,
                parts: 0,
                gate: Gate::Open,
                sent: EventId::NONE,
                label: None,
            });
        }
    }

    /// Whether a frame is held.
    pub(super) fn holds(&self) -> bool {
        self.frames.iter().any(|frame| matches!(frame.gate, Gate::Held(_)))
    }

    /// The first frame that `hold` holds.
    pub(super) fn first_held_by(&self, hold: HoldId) -> Option<&Frame> {
        self.frames.iter().find(|frame| frame.gate == Gate::Held(hold))
    }

    /// Lets go what `hold` holds.
    pub(super) fn release(&mut self, hold: HoldId) {
        for frame in &mut self.frames {
            if frame.gate == Gate::Held(hold) {
                frame.gate = Gate::Open;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames with bodies of 2, 0 and 3 bytes.
    const STREAM: &[u8] = &[0, 0, 0, 2, 9, 9, 0, 0, 0, 0, 0, 0, 0, 3, 7, 7, 7];

    fn scan_all(splits: &[usize]) -> Vec<(u64, u64, u64)> {
        let mut framing = Framing::default();
        let mut position = 0;
        for split in splits {
            let mut rest = &STREAM[position as usize..position as usize + split];
            while !rest.is_empty() {
                let (read, _) = framing.scan(rest, position);
                position += read as u64;
                rest = &rest[read..];
            }
        }
        framing.frames.iter().map(|frame| (frame.number, frame.start, frame.end)).collect()
    }

    #[test]
    fn frames_are_found_however_the_writes_are_split() {
        let frames = [(0, 0, 6), (1, 6, 10), (2, 10, 17)];
        assert_eq!(scan_all(&[17]), frames);
        assert_eq!(scan_all(&[1; 17]), frames);
        for first in 1..17 {
            assert_eq!(scan_all(&[first, 17 - first]), frames);
        }
    }

    #[test]
    fn a_label_goes_to_the_frame_that_begins_after_it() {
        let mut framing = Framing::default();
        framing.scan(&[0, 0], 0);
        framing.label("second".into());
        framing.scan(&[0, 0], 2);
        framing.scan(&[0, 0, 0, 0], 4);
        framing.scan(&[0, 0, 0, 0], 8);
        framing.label("fourth".into());
        framing.scan(&[0, 0, 0, 0], 12);
        let labels: Vec<_> = framing.frames.iter().map(|frame| frame.label.as_deref()).collect();
        assert_eq!(labels, [None, Some("second"), None, Some("fourth")]);
    }

    #[test]
    fn a_label_replaces_one_whose_frame_never_began() {
        let mut framing = Framing::default();
        framing.label("dropped".into());
        framing.label("written".into());
        framing.scan(&[0, 0, 0, 0], 0);
        framing.scan(&[0, 0, 0, 0], 4);
        let labels: Vec<_> = framing.frames.iter().map(|frame| frame.label.as_deref()).collect();
        assert_eq!(labels, [Some("written"), None]);
    }

    #[test]
    fn a_negative_length_is_a_frame_without_end() {
        let mut framing = Framing::default();
        assert_eq!(framing.scan(&[0xff; 8], 0), (4, true));
        assert_eq!(framing.scan(&[0xff; 4], 4), (4, false));
        assert_eq!(framing.frames.len(), 1);
    }
}
