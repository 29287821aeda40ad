//! Whether what clients saw of one key is explained by a strongly consistent store.
//!
//! Method: configurations, moved along in time. A configuration is a value, which of the operations under way have
//! happened already, and which of those without an answer were spent. When an operation returns, every configuration
//! must let it happen, if need be after others under way. Of two configurations alike the one that spent less says
//! all the other does, so only such are kept; that is why this ends soon with many unanswered operations.
//!
//! Limits: one key; each value is written by one operation only.

use std::collections::{BTreeMap, BTreeSet};

/// What a client did to the key and, unless it has no answer, learnt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Put(u32),
    /// A put that must find nothing.
    Create(u32),
    CreateRefused,
    /// A put that must find the first value.
    Replace(u32, u32),
    ReplaceRefused(u32),
    Delete,
    Read(Option<u32>),
}

impl Action {
    /// The value after it, if it can happen at `value`.
    fn at(self, value: Option<u32>) -> Option<Option<u32>> {
        match self {
            Action::Put(new) => Some(Some(new)),
            Action::Create(new) => value.is_none().then_some(Some(new)),
            Action::CreateRefused => value.is_some().then_some(value),
            Action::Replace(old, new) => (value == Some(old)).then_some(Some(new)),
            Action::ReplaceRefused(old) => (value != Some(old)).then_some(value),
            Action::Delete => Some(None),
            Action::Read(seen) => (value == seen).then_some(value),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    pub(crate) invoked_ns: u64,
    /// None if it never was answered: it may have happened, may yet, or never.
    pub(crate) returned_ns: Option<u64>,
    pub(crate) action: Action,
}

/// A value, and the answered operations under way that have happened.
type Configuration = (Option<u32>, BTreeSet<usize>);
/// Sets of unanswered operations spent to get there, none of which contains another.
type Reached = BTreeMap<Configuration, Vec<BTreeSet<usize>>>;

/// The first operation that no order of things explains, if any.
pub(crate) fn unexplained(operations: &[Operation]) -> Option<Operation> {
    let mut moments: Vec<(u64, bool, usize)> = Vec::new();
    for (n, operation) in operations.iter().enumerate() {
        moments.push((operation.invoked_ns, false, n));
        moments.extend(operation.returned_ns.map(|returned| (returned, true, n)));
    }
    // An operation may happen at the very moment another returns, so beginnings come first.
    moments.sort();
    let mut reached = Reached::from([((None, BTreeSet::new()), vec![BTreeSet::new()])]);
    let mut under_way = BTreeSet::new();
    for (_, is_return, n) in moments {
        if !is_return {
            under_way.insert(n);
            continue;
        }
        reached = let_happen(operations, &under_way, reached, n);
        under_way.remove(&n);
        if reached.is_empty() {
            return Some(operations[n]);
        }
    }
    None
}

/// Every configuration in which `n` has happened, with `n` no longer under way.
fn let_happen(operations: &[Operation], under_way: &BTreeSet<usize>, from: Reached, n: usize) -> Reached {
    let (mut after, mut seen) = (Reached::new(), Reached::new());
    let mut open: Vec<(Configuration, BTreeSet<usize>)> = Vec::new();
    for (configuration, sets) in from {
        open.extend(sets.into_iter().map(|spent| (configuration.clone(), spent)));
    }
    while let Some(((value, mut happened), spent)) = open.pop() {
        if happened.remove(&n) {
            keep(&mut after, (value, happened), spent);
            continue;
        }
        if !keep(&mut seen, (value, happened.clone()), spent.clone()) {
            continue;
        }
        for next in under_way.iter().filter(|next| !happened.contains(next) && !spent.contains(next)) {
            let Some(value) = operations[*next].action.at(value) else { continue };
            let (mut happened, mut spent) = (happened.clone(), spent.clone());
            let is_answered = operations[*next].returned_ns.is_some();
            if is_answered {
                happened.insert(*next)
            } else {
                spent.insert(*next)
            };
            open.push(((value, happened), spent));
        }
    }
    after
}

/// Adds a way to a configuration unless one that spent no more is known; says whether it did.
fn keep(reached: &mut Reached, configuration: Configuration, spent: BTreeSet<usize>) -> bool {
    let ways = reached.entry(configuration).or_default();
    if ways.iter().any(|known| known.is_subset(&spent)) {
        return false;
    }
    ways.retain(|known| !spent.is_subset(known));
    ways.push(spent);
    true
}

/// `(invoked, returned, action)`; returned 0 stands for never.
#[cfg(test)]
fn history(operations: &[(u64, u64, Action)]) -> Option<Action> {
    let operation = |(invoked_ns, returned, action): &(u64, u64, Action)| Operation {
        invoked_ns: *invoked_ns,
        returned_ns: (*returned > 0).then_some(*returned),
        action: *action,
    };
    unexplained(&operations.iter().map(operation).collect::<Vec<_>>()).map(|found| found.action)
}

#[test]
fn what_strong_consistency_allows_is_explained() {
    use Action::*;
    // Concurrent writes in either order, an unanswered write that shows late, one that never does.
    assert_eq!(history(&[(1, 4, Put(1)), (2, 3, Put(2)), (5, 6, Read(Some(1)))]), None);
    assert_eq!(history(&[(1, 4, Put(1)), (2, 3, Put(2)), (5, 6, Read(Some(2)))]), None);
    assert_eq!(history(&[(1, 0, Put(1)), (2, 3, Read(None)), (4, 5, Read(Some(1)))]), None);
    assert_eq!(history(&[(1, 0, Put(1)), (2, 3, Create(2)), (4, 5, Read(Some(2)))]), None);
    assert_eq!(history(&[(1, 2, Create(1)), (3, 4, Replace(1, 2)), (5, 6, ReplaceRefused(1))]), None);
    assert_eq!(history(&[(1, 2, Put(1)), (3, 0, Delete), (4, 5, CreateRefused), (6, 7, Create(2))]), None);
}

#[test]
fn what_it_forbids_is_not() {
    use Action::*;
    let lost = [(1, 2, Put(1)), (3, 4, Read(None))];
    assert_eq!(history(&lost), Some(Read(None)));
    let stale = [(1, 2, Put(1)), (3, 4, Put(2)), (5, 6, Read(Some(1)))];
    assert_eq!(history(&stale), Some(Read(Some(1))));
    let back = [(1, 0, Put(1)), (2, 3, Put(2)), (4, 5, Read(Some(1))), (6, 7, Read(Some(2)))];
    assert_eq!(history(&back), Some(Read(Some(2))));
    let won_twice = [(1, 5, Create(1)), (2, 6, Create(2))];
    assert_eq!(history(&won_twice), Some(Create(2)));
    let replaced_twice = [(1, 2, Put(1)), (3, 8, Replace(1, 2)), (4, 9, Replace(1, 3))];
    assert_eq!(history(&replaced_twice), Some(Replace(1, 3)));
    let from_nowhere = [(1, 2, Read(Some(7)))];
    assert_eq!(history(&from_nowhere), Some(Read(Some(7))));
    let undead = [(1, 2, Put(1)), (3, 4, Delete), (5, 6, CreateRefused)];
    assert_eq!(history(&undead), Some(CreateRefused));
    let early = [(3, 4, Read(Some(1))), (5, 6, Put(1))];
    assert_eq!(history(&early), Some(Read(Some(1))));
}
