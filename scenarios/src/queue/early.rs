//! Draws the operations of Jepsen's early-read workload (jepsen.md C): transactions that take their time in one key.
//!
//! Each sends a record, waits, and, if its worker is one of those that poll, polls until nothing comes.

use super::settings::Queue;
use crate::plan::{Micro, Op, Operation, Queued};
use sim::choice::Choices;
use std::collections::BTreeMap;

/// The one key.
const KEY: u32 = 0;
/// The longest wait between the send and what follows, in milliseconds (Jepsen's).
const WAIT_MS_MAX: u64 = 1_000;
/// Ids of one worker's operations: beyond those of the workers before it.
const IDS: u32 = 100_000;

/// All operations, by worker. Every other worker polls.
pub(crate) fn draw(choices: &Choices, queue: &Queue) -> BTreeMap<String, Vec<Operation>> {
    (1..=queue.clients).map(|n| (format!("w{n}"), operations(choices, queue, n))).collect()
}

fn operations(choices: &Choices, queue: &Queue, worker: u32) -> Vec<Operation> {
    let first_id = worker * IDS;
    let mut operations = Vec::new();
    let mut at_ms = 0;
    for nth in 0.. {
        let id = first_id + nth * 2;
        let of = |what| choices.world(what, u64::from(id), 0);
        let (think_ms, wait_ms) =
            (of("early.think").between(0, queue.think_ms_max), of("early.wait").between(0, WAIT_MS_MAX));
        at_ms += think_ms + wait_ms;
        if at_ms > queue.until_ms {
            break;
        }
        let mut what = vec![Micro::Send { key: KEY, value: u64::from(id) }, Micro::Wait(wait_ms)];
        if worker % 2 == 1 {
            what.push(Micro::PollAll);
            // A client that took the place of another has no partition yet.
            if nth == 0 || of("early.assign").chance(queue.assign_chance) {
                let give = Queued::Give { drawn: vec![KEY], unseen: false, keys: None };
                operations.push(Operation { id: id + 1, think_ms: 0, what: Op::Queue(give) });
            }
        }
        let work = Queued::Work { what, abort_at: None };
        operations.push(Operation { id, think_ms, what: Op::Queue(work) });
    }
    let final_reads = Op::Queue(Queued::FinalReads { keys: None });
    operations.push(Operation { id: first_id + IDS - 1, think_ms: 0, what: final_reads });
    operations
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn half_of_the_workers_poll_and_all_send_to_one_key() {
        let queue = Queue { clients: 4, until_ms: 20_000, assign_chance: 0.0, ..Queue::default() };
        let all = draw(&Choices::new(3, &[]), &queue);
        let mut ids = BTreeSet::new();
        for (name, operations) in &all {
            assert!(operations.iter().all(|operation| ids.insert(operation.id)));
            // About half a second each.
            assert!((20..60).contains(&operations.len()), "{name}: {}", operations.len());
            let polls = ["w1", "w3"].contains(&name.as_str());
            let (mut given, mut worked) = (0, 0);
            for operation in operations {
                match &operation.what {
                    Op::Queue(Queued::Give { drawn, .. }) => given += usize::from(*drawn == [KEY]),
                    Op::Queue(Queued::Work { what, abort_at: None, .. }) => {
                        worked += 1;
                        assert!(
                            matches!(what[0], Micro::Send { key: KEY, value } if value == u64::from(operation.id))
                        );
                        assert!(matches!(what[1], Micro::Wait(0..=1_000)));
                        assert_eq!(what[2..], if polls { vec![Micro::PollAll] } else { vec![] });
                    }
                    other => assert_eq!(*other, Op::Queue(Queued::FinalReads { keys: None })),
                }
            }
            assert_eq!((given, worked), (usize::from(polls), operations.len() - 1 - usize::from(polls)));
        }
    }
}
