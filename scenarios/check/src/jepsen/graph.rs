//! What must have come before what: the dependency graph of all completions, failed and unknown ones included.
//!
//! * *ww*: the writer of a message comes before the writer of the next one in the version order (only if asked for)
//! * *wr*: the writer of a message comes before everyone who polled it
//! * *realtime*: an ok event comes before everything that was invoked after it completed
//!
//! No edge is stored. What an event depends on is read off its own sends and polls, and realtime runs through *moments*:
//! vertices of their own, in a chain, each with the ok events that completed between two invocations. So the graph is
//! as large as the history, however many clients there are. Where cycles are looked for, realtime edges are those that
//! Elle has instead: from the ok events that completed before an invocation and after the invocations of all others that
//! did so, which imply the rest.

use super::version_order::VersionOrders;
use crate::facts::{Facts, NONE};
use crate::history::{Event, Message, NO_MESSAGE, Status};
use std::collections::BTreeMap;
use std::ops::Range;

/// Kinds of edges, as a set of bits.
pub(super) type Kinds = u8;
pub(super) const WW: Kinds = 1;
pub(super) const WR: Kinds = 2;
pub(super) const REALTIME: Kinds = 4;

/// The vertices: events first, ascending, then moments.
#[derive(Debug)]
pub(super) struct Graph<'f> {
    facts: &'f Facts<'f>,
    orders: &'f VersionOrders,
    ww_deps: bool,
    /// The event of each vertex that is one.
    events: Vec<u32>,
    /// By event: its vertex, or [`NONE`].
    vertices: Vec<u32>,
    /// By vertex: the last moment before its invocation, or [`NONE`].
    before: Vec<u32>,
    /// The vertices of ok events, as they completed.
    oks: Vec<u32>,
    /// Where each moment begins in `oks`, and the end of `oks`.
    moments: Vec<usize>,
    /// By vertex: those of `oks` from which Elle draws a realtime edge to it.
    frontiers: Vec<Range<u32>>,
}

/// What is to be remembered of an invocation until its completion.
struct Invocation {
    moment: u32,
    frontier: Range<u32>,
    /// How many ok events had completed.
    oks: u32,
}

impl<'f> Graph<'f> {
    pub(super) fn new(facts: &'f Facts<'f>, orders: &'f VersionOrders, ww_deps: bool) -> Self {
        let mut graph = Graph {
            facts,
            orders,
            ww_deps,
            events: Vec::new(),
            vertices: vec![NONE; facts.history.len()],
            before: Vec::new(),
            oks: Vec::new(),
            moments: Vec::new(),
            frontiers: Vec::new(),
        };
        // By process: the invocation that is not yet completed.
        let mut invoked: BTreeMap<i64, Invocation> = BTreeMap::new();
        let mut is_moment_over = true;
        // Of the ok events so far, those that none that was invoked after them follows.
        let mut frontier_start = 0;
        for event in facts.history.events().filter(Event::is_records) {
            if event.status() == Status::Invoke {
                let (oks, moment) = (graph.oks.len() as u32, (graph.moments.len() as u32).wrapping_sub(1));
                let invocation = Invocation { moment, frontier: frontier_start..oks, oks };
                invoked.insert(event.process(), invocation);
                is_moment_over = true;
                continue;
            }
            let vertex = graph.events.len() as u32;
            graph.vertices[event.index] = vertex;
            graph.events.push(event.index as u32);
            let without = Invocation { moment: NONE, frontier: 0..0, oks: 0 };
            let invocation = invoked.remove(&event.process()).unwrap_or(without);
            graph.before.push(invocation.moment);
            graph.frontiers.push(invocation.frontier);
            if event.status() == Status::Ok {
                frontier_start = frontier_start.max(invocation.oks);
                if is_moment_over {
                    graph.moments.push(graph.oks.len());
                    is_moment_over = false;
                }
                graph.oks.push(vertex);
            }
        }
        graph.moments.push(graph.oks.len());
        graph
    }

    /// How many vertices there are.
    pub(super) fn len(&self) -> usize {
        self.events.len() + self.moments.len() - 1
    }

    /// The event of a vertex; `None` for a moment.
    pub(super) fn event(&self, vertex: u32) -> Option<usize> {
        self.events.get(vertex as usize).map(|event| *event as usize)
    }

    /// Whether there is no edge between events.
    pub(super) fn is_empty(&self) -> bool {
        (0..self.events.len() as u32).all(|vertex| {
            let mut cursor = 0;
            std::iter::from_fn(|| self.next_before(vertex, &mut cursor)).next().is_none()
        })
    }

    /// The edges from other events to the event of a vertex, with Elle's realtime edges: no moments.
    pub(super) fn edges_to(&self, vertex: u32) -> impl Iterator<Item = (u32, Kinds)> + use<'_, 'f> {
        let mut cursor = 0;
        let all = std::iter::from_fn(move || self.next_before(vertex, &mut cursor));
        let frontier = self.frontiers[vertex as usize].clone();
        let realtime = frontier.map(|ok| (self.oks[ok as usize], REALTIME));
        all.filter(|(before, _)| self.event(*before).is_some()).chain(realtime)
    }

    /// The vertices before one, each with the kind of the edge, one by one; the cursor begins at 0.
    pub(super) fn next_before(&self, vertex: u32, cursor: &mut u32) -> Option<(u32, Kinds)> {
        match self.event(vertex) {
            Some(event) => self.next_before_event(vertex, &self.facts.history.event(event), cursor),
            None => self.next_before_moment(vertex, cursor).map(|before| (before, REALTIME)),
        }
    }

    fn next_before_event(&self, vertex: u32, event: &Event<'_>, cursor: &mut u32) -> Option<(u32, Kinds)> {
        let (sent, polled) = (event.message_slots(), event.polled_messages());
        loop {
            let at = *cursor as usize;
            *cursor += 1;
            let (before, kind) = if at < sent.len() {
                (self.writer_of_previous(vertex, sent[at]), WW)
            } else if at < sent.len() + polled.len() {
                (self.writer(polled[at - sent.len()]), WR)
            } else if at == sent.len() + polled.len() {
                let moment = self.before[vertex as usize];
                (if moment == NONE { NONE } else { self.events.len() as u32 + moment }, REALTIME)
            } else {
                return None;
            };
            if before != NONE && before != vertex {
                return Some((before, kind));
            }
        }
    }

    fn next_before_moment(&self, vertex: u32, cursor: &mut u32) -> Option<u32> {
        let moment = vertex as usize - self.events.len();
        let at = *cursor as usize;
        *cursor += 1;
        let oks = &self.oks[self.moments[moment]..self.moments[moment + 1]];
        match oks.get(at) {
            Some(ok) => Some(*ok),
            None if at == oks.len() && moment > 0 => Some(vertex - 1),
            None => None,
        }
    }

    /// The vertex that wrote a message, or [`NONE`].
    fn writer(&self, message: Message) -> u32 {
        self.facts.message(message).writer().map_or(NONE, |event| self.vertices[event])
    }

    /// For a message that the vertex is the writer of: the vertex that wrote the one before it, or [`NONE`].
    fn writer_of_previous(&self, vertex: u32, message: Message) -> u32 {
        if !self.ww_deps || message == NO_MESSAGE || self.writer(message) != vertex {
            return NONE;
        }
        self.orders.previous(message).map_or(NONE, |previous| self.writer(previous))
    }

    /// Why one event comes before another, as Jepsen's explainer puts it: by ww if it can, else wr, else realtime.
    pub(super) fn explain(&self, before: usize, after: usize) -> Step {
        let event = self.facts.history.event(after);
        let is_writer = |message: Message| self.facts.message(message).writer() == Some(before);
        if self.ww_deps {
            for (message, _) in event.sent_messages() {
                if let Some(previous) = self.orders.previous(message).filter(|previous| is_writer(*previous))
                {
                    return Step::Ww { messages: (previous, message) };
                }
            }
        }
        match event.polled_messages().iter().find(|message| is_writer(**message)) {
            Some(message) => Step::Wr { message: *message },
            None => Step::Realtime,
        }
    }
}

/// Why one event comes before another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It wrote the first message, the other the second, which is next in the version order.
    Ww { messages: (Message, Message) },
    /// It wrote the message, the other polled it.
    Wr { message: Message },
    /// It completed before the other was invoked.
    Realtime,
}
