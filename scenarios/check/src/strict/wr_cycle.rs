//! `wr-cycle`: transactions that each polled what the next one sent, round in a circle.
//!
//! Whoever polls a value sees a commit that was decided before, and commits later itself. So each transaction of the circle
//! was decided before the other, which cannot be, whatever the order of writes in a partition is. Jepsen's checker allows
//! the whole family G1c where it infers dependencies between writes. Only operations that both send and poll can be part of
//! a circle: mixed operations of clients without transactions must not be called `txn` in a history.

use super::anomaly::Anomaly;
use crate::facts::{Facts, NONE};
use crate::history::{Function, History};
use crate::jepsen::components::components;
use serde_json::{Value, json};

/// Transactions that connect each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrCycle {
    /// A shortest circle through the first event of its component: each polled what the next one sent.
    pub events: Vec<usize>,
}

impl Anomaly for WrCycle {
    /// The last to complete closed it.
    fn event(&self) -> usize {
        self.events.iter().copied().max().unwrap_or_default()
    }

    fn words(&self, _: &History) -> String {
        let all: Vec<String> = self.events.iter().map(|event| format!("event {event}")).collect();
        let first = self.events.first().copied().unwrap_or_default();
        format!("{} and event {first} again: each polled what the next one sent", all.join(", "))
    }

    fn to_json(&self, _: &History) -> Value {
        json!({"cycle": self.events})
    }
}

/// One circle of each component.
pub(super) fn find(facts: &Facts<'_>) -> Vec<WrCycle> {
    let mut vertices: Vec<u32> = Vec::new();
    let mut of_event = vec![NONE; facts.history.len()];
    for event in facts.completions().filter(|event| event.function() == Function::Txn) {
        if event.sent_messages().next().is_some() && !event.polled_messages().is_empty() {
            of_event[event.index] = vertices.len() as u32;
            vertices.push(event.index as u32);
        }
    }
    let (starts, edges) = edges(facts, &vertices, &of_event);
    let writers = |vertex: u32| &edges[starts[vertex as usize]..starts[vertex as usize + 1]];
    let next = |vertex: u32, cursor: &mut u32| {
        *cursor += 1;
        writers(vertex).get(*cursor as usize - 1).copied()
    };
    let mut found: Vec<WrCycle> = components(vertices.len(), next)
        .iter()
        .map(|component| {
            let circle = shortest(component[0], writers);
            WrCycle { events: circle.iter().map(|vertex| vertices[*vertex as usize] as usize).collect() }
        })
        .collect();
    found.sort_by(|a, b| a.events.cmp(&b.events));
    found
}

/// Of each vertex the distinct others that wrote what it polled, as ranges of one list.
fn edges(facts: &Facts<'_>, vertices: &[u32], of_event: &[u32]) -> (Vec<usize>, Vec<u32>) {
    let (mut starts, mut edges) = (vec![0], Vec::new());
    for (vertex, event) in (0u32..).zip(vertices) {
        let polled = facts.history.event(*event as usize);
        let writers = polled.polled_messages().iter().filter_map(|message| facts.message(*message).writer());
        let mut others: Vec<u32> = writers
            .map(|writer| of_event[writer])
            .filter(|other| *other != NONE && *other != vertex)
            .collect();
        others.sort_unstable();
        others.dedup();
        edges.extend(others);
        starts.push(edges.len());
    }
    (starts, edges)
}

/// A shortest way from `start` back to itself, which there is.
fn shortest<'e>(start: u32, next: impl Fn(u32) -> &'e [u32]) -> Vec<u32> {
    let mut from = std::collections::BTreeMap::new();
    let mut queue = std::collections::VecDeque::from([start]);
    while let Some(vertex) = queue.pop_front().filter(|_| !from.contains_key(&start)) {
        for to in next(vertex) {
            if !from.contains_key(to) {
                from.insert(*to, vertex);
                queue.push_back(*to);
            }
        }
    }
    let mut way = vec![start];
    let mut at = start;
    while let Some(before) = from.get(&at).copied().filter(|before| *before != start) {
        way.push(before);
        at = before;
    }
    way[1..].reverse();
    way
}
