//! A log that works: transactions that interleave, are committed or aborted, and consumers that read committed records from
//! the start. Whatever it does raises no alarm; one thing changed in it raises the right one.

use check::{Ack, Atom, FinalReads, Function, History, Polled, Status, strict};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const KEYS: usize = 3;
const PRODUCERS: usize = 3;
const CONSUMERS: usize = 2;

#[derive(Clone, Debug)]
enum Step {
    /// A producer sends a record, and begins a transaction if none is open.
    Send(usize, usize),
    /// It ends its transaction.
    End(usize, bool),
    /// A consumer polls so many records of each key, and the operation ends so.
    Poll(usize, usize, Status),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let status = prop::sample::select(vec![Status::Ok, Status::Ok, Status::Ok, Status::Fail, Status::Info]);
    let step = prop_oneof![
        4 => (0..PRODUCERS, 0..KEYS).prop_map(|(producer, key)| Step::Send(producer, key)),
        2 => (0..PRODUCERS, prop::bool::weighted(0.7)).prop_map(|(producer, commit)| Step::End(producer, commit)),
        2 => (0..CONSUMERS, 0..4usize, status).prop_map(|(consumer, most, status)| Step::Poll(consumer, most, status)),
    ];
    prop::collection::vec(step, 1..80)
}

/// A record in a partition, of a transaction by its number, or the marker of one.
type Record = (usize, Option<i64>);

/// What a transaction sends: key, value, offset.
type Sends = Vec<(usize, i64, i64)>;

/// A poll as it was told: consumer, how it ended, records.
type Told = (usize, Status, Vec<(usize, i64, i64)>);

#[derive(Default)]
struct Model {
    logs: [Vec<Record>; KEYS],
    /// By producer: the transaction that is open, and its sends.
    open: BTreeMap<usize, (usize, Sends)>,
    /// By transaction.
    committed: BTreeMap<usize, bool>,
    transactions: usize,
    positions: [[usize; KEYS]; CONSUMERS],
    events: Vec<Event>,
    now_ns: u64,
}

enum Event {
    Begins(usize, u64),
    Ends { producer: usize, committed: bool, asked_ns: u64, at_ns: u64, sends: Sends },
    Polls(Told, u64),
}

impl Model {
    fn tick(&mut self) -> u64 {
        self.now_ns += 10;
        self.now_ns
    }

    fn step(&mut self, step: &Step) {
        let now_ns = self.tick();
        match *step {
            Step::Send(producer, key) => {
                if !self.open.contains_key(&producer) {
                    self.open.insert(producer, (self.transactions, Vec::new()));
                    self.transactions += 1;
                    self.events.push(Event::Begins(producer, now_ns));
                }
                let (number, sends) = self.open.get_mut(&producer).unwrap();
                let value = now_ns as i64;
                sends.push((key, value, self.logs[key].len() as i64));
                self.logs[key].push((*number, Some(value)));
            }
            Step::End(producer, committed) => {
                let Some((number, sends)) = self.open.remove(&producer) else { return };
                self.committed.insert(number, committed);
                let keys: BTreeSet<usize> = sends.iter().map(|send| send.0).collect();
                keys.iter().for_each(|key| self.logs[*key].push((number, None)));
                let at_ns = self.tick();
                self.events.push(Event::Ends { producer, committed, asked_ns: now_ns, at_ns, sends });
            }
            Step::Poll(consumer, most, status) => {
                let mut records = Vec::new();
                for key in 0..KEYS {
                    let mut at = self.positions[consumer][key];
                    let full = records.len() + most;
                    // Up to the first undecided record.
                    while let Some((number, value)) = self.logs[key].get(at).filter(|_| records.len() < full)
                    {
                        let Some(committed) = self.committed.get(number) else { break };
                        if let Some(value) = value.filter(|_| *committed) {
                            records.push((key, at as i64, value));
                        }
                        at += 1;
                    }
                    if status == Status::Ok {
                        self.positions[consumer][key] = at;
                    }
                }
                self.events.push(Event::Polls((consumer, status, records), now_ns));
            }
        }
    }

    fn run(steps: &[Step]) -> Model {
        let mut model = Model::default();
        steps.iter().for_each(|step| model.step(step));
        (0..PRODUCERS).for_each(|producer| model.step(&Step::End(producer, true)));
        (0..CONSUMERS).for_each(|consumer| model.step(&Step::Poll(consumer, usize::MAX / 4, Status::Ok)));
        model
    }

    fn polls(&mut self) -> impl Iterator<Item = &mut Told> {
        self.events.iter_mut().filter_map(|event| match event {
            Event::Polls(told, _) => Some(told),
            _ => None,
        })
    }

    fn history(&self) -> History {
        let mut history = History::default();
        for consumer in 0..CONSUMERS {
            history.push(100 + consumer as i64, Status::Ok, Function::Assign, 0);
            history.set_keys((0..KEYS as i64).map(Atom::Int));
        }
        for event in &self.events {
            match event {
                Event::Begins(producer, at_ns) => {
                    history.push(*producer as i64, Status::Invoke, Function::Txn, *at_ns);
                }
                Event::Ends { producer, committed, asked_ns, at_ns, sends } => {
                    let status = if *committed { Status::Ok } else { Status::Fail };
                    history.push(*producer as i64, status, Function::Txn, *at_ns);
                    for (key, value, offset) in sends {
                        history.send(*key as i64, *value, Ack::At(*offset));
                    }
                    if *committed {
                        history.set_commit_invoked(*asked_ns);
                    }
                }
                Event::Polls((consumer, status, records), at_ns) => {
                    history.push(100 + *consumer as i64, *status, Function::Poll, *at_ns);
                    history.poll(records.iter().map(|(key, offset, value)| Polled {
                        key: Atom::Int(*key as i64),
                        offset: Some(*offset),
                        value: Atom::Int(*value),
                    }));
                }
            }
        }
        history
    }

    fn signature(&self) -> BTreeSet<&'static str> {
        strict(&self.history(), &FinalReads::new()).signature()
    }
}

proptest! {
    #[test]
    fn a_log_that_works_raises_no_alarm(steps in steps()) {
        let history = Model::run(&steps).history();
        let verdict = strict(&history, &FinalReads::new());
        prop_assert!(verdict.signature().is_empty(), "{:?}", verdict.explain(&history));
        let options = check::jepsen::Options { ww_deps: false, ..check::jepsen::Options::default() };
        let theirs = check::jepsen::verdict(&history, options).types();
        prop_assert!(theirs.iter().all(|name| ["int-send-skip", "empty-transaction-graph"].contains(name)), "{theirs:?}");
    }

    /// A record that one poll leaves out, between two of the same partition.
    #[test]
    fn a_record_left_out_moves_a_position(steps in steps(), pick in any::<prop::sample::Index>()) {
        let mut model = Model::run(&steps);
        let mut inner: Vec<(usize, usize)> = Vec::new();
        for (poll, (_, _, records)) in model.polls().enumerate() {
            let same = |window: &[(usize, i64, i64)]| window.iter().all(|record| record.0 == window[0].0);
            let windows = records.windows(3).enumerate().filter(|(_, window)| same(window));
            inner.extend(windows.map(|(at, _)| (poll, at + 1)));
        }
        prop_assume!(!inner.is_empty());
        let (poll, at) = inner[pick.index(inner.len())];
        model.polls().nth(poll).unwrap().2.remove(at);
        prop_assert!(model.signature().contains("position-moved"), "{:?}", model.signature());
    }

    /// A poll that goes back and returns its first record again.
    #[test]
    fn a_record_again_moves_a_position(steps in steps(), pick in any::<prop::sample::Index>()) {
        let mut model = Model::run(&steps);
        let some: Vec<usize> =
            model.polls().enumerate().filter(|(_, told)| !told.2.is_empty()).map(|(poll, _)| poll).collect();
        prop_assume!(!some.is_empty());
        let told = model.polls().nth(some[pick.index(some.len())]).unwrap();
        let first = told.2[0];
        told.2.insert(1, first);
        prop_assert!(model.signature().contains("position-moved"), "{:?}", model.signature());
    }

    /// The commit of a transaction that somebody saw was asked for later than it was seen.
    #[test]
    fn a_late_commit_makes_a_read_early(steps in steps(), pick in any::<prop::sample::Index>()) {
        let mut model = Model::run(&steps);
        let seen: BTreeSet<i64> = model.polls().flat_map(|told| told.2.iter().map(|record| record.2)).collect();
        let mut commits: Vec<&mut u64> = Vec::new();
        for event in &mut model.events {
            if let Event::Ends { asked_ns, sends, committed: true, .. } = event
                && sends.iter().any(|send| seen.contains(&send.1))
            {
                commits.push(asked_ns);
            }
        }
        prop_assume!(!commits.is_empty());
        let at = pick.index(commits.len());
        *commits[at] = u64::MAX;
        prop_assert!(model.signature().contains("early-visibility"), "{:?}", model.signature());
    }

    /// A value that is another than was sent.
    #[test]
    fn a_damaged_value_is_a_phantom(steps in steps(), pick in any::<prop::sample::Index>()) {
        let mut model = Model::run(&steps);
        let count = model.polls().map(|told| told.2.len()).sum::<usize>();
        prop_assume!(count > 0);
        let at = pick.index(count);
        model.polls().flat_map(|told| told.2.iter_mut()).nth(at).unwrap().2 = -1;
        prop_assert!(model.signature().contains("phantom"), "{:?}", model.signature());
    }
}
