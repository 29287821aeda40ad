//! Runs as large as those in which Jepsen found Bufstream's bugs, in worlds that suit a bug.
//!
//! `queue-calm`: what finding 4 takes. World: that of the queue workload; workers keep their transactional ids, and what is
//! open for longer than 1 s is aborted by a timer. Load: 15 clients, 100 s; some applications take longer than
//! that over a transaction, so that its epoch ends. Trouble: none.
//!
//! `queue-lag`: what finding 5 takes. World: that of the queue workload without transactions; an answer to Fetch holds 5,900
//! bytes of records, more than a consumer that keeps up ever finds. Load: 9 clients, 300 s. Trouble: short pauses of agents
//! and of the coordinator, and cuts between them.
//!
//! Claim of both: nothing goes wrong. With `--with number-without-epoch`, and `--with fetch-drops-middle`, acknowledged
//! records are passed over, and some are polled by nobody.

use crate::nemesis::{self, Nemesis};
use crate::plan::{Micro, Op, Operation, Queued};
use crate::queue::Queue;
use crate::queue_scenarios;
use crate::scenario::{Expect, Scenario};
use broker::Timeouts;
use sim::choice::Choices;

pub(crate) const CALM: Scenario = Scenario {
    name: "queue-calm",
    claim: "Jepsen's load for 100 s without any trouble: every commit that is acknowledged is executed",
    config: || {
        let mut config = queue_scenarios::config(Queue::default());
        let workers = (1..=Queue::default().clients).map(|n| format!("w{n}"));
        config.transactional_ids = workers.map(|name| (name.clone(), format!("txn-{name}"))).collect();
        config.agent.transactions.timeouts = Timeouts::Deadline;
        config
    },
    plan: |seed, config| {
        let nothing = |queue: &Queue| Nemesis::jepsen(vec![], queue.until_ms);
        let mut plan = queue_scenarios::plan(CALM.name, seed, config, nothing);
        plan.operations.values_mut().flatten().for_each(|operation| dawdle(seed, operation));
        plan
    },
    expect: |config| match config.defects.number_without_epoch {
        true => Expect::Finds {
            must: &["lost-write", "int-poll-skip", "unseen"],
            may: &["poll-skip", "position-moved", "wrong-decision", "G1a", "torn-transaction", "stale-poll"],
        },
        false => Expect::Clean,
    },
};

pub(crate) const LAG: Scenario = Scenario {
    name: "queue-lag",
    claim: "five minutes of Jepsen's load under short trouble: who lags misses no record, however many wait",
    config: || {
        let queue = Queue { txn: false, clients: 9, until_ms: 300_000, ..Queue::default() };
        let mut config = queue_scenarios::config(queue);
        config.agent.fetch_max_bytes = 5_900;
        config
    },
    plan: |seed, config| {
        queue_scenarios::plan(LAG.name, seed, config, |queue| Nemesis {
            packages: nemesis::packages(SHORT_TROUBLE).expect("the flags are flags"),
            interval_ms: 2_000,
            ..Nemesis::jepsen(vec![], queue.until_ms)
        })
    },
    expect: |config| match config.defects.fetch_drops_middle {
        true => Expect::Finds {
            must: &["lost-write", "int-poll-skip"],
            may: &["unseen", "poll-skip", "position-moved"],
        },
        false => Expect::Clean,
    },
};

/// Whom it strikes, by Jepsen's names.
const SHORT_TROUBLE: &[&str] = &["pause-bufstream", "pause-coordination", "partition-bufstream-coordination"];

/// The share of transactions whose application takes longer over them than they may stay open.
const DAWDLES: f64 = 0.1;

/// Some applications take their time before they commit.
fn dawdle(seed: u64, operation: &mut Operation) {
    let draw = |what| Choices::new(seed, &[]).world(what, u64::from(operation.id), 0);
    if let Op::Queue(Queued::Work { what, .. }) = &mut operation.what
        && draw("calm.dawdles").chance(DAWDLES)
    {
        what.push(Micro::Wait(draw("calm.wait").between(1_000, 1_400)));
    }
}
