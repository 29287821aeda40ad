//! Jepsen's histories, `history.edn`: one operation a line, or all of them in one vector.
//!
//! `{:type :invoke, :f :txn, :value [[:send 5 141] [:poll]], :time 123, :process 3, :index 7}`. A completion says
//! `[:send k [offset v]]`, with `nil` for an offset that the acknowledgement did not carry, and
//! `[:poll {k [[offset v] ...]}]`. Operations of no client (`:process :nemesis`) are left out, so an event's index is its
//! place among the operations of clients, which is not always its `:index`. Keys that are not known are not read. A key or
//! value that is a keyword, a symbol or a string is a name.
//!
//! Beside Jepsen's own keys an operation may have `:commit-invoked-ns` and `:repositioned`, which the strict verdict uses;
//! [`Conditions`](crate::Conditions) do not fit in this form.

mod form;
mod write;

use crate::history::{Ack, Atom, Function, History, Polled, Status};
use form::{Form, NotEdn, Reader};

pub use write::write;

/// What is wrong with a history, in one line, with where it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadEdn {
    /// It is no EDN.
    #[error("line {line}: {problem}")]
    Syntax {
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        problem: String,
    },
    /// An operation is none of the workload's.
    #[error("line {line}, event {event}: {field} cannot be {found}: expected {expected}")]
    Event {
        /// The line on which the operation begins, from 1.
        line: usize,
        /// Its index among the operations of clients.
        event: usize,
        /// The key.
        field: &'static str,
        /// What was found, cut short.
        found: String,
        /// What would do.
        expected: &'static str,
    },
}

impl From<NotEdn> for BadEdn {
    fn from(NotEdn { line, problem }: NotEdn) -> Self {
        BadEdn::Syntax { line, problem }
    }
}

/// Reads a history.
///
/// # Errors
/// Text that is not EDN, or an operation that is not of this workload.
pub fn read(text: &str) -> Result<History, BadEdn> {
    let mut reader = Reader::new(text);
    let end = match reader.peek() {
        Some('[') => Some(']'),
        Some('(') => Some(')'),
        _ => None,
    };
    if end.is_some() {
        reader.bump();
    }
    let mut history = History::default();
    loop {
        let line = reader.line();
        let Some(form) = reader.next(end)? else { break };
        let event = history.len();
        read_operation(&mut history, &form).map_err(|Bad { field, found, expected }| BadEdn::Event {
            line,
            event,
            field,
            found,
            expected,
        })?;
    }
    let line = reader.line();
    if reader.peek().is_some() {
        let problem = "there is more after the vector of operations".to_string();
        return Err(BadEdn::Syntax { line, problem });
    }
    Ok(history)
}

struct Bad {
    field: &'static str,
    found: String,
    expected: &'static str,
}

fn bad<T>(field: &'static str, found: &Form<'_>, expected: &'static str) -> Result<T, Bad> {
    Err(Bad { field, found: found.to_string(), expected })
}

const OPERATION: &str = "an operation, {:type ..., :f ..., :process ..., :value ...}";
const MICRO_OPS: &str =
    "[[:send key value] [:send key [offset value]] [:poll] [:poll {key [[offset value] ...]}] ...]";
const KEYS: &str = "a sequence of keys, which are integers or names";

fn read_operation(history: &mut History, form: &Form<'_>) -> Result<(), Bad> {
    if !matches!(form, Form::Map(_)) {
        return bad("the form", form, OPERATION);
    }
    let field = |name| form.get(name).unwrap_or(&Form::Nil);
    let process = match field("process") {
        Form::Int(process) => *process,
        Form::Keyword(_) | Form::Symbol(_) => return Ok(()),
        other => return bad(":process", other, "an integer, or :nemesis"),
    };
    let status = match field("type") {
        Form::Keyword("invoke") => Status::Invoke,
        Form::Keyword("ok") => Status::Ok,
        Form::Keyword("fail") => Status::Fail,
        Form::Keyword("info") => Status::Info,
        other => return bad(":type", other, ":invoke, :ok, :fail or :info"),
    };
    let function = match field("f") {
        Form::Keyword("send") => Function::Send,
        Form::Keyword("poll") => Function::Poll,
        Form::Keyword("txn") => Function::Txn,
        Form::Keyword("assign") => Function::Assign,
        Form::Keyword("subscribe") => Function::Subscribe,
        Form::Keyword("crash") => Function::Crash,
        Form::Keyword("debug-topic-partitions" | "debug") => Function::Debug,
        other => {
            const FUNCTIONS: &str =
                ":send, :poll, :txn, :assign, :subscribe, :crash or :debug-topic-partitions";
            return bad(":f", other, FUNCTIONS);
        }
    };
    const TIME: &str = "nanoseconds since the start, not negative";
    let time_ns = time(":time", field("time"), TIME)?.unwrap_or_default();
    history.push(process, status, function, time_ns);
    read_value(history, function, field("value"))?;
    read_marks(history, form, function)
}

fn time(name: &'static str, form: &Form<'_>, expected: &'static str) -> Result<Option<u64>, Bad> {
    match form {
        Form::Nil => Ok(None),
        Form::Int(time_ns) if *time_ns >= 0 => Ok(Some(time_ns.unsigned_abs())),
        other => bad(name, other, expected),
    }
}

fn read_value(history: &mut History, function: Function, value: &Form<'_>) -> Result<(), Bad> {
    match function {
        Function::Send | Function::Poll | Function::Txn => match value {
            Form::Nil => Ok(()),
            _ => {
                let Some(ops) = value.items() else { return bad(":value", value, MICRO_OPS) };
                ops.iter().try_for_each(|op| read_op(history, op))
            }
        },
        Function::Assign | Function::Subscribe => {
            let keys = keys(history, ":value", value)?;
            history.set_keys(keys);
            Ok(())
        }
        // What a look at the partitions is answered depends on the system under test.
        Function::Debug => {
            if let Ok(keys) = keys(history, ":value", value) {
                history.set_keys(keys);
            }
            Ok(())
        }
        Function::Crash => Ok(()),
    }
}

fn read_op(history: &mut History, op: &Form<'_>) -> Result<(), Bad> {
    match op.items() {
        Some([Form::Keyword("send"), key, value]) => {
            let (offset, value) = match value.items() {
                Some([offset, value]) => (Some(offset), value),
                Some(_) => return bad(":value", op, MICRO_OPS),
                None => (None, value),
            };
            let ack = match offset {
                None => Ack::None,
                Some(Form::Nil) => Ack::Offsetless,
                Some(Form::Int(offset)) => Ack::At(*offset),
                Some(_) => return bad(":value", op, MICRO_OPS),
            };
            let (Some(key), Some(value)) = (atom(history, key), atom(history, value)) else {
                return bad(":value", op, MICRO_OPS);
            };
            history.send(key, value, ack);
        }
        Some([Form::Keyword("poll")] | [Form::Keyword("poll"), Form::Nil]) => history.poll_unanswered(),
        Some([Form::Keyword("poll"), Form::Map(by_key)]) => {
            let mut records = Vec::new();
            for (key, list) in by_key {
                let key = atom(history, key);
                let (Some(key), Some(list)) = (key, list.items()) else {
                    return bad(":value", op, MICRO_OPS);
                };
                for record in list {
                    match read_record(history, key, record) {
                        Some(record) => records.push(record),
                        None => return bad(":value", record, "a record, [offset value]"),
                    }
                }
            }
            history.poll(records);
        }
        _ => return bad(":value", op, MICRO_OPS),
    }
    Ok(())
}

fn read_record(history: &mut History, key: Atom, record: &Form<'_>) -> Option<Polled> {
    let [offset, value] = record.items()? else { return None };
    let offset = match offset {
        Form::Nil => None,
        Form::Int(offset) => Some(*offset),
        _ => return None,
    };
    Some(Polled { key, offset, value: atom(history, value)? })
}

/// What clients tell beside an operation's outcome.
fn read_marks(history: &mut History, form: &Form<'_>, function: Function) -> Result<(), Bad> {
    if let Some(log) = form.get("rebalance-log") {
        let mut rebalanced = Vec::new();
        for entry in log.items().unwrap_or_default() {
            rebalanced.extend(keys(history, ":rebalance-log", entry.get("keys").unwrap_or(&Form::Nil))?);
        }
        rebalanced.sort_unstable();
        rebalanced.dedup();
        history.set_rebalanced(rebalanced);
    }
    if let Some(moved) = form.get("repositioned") {
        let moved = keys(history, ":repositioned", moved)?;
        history.set_repositioned(moved);
    }
    if function == Function::Assign && form.get("seek-to-beginning?") == Some(&Form::Symbol("true")) {
        history.set_from_start();
    }
    if let Some(commit) = form.get("commit-invoked-ns")
        && let Some(time_ns) = time(":commit-invoked-ns", commit, "nanoseconds since the start")?
    {
        history.set_commit_invoked(time_ns);
    }
    match form.get("error") {
        None | Some(Form::Nil) => {}
        Some(Form::Text(text)) => history.set_error(text.clone()),
        Some(Form::Keyword(name)) => history.set_error(*name),
        Some(other) => history.set_error(other.to_string()),
    }
    Ok(())
}

fn keys(history: &mut History, field: &'static str, form: &Form<'_>) -> Result<Vec<Atom>, Bad> {
    let Some(items) = form.items() else { return bad(field, form, KEYS) };
    let keys: Option<Vec<Atom>> = items.iter().map(|item| atom(history, item)).collect();
    keys.map_or_else(|| bad(field, form, KEYS), Ok)
}

fn atom(history: &mut History, form: &Form<'_>) -> Option<Atom> {
    match form {
        Form::Int(number) => Some(Atom::Int(*number)),
        Form::Keyword(name) => Some(history.name(name)),
        // A number that is no 64-bit integer is no name.
        Form::Symbol(name) if !name.starts_with(|c: char| c.is_ascii_digit() || "\\#+-".contains(c)) => {
            Some(history.name(name))
        }
        Form::Text(name) => Some(history.name(name)),
        Form::Nil | Form::Symbol(_) | Form::Seq(_) | Form::Map(_) => None,
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
