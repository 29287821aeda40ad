//! The order in which Clojure lists a set of integers.
//!
//! Where Jepsen's checker takes "any" element of a set it takes the first, which for integers is the same in every run:
//! a `PersistentHashSet` is a trie over Murmur3 hashes, five bits a level from the lowest. Ours takes the same one, and
//! so agrees where nothing else would say which element to name. Names have no such order here; they come last, by
//! their number in the history.

use crate::history::{Atom, History, Message};

/// Sorts as Clojure lists.
pub(crate) fn key(atom: Atom) -> (u64, Atom) {
    let path = match atom {
        Atom::Int(number) => path(hash(number)),
        Atom::Name(_) => u64::MAX,
    };
    (path, atom)
}

/// The one whose value Clojure would list first.
pub(crate) fn first(history: &History, messages: impl Iterator<Item = Message>) -> Option<Message> {
    messages.min_by_key(|message| key(history.message(*message).1))
}

/// The hash's groups of five bits, the lowest foremost.
fn path(hash: u32) -> u64 {
    (0..7).fold(0, |path, level| (path << 5) | u64::from((hash >> (5 * level)) & 31))
}

/// `clojure.lang.Murmur3/hashLong`.
fn hash(number: i64) -> u32 {
    if number == 0 {
        return 0;
    }
    let (low, high) = (number as u32, (number >> 32) as u32);
    finish(mix(mix(0, low), high))
}

fn mix(hash: u32, word: u32) -> u32 {
    let word = word.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
    (hash ^ word).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64)
}

fn finish(mut hash: u32) -> u32 {
    hash ^= 8;
    hash = (hash ^ (hash >> 16)).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ (hash >> 13)).wrapping_mul(0xc2b2_ae35);
    hash ^ (hash >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `(hash 1)` and `(seq #{...})`, as Clojure prints them.
    #[test]
    fn integers_stand_as_clojure_lists_them() {
        assert_eq!([0, 1, -1].map(hash), [0, 1_392_991_556, 1_651_860_712]);
        let mut numbers: Vec<i64> = (0..10).collect();
        numbers.sort_by_key(|number| key(Atom::Int(*number)));
        assert_eq!(numbers, [0, 7, 1, 4, 6, 3, 2, 9, 5, 8]);
    }
}
