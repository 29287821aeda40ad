//! The families of both verdicts, as anomalies of this one: which event decided them, and their words. They are encoded as
//! the verdict of Jepsen's checker encodes them.

use crate::aborted_read::AbortedRead;
use crate::duplicate::Duplicate;
use crate::facts::Facts;
use crate::history::{Ack, Atom, History};
use crate::inconsistent_offset::InconsistentOffset;
use crate::lost_write::LostWrite;
use crate::unseen::Unseen;
use std::collections::BTreeMap;

pub(super) fn aborted_read(history: &History, read: &AbortedRead) -> String {
    let (key, value) = (history.show(read.key), history.show(read.value));
    format!("event {} polled {key}:{value}, which event {} failed to write", read.reader, read.writer)
}

pub(super) fn lost_write(history: &History, lost: &LostWrite) -> String {
    let (key, value) = (history.show(lost.key), history.show(lost.value));
    format!("{key}:{value} of event {}: event {} read past it", lost.writer, lost.max_read)
}

pub(super) fn unseen(history: &History, unseen: &Unseen) -> String {
    format!("{}:{} acknowledged, never polled", history.show(unseen.key), list(history, &unseen.values, ","))
}

pub(super) fn duplicate(history: &History, duplicate: &Duplicate) -> String {
    let (key, value) = (history.show(duplicate.key), history.show(duplicate.value));
    format!("{key}:{value} at offsets {:?}", duplicate.offsets)
}

pub(super) fn inconsistent_offset(history: &History, inconsistent: &InconsistentOffset) -> String {
    let values = list(history, &inconsistent.values, " and ");
    format!("{} holds {values} at offset {}", history.show(inconsistent.key), inconsistent.offset)
}

fn list(history: &History, values: &[Atom], between: &str) -> String {
    values.iter().map(|value| history.show(*value).to_string()).collect::<Vec<_>>().join(between)
}

/// The event that acknowledged the first of the unseen values: it could have been seen from then on.
pub(super) fn unseen_since(facts: &Facts<'_>, unseen: &Unseen) -> usize {
    let key = facts.keys().find(|key| key.atom() == unseen.key);
    let messages = key.iter().flat_map(|key| key.messages()).map(|message| facts.message(*message));
    let unseen = messages.filter(|message| message.is_acknowledged && message.ok_reader().is_none());
    unseen.filter_map(|message| message.writer()).min().unwrap_or_default()
}

/// The first event that showed a value at a second offset; and the first that showed another value at an offset. By key.
#[derive(Default)]
pub(super) struct Contradictions {
    duplicates: BTreeMap<(Atom, Atom), usize>,
    inconsistent: BTreeMap<(Atom, i64), usize>,
}

impl Contradictions {
    /// One pass over what is told of offsets, as the raw log takes it.
    pub(super) fn new(facts: &Facts<'_>) -> Self {
        let mut found = Contradictions::default();
        let mut offsets: BTreeMap<(Atom, Atom), i64> = BTreeMap::new();
        let mut values: BTreeMap<(Atom, i64), Atom> = BTreeMap::new();
        for event in facts.completions() {
            let took_effect = facts.took_effect(&event);
            let sent = event.sends().filter(|_| took_effect).filter_map(|(key, value, ack)| match ack {
                Ack::At(offset) => Some((key, value, offset)),
                Ack::None | Ack::Offsetless => None,
            });
            let polled = event.polled().filter_map(|record| Some((record.key, record.value, record.offset?)));
            for (key, value, offset) in sent.chain(polled) {
                if *offsets.entry((key, value)).or_insert(offset) != offset {
                    found.duplicates.entry((key, value)).or_insert(event.index);
                }
                if *values.entry((key, offset)).or_insert(value) != value {
                    found.inconsistent.entry((key, offset)).or_insert(event.index);
                }
            }
        }
        found
    }

    pub(super) fn duplicate(&self, duplicate: &Duplicate) -> usize {
        self.duplicates.get(&(duplicate.key, duplicate.value)).copied().unwrap_or_default()
    }

    pub(super) fn inconsistent(&self, inconsistent: &InconsistentOffset) -> usize {
        self.inconsistent.get(&(inconsistent.key, inconsistent.offset)).copied().unwrap_or_default()
    }
}
