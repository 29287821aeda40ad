//! Cycles in the dependency graph: `G0`, `G1c`, `-realtime`, and the `-cycle-exists` names.
//!
//! Per strongly connected component of the whole graph, as Elle does it: which subsets of edges have a cycle? Those of
//! ww alone break PL-1, of ww and wr PL-2, with realtime edges also strong-PL-1 and strong-PL-2; a name is left out
//! where a weaker one already fired. For each such name one cycle is shown: the shortest through the first event of the
//! smallest component. Its type is told by how its edges are explained, which is at times a weaker one than was sought.

use super::components::components;
use super::graph::{Graph, Kinds, REALTIME, Step, WR, WW};
use crate::facts::NONE;
use std::collections::VecDeque;

/// A name of the family `-cycle-exists`: a consistency model that cannot hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Read uncommitted.
    Pl1,
    /// Read committed.
    Pl2,
    /// Read uncommitted in real time.
    StrongPl1,
    /// Read committed in real time.
    StrongPl2,
}

/// A component that breaks a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CycleExists {
    /// The model.
    pub level: Level,
    /// The events of the smallest component of the edges that the model knows, ascending.
    pub events: Vec<usize>,
}

/// A cycle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cycle {
    /// Its type, such as `G1c-realtime`.
    pub name: &'static str,
    /// Its events; each depends on the one before it, and the first on the last.
    pub events: Vec<usize>,
    /// Why the event after each depends on it.
    pub(super) steps: Vec<Step>,
}

/// The events of a strongly connected component with their own numbers and the edges among them, backwards.
struct Component {
    /// Their vertices in the graph, ascending.
    vertices: Vec<u32>,
    /// The vertices before each, and the kind of the edge.
    edges: Vec<(u32, Kinds)>,
    /// Where the edges of each begin, and their end.
    starts: Vec<usize>,
}

pub(super) fn find(graph: &Graph<'_>) -> (Vec<Cycle>, Vec<CycleExists>) {
    let (mut cycles, mut exist) = (Vec::new(), Vec::new());
    let next = |vertex, cursor: &mut u32| graph.next_before(vertex, cursor).map(|(before, _)| before);
    let mut numbers = vec![NONE; graph.len()];
    for vertices in components(graph.len(), next) {
        let component = Component::new(graph, vertices, &mut numbers);
        for level in component.broken() {
            let Some(inner) = component.smallest(level.kinds()) else { continue };
            cycles.push(named(graph, component.events(graph, &component.cycle(level.kinds(), &inner))));
            exist.push(CycleExists { level, events: component.events(graph, &inner) });
        }
    }
    (cycles, exist)
}

impl Level {
    /// Its name in Elle's terms.
    pub fn name(self) -> &'static str {
        match self {
            Level::Pl1 => "PL-1-cycle-exists",
            Level::Pl2 => "PL-2-cycle-exists",
            Level::StrongPl1 => "strong-PL-1-cycle-exists",
            Level::StrongPl2 => "strong-PL-2-cycle-exists",
        }
    }

    /// The model that does not hold.
    pub(super) fn broken_model(self) -> &'static str {
        match self {
            Level::Pl1 => "read-uncommitted",
            Level::Pl2 => "read-committed",
            Level::StrongPl1 => "strong-read-uncommitted",
            Level::StrongPl2 => "strong-read-committed",
        }
    }

    fn kinds(self) -> Kinds {
        match self {
            Level::Pl1 => WW,
            Level::Pl2 => WW | WR,
            Level::StrongPl1 => WW | REALTIME,
            Level::StrongPl2 => WW | WR | REALTIME,
        }
    }
}

impl Component {
    /// `numbers` holds [`NONE`] for all vertices, before and after.
    fn new(graph: &Graph<'_>, mut vertices: Vec<u32>, numbers: &mut [u32]) -> Self {
        vertices.retain(|vertex| graph.event(*vertex).is_some());
        for (number, vertex) in (0u32..).zip(&vertices) {
            numbers[*vertex as usize] = number;
        }
        let mut component = Component { vertices, edges: Vec::new(), starts: Vec::new() };
        for vertex in &component.vertices {
            component.starts.push(component.edges.len());
            let edges = graph.edges_to(*vertex).map(|(before, kind)| (numbers[before as usize], kind));
            component.edges.extend(edges.filter(|(before, _)| *before != NONE));
        }
        component.starts.push(component.edges.len());
        for vertex in &component.vertices {
            numbers[*vertex as usize] = NONE;
        }
        component
    }

    fn events(&self, graph: &Graph<'_>, numbers: &[u32]) -> Vec<usize> {
        numbers.iter().filter_map(|number| graph.event(self.vertices[*number as usize])).collect()
    }

    /// The models it breaks, but for those that a weaker one's breach implies.
    fn broken(&self) -> Vec<Level> {
        let has = |level: Level| self.smallest(level.kinds()).is_some();
        if has(Level::Pl1) {
            return vec![Level::Pl1];
        }
        let levels = match (has(Level::Pl2), has(Level::StrongPl1)) {
            (true, true) => [Some(Level::Pl2), Some(Level::StrongPl1)],
            (true, false) => [Some(Level::Pl2), None],
            (false, true) => [Some(Level::StrongPl1), None],
            (false, false) => [Some(Level::StrongPl2), None],
        };
        levels.into_iter().flatten().collect()
    }

    /// Of the components that only edges of these kinds make, the one with the fewest events; the first of equals.
    fn smallest(&self, kinds: Kinds) -> Option<Vec<u32>> {
        let next = |vertex, cursor: &mut u32| self.next_before(vertex, cursor, kinds);
        components(self.vertices.len(), next).into_iter().min_by_key(|inner| (inner.len(), inner[0]))
    }

    fn next_before(&self, vertex: u32, cursor: &mut u32, kinds: Kinds) -> Option<u32> {
        let edges = &self.edges[self.starts[vertex as usize]..self.starts[vertex as usize + 1]];
        while let Some((before, kind)) = edges.get(*cursor as usize) {
            *cursor += 1;
            if kind & kinds != 0 {
                return Some(*before);
            }
        }
        None
    }

    /// The shortest cycle through the first vertex of `inner`, which these kinds of edges connect.
    fn cycle(&self, kinds: Kinds, inner: &[u32]) -> Vec<u32> {
        let start = inner[0];
        // By vertex: the one after it on the way back to the start.
        let mut after = vec![NONE; self.vertices.len()];
        let mut queue = VecDeque::from([start]);
        while let Some(vertex) = queue.pop_front().filter(|_| after[start as usize] == NONE) {
            let mut cursor = 0;
            while let Some(before) = self.next_before(vertex, &mut cursor, kinds) {
                if after[before as usize] == NONE {
                    after[before as usize] = vertex;
                    queue.push_back(before);
                }
            }
        }
        let mut cycle = vec![start];
        let mut vertex = after[start as usize];
        while vertex != start {
            cycle.push(vertex);
            vertex = after[vertex as usize];
        }
        cycle
    }
}

/// Explains each step, and names the cycle by what the explanations say.
fn named(graph: &Graph<'_>, events: Vec<usize>) -> Cycle {
    let following = events.iter().skip(1).chain(events.first());
    let steps: Vec<Step> = events.iter().zip(following).map(|(a, b)| graph.explain(*a, *b)).collect();
    let has_wr = steps.iter().any(|step| matches!(step, Step::Wr { .. }));
    let name = match (has_wr, steps.contains(&Step::Realtime)) {
        (false, false) => "G0",
        (true, false) => "G1c",
        (false, true) => "G0-realtime",
        (true, true) => "G1c-realtime",
    };
    Cycle { name, events, steps }
}
