//! What the anomaly families share: who sent and read each message, and the log of each key as the history shows it.
//!
//! One pass over the history and one sort of its log; everything is a vector by the number of a message.

use crate::history::{Ack, Atom, Event, History, Message, Status};
use std::ops::Range;

/// Stands for no event and no index.
pub(crate) const NONE: u32 = u32::MAX;

/// One message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MessageFacts {
    /// The last completion that sent it, or [`NONE`].
    writer: u32,
    /// The first completion that polled it, or [`NONE`].
    reader: u32,
    /// The first ok completion that polled it, or [`NONE`].
    ok_reader: u32,
    /// Whether an ok event sent it.
    pub(crate) is_acknowledged: bool,
    /// Whether a failed event sent it.
    pub(crate) is_aborted: bool,
    /// The first and the last place among the occupied offsets of its key, or [`NONE`].
    pub(crate) first: u32,
    pub(crate) last: u32,
}

/// A line of the raw log: somebody was told that `message` is at `offset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) offset: i64,
    pub(crate) message: Message,
}

/// One key, as ranges of what [`Facts`] holds.
#[derive(Clone, Debug)]
struct KeyRanges {
    key: Atom,
    messages: Range<usize>,
    positions: Range<usize>,
}

/// A whole history.
#[derive(Debug)]
pub(crate) struct Facts<'a> {
    pub(crate) history: &'a History,
    messages: Vec<MessageFacts>,
    /// By key, ascending; in it by value, ascending.
    ordered: Vec<Message>,
    /// By key, ascending; in it by offset, then value.
    log: Vec<Entry>,
    /// Where each occupied offset begins in `log`, and the end of `log`.
    positions: Vec<usize>,
    /// By key, ascending.
    keys: Vec<KeyRanges>,
    /// By the number of a key in the history: its place in `keys`.
    places: Vec<u32>,
}

/// One key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key<'f> {
    facts: &'f Facts<'f>,
    place: usize,
}

/// The highest place that must have been passed to read what ok events read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bound {
    /// The place, among the occupied offsets of the key.
    pub(crate) index: u32,
    /// The offset there.
    pub(crate) offset: i64,
    /// The message read there.
    pub(crate) message: Message,
}

impl<'a> Facts<'a> {
    pub(crate) fn new(history: &'a History) -> Self {
        let none = MessageFacts {
            writer: NONE,
            reader: NONE,
            ok_reader: NONE,
            is_acknowledged: false,
            is_aborted: false,
            first: NONE,
            last: NONE,
        };
        let mut facts = Facts {
            history,
            messages: vec![none; history.message_count()],
            ordered: Vec::new(),
            log: Vec::new(),
            positions: Vec::new(),
            keys: Vec::new(),
            places: vec![NONE; history.key_count()],
        };
        facts.take_sends_and_reads();
        facts.take_log();
        facts.arrange();
        facts
    }

    /// The completions of sends, polls and transactions.
    pub(crate) fn completions(&self) -> impl Iterator<Item = Event<'a>> + use<'a> {
        let history = self.history;
        history.events().filter(|event| event.status() != Status::Invoke && event.is_records())
    }

    /// What is known of a message.
    pub(crate) fn message(&self, message: Message) -> &MessageFacts {
        &self.messages[message as usize]
    }

    /// The key's place among all keys, ascending.
    pub(crate) fn place_of_key(&self, message: Message) -> usize {
        self.places[self.history.key_number(message) as usize] as usize
    }

    /// All keys, ascending.
    pub(crate) fn keys(&self) -> impl Iterator<Item = Key<'_>> {
        (0..self.keys.len()).map(|place| Key { facts: self, place })
    }

    /// The key of a message.
    pub(crate) fn key_of(&self, message: Message) -> Key<'_> {
        Key { facts: self, place: self.place_of_key(message) }
    }

    /// Whether an ok event polled a message.
    pub(crate) fn is_ok_read(&self, message: Message) -> bool {
        self.message(message).ok_reader != NONE
    }

    /// Whether an event's sends must have taken effect: it is ok, or info and one of them was polled by an ok event.
    pub(crate) fn took_effect(&self, event: &Event<'_>) -> bool {
        match event.status() {
            Status::Ok => true,
            Status::Info => event.sent_messages().any(|(message, _)| self.is_ok_read(message)),
            Status::Fail | Status::Invoke => false,
        }
    }

    fn take_sends_and_reads(&mut self) {
        for event in self.completions() {
            let (index, status) = (event.index as u32, event.status());
            for (message, _) in event.sent_messages() {
                let facts = &mut self.messages[message as usize];
                facts.writer = index;
                facts.is_acknowledged |= status == Status::Ok;
                facts.is_aborted |= status == Status::Fail;
            }
            for message in event.polled_messages() {
                let facts = &mut self.messages[*message as usize];
                if facts.reader == NONE {
                    facts.reader = index;
                }
                if facts.ok_reader == NONE && status == Status::Ok {
                    facts.ok_reader = index;
                }
            }
        }
    }

    /// Offsets from acknowledgements of sends that took effect, and from every record polled by anyone: pollers tell
    /// the truth about what they saw, however their operation ended. Most records were noted before at the same
    /// offset, so the first offset of a message is kept at hand.
    fn take_log(&mut self) {
        let mut noted: Vec<Option<i64>> = vec![None; self.messages.len()];
        let mut log = Vec::new();
        let mut note = |message: Message, offset: i64| {
            let noted = &mut noted[message as usize];
            if *noted != Some(offset) {
                noted.get_or_insert(offset);
                log.push(Entry { offset, message });
            }
        };
        for event in self.completions() {
            if !event.message_slots().is_empty() && self.took_effect(&event) {
                for (message, ack) in event.sent_messages() {
                    if let Ack::At(offset) = ack {
                        note(message, offset);
                    }
                }
            }
            for (message, offset) in event.polled_offsets() {
                if let Some(offset) = offset {
                    note(message, offset);
                }
            }
        }
        self.log = log;
    }

    /// Sorts messages and log by key, and finds the places.
    fn arrange(&mut self) {
        let history = self.history;
        let mut numbers: Vec<u32> = (0..history.key_count() as u32).collect();
        numbers.sort_unstable_by_key(|number| history.key_at(*number));
        for (place, number) in numbers.iter().enumerate() {
            self.places[*number as usize] = place as u32;
        }
        let mut ordered: Vec<(u32, Atom, Message)> = (0..history.message_count() as Message)
            .map(|message| (self.place_of_key(message) as u32, history.message(message).1, message))
            .collect();
        ordered.sort_unstable();
        let mut log: Vec<(u32, i64, Atom, Message)> = std::mem::take(&mut self.log)
            .into_iter()
            .map(|entry| {
                let value = history.message(entry.message).1;
                (self.place_of_key(entry.message) as u32, entry.offset, value, entry.message)
            })
            .collect();
        log.sort_unstable();
        log.dedup();
        let (mut messages, mut entries) = (0, 0);
        for (place, number) in (0u32..).zip(&numbers) {
            let messages_from = messages;
            while ordered.get(messages).is_some_and(|line| line.0 == place) {
                messages += 1;
            }
            let positions_from = self.positions.len();
            let mut before = None;
            while let Some(&(_, offset, _, message)) = log.get(entries).filter(|line| line.0 == place) {
                if before != Some(offset) {
                    self.positions.push(entries);
                    before = Some(offset);
                }
                let index = (self.positions.len() - positions_from - 1) as u32;
                let facts = &mut self.messages[message as usize];
                facts.first = facts.first.min(index);
                facts.last = index;
                entries += 1;
            }
            let positions = positions_from..self.positions.len();
            let key = history.key_at(*number);
            self.keys.push(KeyRanges { key, messages: messages_from..messages, positions });
        }
        self.positions.push(log.len());
        self.ordered = ordered.into_iter().map(|line| line.2).collect();
        self.log = log.into_iter().map(|(_, offset, _, message)| Entry { offset, message }).collect();
    }
}

impl MessageFacts {
    /// The completion that sent it; the last, if several did.
    pub(crate) fn writer(&self) -> Option<usize> {
        (self.writer != NONE).then_some(self.writer as usize)
    }

    /// The first completion that polled it.
    pub(crate) fn reader(&self) -> Option<usize> {
        (self.reader != NONE).then_some(self.reader as usize)
    }

    /// The first ok completion that polled it.
    pub(crate) fn ok_reader(&self) -> Option<usize> {
        (self.ok_reader != NONE).then_some(self.ok_reader as usize)
    }
}

impl<'f> Key<'f> {
    /// The key itself.
    pub(crate) fn atom(&self) -> Atom {
        self.facts.keys[self.place].key
    }

    /// Its messages, ascending by value.
    pub(crate) fn messages(&self) -> &'f [Message] {
        &self.facts.ordered[self.facts.keys[self.place].messages.clone()]
    }

    /// The raw log: each occupied offset with the distinct messages that somebody was told are there, ascending by
    /// offset and value. The place of a line is its dense index.
    pub(crate) fn log(&self) -> impl ExactSizeIterator<Item = &'f [Entry]> + use<'f> {
        let facts = self.facts;
        facts.keys[self.place]
            .positions
            .clone()
            .map(|position| &facts.log[facts.positions[position]..facts.positions[position + 1]])
    }

    /// The entries at a dense index.
    pub(crate) fn at(&self, index: u32) -> &'f [Entry] {
        let position = self.facts.keys[self.place].positions.start + index as usize;
        &self.facts.log[self.facts.positions[position]..self.facts.positions[position + 1]]
    }

    /// The highest, over the messages that ok events polled, of the first place at which each occurs. Conservative
    /// when a message occurs twice.
    pub(crate) fn read_bound(&self) -> Option<Bound> {
        let read = self.messages().iter().filter(|message| self.facts.is_ok_read(**message));
        let known = read.map(|message| (self.facts.message(*message).first, *message));
        let (index, message) = known.filter(|(first, _)| *first != NONE).max_by_key(|(first, _)| *first)?;
        let entry = self.at(index).first()?;
        Some(Bound { index, offset: entry.offset, message })
    }
}
