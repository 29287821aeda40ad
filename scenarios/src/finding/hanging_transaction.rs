//! Finding 17, scripted (kafka.md 4, S5): a record opens a transaction that nobody will ever end.
//!
//! World: three agents that append transactional records without asking whether there is a transaction, as Kafka did before
//! KIP-890; Java 3.8 producers; a raw reader.
//! Load: three transactions of jt1 that commit, the third of one record. Then jt2 commits one in the same partition.
//! Trouble: the second transaction's EndTxn is caught on its way; the client gives up on it after 3 s and sends it again. The
//! caught one is let go when the third transaction has begun, before its record, which takes half a second, arrives.
//! Claim: the record opens a transaction in its partition of which the coordinator, where the third is over, does not know: it
//! takes the client's commit for a repetition. The last stable offset stays there, and nobody ever reads that record, nor
//! what jt2 committed. Agents that ask the coordinator refuse the record, and the client is told.

use super::blind::{Blind, QUICK};
use super::script::{Script, consume, look, txn};
use super::{Class, Finding};
use crate::config::Config;
use crate::plan::{Decision, Plan};
use crate::scenario::{Expect, Scenario};
use broker::Outside;
use sim::fault::{EventPattern, Fault, FramePattern, When};

pub(super) const FINDING: Finding = Finding {
    id: 17,
    title: "a transaction that no coordinator knows of hides all that is committed behind it",
    what: "Jepsen saw acknowledged records in Kafka that nobody could read, and could not say why. One cause is a record that \
           arrives when its transaction is over, ended by a stale EndTxn: the partition takes it for the first of another, \
           which no coordinator knows of and nobody ends.",
    class: Class::Protocol,
    cause: "the old protocol without verification (`--with outside-local`): the leader of a partition does not ask the coordinator",
    scenario: SCENARIO,
    blind: Blind {
        scenario: "outage",
        with: &["java-3.8", "outside-local"],
        must: &[&["unseen"], &["stuck-transaction"]],
        without: &[],
        // The partition knows no newer epoch than that of the last marker. Finding 9 is in this world too.
        may: &[
            "lost-write",
            "G1a",
            "zombie-append",
            "torn-transaction",
            "wrong-decision",
            "position-moved",
            "early-visibility",
            "false-fence",
        ],
        left: &[
            "G1a",
            "torn-transaction",
            "wrong-decision",
            "lost-write",
            "unseen",
            "early-visibility",
            "false-fence",
        ],
        limits: QUICK,
    },
    fix: "verification (KIP-890 part 1): a record whose partition is not in the transaction is refused (`--with outside-verify`)",
    fixed: Some(|config| config.agent.transactions.outside = Outside::Verify),
    echo: "an open question of the report: unseen writes in Kafka, not analysed. Shown with Java 3.8.0 over Kafka without verification",
};

const SCENARIO: Scenario = Scenario {
    name: "hanging-transaction",
    claim: "one EndTxn, held and released before the first record of a later transaction, hides all that is committed behind that",
    config: || {
        let mut config = Config::default();
        config.agent.transactions.outside = Outside::Local;
        config
    },
    plan,
    expect: |config| match config.agent.transactions.outside {
        _ if config.is_second_protocol() => Expect::Clean,
        Outside::Local => {
            Expect::Shows { must: &["unseen", "stuck-transaction"], may: &["lost-write", "G1a"] }
        }
        Outside::Implicit | Outside::Verify => Expect::Clean,
    },
};

fn plan(seed: u64, config: &Config) -> Plan {
    let commit = |records: &[(u32, u64)]| txn(records, Decision::Commit);
    let late = FramePattern::words("EndTxn commit id=jt1 txn=2");
    // Counted from when the frame is held.
    let third = EventPattern::words("txn.begun transactional_id=jt1");
    let record = FramePattern::words("Produce id=jt1 txn=3");
    Script::new(SCENARIO.name, seed, config)
        .worker("jt1", vec![(20, commit(&[(0, 1)])), (20, commit(&[(0, 2)])), (20, commit(&[(0, 3)]))])
        .worker("jt2", vec![(20, commit(&[(1, 1)])), (7_000, commit(&[(0, 4), (1, 2)]))])
        .worker("c1", vec![(0, consume(9_000))])
        .worker("l1", vec![(0, look(9_000))])
        .fault(When::default(), Fault::Hold { frame: late, until: When::Event(third) })
        .fault(When::default(), Fault::Delay { frame: record, by_ms: 500 })
        .plan()
}
