//! The catalogue: known failures of Kafka-compatible systems, each with a script that shows it on every seed.
//!
//! One file a finding. Its scenario declares world, load, trouble and claims; its world has what the finding needs, a planted
//! defect or a setting, and [`Finding::fixed`] takes that away again. [`Finding::blind`] says where chance finds it.

mod acks_zero;
mod auto_commit;
mod blind;
mod close_hangs;
mod delayed_produce;
mod early_visibility;
mod faces;
mod fenced_by_timeout;
mod fetch_filter;
mod fragile_agent;
mod hanging_transaction;
mod lost_lease;
mod position_after_abort;
mod rebalance_moves_position;
mod reset_latest;
mod script;
mod sequence_reuse;
mod stale_init;
mod stuck_consumer;
mod table;
mod torn_transaction;
mod txn_number;
mod write_cycles;
mod zero_offset;

pub use blind::{Blind, Limits};
pub use faces::{FaceScript, faces};
pub use table::table;

use crate::config::Config;
use crate::scenario::Scenario;
use broker::TransactionVersion;
use client::Variant;

/// A catalogued failure.
pub struct Finding {
    /// Its number in the catalogue.
    pub id: u32,
    /// What it is, in a line.
    pub title: &'static str,
    /// What happened, where it was found, in two sentences.
    pub what: &'static str,
    /// What it takes.
    pub class: Class,
    /// The same in words: what the planted defect does, or which settings it takes.
    pub cause: &'static str,
    /// The script. Its name is the finding's; its world is the one that fails.
    pub scenario: Scenario,
    /// Where chance finds it.
    pub blind: Blind,
    /// What helps, in words.
    pub fix: &'static str,
    /// Makes a world in which it happens one in which it does not; none if nothing helps.
    pub fixed: Option<fn(&mut Config)>,
    /// What was told of it: versions and numbers.
    pub echo: &'static str,
}

/// What a finding takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// A planted defect of broker, client or dependency.
    Defect {
        /// The switch that plants it in any scenario (`--with`).
        switch: &'static str,
    },
    /// The old protocol and a client that keeps to it.
    Protocol,
    /// Settings that users choose.
    Configuration,
}

impl Class {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Class::Defect { .. } => "defect",
            Class::Protocol => "protocol",
            Class::Configuration => "configuration",
        }
    }
}

impl Finding {
    /// The world of its script, as it fails.
    pub fn world(&self) -> Config {
        (self.scenario.config)()
    }

    /// The same with the fix, if there is one.
    pub fn fixed_world(&self) -> Option<Config> {
        let mut config = self.world();
        (self.fixed?)(&mut config);
        Some(config)
    }
}

/// All findings, by number.
pub fn all() -> &'static [Finding] {
    &[
        stuck_consumer::FINDING,
        lost_lease::FINDING,
        zero_offset::FINDING,
        txn_number::FINDING,
        fetch_filter::FINDING,
        fenced_by_timeout::FINDING,
        close_hangs::FINDING,
        position_after_abort::FINDING,
        torn_transaction::FINDING,
        delayed_produce::FINDING,
        sequence_reuse::FINDING,
        acks_zero::FINDING,
        auto_commit::FINDING,
        reset_latest::FINDING,
        fragile_agent::FINDING,
        write_cycles::FINDING,
        hanging_transaction::FINDING,
        rebalance_moves_position::FINDING,
        stale_init::FINDING,
        early_visibility::FINDING,
    ]
}

/// A fix: brokers and clients speak the second transaction protocol (KIP-890, TV2).
fn second_protocol(config: &mut Config) {
    config.client = Variant::Tv2;
    config.agent.transactions.version = TransactionVersion::V2;
}

/// The finding of this number.
pub fn find(id: u32) -> Option<&'static Finding> {
    all().iter().find(|finding| finding.id == id)
}

/// The finding whose script is called so.
pub fn named(name: &str) -> Option<&'static Finding> {
    all().iter().find(|finding| finding.scenario.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Expect, switches};

    #[test]
    fn findings_are_in_order_and_shown_by_their_worlds_but_not_by_the_fixed_ones() {
        assert!(all().is_sorted_by_key(|finding| finding.id));
        for finding in all() {
            let expect = |world: &Config| (finding.scenario.expect)(world);
            assert!(matches!(expect(&finding.world()), Expect::Shows { .. }), "{}", finding.scenario.name);
            let fixed = finding.fixed_world();
            assert!(fixed.is_none_or(|world| expect(&world) == Expect::Clean), "{}", finding.scenario.name);
        }
    }

    #[test]
    fn the_switch_of_a_defect_turns_the_fixed_world_into_the_one_that_fails() {
        for finding in all() {
            let Class::Defect { switch } = finding.class else { continue };
            let switch = switches().iter().find(|known| known.name == switch).expect("a known switch");
            let mut world = finding.fixed_world().expect("a defect can be taken out");
            (switch.apply)(&mut world);
            assert_eq!(world, finding.world(), "{}", switch.name);
        }
    }
}
