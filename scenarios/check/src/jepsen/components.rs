//! Strongly connected components: Tarjan's algorithm with a stack of its own, over a graph given as a function.

use crate::facts::NONE;

/// The components of two vertices or more, each ascending; the graph is known to have no edge from a vertex to itself.
///
/// `next` yields the neighbours of a vertex one by one: it moves the cursor, which begins at 0, and says `None` at the
/// end. Which way the edges run does not matter.
pub(crate) fn components(
    vertices: usize,
    mut next: impl FnMut(u32, &mut u32) -> Option<u32>,
) -> Vec<Vec<u32>> {
    let mut found = Vec::new();
    // The order of discovery; the lowest one reachable; whether the vertex's component is complete.
    let (mut order, mut low) = (vec![NONE; vertices], vec![NONE; vertices]);
    let mut done = vec![false; vertices];
    let (mut open, mut calls, mut count) = (Vec::new(), Vec::new(), 0);
    for root in 0..vertices as u32 {
        if order[root as usize] != NONE {
            continue;
        }
        calls.push((root, 0));
        while let Some((vertex, mut cursor)) = calls.pop() {
            let at = vertex as usize;
            if order[at] == NONE {
                (order[at], low[at]) = (count, count);
                count += 1;
                open.push(vertex);
            }
            let mut deeper = None;
            while let Some(neighbour) = next(vertex, &mut cursor) {
                let to = neighbour as usize;
                if order[to] == NONE {
                    deeper = Some(neighbour);
                    break;
                }
                if !done[to] {
                    low[at] = low[at].min(order[to]);
                }
            }
            if let Some(neighbour) = deeper {
                calls.push((vertex, cursor));
                calls.push((neighbour, 0));
                continue;
            }
            if low[at] == order[at] {
                let from = open.iter().rposition(|other| *other == vertex).unwrap_or_default();
                let mut component = open.split_off(from);
                component.iter().for_each(|vertex| done[*vertex as usize] = true);
                if component.len() > 1 {
                    component.sort_unstable();
                    found.push(component);
                }
            }
            if let Some((parent, _)) = calls.last() {
                low[*parent as usize] = low[*parent as usize].min(low[at]);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn of(vertices: u32, edges: &[(u32, u32)]) -> Vec<Vec<u32>> {
        let mut found = components(vertices as usize, |vertex, cursor| {
            let mut out = edges.iter().filter(|edge| edge.0 == vertex);
            *cursor += 1;
            out.nth(*cursor as usize - 1).map(|edge| edge.1)
        });
        found.sort();
        found
    }

    #[test]
    fn a_cycle_is_a_component_and_a_chain_is_none() {
        assert_eq!(of(4, &[(0, 1), (1, 2), (2, 3)]), [[0; 0]; 0]);
        assert_eq!(of(5, &[(0, 1), (1, 2), (2, 0), (2, 3), (3, 4)]), [[0, 1, 2]]);
        assert_eq!(of(5, &[(4, 3), (3, 4), (0, 2), (2, 0), (2, 3)]), [[0, 2], [3, 4]]);
        // A chain as long as a big history: no recursion.
        let long = 1_000_000;
        let found = components(long, |vertex, cursor| {
            *cursor += 1;
            (*cursor == 1).then_some((vertex + 1) % long as u32)
        });
        assert_eq!((found.len(), found[0].len()), (1, long));
    }

    proptest! {
        /// Against the definition: two vertices are together when each reaches the other.
        #[test]
        fn components_are_what_reaches_each_other(
            edges in prop::collection::vec((0..9u32, 0..9u32), 0..24),
        ) {
            let edges: Vec<(u32, u32)> = edges.into_iter().filter(|(from, to)| from != to).collect();
            let reach = |from: u32| {
                let (mut seen, mut todo) = (BTreeSet::new(), vec![from]);
                while let Some(vertex) = todo.pop() {
                    let out = edges.iter().filter(|edge| edge.0 == vertex).map(|edge| edge.1);
                    todo.extend(out.filter(|to| seen.insert(*to)));
                }
                seen
            };
            let reached: Vec<BTreeSet<u32>> = (0..9).map(reach).collect();
            let both = |a: u32, b: u32| reached[a as usize].contains(&b) && reached[b as usize].contains(&a);
            let with = |a: u32| (0..9).filter(|b| both(a, *b)).collect::<Vec<u32>>();
            let expected: BTreeSet<Vec<u32>> = (0..9).map(with).filter(|all| all.len() > 1).collect();
            prop_assert_eq!(of(9, &edges), expected.into_iter().collect::<Vec<_>>());
        }
    }
}
