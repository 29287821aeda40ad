//! Slots that are used again, with a generation each, so that an old key never finds a new tenant.

/// Where a value lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key {
    pub(super) slot: u32,
    pub(super) generation: u32,
}

struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

/// The slots.
pub(super) struct Slab<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    pub(super) fn new() -> Self {
        Slab { slots: Vec::new(), free: Vec::new() }
    }

    pub(super) fn insert(&mut self, value: T) -> Key {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { generation: 0, value: None });
            self.slots.len() as u32 - 1
        });
        let place = &mut self.slots[slot as usize];
        place.value = Some(value);
        Key { slot, generation: place.generation }
    }

    pub(super) fn get(&self, key: Key) -> Option<&T> {
        let place = self.slots.get(key.slot as usize)?;
        if place.generation == key.generation { place.value.as_ref() } else { None }
    }

    pub(super) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let place = self.slots.get_mut(key.slot as usize)?;
        if place.generation == key.generation { place.value.as_mut() } else { None }
    }

    pub(super) fn remove(&mut self, key: Key) -> Option<T> {
        let place =
            self.slots.get_mut(key.slot as usize).filter(|place| place.generation == key.generation)?;
        let value = place.value.take()?;
        place.generation = place.generation.wrapping_add(1);
        self.free.push(key.slot);
        Some(value)
    }

    /// The keys in use, by slot.
    pub(super) fn keys(&self) -> Vec<Key> {
        let used = |(slot, place): (usize, &Slot<T>)| {
            place.value.is_some().then_some(Key { slot: slot as u32, generation: place.generation })
        };
        self.slots.iter().enumerate().filter_map(used).collect()
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// How many slots there are, in use or not.
    #[cfg(test)]
    pub(super) fn slots(&self) -> usize {
        self.slots.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_key_never_finds_a_new_tenant() {
        let mut slab = Slab::new();
        let (a, b) = (slab.insert('a'), slab.insert('b'));
        assert_eq!(slab.remove(a), Some('a'));
        let c = slab.insert('c');
        assert_eq!((c.slot, slab.len()), (a.slot, 2));
        assert_eq!(slab.get(a), None);
        assert_eq!(slab.remove(a), None);
        assert_eq!((slab.get(b), slab.get(c)), (Some(&'b'), Some(&'c')));
        assert_eq!(slab.keys(), [c, b]);
    }
}
