//! Jepsen's abort workload (jepsen.md C): where does a poll begin after a transaction was aborted? Each round has a topic of
//! its own, from which and to which one worker polls and sends.

use super::settings::Queue;
use super::worker::{Manner, POLL_MS, Worker, polled};
use crate::config::partition_of;
use crate::ground::Findings;
use crate::log::{Facts, Work};
use crate::plan::{Micro, Op, Operation, Queued};
use check::abort::{Pair, Poll, Step, pairs};
use check::{Function, Status};
use sim::choice::Choices;
use std::collections::{BTreeMap, BTreeSet};

/// The transactions of a round: which of them are to abort.
const ABORT: [bool; 4] = [false, true, true, false];
/// The most records that one of them sends, and one more.
const SENDS: u64 = 4;
/// Ids of one worker's operations: beyond those of the workers before it.
const IDS: u32 = 1_000;

/// All operations, by worker: more rounds than there is time for.
pub(crate) fn draw(choices: &Choices, queue: &Queue) -> BTreeMap<String, Vec<Operation>> {
    (1..=queue.clients).map(|n| (format!("w{n}"), rounds(choices, queue, n))).collect()
}

fn rounds(choices: &Choices, queue: &Queue, worker: u32) -> Vec<Operation> {
    let mut operations = Vec::new();
    let mut at_ms = 0;
    for nth in 0..IDS - 1 {
        let id = worker * IDS + nth;
        let think_ms = choices.world("aborts.think", u64::from(id), 0).between(0, queue.think_ms_max);
        // No transaction takes less than a millisecond.
        at_ms += think_ms + ABORT.len() as u64;
        if at_ms > queue.until_ms {
            break;
        }
        operations.push(Operation { id, think_ms, what: Op::Queue(Queued::Aborts { key: 2 * id }) });
    }
    let final_reads = Op::Queue(Queued::FinalReads { keys: None });
    operations.push(Operation { id: worker * IDS + IDS - 1, think_ms: 0, what: final_reads });
    operations
}

/// One round.
pub(super) async fn run(worker: &mut Worker, operation: u32, key: u32) {
    let log = worker.log.clone();
    // A topic that could not be created is by whoever sends to it first.
    let _ = worker.open().await.create_topic(&partition_of(key, true).topic, &log).await;
    let mut is_given = false;
    for (nth, aborts) in (0..).zip(ABORT) {
        let mut round = Round { operation, key, aborts, attempt: nth * 10_000 };
        while !worker.is_over() && !round.attempt(worker, &mut is_given).await {}
    }
}

/// One kind of transaction, again and again.
struct Round {
    operation: u32,
    key: u32,
    aborts: bool,
    attempt: u64,
}

impl Round {
    /// Once; whether it polled a record.
    async fn attempt(&mut self, worker: &mut Worker, is_given: &mut bool) -> bool {
        if !*is_given || worker.client.is_none() {
            *is_given = worker.give(&[self.key], worker.queue.sub_via, false).await == Status::Ok;
        }
        self.attempt += 1;
        let draw = |what: &'static str| rt::choice(what, u64::from(self.operation), self.attempt);
        let value = |nth| self.attempt * SENDS + nth;
        let sends = (0..draw("aborts.sends").below(SENDS))
            .map(|nth| Micro::Send { key: self.key, value: value(nth) });
        let what: Vec<Micro> = [Micro::Poll].into_iter().chain(sends).collect();
        // Jepsen draws one of three places, the first of which is none, so that a third commits after all.
        let places = [None, Some(1), Some(what.len())];
        let abort_at = places[draw("aborts.at").below(3) as usize].filter(|_| self.aborts);
        let manner = Manner { txn: true, abort_at, poll_ms: POLL_MS, seeks_back: worker.queue.seeks_back };
        !worker.work(&what, manner).await.1.is_empty()
    }
}

/// Polls of workers before their final phase, in the order of their completion, and how their operations ended. A
/// rebalance counts if it moved a partition that rounds use.
pub(crate) fn polls(facts: &Facts) -> Vec<(Status, Poll)> {
    // Only a final phase begins at the start, and its processes do nothing else.
    let is_final = |work: &Work| matches!(work, Work::Queue(Function::Assign, details) if details.from_start);
    let finals: BTreeSet<i64> =
        facts.facts.iter().filter(|fact| is_final(&fact.work)).map(|fact| fact.process).collect();
    let mut given: BTreeMap<i64, u32> = BTreeMap::new();
    let mut polls = Vec::new();
    for fact in
        facts.facts.iter().filter(|fact| fact.status != Status::Invoke && !finals.contains(&fact.process))
    {
        let Work::Queue(function, details) = &fact.work else { continue };
        match function {
            Function::Assign | Function::Subscribe => {
                given.extend(details.keys.first().map(|key| (fact.process, *key)));
            }
            Function::Poll | Function::Txn => {
                let Some(key) = given.get(&fact.process) else { continue };
                let of_key = polled(details).filter(|(polled, _, _)| polled == key);
                let poll = Poll {
                    process: fact.process,
                    topic: partition_of(*key, true).topic,
                    offsets: of_key.map(|(_, offset, _)| *offset).collect(),
                    is_rebalanced: details.rebalanced.contains(key),
                };
                polls.push((fact.status, poll));
            }
            Function::Send | Function::Crash | Function::Debug => {}
        }
    }
    polls
}

/// Holds every pair of polls against what Kafka intends (KAFKA-17582). Nothing but the records that it hands out moves a
/// position, an abort least of all; a rebalance moves it to what is committed. So a poll begins
///
/// * behind the last record of the one before it, whatever became of that, if there was no rebalance in between
/// * there, too, after a rebalance, if the one before it was committed
/// * at the first record of the one before it, or before that, after a rebalance, if the one before it was aborted: at the
///   first record that no transaction of the group has committed
/// * at one of these, if nobody knows what became of the one before it
pub(crate) fn judge(told: &[(Status, Poll)]) -> Findings {
    let mut findings = Findings::default();
    let polls: Vec<Poll> = told.iter().map(|(_, poll)| poll.clone()).collect();
    let of_aborted = |pair: &&Pair| told[pair.before].0 == Status::Fail;
    let pairs = pairs(&polls);
    let wrong = pairs.iter().filter(|pair| !is_intended(told[pair.before].0, pair));
    let words = wrong.map(|Pair { before, after, step, is_rebalanced }| {
        let (status, before) = &told[*before];
        let rebalanced = if *is_rebalanced { "after a rebalance" } else { "without a rebalance" };
        format!(
            "process {} polled {:?} of {}, which ended {}; then, {rebalanced}, {:?}: {}",
            before.process,
            before.offsets,
            before.topic,
            status.name(),
            polls[*after].offsets,
            step.name()
        )
    });
    findings.add("unintended-step", words.collect());
    if pairs.iter().filter(of_aborted).count() == 0 {
        findings.vacuous.push("no poll followed one that was aborted".into());
    }
    findings
}

fn is_intended(before: Status, pair: &Pair) -> bool {
    match (pair.is_rebalanced, before) {
        (false, _) | (true, Status::Ok) => pair.step == Step::Advance,
        (true, Status::Fail) => matches!(pair.step, Step::Rewind | Step::RewindFurther),
        (true, Status::Info | Status::Invoke) => pair.step != Step::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(polls: &[(Status, &[i64], bool)]) -> usize {
        let told = polls.iter().map(|(status, offsets, is_rebalanced)| {
            let poll = Poll {
                process: 1,
                topic: "t1".into(),
                offsets: offsets.to_vec(),
                is_rebalanced: *is_rebalanced,
            };
            (*status, poll)
        });
        judge(&told.collect::<Vec<_>>()).anomalies.len()
    }

    #[test]
    fn an_abort_moves_nothing_and_a_rebalance_goes_to_what_is_committed() {
        use Status::{Fail, Info, Ok};
        let after = |status, first, is_rebalanced| {
            judged(&[(status, &[4, 5], false), (Ok, &[first, 9], is_rebalanced)])
        };
        for status in [Ok, Fail, Info] {
            assert_eq!(after(status, 7, false), 0, "{status:?}");
            assert_eq!(after(status, 4, false), 1, "{status:?}");
            assert_eq!(after(status, 2, false), 1, "{status:?}");
            assert_eq!(after(status, 5, true), 1, "{status:?}: nothing is committed in the middle");
        }
        // First offset after a rebalance, and after which ends that is intended.
        for (first, ok, fail) in [(7, 0, 1), (4, 1, 0), (2, 1, 0)] {
            assert_eq!((after(Ok, first, true), after(Fail, first, true)), (ok, fail), "{first}");
            assert_eq!(after(Info, first, true), 0);
        }
        // The rebalance fell into a poll that brought nothing.
        assert_eq!(judged(&[(Fail, &[4, 5], false), (Ok, &[], true), (Ok, &[4, 5], false)]), 0);
        assert_eq!(judge(&[]).vacuous.len(), 1);
    }

    #[test]
    fn a_worker_has_topics_of_its_own_and_ends_with_final_reads() {
        let queue = Queue { clients: 3, until_ms: 2_000, think_ms_max: 50, ..Queue::default() };
        let all = draw(&Choices::new(1, &[]), &queue);
        let mut seen = BTreeSet::new();
        for operations in all.values() {
            assert!(operations.len() > 40);
            for operation in operations {
                if let Op::Queue(Queued::Aborts { key }) = operation.what {
                    assert!(key % 2 == 0 && seen.insert(key));
                }
            }
            let last = &operations.last().expect("there are operations").what;
            assert_eq!(*last, Op::Queue(Queued::FinalReads { keys: None }));
        }
    }
}
