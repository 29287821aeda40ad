//! The event that Jepsen's checker shows beside a lost write: who read up to the bound.
//!
//! It is the first event that polled the message whose last place is the bound, and there is none when each message
//! there stands further up, too. Where an offset holds several values, the checker takes any of them; which one follows
//! from how it builds its sets, and that is what is done here.

use crate::facts::{Facts, Key};
use crate::hash_order;
use crate::history::Message;

/// Clojure keeps a map of up to this many entries in the order in which they were added.
const SMALL_MAP: usize = 8;

pub(super) fn find(facts: &Facts<'_>, key: Key<'_>) -> Option<usize> {
    let bound = key.read_bound()?.index;
    let there = key.at(bound).iter().map(|entry| entry.message);
    let mut there = there.filter(|message| facts.message(*message).last == bound);
    let first = there.next()?;
    let message = if there.next().is_none() { first } else { any_of_several(facts, key, bound)? };
    facts.message(message).reader()
}

/// Jepsen's `log->last-index->values` walks a map of values to their last places, and grows a vector by them. What it
/// adds at a place that was skipped so far becomes a list, whose first element is the last that was added; what it adds
/// at the end becomes a set.
fn any_of_several(facts: &Facts<'_>, key: Key<'_>, bound: u32) -> Option<Message> {
    let (mut length, mut is_list, mut there) = (0, None, Vec::new());
    for message in in_map_order(facts, key) {
        let last = facts.message(message).last;
        if last == bound {
            is_list.get_or_insert(bound < length);
            there.push(message);
        }
        length = length.max(last + 1);
    }
    match is_list? {
        true => there.last().copied(),
        false => hash_order::first(facts.history, there.into_iter()),
    }
}

/// The messages of a key's log as Clojure lists a map of them that was filled in the order of the log.
fn in_map_order(facts: &Facts<'_>, key: Key<'_>) -> Vec<Message> {
    let order = |message: &Message| hash_order::key(facts.history.message(*message).1);
    let mut messages: Vec<Message> = Vec::new();
    for (index, entries) in (0u32..).zip(key.log()) {
        let new = entries.iter().map(|entry| entry.message);
        let mut new: Vec<Message> = new.filter(|message| facts.message(*message).first == index).collect();
        new.sort_by_key(order);
        messages.extend(new);
    }
    if messages.len() > SMALL_MAP {
        messages.sort_by_key(order);
    }
    messages
}
