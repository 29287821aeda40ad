//! Writes a history as Jepsen writes it: one operation a line.

use crate::history::{Ack, Atom, Event, Function, History, Op, Polled};
use std::collections::BTreeMap;
use std::fmt::Write;

/// A history as `history.edn`. A name becomes a keyword if it can be one, and else a string.
pub fn write(history: &History) -> String {
    let mut out = String::new();
    for event in history.events() {
        // Writing to a string cannot fail.
        let _ = operation(&mut out, history, &event);
    }
    out
}

fn operation(out: &mut String, history: &History, event: &Event<'_>) -> std::fmt::Result {
    let status = event.status().name();
    let function = match event.function() {
        Function::Debug => "debug-topic-partitions",
        other => other.name(),
    };
    write!(out, "{{:type :{status}, :f :{function}, :value ")?;
    match event.function() {
        Function::Send | Function::Poll | Function::Txn => micro_ops(out, history, event)?,
        Function::Assign | Function::Subscribe | Function::Debug => keys(out, history, event.keys())?,
        Function::Crash => out.push_str("nil"),
    }
    write!(out, ", :time {}, :process {}, :index {}", event.time_ns(), event.process(), event.index)?;
    if !event.rebalanced().is_empty() {
        out.push_str(", :rebalance-log [{:keys ");
        keys(out, history, event.rebalanced())?;
        out.push_str("}]");
    }
    if !event.repositioned().is_empty() {
        out.push_str(", :repositioned ");
        keys(out, history, event.repositioned())?;
    }
    if event.from_start() {
        out.push_str(", :seek-to-beginning? true");
    }
    if let Some(time_ns) = event.commit_invoked_ns() {
        write!(out, ", :commit-invoked-ns {time_ns}")?;
    }
    if let Some(error) = event.error() {
        out.push_str(", :error ");
        string(out, error);
    }
    out.push_str("}\n");
    Ok(())
}

fn micro_ops(out: &mut String, history: &History, event: &Event<'_>) -> std::fmt::Result {
    out.push('[');
    for (n, op) in event.ops().iter().enumerate() {
        if n > 0 {
            out.push(' ');
        }
        match op {
            Op::Send { key, value, ack } => {
                out.push_str("[:send ");
                atom(out, history, *key)?;
                out.push(' ');
                match ack {
                    Ack::None => atom(out, history, *value)?,
                    Ack::Offsetless => record(out, history, None, *value)?,
                    Ack::At(offset) => record(out, history, Some(*offset), *value)?,
                }
                out.push(']');
            }
            Op::Poll(None) => out.push_str("[:poll]"),
            Op::Poll(Some(range)) => poll(out, history, &history.records(range).collect::<Vec<_>>())?,
        }
    }
    out.push(']');
    Ok(())
}

/// The records by key, in the order in which keys were first polled: a map has each key once.
fn poll(out: &mut String, history: &History, records: &[Polled]) -> std::fmt::Result {
    let mut places: BTreeMap<Atom, usize> = BTreeMap::new();
    let mut by_key: Vec<Vec<&Polled>> = Vec::new();
    for record in records {
        let place = *places.entry(record.key).or_insert(by_key.len());
        if place == by_key.len() {
            by_key.push(Vec::new());
        }
        by_key[place].push(record);
    }
    out.push_str("[:poll {");
    for (n, records) in by_key.iter().enumerate() {
        if n > 0 {
            out.push_str(", ");
        }
        atom(out, history, records[0].key)?;
        out.push_str(" [");
        for (n, one) in records.iter().enumerate() {
            if n > 0 {
                out.push(' ');
            }
            record(out, history, one.offset, one.value)?;
        }
        out.push(']');
    }
    out.push_str("}]");
    Ok(())
}

fn record(out: &mut String, history: &History, offset: Option<i64>, value: Atom) -> std::fmt::Result {
    match offset {
        Some(offset) => write!(out, "[{offset} ")?,
        None => out.push_str("[nil "),
    }
    atom(out, history, value)?;
    out.push(']');
    Ok(())
}

fn keys(out: &mut String, history: &History, keys: &[Atom]) -> std::fmt::Result {
    out.push('[');
    for (n, key) in keys.iter().enumerate() {
        if n > 0 {
            out.push(' ');
        }
        atom(out, history, *key)?;
    }
    out.push(']');
    Ok(())
}

fn atom(out: &mut String, history: &History, atom: Atom) -> std::fmt::Result {
    match atom {
        Atom::Int(number) => write!(out, "{number}"),
        Atom::Name(_) => {
            let name = history.show(atom).to_string();
            if is_keyword(&name) {
                write!(out, ":{name}")
            } else {
                string(out, &name);
                Ok(())
            }
        }
    }
}

/// Whether a name reads back as it is behind a colon. Fewer than EDN allows.
fn is_keyword(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.?!*+".contains(c))
}

fn string(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            other => out.push(other),
        }
    }
    out.push('"');
}
