//! The verdict as JSON: the encoding of the field `oracle` in the cases (`tests/cases`). Events stand as their index.

use super::cycle::Cycle;
use super::graph::Step;
use super::jump::Jump;
use super::{SubVia, Verdict};
use crate::aborted_read::AbortedRead;
use crate::duplicate::Duplicate;
use crate::history::{Atom, History, Message};
use crate::inconsistent_offset::InconsistentOffset;
use crate::lost_write::LostWrite;
use crate::unseen::Unseen;
use serde_json::{Map, Value, json};

impl Verdict {
    /// An object of `types`, `errors` by type, `bad_assign`, `bad_subscribe`, `valid`, and `bufstream_extra` if there is
    /// any. `history` is the one that was judged.
    pub fn to_json(&self, history: &History) -> Value {
        let mut out = json!({
            "types": self.types(),
            "valid": self.is_valid(),
            "bad_assign": self.bad_types(SubVia::Assign),
            "bad_subscribe": self.bad_types(SubVia::Subscribe),
            "errors": self.errors(history),
        });
        let extra = self.bufstream_extra();
        if !extra.is_empty() {
            out["bufstream_extra"] = json!(extra);
        }
        out
    }

    fn errors(&self, history: &History) -> Value {
        let mut errors = Map::new();
        for name in self.types() {
            errors.insert(name.to_string(), self.errors_of(history, name));
        }
        Value::Object(errors)
    }

    fn errors_of(&self, history: &History, name: &str) -> Value {
        match name {
            "inconsistent-offsets" => inconsistent_offsets(history, &self.inconsistent_offsets),
            "duplicate" => duplicates(history, &self.duplicates),
            "G1a" => aborted_reads(history, &self.aborted_reads),
            "precommitted-read" => list(&self.precommitted_reads, |p| {
                let (key, value) = history.message(p.message);
                json!({"op": p.event, "key": show(history, key), "value": show(history, value)})
            }),
            "lost-write" => lost_writes(history, &self.lost_writes, |lost| self.bound_readers[&lost.key]),
            "unseen" => unseen(history, &self.unseen),
            "empty-transaction-graph" => json!(true),
            _ => self.graph_errors_of(history, name),
        }
    }

    fn graph_errors_of(&self, history: &History, name: &str) -> Value {
        if let Some((_, jumps)) = self.jumps().into_iter().find(|(jumps, _)| *jumps == name) {
            return list(jumps, |jump| self.jump(history, name, jump));
        }
        let cycles = self.cycles.iter().filter(|cycle| cycle.name == name);
        let exist = self.cycles_exist.iter().filter(|exists| exists.level.name() == name);
        let exist = exist.map(|exists| {
            json!({"type": name, "not": exists.level.broken_model(), "scc": exists.events,
                "scc_size": exists.events.len()})
        });
        cycles.map(|found| cycle(history, found)).chain(exist).collect()
    }

    /// Steps within one event name it as `op`, others as `ops`; skips of polls between events do not name the values.
    fn jump(&self, history: &History, name: &str, jump: &Jump) -> Value {
        let (key, from) = history.message(jump.messages.0);
        let (_, to) = history.message(jump.messages.1);
        let mut out = json!({"key": show(history, key), "delta": jump.delta});
        if name.starts_with("int-") {
            out["op"] = json!(jump.events.0);
        } else {
            out["ops"] = json!([jump.events.0, jump.events.1]);
        }
        if name != "poll-skip" {
            out["values"] = json!([show(history, from), show(history, to)]);
        }
        if jump.delta > 1 {
            let skipped = self.orders.between(&jump.skipped).iter();
            out["skipped"] = skipped.map(|message| show(history, history.message(*message).1)).collect();
        }
        out
    }
}

pub(crate) fn inconsistent_offsets(history: &History, found: &[InconsistentOffset]) -> Value {
    list(found, |i| {
        let values: Value = i.values.iter().map(|value| show(history, *value)).collect();
        json!({"key": show(history, i.key), "offset": i.offset, "index": i.index, "values": values})
    })
}

pub(crate) fn duplicates(history: &History, found: &[Duplicate]) -> Value {
    list(found, |d| {
        let (key, value) = (show(history, d.key), show(history, d.value));
        json!({"key": key, "value": value, "count": d.offsets.len(), "offsets": d.offsets})
    })
}

pub(crate) fn aborted_reads(history: &History, found: &[AbortedRead]) -> Value {
    list(found, |a| {
        let (key, value) = (show(history, a.key), show(history, a.value));
        json!({"key": key, "value": value, "writer": a.writer, "reader": a.reader})
    })
}

/// `max_read` names an event that read up to the bound.
pub(crate) fn lost_writes(
    history: &History,
    found: &[LostWrite],
    max_read: impl Fn(&LostWrite) -> Option<usize>,
) -> Value {
    list(found, |l| {
        json!({"key": show(history, l.key), "value": show(history, l.value), "index": l.index, "writer": l.writer,
            "max_read_index": l.max_read_index, "max_read": max_read(l)})
    })
}

pub(crate) fn unseen(history: &History, found: &[Unseen]) -> Value {
    let (mut counts, mut messages) = (Map::new(), Map::new());
    for unseen in found {
        let key = history.show(unseen.key).to_string();
        counts.insert(key.clone(), json!(unseen.values.len()));
        messages.insert(key, unseen.values.iter().map(|value| show(history, *value)).collect());
    }
    json!({"unseen": counts, "messages": messages})
}

fn cycle(history: &History, cycle: &Cycle) -> Value {
    let following = cycle.events.iter().skip(1).chain(cycle.events.first());
    let pairs = cycle.events.iter().zip(following);
    let steps = pairs.zip(&cycle.steps).map(|((a, b), edge)| step(history, *a, *b, *edge));
    let around: Vec<_> = cycle.events.iter().chain(cycle.events.first()).collect();
    json!({"cycle": around, "steps": steps.collect::<Value>()})
}

fn step(history: &History, before: usize, after: usize, step: Step) -> Value {
    let (before, after) = (history.event(before), history.event(after));
    let shown = |message: Message| {
        let (key, value) = history.message(message);
        (show(history, key), show(history, value))
    };
    match step {
        Step::Ww { messages: (first, second) } => {
            let ((key, value), (_, value2)) = (shown(first), shown(second));
            json!({"type": "ww", "key": key, "value": value, "value2": value2,
                "a_mop": before.send_of(first), "b_mop": after.send_of(second)})
        }
        Step::Wr { message } => {
            let (key, value) = shown(message);
            json!({"type": "wr", "key": key, "value": value,
                "a_mop": before.send_of(message), "b_mop": after.poll_of(message)})
        }
        Step::Realtime => json!({"type": "realtime"}),
    }
}

fn list<T>(found: &[T], encode: impl Fn(&T) -> Value) -> Value {
    found.iter().map(encode).collect()
}

pub(crate) fn show(history: &History, atom: Atom) -> Value {
    match atom {
        Atom::Int(number) => json!(number),
        Atom::Name(_) => json!(history.show(atom).to_string()),
    }
}
