//! A connection: two ends, two flows, and the bare segments (without bytes) between them.

use super::flow::Flow;
use super::link::NEVER;
use super::slab::Key;
use crate::trace::{EventId, NodeId};
use std::io;
use std::net::SocketAddr;
use std::task::Waker;

/// The dialling end of a connection.
pub(super) const DIALLER: usize = 0;
/// The end that was dialled.
pub(super) const DIALLED: usize = 1;

/// Ordinals of bare segments begin here, so that they never meet a frame's.
pub(super) const BARE_NUMBERS: u64 = 1 << 42;
/// The FIN's ordinal.
pub(super) const FIN_NUMBER: u64 = BARE_NUMBERS - 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The kernel knows no such socket: it was reset, timed out, or its machine crashed. A process may still hold it.
    Closed,
    SynSent,
    SynReceived,
    /// Established, whatever has been shut down since, and whether or not a process still holds it.
    Open,
}

/// The one timer of an end: of its SYN or SYN-ACK, or of its unacknowledged data. It runs only when something was lost:
/// otherwise its answer is on its way, and nothing would come of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timer {
    pub(super) at: u64,
    /// How often the SYN or SYN-ACK was sent again.
    pub(super) attempts: u32,
    /// When the SYN or SYN-ACK that is out must have been answered.
    pub(super) handshake_at: u64,
    /// The alarm is not a timeout: a later segment arrived, so the earlier one must be lost.
    pub(super) fast: bool,
    /// The alarm is not a timeout: it only sends again.
    pub(super) probe: bool,
}

impl Timer {
    pub(super) const OFF: Timer =
        Timer { at: NEVER, attempts: 0, handshake_at: NEVER, fast: false, probe: false };
}

/// One end of a connection.
pub(super) struct End {
    pub(super) node: NodeId,
    pub(super) address: SocketAddr,
    pub(super) state: State,
    /// A process holds it, or an accept queue does.
    pub(super) app: bool,
    /// A FIN was received.
    pub(super) eof: bool,
    /// What the next call reports (`SO_ERROR`).
    pub(super) error: Option<io::ErrorKind>,
    pub(super) reader: Option<Waker>,
    pub(super) writer: Option<Waker>,
    pub(super) timer: Timer,
}

impl End {
    pub(super) fn new(node: NodeId, address: SocketAddr, state: State) -> Self {
        End {
            node,
            address,
            state,
            app: state == State::SynSent,
            eof: false,
            error: None,
            reader: None,
            writer: None,
            timer: Timer::OFF,
        }
    }

    /// The kernel forgets the socket. A process that holds it may still read what was received.
    pub(super) fn shut(&mut self, error: Option<io::ErrorKind>) {
        self.state = State::Closed;
        self.error = error;
        self.timer = Timer::OFF;
    }
}

/// A segment without bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bare {
    Syn,
    SynAck,
    /// The third step of the handshake.
    Ack,
    Rst,
    /// A segment that only asks for an acknowledgement: a window probe, or bytes the receiver already has.
    Probe,
}

/// A bare segment on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Travelling {
    pub(super) bare: Bare,
    pub(super) to: usize,
    pub(super) arrives_at: u64,
    pub(super) parent: EventId,
}

/// A connection.
pub(super) struct Conn {
    /// Its place among all connections, for the trace.
    pub(super) id: u64,
    /// The dialler's end first.
    pub(super) ends: [End; 2],
    /// What the dialler sends first.
    pub(super) flows: [Flow; 2],
    pub(super) bare: Vec<Travelling>,
    /// Bare segments sent so far, by the end that sent them.
    pub(super) bare_sent: [u32; 2],
    /// The listener that was dialled, from the SYN's arrival on.
    pub(super) listener: Option<Key>,
}

impl Conn {
    /// Whether nobody can notice any more that it exists.
    pub(super) fn is_over(&self) -> bool {
        let ended = |end: &End| !end.app && matches!(end.state, State::Closed | State::Open);
        self.ends.iter().all(ended) && self.flows.iter().all(Flow::is_idle) && self.bare.is_empty()
    }

    /// Takes the first bare segment to end `to` that has arrived.
    pub(super) fn take_arrived(&mut self, to: usize, now: u64) -> Option<Travelling> {
        let place = self.bare.iter().position(|bare| bare.to == to && bare.arrives_at <= now)?;
        Some(self.bare.remove(place))
    }

    /// Whether a RST is on its way to end `to`.
    pub(super) fn is_being_reset(&self, to: usize) -> bool {
        self.bare.iter().any(|travelling| travelling.bare == Bare::Rst && travelling.to == to)
    }
}
