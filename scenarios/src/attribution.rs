//! Attributes anomalies to what made them: to one of the mechanisms that are known, by what the agents and clients of the run
//! told, or to none.
//!
//! Wrong decisions say which transactions they struck (`oracle`). What else is known here strikes a transaction or a partition:
//! a record that was acknowledged at an offset that was taken before it was sent; a partition whose end is undecided; a
//! producer whose id was initialised by a request of its own that came late. An anomaly is explained if something struck a
//! transaction that it is about.
//!
//! Limits: it speaks of plans whose producers keep their transactional ids to themselves, outside the queue workload.

use crate::log::{Fact, Facts, Work, atom, value_atom};
use crate::mechanism::Mechanism;
use crate::oracle::Decision;
use crate::plan::{Op, Plan};
use broker::Outside;
use check::{Atom, History, Verdict};
use sim::trace::Entry;
use std::collections::{BTreeMap, BTreeSet};

/// What made the anomalies of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attribution {
    /// What happened, whether or not it did harm.
    pub mechanisms: BTreeSet<Mechanism>,
    /// Anomalies that nothing known explains, by name.
    pub unexplained: Vec<String>,
}

/// A producer and the number of its transaction.
type Transaction = (String, u64);

/// What was struck, by what.
#[derive(Default)]
struct Struck {
    transactions: BTreeMap<Transaction, BTreeSet<Mechanism>>,
    /// An offset was held for a transaction that was over, and is there in the end. An agent may tell late of one that it held in
    /// time, so that without harm it cannot be told from a late one.
    offsets: bool,
    /// A batch was appended that no transaction has a place for.
    asks_nobody: bool,
    /// Keys whose end is undecided.
    hanging: BTreeSet<Atom>,
    /// Producers that were fenced by themselves.
    fenced: BTreeSet<String>,
}

/// Attributes a run's anomalies; `others` are those that are not the verdict's.
pub(crate) fn attribute(
    verdict: &Verdict,
    history: &History,
    decisions: &[Decision],
    facts: &Facts,
    trace: &[Entry],
    others: &[(&'static str, String)],
    plan: &Plan,
) -> Attribution {
    let writers = writers(&facts.facts);
    let mut struck = Struck::find(decisions, facts, trace);
    let are_torn = others.iter().any(|(name, _)| *name == "torn-offsets");
    struck.offsets = are_torn && holds_late(plan, &writers, trace, facts.last_offset.is_none());
    // Agents that do not ask take what comes, of an older epoch too.
    let outside = plan.config.agent.transactions.outside;
    struck.asks_nobody = outside == Outside::Local && others.iter().any(|(name, _)| *name == "zombie-append");
    let mut unexplained: Vec<String> = Vec::new();
    unexplained.extend(
        decisions
            .iter()
            .filter(|decision| decision.mechanism.is_none())
            .map(|_| "wrong-decision".to_string()),
    );
    for (name, about) in subjects(verdict, history, &facts.facts, &writers) {
        if !about.iter().any(|subject| struck.explains(subject)) {
            unexplained.push(name.to_string());
        }
    }
    let known = struck.mechanisms();
    unexplained.extend(
        others.iter().filter(|(name, _)| !is_explained(name, &known)).map(|(name, _)| (*name).to_string()),
    );
    Attribution { mechanisms: known, unexplained }
}

/// Whether one of `known` makes an anomaly that no transaction is named for.
fn is_explained(name: &str, known: &BTreeSet<Mechanism>) -> bool {
    known.iter().any(|mechanism| match mechanism {
        Mechanism::StaleEnd(_) | Mechanism::StaleOffsets => name == "torn-offsets",
        // What nobody can read, or nobody has written, its offset is there for all the same.
        Mechanism::HangingTransaction => {
            ["stuck-transaction", "zombie-append", "torn-offsets"].contains(&name)
        }
        Mechanism::SequenceReuse => ["conflict", "torn-offsets"].contains(&name),
        Mechanism::StaleInit => name == "false-fence",
        // A record of an aborted transaction that is visible makes its offset count as missing.
        Mechanism::DelayedProduce => name == "torn-offsets",
    })
}

/// What an anomaly is about.
#[derive(Debug)]
enum Subject {
    Transaction(Transaction),
    Key(Atom),
}

impl Struck {
    fn find(decisions: &[Decision], facts: &Facts, trace: &[Entry]) -> Struck {
        let mut struck = Struck::default();
        for decision in decisions {
            if let Some(mechanism) = decision.mechanism {
                let transaction = (decision.wrong.producer.clone(), decision.wrong.transaction);
                struck.transactions.entry(transaction).or_default().insert(mechanism);
            }
        }
        for transaction in reused(trace) {
            struck.transactions.entry(transaction).or_default().insert(Mechanism::SequenceReuse);
        }
        let undecided = facts.remains.iter().flat_map(|remains| &remains.undecided);
        struck.hanging = undecided.map(|key| Atom::Int(*key)).collect();
        struck.fenced = fenced_by_themselves(trace);
        struck
    }

    fn mechanisms(&self) -> BTreeSet<Mechanism> {
        let mut all: BTreeSet<Mechanism> = self.transactions.values().flatten().copied().collect();
        if self.offsets {
            all.insert(Mechanism::StaleOffsets);
        }
        if self.asks_nobody || !self.hanging.is_empty() {
            all.insert(Mechanism::HangingTransaction);
        }
        if !self.fenced.is_empty() {
            all.insert(Mechanism::StaleInit);
        }
        all
    }

    fn explains(&self, subject: &Subject) -> bool {
        match subject {
            Subject::Transaction(transaction) => {
                self.transactions.contains_key(transaction) || self.fenced.contains(&transaction.0)
            }
            Subject::Key(key) => self.hanging.contains(key),
        }
    }
}

/// Transactions with a record that was acknowledged at an offset that had been written before the record was sent.
fn reused(trace: &[Entry]) -> BTreeSet<Transaction> {
    // By partition and offset.
    let mut written: BTreeMap<(String, i64), u64> = BTreeMap::new();
    // By partition and payload.
    let mut sent: BTreeMap<(String, String), u64> = BTreeMap::new();
    let mut reused = BTreeSet::new();
    for entry in trace {
        let (partition, number) = (|| entry.text("partition"), |field| entry.number(field).unwrap_or(-1));
        match entry.name {
            "produce.committed" => {
                for offset in number("base_offset")..number("base_offset") + number("count") {
                    written.entry((partition(), offset)).or_insert(entry.id.0);
                }
            }
            "intent" => drop(sent.insert((partition(), entry.text("value")), entry.id.0)),
            "producer.delivered" => {
                let at = written.get(&(partition(), number("offset")));
                let since = sent.get(&(partition(), entry.text("value")));
                if at.zip(since).is_some_and(|(at, since)| at < since) {
                    reused.insert((entry.text("id"), number("txn") as u64));
                }
            }
            _ => {}
        }
    }
    reused
}

/// Whether an offset was held when the transaction that it is of was over, for its client or, if one is still undecided, for the
/// coordinator: a stale EndTxn may have ended it before, and with it the listing of the group.
fn holds_late(
    plan: &Plan,
    writers: &BTreeMap<(Atom, Atom), Transaction>,
    trace: &[Entry],
    is_undecided: bool,
) -> bool {
    let mut of_offset: BTreeMap<i64, &Transaction> = BTreeMap::new();
    for operation in plan.operations.values().flatten() {
        if let Op::Txn { sends, offset: Some(offset), .. } = &operation.what {
            let writer =
                sends.first().and_then(|send| writers.get(&(atom(send.key), value_atom(send.value))));
            of_offset.extend(writer.map(|writer| (*offset, writer)));
        }
    }
    let mut over: BTreeSet<Transaction> = BTreeSet::new();
    let is_left = is_undecided && !plan.config.is_second_protocol();
    // How often the client's current transaction began at the coordinator, and whether it has ended there.
    let mut at_coordinator: BTreeMap<String, (u32, bool)> = BTreeMap::new();
    for entry in trace {
        let number = |field| entry.number(field).unwrap_or(-1);
        let id = || entry.text("transactional_id");
        match entry.name {
            "producer.begin" => drop(at_coordinator.insert(entry.text("id"), (0, false))),
            "txn.begun" => {
                let (begun, ended) = at_coordinator.entry(id()).or_default();
                (*begun, *ended) = (*begun + 1, false);
            }
            "txn.completed" => at_coordinator.entry(id()).or_default().1 = true,
            "offset.held"
                if is_left
                    && at_coordinator.get(&id()).is_some_and(|(begun, ended)| *begun > 1 || *ended) =>
            {
                return true;
            }
            "producer.end" => drop(over.insert((entry.text("id"), number("txn") as u64))),
            "offset.held" if of_offset.get(&number("offset")).is_some_and(|of| over.contains(*of)) => {
                return true;
            }
            _ => {}
        }
    }
    false
}

/// Producers whose transactional id was initialised once more, as for a new producer, when they had an epoch already.
fn fenced_by_themselves(trace: &[Entry]) -> BTreeSet<String> {
    let mut told: BTreeSet<String> = BTreeSet::new();
    let mut fenced = BTreeSet::new();
    for entry in trace {
        let is_new = match entry.name {
            "producer.epoch" => {
                told.insert(entry.text("id"));
                false
            }
            "init_producer_id" => !entry.flag("bump"),
            "txn.prepared" => entry.text("by") == "fencing",
            _ => false,
        };
        let id = entry.text("transactional_id");
        if is_new && told.contains(&id) {
            fenced.insert(id);
        }
    }
    fenced
}

/// The transaction that sent each record.
fn writers(facts: &[Fact]) -> BTreeMap<(Atom, Atom), Transaction> {
    let mut writers = BTreeMap::new();
    for fact in facts {
        if let Work::Txn { number, sends, .. } = &fact.work
            && *number > 0
        {
            let of = |(key, value, _): &(u32, u64, Option<i64>)| (atom(*key), value_atom(*value));
            writers.extend(sends.iter().map(|send| (of(send), (fact.client.clone(), *number))));
        }
    }
    writers
}

/// What each anomaly of the verdict is about.
fn subjects(
    verdict: &Verdict,
    history: &History,
    facts: &[Fact],
    writers: &BTreeMap<(Atom, Atom), Transaction>,
) -> Vec<(&'static str, Vec<Subject>)> {
    let of_event = |event: usize| match facts.get(event) {
        Some(Fact { client, work: Work::Txn { number, .. }, .. }) => {
            vec![Subject::Transaction((client.clone(), *number))]
        }
        _ => Vec::new(),
    };
    let of_records = |key: Atom, values: &[Atom]| {
        let transactions = values.iter().filter_map(|value| writers.get(&(key, *value)).cloned());
        let mut about: Vec<Subject> = transactions.map(Subject::Transaction).collect();
        about.push(Subject::Key(key));
        about
    };
    let mut all = Vec::new();
    all.extend(verdict.torn_transactions.iter().map(|torn| ("torn-transaction", of_event(torn.event))));
    all.extend(verdict.aborted_reads.iter().map(|read| ("G1a", of_event(read.writer))));
    all.extend(verdict.intermediate_reads.iter().map(|read| ("G1b", of_event(read.writer))));
    all.extend(verdict.early_reads.iter().map(|read| ("early-visibility", of_event(read.writer))));
    all.extend(verdict.lost_writes.iter().map(|lost| ("lost-write", of_event(lost.writer))));
    for unseen in &verdict.unseen {
        all.extend(unseen.values.iter().map(|value| ("unseen", of_records(unseen.key, &[*value]))));
    }
    let duplicates = verdict.duplicates.iter();
    all.extend(duplicates.map(|twice| ("duplicate", of_records(twice.key, &[twice.value]))));
    let inconsistent = verdict.inconsistent_offsets.iter();
    all.extend(inconsistent.map(|found| ("inconsistent-offsets", of_records(found.key, &found.values))));
    for moved in &verdict.moved_positions {
        let values = [&moved.skipped[..], &[moved.before.1, moved.after.1]].concat();
        all.push(("position-moved", of_records(moved.key, &values)));
    }
    all.extend(verdict.stale_polls.iter().map(|poll| ("stale-poll", of_records(poll.key, &[poll.due.0]))));
    const NAMED: [&str; 10] = [
        "torn-transaction",
        "G1a",
        "G1b",
        "early-visibility",
        "lost-write",
        "unseen",
        "duplicate",
        "inconsistent-offsets",
        "position-moved",
        "stale-poll",
    ];
    let rest = verdict.anomalies(history).into_iter().map(|found| found.name);
    all.extend(rest.filter(|name| !NAMED.contains(name)).map(|name| (name, Vec::new())));
    all
}
