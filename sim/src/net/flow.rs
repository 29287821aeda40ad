//! One direction of a connection: the bytes between one socket's writes and the other's reads.
//!
//! Positions count bytes from the start of the stream: `read <= received <= sent <= written`. The bytes from `read` to
//! `written` lie in one ring, which is send buffer, network and receive buffer at once. What the *sender* knows of the
//! receiver lags behind: acknowledgements travel, and are looked at when the sender wants to know.

use super::frame::{Framing, Gate};
use super::link::{NEVER, Route};
use crate::trace::EventId;
use std::collections::VecDeque;

/// Greatest segment on a connection without frames, as Linux's segmentation offload makes them.
const SEGMENT_BYTES_MAX: u64 = 64 * 1024;

/// What an Ethernet packet carries.
const PACKET_BYTES: u64 = 1_448;

/// Bytes (or the FIN) on their way.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) bytes: u32,
    pub(super) fin: bool,
    pub(super) part: u32,
    pub(super) attempt: u32,
    /// Its frame's number; its own on a connection without frames.
    pub(super) number: u64,
    /// [`NEVER`] when it was lost and has not been sent again.
    pub(super) arrives_at: u64,
    pub(super) parent: EventId,
    /// The label of the frame that ends with this segment.
    pub(super) label: Option<String>,
}

/// What the receiver told, on its way to the sender.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ack {
    pub(super) arrives_at: u64,
    /// Everything before this has been received.
    received: u64,
    /// The receiver has room up to here.
    edge: u64,
    cause: EventId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fin {
    No,
    /// The write direction has ended; bytes before its FIN are still unsent.
    Queued,
    Sent,
}

/// What may leave next.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) bytes: u32,
    pub(super) number: u64,
    pub(super) part: u32,
    pub(super) slow_ns: u64,
    pub(super) parent: EventId,
    pub(super) label: Option<String>,
}

/// One direction of a connection.
pub(super) struct Flow {
    pub(super) route: Route,
    pub(super) ring: VecDeque<u8>,
    pub(super) read: u64,
    pub(super) received: u64,
    pub(super) sent: u64,
    pub(super) written: u64,
    pub(super) fin: Fin,
    /// Everything before this is acknowledged, as far as the sender knows; the FIN counts one.
    pub(super) acked: u64,
    /// The sender may send up to here, as far as it knows.
    edge: u64,
    /// The edge the receiver told last.
    pub(super) told: u64,
    acks: VecDeque<Ack>,
    /// What made the receiver say what the sender heard last.
    pub(super) heard: EventId,
    /// Timeouts since the sender last heard of the receiver.
    pub(super) timeouts: u32,
    /// When the first of them was.
    pub(super) timeouts_since: Option<u64>,
    /// A tail loss probe went out since the sender last heard of the receiver.
    pub(super) tail_probed: bool,
    /// Acknowledgements sent, lost ones included.
    pub(super) acks_sent: u64,
    /// When the event that looks at the acknowledgements is due.
    pub(super) ack_event_at: u64,
    /// On their way, in the order of the stream.
    pub(super) segments: VecDeque<Segment>,
    /// How many of them are lost.
    pub(super) lost: u32,
    /// When the event that delivers the first of them is due.
    pub(super) deliver_event_at: u64,
    /// The number of the next segment, on a connection without frames.
    next_segment: u64,
    /// The write the latest unsent bytes came with.
    pub(super) write: EventId,
    pub(super) framing: Option<Box<Framing>>,
    /// A RST leaves after what is held.
    pub(super) rst_behind: Option<EventId>,
}

impl Flow {
    pub(super) fn new(route: Route, window: u64, framed: bool) -> Self {
        Flow {
            route,
            ring: VecDeque::new(),
            read: 0,
            received: 0,
            sent: 0,
            written: 0,
            fin: Fin::No,
            acked: 0,
            edge: window,
            told: window,
            acks: VecDeque::new(),
            heard: EventId::NONE,
            timeouts: 0,
            timeouts_since: None,
            tail_probed: false,
            acks_sent: 0,
            ack_event_at: NEVER,
            segments: VecDeque::new(),
            lost: 0,
            deliver_event_at: NEVER,
            next_segment: 0,
            write: EventId::NONE,
            framing: framed.then(Box::default),
            rst_behind: None,
        }
    }

    /// Bytes that can be read.
    pub(super) fn unread(&self) -> u64 {
        self.received - self.read
    }

    /// Bytes that wait to leave and may, as far as their frames go.
    fn sendable(&self) -> u64 {
        self.written - self.framing.as_ref().map_or(0, |framing| framing.undecided_bytes())
    }

    /// Whether the first unsent byte waits for the receiver's window and for nothing else.
    pub(super) fn waits_for_window(&self) -> bool {
        let held = self
            .framing
            .as_ref()
            .and_then(|framing| framing.frames.front())
            .is_some_and(|frame| matches!(frame.gate, Gate::Held(_)) && frame.start == self.sent);
        self.sent < self.sendable() && self.sent >= self.edge && !held
    }

    /// Whether a frame of it is held.
    pub(super) fn holds(&self) -> bool {
        self.framing.as_ref().is_some_and(|framing| framing.holds())
    }

    /// How much has been sent that can be acknowledged.
    pub(super) fn acknowledgeable(&self) -> u64 {
        self.sent + u64::from(self.fin == Fin::Sent)
    }

    /// Packets that are not acknowledged, as far as the sender knows; the FIN is one.
    pub(super) fn packets_out(&self) -> u64 {
        let fin = self.fin == Fin::Sent && self.acked <= self.sent;
        // Writes that left one by one are packets of their own.
        let packets = self.sent.saturating_sub(self.acked).div_ceil(PACKET_BYTES);
        (packets + u64::from(fin)).max(self.segments.len() as u64)
    }

    /// Whether a loss is met with a probe first: something is out, and nothing was sent again yet.
    pub(super) fn may_probe_tail(&self) -> bool {
        self.timeouts == 0 && !self.tail_probed && self.acked < self.acknowledgeable()
    }

    /// Takes the next piece that may leave. `unbounded` ignores the window, for bytes whose socket is gone.
    pub(super) fn take_piece(&mut self, unbounded: bool) -> Option<Piece> {
        let limit = if unbounded { self.written } else { self.sendable().min(self.edge) };
        if self.sent >= limit {
            return None;
        }
        let piece = match &mut self.framing {
            None => {
                let bytes = (limit - self.sent).min(SEGMENT_BYTES_MAX);
                self.next_segment += 1;
                Piece {
                    bytes: bytes as u32,
                    number: self.next_segment - 1,
                    part: 0,
                    slow_ns: 0,
                    parent: self.write,
                    label: None,
                }
            }
            Some(framing) => {
                let frame = framing.frames.front_mut()?;
                let slow_ns = match frame.gate {
                    Gate::Held(_) => return None,
                    Gate::Slow(ns) => ns,
                    Gate::Open => 0,
                };
                frame.gate = Gate::Open;
                frame.parts += 1;
                let bytes = (limit.min(frame.end) - self.sent).min(u64::from(u32::MAX));
                let whole = self.sent + bytes == frame.end;
                let (number, part, parent) = (frame.number, frame.parts - 1, frame.sent);
                let label =
                    if whole { framing.frames.pop_front().and_then(|frame| frame.label) } else { None };
                Piece { bytes: bytes as u32, number, part, slow_ns, parent, label }
            }
        };
        self.sent += u64::from(piece.bytes);
        Some(piece)
    }

    /// Puts an acknowledgement of everything received on its way.
    pub(super) fn tell(&mut self, now: u64, arrives_at: u64, window: u64, eof: bool, cause: EventId) {
        self.settle(now);
        // A window too small to be worth it is not told (RFC 9293, 3.8.6.2.2; Linux: a sixteenth).
        if self.window(window) >= window / 16 {
            self.told = self.read + window;
        }
        let received = self.received + u64::from(eof);
        self.acks.push_back(Ack { arrives_at, received, edge: self.told, cause });
    }

    /// Room in the receive buffer, of `window` bytes; none if what its sender's kernel had forgotten overfilled it.
    pub(super) fn window(&self, window: u64) -> u64 {
        (self.read + window).saturating_sub(self.received)
    }

    /// Learns from the acknowledgements that have arrived.
    pub(super) fn settle(&mut self, now: u64) {
        while let Some(ack) = self.acks.front()
            && ack.arrives_at <= now
        {
            self.acked = self.acked.max(ack.received);
            self.edge = self.edge.max(ack.edge);
            self.heard = ack.cause;
            self.timeouts = 0;
            self.timeouts_since = None;
            self.tail_probed = false;
            self.acks.pop_front();
        }
    }

    /// When the next acknowledgement arrives.
    pub(super) fn next_ack_at(&self) -> Option<u64> {
        self.acks.front().map(|ack| ack.arrives_at)
    }

    /// Loses the acknowledgements on their way; says whether there were any.
    pub(super) fn lose_acks(&mut self, now: u64) -> bool {
        self.settle(now);
        let any = !self.acks.is_empty();
        self.acks.clear();
        any
    }

    /// Loses the segments on their way; says whether there were any.
    pub(super) fn lose_segments(&mut self, now: u64) -> bool {
        let before = self.lost;
        for segment in &mut self.segments {
            if segment.arrives_at > now && segment.arrives_at != NEVER {
                segment.arrives_at = NEVER;
                self.lost += 1;
            }
        }
        self.lost > before
    }

    /// The last arrival of what is on its way.
    pub(super) fn last_arrival(&self) -> u64 {
        let on_the_way = self.segments.iter().map(|segment| segment.arrives_at);
        on_the_way.filter(|at| *at != NEVER).max().unwrap_or(0)
    }

    /// The sender's kernel forgets this direction. What is in the network stays there: segments on their way, up to
    /// the first lost one, which nobody will send again; and what is held, if nothing before it is missing.
    pub(super) fn abandon(&mut self) {
        let kept = self.segments.iter().position(|segment| segment.arrives_at == NEVER);
        let missing = kept.is_some();
        self.segments.truncate(kept.unwrap_or(self.segments.len()));
        self.lost = 0;
        self.acks.clear();
        if missing || !self.holds() {
            self.drop_unsent();
        } else if let Some(framing) = &mut self.framing {
            framing.finish(self.written);
        }
    }

    /// Nobody will receive this direction any more.
    pub(super) fn clear(&mut self) {
        self.segments.clear();
        self.lost = 0;
        self.acks.clear();
        self.drop_unsent();
    }

    /// Drops what can be read.
    pub(super) fn discard_unread(&mut self) {
        self.ring.drain(..self.unread() as usize);
        self.read = self.received;
    }

    fn drop_unsent(&mut self) {
        let on_the_way: u64 = self.segments.iter().map(|segment| u64::from(segment.bytes)).sum();
        self.sent = self.received + on_the_way;
        self.written = self.sent;
        self.ring.truncate((self.written - self.read) as usize);
        self.rst_behind = None;
        if self.fin == Fin::Queued {
            self.fin = Fin::Sent;
        }
        if let Some(framing) = &mut self.framing {
            framing.frames.clear();
        }
    }

    /// Whether nothing of it is left to leave or to arrive.
    pub(super) fn is_idle(&self) -> bool {
        self.segments.is_empty() && self.sent == self.written && self.fin != Fin::Queued
    }
}
