//! Draws the operations of every worker: Jepsen's generator (jepsen.md A3), as plan data.
//!
//! Operations are drawn in one order for all workers, who take turns, so that values of a key go up in about the order in
//! which they are sent, and a key that has had its writes is replaced everywhere. What Jepsen's generator decides while the
//! test runs, here too is decided then: which keys were not seen yet, and what the final phase reads.

use super::settings::Queue;
use crate::plan::{Micro, Op, Operation, Queued};
use rt::choice::Choice;
use sim::choice::Choices;
use std::collections::BTreeMap;

/// Ids of operations of the final phase: beyond all others.
const FINAL_ID: u32 = 1_000_000;
/// Ids of the operations of readers.
const READER_ID: u32 = 2_000_000;
/// A third of the assignments adds keys that were not seen yet.
const UNSEEN_CHANCE: f64 = 1.0 / 3.0;

/// All operations, by worker.
pub(crate) fn draw(choices: &Choices, queue: &Queue) -> BTreeMap<String, Vec<Operation>> {
    let names: Vec<String> = (1..=queue.clients).map(|n| format!("w{n}")).collect();
    let mut workers: BTreeMap<&str, Load> =
        names.iter().map(|name| (name.as_str(), Load::default())).collect();
    let mut keys = Keys::new(queue.active_keys);
    let mut id = 0;
    // A worker has more to do than there is time for, as operations take time.
    while workers.values().any(|load| load.think_ms <= queue.until_ms) {
        for name in &names {
            id += 1;
            let drawn = Drawn::new(choices, queue, id, &mut keys);
            if let Some(load) = workers.get_mut(name.as_str()) {
                load.add(choices, queue, id, drawn);
            }
        }
    }
    let with_final = |(n, (name, mut load)): (u32, (&str, Load))| {
        let what = Op::Queue(Queued::FinalReads { keys: None });
        load.operations.push(Operation { id: FINAL_ID + n, think_ms: 0, what });
        (name.to_string(), load.operations)
    };
    let mut operations: BTreeMap<String, Vec<Operation>> = (0..).zip(workers).map(with_final).collect();
    for n in 1..=queue.readers {
        let what = Op::Queue(Queued::Read { uncommitted: n % 2 == 0 });
        operations.insert(format!("r{n}"), vec![Operation { id: READER_ID + n, think_ms: 0, what }]);
    }
    operations
}

/// What one worker has to do.
#[derive(Default)]
struct Load {
    operations: Vec<Operation>,
    /// The sum of its pauses.
    think_ms: u64,
    /// When its client crashes next, in pauses.
    crash_at_ms: Option<u64>,
}

impl Load {
    fn add(&mut self, choices: &Choices, queue: &Queue, id: u32, drawn: Drawn) {
        let think_ms = of(choices, "queue.think", id, 0).between(0, queue.think_ms_max);
        self.think_ms += think_ms;
        if let Some(every_ms) = queue.crash_every_ms {
            let gap_ms = of(choices, "queue.crash", id, 0).between(0, 2 * every_ms);
            let at_ms = *self.crash_at_ms.get_or_insert(gap_ms);
            if self.think_ms >= at_ms {
                self.crash_at_ms = Some(self.think_ms + gap_ms);
                self.push(id, 2, 0, Queued::Crash);
            }
        }
        let mut think_ms = Some(think_ms);
        if of(choices, "queue.assign", id, 0).chance(queue.assign_chance) {
            let unseen = of(choices, "queue.unseen", id, 0).chance(UNSEEN_CHANCE);
            self.push(
                id,
                1,
                think_ms.take().unwrap_or(0),
                Queued::Give { drawn: drawn.keys, unseen, keys: None },
            );
        }
        self.push(id, 0, think_ms.unwrap_or(0), Queued::Work { what: drawn.what, abort_at: drawn.abort_at });
    }

    /// Ids stay an operation's own: three for each turn.
    fn push(&mut self, turn: u32, nth: u32, think_ms: u64, what: Queued) {
        self.operations.push(Operation { id: turn * 3 - nth, think_ms, what: Op::Queue(what) });
    }
}

/// The sends and polls of one turn.
struct Drawn {
    what: Vec<Micro>,
    abort_at: Option<usize>,
    /// The keys drawn, those of polls too, which poll whatever is assigned.
    keys: Vec<u32>,
}

impl Drawn {
    fn new(choices: &Choices, queue: &Queue, id: u32, keys: &mut Keys) -> Drawn {
        let length =
            if queue.txn { of(choices, "queue.length", id, 0).between(1, queue.length_max) } else { 1 };
        let mut drawn = Drawn { what: Vec::new(), abort_at: None, keys: Vec::new() };
        for n in 0..length {
            let slot = slot(of(choices, "queue.slot", id, n), queue.active_keys);
            if of(choices, "queue.send", id, n).chance(0.5) {
                let (key, value) = keys.next(slot, queue.max_writes_per_key);
                drawn.what.push(Micro::Send { key, value });
                drawn.keys.push(key);
            } else {
                drawn.what.push(Micro::Poll);
                drawn.keys.push(keys.active[slot]);
            }
        }
        let aborts = |n: &usize| of(choices, "queue.abort", id, *n as u64).chance(queue.abort_chance);
        drawn.abort_at = (0..=drawn.what.len()).find(aborts).filter(|_| queue.txn);
        drawn.keys.sort_unstable();
        drawn.keys.dedup();
        drawn
    }
}

/// A slot, the next twice as likely as the one before: of ten, the last has 50.05 %, the first 0.1 %.
fn slot(choice: Choice, slots: u32) -> usize {
    let drawn = choice.below((1 << (slots + 1)) - 2);
    (0..slots).find(|slot| drawn < (1 << (slot + 2)) - 2).unwrap_or(slots - 1) as usize
}

/// The keys in use, and how many values each has had.
struct Keys {
    active: Vec<u32>,
    values: Vec<u64>,
    next: u32,
}

impl Keys {
    fn new(active: u32) -> Keys {
        Keys { active: (0..active).collect(), values: vec![0; active as usize], next: active }
    }

    /// The next value of the key in a slot, which is another key when the last has had all its writes.
    fn next(&mut self, slot: usize, most: u64) -> (u32, u64) {
        if self.values[slot] >= most {
            self.active[slot] = self.next;
            self.values[slot] = 0;
            self.next += 1;
        }
        self.values[slot] += 1;
        (self.active[slot], self.values[slot])
    }
}

fn of(choices: &Choices, what: &str, id: u32, ordinal: u64) -> Choice {
    choices.world(what, u64::from(id), ordinal)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn drawn(seed: u64, queue: &Queue) -> Vec<Operation> {
        draw(&Choices::new(seed, &[]), queue).into_values().flatten().collect()
    }

    fn works(operations: &[Operation]) -> impl Iterator<Item = (&Vec<Micro>, Option<usize>)> {
        operations.iter().filter_map(|operation| match &operation.what {
            Op::Queue(Queued::Work { what, abort_at, .. }) => Some((what, *abort_at)),
            _ => None,
        })
    }

    #[test]
    fn slots_are_drawn_as_the_table_says() {
        // 2^(i+1)/2046: the last of ten slots has more than half, the one before it half of that.
        let choices = Choices::new(7, &[]);
        let mut counts = [0u32; 10];
        for id in 0..100_000 {
            counts[slot(of(&choices, "queue.slot", id, 0), 10)] += 1;
        }
        let share = |slot: usize| f64::from(counts[slot]) / 100_000.0;
        for (slot, expected) in [(9, 0.5005), (8, 0.2502), (7, 0.1251), (3, 0.0078)] {
            assert!((share(slot) - expected).abs() < 0.005, "slot {slot}: {}", share(slot));
        }
        assert!(counts[0] > 40 && counts[0] < 200, "slot 0: {}", counts[0]);
    }

    #[test]
    fn values_of_a_key_are_unique_and_a_full_key_is_replaced() {
        let queue = Queue { max_writes_per_key: 20, until_ms: 3_000, ..Queue::default() };
        let operations = drawn(1, &queue);
        let mut seen = BTreeSet::new();
        let sends = works(&operations).flat_map(|(what, _)| what.iter().cloned());
        for send in sends.filter(|micro| matches!(micro, Micro::Send { .. })) {
            let Micro::Send { key, value } = send else { continue };
            assert!((1..=20).contains(&value));
            assert!(seen.insert((key, value)), "{key}:{value} is sent twice");
        }
        let keys: BTreeSet<u32> = seen.iter().map(|(key, _)| *key).collect();
        assert!(keys.len() > 20 && keys.iter().all(|key| (*key as usize) < keys.len()), "{keys:?}");
    }

    /// `facts/workload.json`: with a chance of 0.1, 19 / 27 / 34 / 41 % of transactions of length 1 to 4 are aborted.
    #[test]
    fn lengths_and_aborts_are_those_of_the_table() {
        let operations = drawn(3, &Queue::default());
        let (mut of_length, mut aborted) = ([0u32; 5], [0u32; 5]);
        for (what, abort_at) in works(&operations) {
            of_length[what.len()] += 1;
            aborted[what.len()] += u32::from(abort_at.is_some());
        }
        let all: u32 = of_length.iter().sum();
        assert!(all > 15_000, "{all}");
        for (length, expected) in [(1, 0.19), (2, 0.271), (3, 0.3439), (4, 0.4095)] {
            let share = f64::from(aborted[length]) / f64::from(of_length[length]);
            assert!((share - expected).abs() < 0.03, "length {length}: {share}");
            assert!((f64::from(of_length[length]) / f64::from(all) - 0.25).abs() < 0.03);
        }
        let plain = drawn(3, &Queue { txn: false, ..Queue::default() });
        assert!(works(&plain).all(|(what, abort_at)| what.len() == 1 && abort_at.is_none()));
    }

    #[test]
    fn one_operation_in_sixty_four_is_preceded_by_an_assignment_of_its_keys() {
        let operations = drawn(5, &Queue::default());
        let (mut given, mut unseen) = (0, 0);
        for pair in operations.windows(2) {
            let Op::Queue(Queued::Give { drawn, unseen: more, keys: None }) = &pair[0].what else { continue };
            let Op::Queue(Queued::Work { what, .. }) = &pair[1].what else { panic!("work follows") };
            given += 1;
            unseen += u32::from(*more);
            assert!(pair[1].think_ms == 0 && drawn.len() <= what.len());
            let sent = what.iter().filter_map(|micro| match micro {
                Micro::Send { key, .. } => Some(key),
                _ => None,
            });
            assert!(sent.into_iter().all(|key| drawn.contains(key)));
        }
        let share = f64::from(given) / works(&operations).count() as f64;
        assert!((share - 1.0 / 64.0).abs() < 0.004, "{share}");
        let third = f64::from(unseen) / f64::from(given);
        assert!((third - 1.0 / 3.0).abs() < 0.1, "{third}");
    }

    #[test]
    fn every_operation_has_an_id_of_its_own_and_a_worker_ends_with_final_reads() {
        let queue = Queue { crash_every_ms: Some(5_000), until_ms: 30_000, ..Queue::default() };
        let all = draw(&Choices::new(2, &[]), &queue);
        assert_eq!(all.len(), 15);
        let mut ids = BTreeSet::new();
        let mut crashes = 0;
        for operations in all.values() {
            assert!(operations.iter().all(|operation| ids.insert(operation.id)));
            crashes += operations.iter().filter(|op| op.what == Op::Queue(Queued::Crash)).count();
            let last = &operations.last().expect("there are operations").what;
            assert_eq!(*last, Op::Queue(Queued::FinalReads { keys: None }));
        }
        // 15 workers, 30 s, one in 5 s each.
        assert!((60..=130).contains(&crashes), "{crashes}");
    }
}
