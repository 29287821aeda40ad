//! Finding 2, scripted: agents whose leases ran out do not find out, and new clients find nobody.
//!
//! World: that of the queue workload without transactions, with three agents whose leases last 15 s.
//! Load: records, and clients that begin anew when all is over.
//! Trouble: the coordinator is paused for longer than a lease lasts, so that all of them run out.
//! Claim: agents that watch their registration "from now on" once their connection is back, and take any answer to a
//! keep-alive for a good one, stay without a registration. Metadata lists nobody: no new client finds an agent, long after
//! all is healed, though all agents run, and what was written is polled by nobody.

use super::blind::{Blind, SLOW};
use super::script::{self, Script, assign, final_reads, polls, send, work};
use super::{Class, Finding};
use crate::cluster::COORDINATOR;
use crate::config::Config;
use crate::plan::Plan;
use crate::scenario::{Expect, Scenario};
use sim::fault::{Fault, When};

pub(super) const FINDING: Finding = Finding {
    id: 2,
    title: "agents that lost their leases do not find out, and nobody finds them",
    what: "After a short pause or partition producers waited for InitProducerId until they timed out, listOffsets found no \
           node, and polls returned nothing, though all agents ran; until they were restarted. etcd had deleted the keys \
           under their leases, and they had not heard of it.",
    class: Class::Defect { switch: "forgotten-lease" },
    cause: "the watch of an agent on its own registration begins \"from now\" after a break, and a keep-alive that is answered \
            with a time to live of 0 counts as one that succeeded; Metadata and FindCoordinator list agents by lease",
    scenario: SCENARIO,
    blind: Blind {
        scenario: "safe-ground",
        with: &["forgotten-lease"],
        must: &[&["unseen"]],
        without: &[],
        // The topic is created late if its creator finds no agent: faults then strike clients that have not begun.
        may: &["which does not exist"],
        left: &[],
        limits: SLOW,
    },
    fix: "read the registration back with every renewal, and register again",
    fixed: Some(|config| config.defects.forgotten_lease = false),
    echo: "Bufstream up to 0.1.3-rc.8, with pauses",
};

const SCENARIO: Scenario = Scenario {
    name: "lost-lease",
    claim: "after a pause of the coordinator that outlasts all leases no new client finds an agent",
    config: || {
        let mut config = script::queue(4_000);
        script::of_queue(&mut config, |queue| {
            queue.txn = false;
            queue.final_limit_ms = 60_000;
        });
        config.defects.forgotten_lease = true;
        config
    },
    plan,
    expect: |config| match config.defects.forgotten_lease {
        true => Expect::Shows { must: &["unseen", "stale-poll"], may: &[] },
        false => Expect::Clean,
    },
};

fn plan(seed: u64, config: &Config) -> Plan {
    // The consumer reads the first few; the writer is at work when the coordinator is paused.
    let mut writer: Vec<_> = (1..=30).map(|value| (100, work(&[send(0, value)]))).collect();
    writer.push(final_reads());
    let mut reader = vec![(700, assign(&[0]))];
    reader.extend(polls(3, 20));
    reader.push(final_reads());
    let pause = Fault::Pause { node: COORDINATOR.into(), for_ms: 20_000 };
    Script::new(SCENARIO.name, seed, config)
        .worker("writer", writer)
        .worker("reader-1", reader)
        .fault(When::AtMs(2_500), pause)
        .plan()
}
