//! The mitigation matrix: what each remedy leaves of what requests that arrive late can do.
//!
//! Rows are mechanisms ([`Mechanism`]), columns are remedies; each cell counts the seeds of one range in which the mechanism was at
//! work, on the ground of `stale-requests`. Two rows need a ground of their own: a client with a flaw (finding 10), and agents that
//! do not ask (finding 17). Every world is one of switches, so every cell is a command: `wavetank run stale-requests --with ...`.
//!
//! A count is of random runs: it bounds, it proves nothing. Beside them stands what [`crate::explore`] says of each column, which is
//! complete within its bounds.

use crate::config::Config;
use crate::mechanism::Mechanism;
use crate::outcome::Outcome;
use crate::scenario::{self, Scenario, switches};
use std::collections::BTreeMap;

/// A remedy.
#[derive(Debug)]
pub struct Column {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it is, in a few words.
    pub words: &'static str,
    /// The switches that make it.
    pub switches: &'static [&'static str],
    /// Its client has none of the flaws that a ground plants.
    is_faultless: bool,
    /// It promises that no mechanism is at work but [`Mechanism::StaleInit`], against which nothing on the wire helps.
    pub promises_safety: bool,
}

/// Where some rows are counted.
#[derive(Debug)]
pub struct Ground {
    /// The scenario.
    pub scenario: &'static str,
    /// The switches that make it.
    pub switches: &'static [&'static str],
    /// Planted in its client.
    flaws: &'static [&'static str],
    /// The rows.
    rows: fn(Mechanism) -> bool,
}

/// All columns, in order.
pub const COLUMNS: &[Column] = &[
    column("nothing", "Java 3.8, old protocol", &[]),
    column("revision-clock", "revision clock, stamped as the request is read", &["revision-clock"]),
    column("last-known", "revision clock, last known revision", &["revision-clock-last-known"]),
    column("numbered", "transaction number in a tagged field", &["numbered"]),
    column("verification", "verification (KIP-890 part 1)", &["outside-verify"]),
    Column { promises_safety: true, ..column("tv2", "TV2 broker and client", &["tv2"]) },
    column("tv2-broker", "TV2 broker, old client", &["tv2-broker"]),
    column("franz-go-1.21.4", "client takes a new epoch after an unconfirmed EndTxn", &["franz-go-1.21.4"]),
    column("franz-go-1.18", "transport retry without that", &["franz-go-1.18"]),
    Column {
        is_faultless: true,
        promises_safety: true,
        ..column("strict", "strict client: a new epoch after any doubt", &["strict"])
    },
];

const fn column(name: &'static str, words: &'static str, switches: &'static [&'static str]) -> Column {
    Column { name, words, switches, is_faultless: false, promises_safety: false }
}

/// All grounds. Each mechanism is a row of one of them.
pub const GROUNDS: &[Ground] = &[
    Ground {
        scenario: "stale-requests",
        switches: &[],
        flaws: &[],
        rows: |row| !matches!(row, Mechanism::DelayedProduce | Mechanism::HangingTransaction),
    },
    Ground {
        scenario: "stale-requests",
        switches: &[],
        flaws: &["keep-epoch"],
        rows: |row| row == Mechanism::DelayedProduce,
    },
    Ground {
        scenario: "stale-requests",
        switches: &["outside-local"],
        flaws: &[],
        rows: |row| row == Mechanism::HangingTransaction,
    },
];

impl Ground {
    /// Its rows.
    pub fn rows(&self) -> impl Iterator<Item = Mechanism> {
        Mechanism::ALL.into_iter().filter(|row| (self.rows)(*row))
    }

    /// The scenario.
    ///
    /// # Panics
    /// If there is none of that name, which a test sees to.
    pub fn scenario(&self) -> &'static Scenario {
        scenario::find(self.scenario).expect("grounds name scenarios that exist")
    }

    /// The switches of a cell, the remedy's last.
    pub fn switches_with(&self, column: &Column) -> Vec<&'static str> {
        let flaws = if column.is_faultless { &[] } else { self.flaws };
        [self.switches, flaws, column.switches].concat()
    }

    /// The world of a cell.
    pub fn world(&self, column: &Column) -> Config {
        let mut config = (self.scenario().config)();
        for name in self.switches_with(column) {
            let switch = switches().iter().find(|switch| switch.name == name);
            (switch.expect("grounds and columns are made of switches").apply)(&mut config);
        }
        config
    }
}

/// What was counted on one ground with one remedy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Seeds run.
    pub seeds: u64,
    /// Seeds in which a mechanism was at work.
    at_work: BTreeMap<Mechanism, u64>,
    /// Seeds with an anomaly that nothing known explains, and which anomalies.
    pub unexplained: Vec<(u64, String)>,
    /// Seeds whose run failed, and how.
    pub broken: Vec<(u64, String)>,
}

impl Counts {
    /// Counts one more run.
    pub fn add(&mut self, seed: u64, outcome: &Outcome) {
        self.seeds += 1;
        for mechanism in &outcome.attribution.mechanisms {
            *self.at_work.entry(*mechanism).or_default() += 1;
        }
        if !outcome.attribution.unexplained.is_empty() {
            self.unexplained.push((seed, outcome.attribution.unexplained.join(" ")));
        }
        if let Some(failure) = outcome.failures.first() {
            self.broken.push((seed, failure.clone()));
        }
    }

    /// Seeds in which `row` was at work.
    pub fn of(&self, row: Mechanism) -> u64 {
        self.at_work.get(&row).copied().unwrap_or_default()
    }

    /// Whether it is as the column says, and everything is explained.
    pub fn is_expected(&self, column: &Column) -> bool {
        let harmless = self.at_work.keys().all(|row| *row == Mechanism::StaleInit);
        self.unexplained.is_empty() && self.broken.is_empty() && (harmless || !column.promises_safety)
    }
}

/// The upper end of the one-sided 95 % interval for the share of seeds, when `count` of `seeds` showed something (Clopper and
/// Pearson): a larger share would show so few in one of twenty ranges only.
pub fn upper_bound(count: u64, seeds: u64) -> f64 {
    if count >= seeds {
        return 1.0;
    }
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if at_most(count, seeds, middle) > 0.05 { low = middle } else { high = middle }
    }
    high
}

/// The chance of at most `count` hits in `trials`, each with chance `p`, between 0 and 1.
fn at_most(count: u64, trials: u64, p: f64) -> f64 {
    let (mut log_term, mut sum) = (trials as f64 * (-p).ln_1p(), 0.0);
    for hits in 0..=count {
        sum += log_term.exp();
        log_term += ((trials - hits) as f64 / (hits + 1) as f64).ln() + p.ln() - (-p).ln_1p();
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mechanism_is_a_row_of_one_ground() {
        let mut rows: Vec<Mechanism> = GROUNDS.iter().flat_map(Ground::rows).collect();
        rows.sort();
        assert_eq!(rows, Mechanism::ALL);
    }

    #[test]
    fn a_column_is_the_same_on_every_ground() {
        for column in COLUMNS {
            for ground in GROUNDS {
                let world = ground.world(column);
                assert_eq!(world.client, GROUNDS[0].world(column).client, "{}", column.name);
            }
        }
        let strict = COLUMNS.iter().find(|column| column.name == "strict").expect("it is one");
        assert_eq!(GROUNDS[1].world(strict), GROUNDS[0].world(strict), "a strict client has no flaw");
    }

    /// 1 - 0.05^(1/n) for none; the others from the quantiles of the beta distribution.
    #[test]
    fn bounds_are_those_of_clopper_and_pearson() {
        for (count, seeds, bound) in BOUNDS {
            let found = upper_bound(count, seeds);
            assert!((found - bound).abs() < 1e-6, "{count} of {seeds}: {found}");
        }
        assert_eq!(upper_bound(3, 3), 1.0);
    }

    const BOUNDS: [(u64, u64, f64); 4] = [
        (0, 1_000, 0.002_991_249),
        (1, 10, 0.394_163_3),
        (5, 1_000, 0.010_484_077),
        (500, 1_000, 0.526_482_3),
    ];
}
