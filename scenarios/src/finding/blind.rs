//! Where chance finds a finding: a general workload under random trouble, with what the finding takes, and nothing that
//! points at it.

use super::Finding;
use crate::config::Config;
use crate::outcome::Outcome;
use crate::scenario::{self, Reading, Scenario};
use std::collections::BTreeSet;

/// A search for a finding by chance, and what counts as a catch.
#[derive(Clone, Copy, Debug)]
pub struct Blind {
    /// The workload: a scenario that knows nothing of the finding.
    pub scenario: &'static str,
    /// The finding's class settings: switches (`--with`).
    pub with: &'static [&'static str],
    /// A catch shows at least one of each list.
    pub must: &'static [&'static [&'static str]],
    /// A run that shows one of these as well is no catch: it is the mark of another finding that the same world has, and
    /// which may have done it all.
    pub without: &'static [&'static str],
    /// What else runs of this world may show, in a catch and without one: anomalies, and claims of the run itself that are
    /// broken, by their words. Everything else is a failure of the finding.
    pub may: &'static [&'static str],
    /// What runs show still when the finding's fix is in: other findings of the same world, which that does not fix.
    pub left: &'static [&'static str],
    /// What a search may cost.
    pub limits: Limits,
}

/// CPU seconds that searches may take until the first catch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// In the median.
    pub median_s: u32,
    /// At worst.
    pub worst_s: u32,
}

/// The limits of most findings.
pub(super) const QUICK: Limits = Limits { median_s: 10, worst_s: 60 };
/// The limits of findings that need a time to live, or an hour, to pass.
pub(super) const SLOW: Limits = Limits { median_s: 60, worst_s: 300 };

impl Blind {
    /// Its workload.
    ///
    /// # Panics
    /// If there is no such scenario, which a test of the catalogue sees to.
    pub fn workload(&self) -> &'static Scenario {
        scenario::find(self.scenario).expect("the catalogue names scenarios that exist")
    }

    /// The world that is searched.
    ///
    /// # Panics
    /// If there is no such switch, which a test of the catalogue sees to.
    pub fn world(&self, workload: &Scenario) -> Config {
        let mut config = (workload.config)();
        for name in self.with {
            let known = scenario::switches().iter().find(|switch| switch.name == *name);
            (known.expect("the catalogue names switches that exist").apply)(&mut config);
        }
        config
    }

    /// What a run of the world that is searched means. One that proves nothing may show something all the same.
    pub fn read(&self, outcome: &Outcome) -> Reading {
        self.read_told(&outcome.signature, &outcome.failures)
    }

    fn read_told(&self, signature: &BTreeSet<String>, failures: &[String]) -> Reading {
        let may_fail = |failure: &String| self.may.iter().any(|claim| failure.contains(claim));
        let shows = |name: &&str| signature.contains(*name);
        let is_known = |name: &String| self.must.iter().any(|list| has(list, name)) || has(self.may, name);
        let is_caught = self.must.iter().all(|list| list.iter().any(&shows));
        if !signature.iter().all(is_known) || !failures.iter().all(may_fail) {
            Reading::Unexpected
        } else if is_caught && !self.without.iter().any(shows) {
            Reading::Caught
        } else {
            Reading::Quiet
        }
    }

    /// What a run of the same world with the fix means: it may show nothing, but for what is left.
    pub fn read_fixed(&self, outcome: &Outcome) -> Reading {
        let proves = outcome.failures.is_empty() && outcome.vacuous.is_empty();
        match proves && outcome.signature.iter().all(|name| has(self.left, name)) {
            true => Reading::Quiet,
            false => Reading::Unexpected,
        }
    }
}

impl Finding {
    /// The world in which chance is to find it; with its fix, if it has one.
    pub fn blind_world(&self, workload: &Scenario, is_fixed: bool) -> Option<Config> {
        let mut config = self.blind.world(workload);
        if is_fixed {
            (self.fixed?)(&mut config);
        }
        Some(config)
    }
}

fn has(list: &[&str], name: &str) -> bool {
    list.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::{self, Class};
    use crate::scenario::Expect;

    const SEARCH: Blind = Blind {
        scenario: "queue-short",
        with: &["no-txn"],
        must: &[&["a", "b"], &["c"]],
        without: &["z"],
        may: &["d", "z", "all is done"],
        left: &["z"],
        limits: QUICK,
    };

    fn reading(names: &[&str]) -> Reading {
        SEARCH.read_told(&names.iter().map(ToString::to_string).collect(), &[])
    }

    #[test]
    fn a_catch_shows_one_of_each_list_and_nothing_foreign() {
        assert_eq!(reading(&["a", "c"]), Reading::Caught);
        assert_eq!(reading(&["b", "c", "d"]), Reading::Caught);
        assert_eq!(reading(&[]), Reading::Quiet);
        assert_eq!(reading(&["a", "b", "d"]), Reading::Quiet);
        assert_eq!(reading(&["a", "c", "z"]), Reading::Quiet, "it may be another finding's");
        assert_eq!(reading(&["a", "c", "e"]), Reading::Unexpected);
        assert_eq!(reading(&["e"]), Reading::Unexpected);
    }

    #[test]
    fn a_run_may_break_the_claims_that_are_named_and_no_other() {
        let reading =
            |failure: &str| SEARCH.read_told(&BTreeSet::from(["c".into(), "a".into()]), &[failure.into()]);
        assert_eq!(reading("world at 3.000 s: not within 3 s: all is done (event 7)"), Reading::Caught);
        assert_eq!(reading("agent-1 at 3.000 s: a panic"), Reading::Unexpected);
    }

    #[test]
    fn the_catalogue_searches_scenarios_that_know_nothing_of_the_finding_with_switches_that_exist() {
        for finding in finding::all() {
            let blind = &finding.blind;
            let workload = blind.workload();
            assert!(finding::named(workload.name).is_none(), "{} is a script", workload.name);
            assert_ne!(blind.world(workload), (workload.config)(), "{}", finding.scenario.name);
            assert!(blind.must.iter().all(|list| !list.is_empty()) && !blind.must.is_empty());
            assert!(blind.without.iter().all(|name| has(blind.may, name)), "{}", finding.scenario.name);
        }
    }

    /// A planted defect is searched for where nothing goes wrong without it.
    #[test]
    fn defects_are_searched_for_on_safe_ground() {
        for finding in finding::all() {
            let Class::Defect { switch } = finding.class else { continue };
            assert!(has(finding.blind.with, switch), "{}", finding.scenario.name);
            let workload = finding.blind.workload();
            let fixed = finding.blind_world(workload, true).expect("a defect can be taken out");
            assert_eq!((workload.expect)(&fixed), Expect::Clean, "{}", finding.scenario.name);
            assert!(finding.blind.left.is_empty());
        }
    }
}
