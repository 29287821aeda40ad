//! Chance as a pure function.
//!
//! A choice is a stateless hash of (seed, name, node, entity, ordinal), so a new draw in one place shifts no other. A
//! recording can override single choices, by the same key.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// One choice forced to a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Override {
    /// The choice's name, such as `"net.latency"`.
    pub name: String,
    /// The node that draws it; `"world"` for the simulator's own.
    pub node: String,
    /// Who it is about (see [`rt::choice()`]).
    pub entity: u64,
    /// Which of the entity's draws.
    pub ordinal: u64,
    /// The raw 64 bits it yields instead.
    pub value: u64,
}

/// All choices of one run.
#[derive(Debug)]
pub struct Choices {
    seed: u64,
    overrides: BTreeMap<(String, u64, u64, u64), u64>,
}

impl Choices {
    /// The choices of `seed`, but for `overrides`.
    pub fn new(seed: u64, overrides: &[Override]) -> Self {
        let key = |o: &Override| (o.name.clone(), node_key(&o.node), o.entity, o.ordinal);
        Choices { seed, overrides: overrides.iter().map(|o| (key(o), o.value)).collect() }
    }

    /// Draws one choice. `node` is [`node_key`] of the node that draws it.
    pub fn draw(&self, name: &str, node: u64, entity: u64, ordinal: u64) -> rt::choice::Choice {
        if !self.overrides.is_empty()
            && let Some(value) = self.overrides.get(&(name.to_string(), node, entity, ordinal))
        {
            return rt::choice::Choice::from_raw(*value);
        }
        let mut key = [0u8; 24];
        key[..8].copy_from_slice(&node.to_le_bytes());
        key[8..16].copy_from_slice(&entity.to_le_bytes());
        key[16..].copy_from_slice(&ordinal.to_le_bytes());
        let name = xxh3_64_with_seed(name.as_bytes(), self.seed);
        rt::choice::Choice::from_raw(xxh3_64_with_seed(&key, name))
    }

    /// Draws a choice of the simulator itself, which belongs to no node.
    pub fn world(
        &self,
        name: &str,
        entity: impl Into<rt::choice::Entity>,
        ordinal: u64,
    ) -> rt::choice::Choice {
        self.draw(name, node_key(WORLD), entity.into().raw(), ordinal)
    }
}

/// The node name under which the simulator itself draws.
pub const WORLD: &str = "world";

/// A node's name as a choice's key.
pub fn node_key(name: &str) -> u64 {
    rt::choice::stable_hash(name.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_depends_on_each_part_of_its_key_and_on_nothing_else() {
        let choices = Choices::new(7, &[]);
        let base = choices.draw("a", 1, 2, 3);
        assert_eq!(base, choices.draw("a", 1, 2, 3));
        for other in [
            choices.draw("b", 1, 2, 3),
            choices.draw("a", 9, 2, 3),
            choices.draw("a", 1, 9, 3),
            choices.draw("a", 1, 2, 9),
            Choices::new(8, &[]).draw("a", 1, 2, 3),
        ] {
            assert_ne!(base, other);
        }
    }

    #[test]
    fn an_override_changes_its_own_choice_only() {
        let over = Override { name: "a".into(), node: "n1".into(), entity: 2, ordinal: 3, value: 42 };
        let (plain, forced) = (Choices::new(7, &[]), Choices::new(7, &[over]));
        let n1 = node_key("n1");
        assert_eq!(forced.draw("a", n1, 2, 3).raw(), 42);
        assert_eq!(forced.draw("a", n1, 2, 4), plain.draw("a", n1, 2, 4));
    }

    #[test]
    fn a_thousand_draws_are_spread_evenly() {
        let choices = Choices::new(1, &[]);
        let low = (0..1000).filter(|n| choices.world("spread", 0, *n).chance(0.5)).count();
        assert!((430..570).contains(&low), "{low} of 1000 draws in the lower half");
    }
}
