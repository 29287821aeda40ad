//! What a scenario is, and the list of them.
//!
//! A scenario declares world, load, trouble and claims: a configuration, a function that makes a plan of a seed, and
//! what the plan's runs must show. Everything else is shared.

use crate::config::Config;
use crate::plan::Plan;
use crate::queue::{Queue, SubVia};
use client::Variant;
use sim::node::Supervisor;
use std::collections::BTreeSet;

/// One scenario.
#[derive(Clone, Copy)]
pub struct Scenario {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it claims, in one sentence.
    pub claim: &'static str,
    /// The world it plays in, unless switches say otherwise.
    pub config: fn() -> Config,
    /// The plan of a seed: load and trouble, as data.
    pub plan: fn(seed: u64, config: &Config) -> Plan,
    /// What its runs must show in that world.
    pub expect: fn(&Config) -> Expect,
}

/// What runs must show. Anomaly types as the checker names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Every seed shows all of `must`, and nothing beside `must` and `may`.
    Shows {
        /// Must appear.
        must: &'static [&'static str],
        /// May appear beside them.
        may: &'static [&'static str],
    },
    /// Some seed of a range shows all of `must`; no seed shows anything beside `must` and `may`.
    Finds {
        /// Must appear.
        must: &'static [&'static str],
        /// May appear, with or without them.
        may: &'static [&'static str],
    },
    /// Seeds may show these, and nothing else; none has to.
    Allows {
        /// May appear.
        may: &'static [&'static str],
    },
    /// No seed shows anything.
    Clean,
}

/// What one run's signature means under an expectation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// It shows what is looked for.
    Caught,
    /// It shows nothing that is looked for, which one run may.
    Quiet,
    /// It is not what was expected.
    Unexpected,
}

impl Expect {
    /// Reads the signature of one run.
    pub fn read(&self, signature: &BTreeSet<String>) -> Reading {
        let shows = |types: &[&str]| types.iter().all(|name| signature.contains(*name));
        let within = |must: &[&str], may: &[&str]| {
            signature.iter().all(|name| must.contains(&name.as_str()) || may.contains(&name.as_str()))
        };
        match self {
            Expect::Shows { must, may } if shows(must) && within(must, may) => Reading::Caught,
            Expect::Finds { must, may } if within(must, may) => {
                if shows(must) {
                    Reading::Caught
                } else {
                    Reading::Quiet
                }
            }
            Expect::Allows { may } if within(&[], may) => match signature.is_empty() {
                true => Reading::Quiet,
                false => Reading::Caught,
            },
            Expect::Clean if signature.is_empty() => Reading::Quiet,
            _ => Reading::Unexpected,
        }
    }
}

/// All scenarios: the scripts of findings, and those that stand for themselves.
pub fn all() -> impl Iterator<Item = &'static Scenario> {
    let findings = crate::finding::all().iter().map(|finding| &finding.scenario);
    let faces = crate::finding::faces().iter().map(|face| &face.scenario);
    findings.chain(faces).chain(STANDING)
}

const STANDING: &[Scenario] = &[
    crate::torn_transaction_random::SCENARIO,
    crate::stale_requests::SCENARIO,
    crate::outage::SCENARIO,
    crate::explore::SCENARIO,
    crate::safe_ground::SCENARIO,
    crate::safe_ground_groups::SCENARIO,
    crate::queue_scenarios::SHORT,
    crate::queue_scenarios::QUEUE,
    crate::queue_echoes::CALM,
    crate::queue_echoes::LAG,
    crate::early_read::SCENARIO,
    crate::close::SCENARIO,
    crate::fence::SCENARIO,
    crate::auto_commit::SCENARIO,
    crate::pipeline::SCENARIO,
    crate::abort::SCENARIO,
];

/// The scenario called `name`.
pub fn find(name: &str) -> Option<&'static Scenario> {
    all().find(|scenario| scenario.name == name)
}

/// A named change of the world, for `--with`.
pub struct Switch {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it does, in a few words.
    pub what: &'static str,
    /// Does it.
    pub apply: fn(&mut Config),
}

fn of_queue(config: &mut Config, change: impl FnOnce(&mut Queue)) {
    if let Some(queue) = &mut config.queue {
        change(queue);
    }
}

/// All switches.
pub fn switches() -> &'static [Switch] {
    &[
        Switch {
            name: "java-3.8",
            what: "the client is Java 3.8, which speaks the old transaction protocol (TV1)",
            apply: |config| config.client = Variant::Java38,
        },
        Switch {
            name: "strict",
            what: "the client is the idealised one, which never reuses an epoch after doubt",
            apply: |config| config.client = Variant::Strict,
        },
        Switch {
            name: "tv2",
            what: "brokers and clients speak the second transaction protocol (TV2), and clients get nothing wrong beside it",
            apply: |config| {
                config.client = Variant::Tv2;
                config.agent.transactions.version = broker::TransactionVersion::V2;
            },
        },
        Switch {
            name: "franz-go-1.18",
            what: "the client is franz-go 1.18, which goes on as before when it does not know how EndTxn ended",
            apply: |config| config.client = Variant::FranzGo118,
        },
        Switch {
            name: "franz-go-1.21.4",
            what: "the client is franz-go from 1.21.4 on, which takes a new epoch then",
            apply: |config| config.client = Variant::FranzGo1214,
        },
        Switch {
            name: "outside-local",
            what: "agents append transactional records without asking whether there is a transaction, as Kafka did before KIP-890",
            apply: |config| config.agent.transactions.outside = broker::Outside::Local,
        },
        Switch {
            name: "outside-verify",
            what: "agents refuse a record whose partition is not in the transaction (KIP-890 part 1)",
            apply: |config| config.agent.transactions.outside = broker::Outside::Verify,
        },
        Switch {
            name: "tv2-broker",
            what: "brokers speak the second transaction protocol, and verify what clients of the old one send (Kafka 4)",
            apply: |config| {
                config.agent.transactions.version = broker::TransactionVersion::V2;
                config.agent.transactions.outside = broker::Outside::Verify;
            },
        },
        Switch {
            name: "revision-clock",
            what: "agents stamp requests with the coordinator's revision as they read them; newer transactions refuse them",
            apply: |config| config.agent.transactions.revision_clock = broker::RevisionClock::Arrival,
        },
        Switch {
            name: "revision-clock-last-known",
            what: "the same with the highest revision that the agent had been told: after a pause, one from before it",
            apply: |config| config.agent.transactions.revision_clock = broker::RevisionClock::LastKnown,
        },
        Switch {
            name: "numbered",
            what: "the client is a modified Java 3.8 that says which transaction a request is of, in a tagged field",
            apply: |config| config.client = Variant::Numbered,
        },
        Switch {
            name: "default-timeouts",
            what: "the client has Kafka's default timeouts (requests time out after 30 s, not 3 s)",
            apply: |config| config.profile = crate::config::Profile::Default,
        },
        Switch {
            name: "subscribe",
            what: "consumers of the queue workload subscribe to topics, as members of one group",
            apply: |config| of_queue(config, |queue| queue.sub_via = SubVia::Subscribe),
        },
        Switch {
            name: "no-txn",
            what: "the queue workload sends and polls outside transactions, one record at a time",
            apply: |config| of_queue(config, |queue| queue.txn = false),
        },
        Switch {
            name: "seek-back",
            what: "the application of the abort workload seeks back to where a transaction began that did not commit",
            apply: |config| of_queue(config, |queue| queue.seeks_back = true),
        },
        Switch {
            name: "no-seek",
            what: "the application of the queue workload does not seek back to where an operation began that did not commit",
            apply: |config| of_queue(config, |queue| queue.seeks_back = false),
        },
        Switch {
            name: "isolation",
            what: "the application of the queue workload takes transactions for isolated: cycles of writes (G0, G1c) count",
            apply: |config| of_queue(config, |queue| queue.counts.extend(["G0", "G1c"].map(str::to_string))),
        },
        Switch {
            name: "own-positions",
            what: "the application of the queue workload takes positions for its own: steps at a rebalance count",
            apply: |config| {
                let steps = ["poll-skip", "nonmonotonic-poll"].map(str::to_string);
                of_queue(config, |queue| queue.counts.extend(steps));
            },
        },
        Switch {
            name: "kept-ids",
            what: "a worker of the queue workload keeps its transactional id, whichever client it has",
            apply: |config| {
                let clients = config.queue.as_ref().map_or(0, |queue| queue.clients);
                let id = |n| (format!("w{n}"), format!("txn-w{n}"));
                config.transactional_ids = (1..=clients).map(id).collect();
            },
        },
        Switch {
            name: "timeout-1s",
            what: "transaction.timeout.ms is 1,000, as Jepsen set it",
            apply: |config| config.transaction_timeout_ms = 1_000,
        },
        Switch {
            name: "deadline",
            what: "what is open for longer than its transaction timeout is aborted then, not at the next scan",
            apply: |config| config.agent.transactions.timeouts = broker::Timeouts::Deadline,
        },
        Switch {
            name: "delivery-3s",
            what: "delivery.timeout.ms is 3,000, the timeout of one request",
            apply: |config| config.delivery_timeout_ms = Some(3_000),
        },
        Switch {
            name: "acks-0",
            what: "producers without transactions do not wait for an answer (acks=0), and so have no idempotence",
            apply: |config| config.acks = 0,
        },
        Switch {
            name: "work-beside",
            what: "members that commit by themselves work beside their polls, which do not wait for that",
            apply: |config| config.members.work_beside = true,
        },
        Switch {
            name: "latest",
            what: "members without a committed offset begin at the end (auto.offset.reset=latest)",
            apply: |config| config.members.auto_offset_reset = client::OffsetReset::Latest,
        },
        Switch {
            name: "fenced-is-failed",
            what: "planted: a producer that is fenced when it sends an EndTxn again reports that the transaction failed",
            apply: |config| config.producer_flaws.fenced_after_resend_is_failed = true,
        },
        Switch {
            name: "stale-commits",
            what: "planted: OffsetCommit is accepted from who is no member of the generation any more",
            apply: |config| config.defects.stale_commits = true,
        },
        Switch {
            name: "resume-from-memory",
            what: "planted: a member that gets a partition back goes on where it stood, not at the committed offset",
            apply: |config| config.member_flaws.resume_from_memory = true,
        },
        Switch {
            name: "close-hangs",
            what: "planted: a member that closes waits over a dead connection, whatever its timeout (KAFKA-17734)",
            apply: |config| config.member_flaws.close_hangs = true,
        },
        Switch {
            name: "keep-epoch",
            what: "planted: a producer keeps its epoch, and the sequence it used, when it does not know how a Produce ended",
            apply: |config| config.producer_flaws.keep_epoch_after_unknown_produce = true,
        },
        Switch {
            name: "early-stable-offset",
            what: "planted: agents serve readers of committed records what no transaction has decided yet",
            apply: |config| config.defects.early_stable_offset = true,
        },
        Switch {
            name: "unfenced-end",
            what: "planted: an agent takes EndTxn of an older epoch for one of the current epoch",
            apply: |config| config.defects.unfenced_end = true,
        },
        Switch {
            name: "number-without-epoch",
            what: "planted: an agent takes the end of a transaction for an earlier one of the same number, whatever \
                   their epochs",
            apply: |config| config.defects.number_without_epoch = true,
        },
        Switch {
            name: "watch-gap",
            what: "planted: an agent serves watermarks that it listed at its start and watches from a later revision",
            apply: |config| config.defects.watch_gap = true,
        },
        Switch {
            name: "fetch-drops-middle",
            what: "planted: a Fetch answer without room for all records drops some in the middle, and goes on behind them",
            apply: |config| config.defects.fetch_drops_middle = true,
        },
        Switch {
            name: "zero-base-offset",
            what: "planted: a Produce error leaves the base offset at 0, that for a batch that was sent before, too",
            apply: |config| config.defects.zero_base_offset = true,
        },
        Switch {
            name: "forgotten-lease",
            what: "planted: an agent does not learn that its lease is gone, and is listed by nobody any more",
            apply: |config| config.defects.forgotten_lease = true,
        },
        Switch {
            name: "exits-on-trouble",
            what: "planted: an agent ends when coordinator or store do not answer, and is started again three times only",
            apply: |config| {
                config.defects.exits_on_trouble = true;
                config.supervisor = Some(Supervisor { restart_after_ms: 1_000, give_up_after: 3 });
            },
        },
        Switch {
            name: "state-compare",
            what: "planted: an agent's EndTxn compares (state, epoch), not the revision it read",
            apply: |config| config.defects.state_compare = true,
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(expect: Expect, signature: &[&str]) -> Reading {
        expect.read(&signature.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn a_signature_is_read_against_what_must_and_may_appear() {
        let shows = Expect::Shows { must: &["a"], may: &["b"] };
        assert_eq!(reading(shows, &["a"]), Reading::Caught);
        assert_eq!(reading(shows, &["a", "b"]), Reading::Caught);
        assert_eq!(reading(shows, &["b"]), Reading::Unexpected);
        assert_eq!(reading(shows, &[]), Reading::Unexpected);
        assert_eq!(reading(shows, &["a", "c"]), Reading::Unexpected);
        let finds = Expect::Finds { must: &["a"], may: &["b"] };
        assert_eq!(reading(finds, &["a", "b"]), Reading::Caught);
        assert_eq!(reading(finds, &[]), Reading::Quiet);
        assert_eq!(reading(finds, &["b"]), Reading::Quiet);
        assert_eq!(reading(finds, &["c"]), Reading::Unexpected);
        let allows = Expect::Allows { may: &["a"] };
        assert_eq!(reading(allows, &["a"]), Reading::Caught);
        assert_eq!(reading(allows, &[]), Reading::Quiet);
        assert_eq!(reading(allows, &["a", "b"]), Reading::Unexpected);
        assert_eq!(reading(Expect::Clean, &[]), Reading::Quiet);
        assert_eq!(reading(Expect::Clean, &["a"]), Reading::Unexpected);
    }

    #[test]
    fn names_are_unique() {
        let unique = |mut names: Vec<&str>| {
            let count = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), count);
        };
        unique(all().map(|scenario| scenario.name).collect());
        unique(switches().iter().map(|switch| switch.name).collect());
    }
}
