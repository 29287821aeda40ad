//! The only source of chance.
//!
//! A choice has a name, an entity and an ordinal, all stable: "the third backoff of producer jt1". In the tank its value
//! is a pure function of these, the node and the seed, so a new choice in one place shifts no other.

use crate::host;
use std::time::Duration;

/// Who a choice is about: a number, or a name by its stable hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entity(u64);

impl Entity {
    /// The number a host draws by.
    pub fn raw(self) -> u64 {
        self.0
    }
}

impl From<u64> for Entity {
    fn from(id: u64) -> Self {
        Entity(id)
    }
}

impl From<&str> for Entity {
    fn from(name: &str) -> Self {
        Entity(stable_hash(name.as_bytes()))
    }
}

/// FNV-1a, 64 bits: the stable hash by which names become entities.
pub fn stable_hash(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

/// Draws the choice `name` of `entity`. `ordinal` tells its draws apart (an operation id, an attempt number) and must
/// not depend on unrelated work.
pub fn choice(name: &'static str, entity: impl Into<Entity>, ordinal: u64) -> Choice {
    Choice(host::current().draw(name, entity.into().raw(), ordinal))
}

/// One drawn value, uniform over 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice(u64);

impl Choice {
    /// A choice made by somebody else's draw, such as a simulator's own.
    pub fn from_raw(value: u64) -> Self {
        Choice(value)
    }

    /// The raw 64 bits.
    pub fn raw(self) -> u64 {
        self.0
    }

    /// Uniform in `0..n`; 0 when `n` is 0.
    pub fn below(self, n: u64) -> u64 {
        ((u128::from(self.0) * u128::from(n)) >> 64) as u64
    }

    /// Uniform in `low..=high`.
    pub fn between(self, low: u64, high: u64) -> u64 {
        low + self.below((high - low).saturating_add(1))
    }

    /// True with probability `p` (0 to 1).
    pub fn chance(self, p: f64) -> bool {
        ((self.0 >> 11) as f64) < p * (1u64 << 53) as f64
    }

    /// Uniform in `low..=high`, by the nanosecond.
    pub fn duration(self, low: Duration, high: Duration) -> Duration {
        Duration::from_nanos(self.between(low.as_nanos() as u64, high.as_nanos() as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_covers_its_range_and_no_more() {
        assert_eq!(Choice(0).below(10), 0);
        assert_eq!(Choice(u64::MAX).below(10), 9);
        assert_eq!(Choice(u64::MAX).below(0), 0);
        assert_eq!(Choice(0).between(5, 7), 5);
        assert_eq!(Choice(u64::MAX).between(5, 7), 7);
        assert!(!Choice(0).chance(0.0));
        assert!(Choice(u64::MAX).chance(1.0));
        assert!(Choice(1 << 62).chance(0.26) && !Choice(1 << 62).chance(0.25));
    }

    #[test]
    fn the_stable_hash_is_fnv_1a() {
        // Values from the FNV reference: the offset basis, and the published hash of "a".
        assert_eq!(stable_hash(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(stable_hash(b"a"), 0xaf63_dc4c_8601_ec8c);
    }
}
