//! Numbers for atoms: dense, in the order in which they came, found again by a hash that never differs between runs.

use crate::history::Atom;

/// The numbers of the pairs (space, atom) seen so far. A space is what the caller likes, such as the number of a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Interner {
    entries: Vec<(u32, Atom)>,
    /// Open addressing; the length is a power of two, at most half of it in use.
    slots: Vec<u32>,
}

const EMPTY: u32 = u32::MAX;

/// Sixteen atoms in a row share a line of the cache, since records are mostly read in a row. Two rows at one line must
/// not get in each other's way, so the next place to look at is in the next line; odd, so that every place is met.
const ROW: u64 = 16;
const STEP: usize = 17;

impl Interner {
    /// How many numbers there are.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The pair of a number.
    pub(crate) fn pair(&self, number: u32) -> (u32, Atom) {
        self.entries[number as usize]
    }

    /// The number of a pair, if it has one.
    pub(crate) fn get(&self, space: u32, atom: Atom) -> Option<u32> {
        if self.slots.is_empty() {
            return None;
        }
        let found = self.slots[self.slot(space, atom)];
        (found != EMPTY).then_some(found)
    }

    /// The number of a pair; a new one if it has none.
    pub(crate) fn add(&mut self, space: u32, atom: Atom) -> u32 {
        if self.slots.len() < 2 * (self.entries.len() + 1) {
            self.grow();
        }
        let slot = self.slot(space, atom);
        if self.slots[slot] == EMPTY {
            self.slots[slot] = self.entries.len() as u32;
            self.entries.push((space, atom));
        }
        self.slots[slot]
    }

    /// Where a pair is, or the empty slot where it belongs.
    fn slot(&self, space: u32, atom: Atom) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = hash(space, atom) as usize & mask;
        while self.slots[at] != EMPTY && self.entries[self.slots[at] as usize] != (space, atom) {
            at = (at + STEP) & mask;
        }
        at
    }

    fn grow(&mut self) {
        self.slots = vec![EMPTY; (4 * (self.entries.len() + 1)).next_power_of_two()];
        for number in 0..self.entries.len() {
            let (space, atom) = self.entries[number];
            let slot = self.slot(space, atom);
            self.slots[slot] = number as u32;
        }
    }
}

fn hash(space: u32, atom: Atom) -> u64 {
    let bits = match atom {
        Atom::Int(number) => number as u64,
        Atom::Name(at) => !u64::from(at),
    };
    let row = (bits / ROW) ^ u64::from(space).rotate_left(40);
    let mixed = row.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed ^ (mixed >> 32)).wrapping_mul(ROW)) | (bits % ROW)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_keeps_its_number_and_no_two_share_one() {
        let mut interner = Interner::default();
        assert_eq!(interner.get(0, Atom::Int(0)), None);
        let pairs = |n: i64| {
            // Neighbours, negative numbers, and a name of the same bits as a number.
            [(0, Atom::Int(n)), (1, Atom::Int(n)), (0, Atom::Int(-n - 1)), (1, Atom::Name(n as u32))]
        };
        let all: Vec<(u32, Atom)> = (0..1000).flat_map(pairs).collect();
        for (number, (space, atom)) in all.iter().enumerate() {
            assert_eq!(interner.add(*space, *atom), number as u32);
        }
        for (number, (space, atom)) in all.iter().enumerate() {
            assert_eq!(interner.add(*space, *atom), number as u32);
            assert_eq!(interner.get(*space, *atom), Some(number as u32));
            assert_eq!(interner.pair(number as u32), (*space, *atom));
        }
        assert_eq!((interner.len(), interner.get(2, Atom::Int(0))), (4000, None));
    }
}
