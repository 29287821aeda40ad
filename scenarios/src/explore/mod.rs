//! All that one stale copy of one request can do: bounded, and complete within its bounds.
//!
//! The load is three short transactions of one producer (`load`), with every combination of commits and aborts. Of each
//! load every request of a transaction's life is held in turn, so that the client gives up on it and sends it again; and the held
//! copy is let go at every later frame of the producer's conversation, and after its end. That is a schedule. What
//! schedules show is put into classes, by what the copy was, where it arrived, and the anomalies.
//!
//! Method: the conversation is a function of the plan up to where the copy is let go, so one run that never lets it go lists
//! all the points at which to do so. Limits: one copy, one producer, and points between frames, not inside an agent.

mod course;
mod load;

pub(crate) use load::SCENARIO;

use crate::config::Config;
use crate::execute::execute;
use crate::outcome::Outcome;
use crate::plan::{Decision, Plan};
use client::Variant;
use course::{Cut, Phase, Stand};
use sim::fault::{Fault, Scheduled, When};
use sim::trace::Keep;
use std::fmt;

/// One stale copy, in one load.
pub struct Schedule {
    /// The plan.
    pub plan: Plan,
    /// The request, such as `EndTxn commit`.
    request: String,
    /// Where the producer stood when it sent it.
    sent: Stand,
    /// Where it stood when the copy arrived.
    arrives: Stand,
}

/// Schedules that show the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Class {
    /// The anomalies, by name.
    pub signature: Vec<String>,
    request: String,
    /// The copy arrives in the transaction that it belongs to.
    is_own: bool,
    phase: Phase,
    /// The application aborts the transaction in which it arrives.
    aborts: bool,
}

/// All schedules of a world, and how many requests they are copies of.
pub fn schedules(config: &Config) -> (Vec<Schedule>, usize) {
    let mut schedules = Vec::new();
    let mut requests = 0;
    for seed in 0..load::LOADS {
        let plan = (SCENARIO.plan)(seed, config);
        for request in course::requests(&execute(&plan, Keep::Story)) {
            requests += 1;
            schedules.extend(of_request(&plan, &request));
        }
    }
    (schedules, requests)
}

/// Whether brokers and clients of this world promise that no stale copy does harm, [`Class::is_exempt`] apart.
pub fn promises_safety(config: &Config) -> bool {
    config.client == Variant::Strict || config.is_second_protocol()
}

fn of_request(plan: &Plan, request: &Cut) -> Vec<Schedule> {
    let held = |until| {
        let fault = Fault::Hold { frame: request.frame.clone(), until };
        Plan { faults: vec![Scheduled::from_start(1, fault)], ..plan.clone() }
    };
    let schedule = |until, arrives| Schedule {
        plan: held(until),
        request: course::request_words(&request.frame),
        sent: request.stands,
        arrives,
    };
    let course = course::cuts(&execute(&held(When::AtMs(load::ALL_OVER_MS)), Keep::Story));
    let end = course.last().map(|cut| cut.stands).unwrap_or_default();
    let later = course.into_iter().filter(|cut| cut.event > request.event);
    let mut schedules: Vec<Schedule> =
        later.map(|cut| schedule(When::Frame(cut.frame), cut.stands)).collect();
    schedules.push(schedule(When::AtMs(load::ALL_OVER_MS), Stand { phase: Phase::Between, ..end }));
    schedules
}

impl Schedule {
    /// The class that its outcome puts it in.
    pub fn class(&self, outcome: &Outcome) -> Class {
        let Stand { transaction, phase } = self.arrives;
        Class {
            signature: outcome.signature.iter().cloned().collect(),
            request: self.request.clone(),
            is_own: self.sent.transaction == transaction,
            phase,
            aborts: load::decision(self.plan.seed, transaction.max(1)) == Decision::Abort,
        }
    }
}

impl Class {
    /// What no client can prevent. A stale InitProducerId fences the live producer, whoever speaks which protocol: nothing on the
    /// wire tells it from a new one (finding 19). And a TxnOffsetCommit that comes as its own transaction ends, before the client
    /// can take a new epoch, stays pending until the producer's next one (kafka.md 4, S9).
    pub fn is_exempt(&self) -> bool {
        let is_left_pending = self.request == "TxnOffsetCommit" && self.is_own && self.phase == Phase::Ending;
        self.request == "InitProducerId" || is_left_pending
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let load = load::describe(self.plan.seed);
        let Stand { transaction, phase } = self.arrives;
        write!(
            f,
            "transactions {load}; {} of transaction {} arrives at transaction {transaction}, {}",
            self.request,
            self.sent.transaction,
            phase.words()
        )
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whose = if self.is_own { "its own" } else { "a later" };
        let end = if self.aborts { "aborted" } else { "committed" };
        let phase = self.phase.words();
        match self.phase {
            Phase::Between => write!(f, "{}, {phase}", self.request),
            _ => write!(f, "{}, {phase} of {whose} transaction, to be {end}", self.request),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::fault::FramePattern;

    fn world(client: Variant) -> Config {
        Config { client, ..(SCENARIO.config)() }
    }

    /// Of one load, the copies of one request.
    fn classes(config: &Config, seed: u64, request: &str) -> Vec<Class> {
        let plan = (SCENARIO.plan)(seed, config);
        let requests = course::requests(&execute(&plan, Keep::Story));
        let wanted = FramePattern::words(request);
        let request = requests.iter().find(|cut| wanted.names(&cut.frame.words)).expect("it is sent");
        let mut classes = Vec::new();
        for schedule in of_request(&plan, request) {
            let outcome = execute(&schedule.plan, Keep::Events);
            assert_eq!((&outcome.failures, &outcome.vacuous), (&vec![], &vec![]), "{schedule}");
            classes.push(schedule.class(&outcome));
        }
        classes.sort();
        classes.dedup();
        classes
    }

    #[test]
    fn every_request_of_a_transactions_life_is_found() {
        let plan = (SCENARIO.plan)(0, &world(Variant::Java38));
        let requests = course::requests(&execute(&plan, Keep::Story));
        let mut words: Vec<String> = requests.iter().map(|cut| course::request_words(&cut.frame)).collect();
        assert_eq!(words.len(), 1 + 3 * 7, "two AddPartitionsToTxn and two Produce a transaction: {words:?}");
        words.sort();
        words.dedup();
        let expected = [
            "AddOffsetsToTxn",
            "AddPartitionsToTxn",
            "EndTxn commit",
            "InitProducerId",
            "Produce",
            "TxnOffsetCommit",
        ];
        assert_eq!(words, expected);
    }

    /// Loads 4 and 5 abort the third transaction. A late commit of the second tears it when it comes midway.
    #[test]
    fn a_late_commit_tears_the_next_transaction_of_the_old_protocol_and_of_no_other() {
        let tears = |client| {
            let classes = classes(&world(client), 4, "EndTxn commit txn=2");
            classes.iter().any(|class| class.signature.iter().any(|name| name == "torn-transaction"))
        };
        assert!(tears(Variant::Java38));
        assert!(!tears(Variant::Strict));
    }
}
