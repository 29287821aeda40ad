//! What the strict families share about sends: when each message can have come into being at the earliest.

use crate::facts::{Facts, NONE};
use crate::history::Status;
use std::collections::BTreeMap;

/// By message.
pub(super) struct Sends {
    /// The invocation of the first operation that sends it; 0 where none is known, since it may have begun at any time;
    /// [`NONE`] if nobody sends it.
    begun: Vec<u32>,
    /// When the commit of its transaction was asked for, in nanoseconds; `None` if that was not noted for each who sent it.
    commit_ns: Vec<Option<u64>>,
}

impl Sends {
    pub(super) fn new(facts: &Facts<'_>) -> Self {
        let count = facts.history.message_count();
        let mut sends = Sends { begun: vec![NONE; count], commit_ns: vec![None; count] };
        let mut completed = vec![false; count];
        let mut open: BTreeMap<i64, u32> = BTreeMap::new();
        for event in facts.history.events().filter(|event| event.is_records()) {
            let begun = match event.status() {
                Status::Invoke => {
                    open.insert(event.process(), event.index as u32);
                    event.index as u32
                }
                Status::Ok | Status::Fail | Status::Info => open.remove(&event.process()).unwrap_or(0),
            };
            for (message, _) in event.sent_messages() {
                let message = message as usize;
                sends.begun[message] = sends.begun[message].min(begun);
                if event.status() != Status::Invoke {
                    let known = sends.commit_ns[message].filter(|_| completed[message]);
                    let commit = event.commit_invoked_ns();
                    sends.commit_ns[message] = match completed[message] {
                        true => known.zip(commit).map(|(a, b)| a.min(b)),
                        false => commit,
                    };
                    completed[message] = true;
                }
            }
        }
        sends
    }

    /// The event before which a message cannot be anywhere; `None` if nobody sends it.
    pub(super) fn begun(&self, message: u32) -> Option<usize> {
        let begun = self.begun[message as usize];
        (begun != NONE).then_some(begun as usize)
    }

    /// When the commit of its transaction was asked for, in nanoseconds.
    pub(super) fn commit_ns(&self, message: u32) -> Option<u64> {
        self.commit_ns[message as usize]
    }
}
