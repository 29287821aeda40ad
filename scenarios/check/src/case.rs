//! The JSON form `kq-case/1`: one history an object, with notes around it.
//!
//! Written and read back, a history is the same, except that a poll's records stand grouped by key, and a key without
//! records is dropped: Kafka clients produce neither otherwise.

use crate::conditions;
use crate::history::{Ack, Atom, Event, Function, History, Op, Polled, Status};
use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use serde_json::error::Category;
use serde_json::{Map, Value, json};
use std::fmt;

/// The value of `schema`.
pub const SCHEMA: &str = "kq-case/1";

/// A history, and what came with it.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// `id`; empty when there is none.
    pub id: String,
    /// The history.
    pub history: History,
    /// Every other field, unread.
    pub rest: Map<String, Value>,
}

/// What is wrong with a case, in one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadCase(String);

/// Reads one JSON object, event by event: of a long history there is never more than one event in between.
///
/// # Errors
/// In words, with the event's index: JSON that is none, another schema, a field of the wrong shape.
pub fn read(text: &str) -> Result<Case, BadCase> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let read = reader.deserialize_any(CaseVisitor).and_then(|case| reader.end().map(|()| case));
    read.map_err(|error| match error.classify() {
        Category::Data => BadCase(error.to_string()),
        Category::Io | Category::Syntax | Category::Eof => BadCase(format!("not JSON: {error}")),
    })
}

struct CaseVisitor;

impl<'de> Visitor<'de> for CaseVisitor {
    type Value = Case;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Case, A::Error> {
        let (mut history, mut rest) = (None, Map::new());
        while let Some(field) = fields.next_key::<String>()? {
            if field != "history" {
                rest.insert(field, fields.next_value()?);
            } else if history.is_some() {
                return Err(A::Error::custom("a second history"));
            } else {
                history = Some(fields.next_value_seed(Events)?);
            }
        }
        match rest.get("schema") {
            None => {}
            Some(Value::String(schema)) if schema == SCHEMA => {}
            Some(other) => {
                return Err(A::Error::custom(format_args!("schema {other}, expected \"{SCHEMA}\"")));
            }
        }
        let id = rest.remove("id").and_then(|id| id.as_str().map(str::to_string)).unwrap_or_default();
        let missing = || A::Error::custom("no history: expected a field \"history\", a list of events");
        let mut history: History = history.ok_or_else(missing)?;
        history.conditions = conditions::read(&mut rest).map_err(A::Error::custom)?;
        Ok(Case { id, history, rest })
    }
}

struct Events;

impl<'de> DeserializeSeed<'de> for Events {
    type Value = History;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<History, D::Error> {
        reader.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Events {
    type Value = History;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of events as the history")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut events: A) -> Result<History, A::Error> {
        let mut history = History::default();
        while let Some(event) = events.next_element::<Value>()? {
            let index = history.len();
            let read = read_event(&mut history, &event);
            read.map_err(|error| A::Error::custom(format_args!("event {index}: {}", error.0)))?;
        }
        Ok(history)
    }
}

/// Writes one JSON object.
pub fn write(case: &Case) -> String {
    let mut object = case.rest.clone();
    conditions::write(&case.history.conditions, &mut object);
    object.insert("schema".to_string(), json!(SCHEMA));
    object.insert("id".to_string(), json!(case.id));
    let events = case.history.events().map(|event| write_event(&case.history, &event));
    object.insert("history".to_string(), events.collect());
    Value::Object(object).to_string()
}

fn read_event(history: &mut History, event: &Value) -> Result<(), BadCase> {
    let process = event["p"].as_i64().ok_or_else(|| bad("p", &event["p"]))?;
    let status = match event["s"].as_str() {
        Some("invoke") => Status::Invoke,
        Some("ok") => Status::Ok,
        Some("fail") => Status::Fail,
        Some("info") => Status::Info,
        _ => return Err(bad("s", &event["s"])),
    };
    let function = match event["f"].as_str() {
        Some("send") => Function::Send,
        Some("poll") => Function::Poll,
        Some("txn") => Function::Txn,
        Some("assign") => Function::Assign,
        Some("subscribe") => Function::Subscribe,
        Some("crash") => Function::Crash,
        Some("debug") => Function::Debug,
        _ => return Err(bad("f", &event["f"])),
    };
    let time_ns = match &event["t"] {
        Value::Null => 0,
        time => time.as_u64().ok_or_else(|| bad("t", time))?,
    };
    history.push(process, status, function, time_ns);
    for op in array(event, "m")? {
        read_op(history, op)?;
    }
    let keys = atoms(history, event, "k")?;
    history.set_keys(keys);
    read_marks(history, event)?;
    if let Some(error) = event["err"].as_str() {
        history.set_error(error);
    }
    Ok(())
}

/// What clients tell beside an operation's outcome.
fn read_marks(history: &mut History, event: &Value) -> Result<(), BadCase> {
    let rebalanced = atoms(history, event, "rebalanced")?;
    history.set_rebalanced(rebalanced);
    let repositioned = atoms(history, event, "repositioned")?;
    history.set_repositioned(repositioned);
    match &event["from_start"] {
        Value::Null | Value::Bool(false) => {}
        Value::Bool(true) => history.set_from_start(),
        other => return Err(bad("from_start", other)),
    }
    match &event["commit_invoked_ns"] {
        Value::Null => {}
        time => history.set_commit_invoked(time.as_u64().ok_or_else(|| bad("commit_invoked_ns", time))?),
    }
    Ok(())
}

fn read_op(history: &mut History, op: &Value) -> Result<(), BadCase> {
    let parts = op.as_array().map(Vec::as_slice).unwrap_or_default();
    let (Some(name), rest) = (parts.first().and_then(Value::as_str), parts.get(1..).unwrap_or_default())
    else {
        return Err(bad("m", op));
    };
    match (name, rest) {
        ("send", [key, value, ack @ ..]) => {
            let ack = match ack {
                [] => Ack::None,
                [Value::Null] => Ack::Offsetless,
                [offset] => Ack::At(offset.as_i64().ok_or_else(|| bad("m", op))?),
                _ => return Err(bad("m", op)),
            };
            let (Some(key), Some(value)) = (atom(history, key), atom(history, value)) else {
                return Err(bad("m", op));
            };
            history.send(key, value, ack);
        }
        ("poll", []) => history.poll_unanswered(),
        ("poll", [Value::Object(keys)]) => {
            let mut records = Vec::new();
            for (key, list) in keys {
                let key = key.parse().map(Atom::Int).unwrap_or_else(|_| history.name(key));
                for record in list.as_array().ok_or_else(|| bad("m", op))? {
                    let [offset, value] = record.as_array().map(Vec::as_slice).unwrap_or_default() else {
                        return Err(bad("m", op));
                    };
                    let (true, Some(value)) = (offset.is_null() || offset.is_i64(), atom(history, value))
                    else {
                        return Err(bad("m", op));
                    };
                    records.push(Polled { key, offset: offset.as_i64(), value });
                }
            }
            history.poll(records);
        }
        _ => return Err(bad("m", op)),
    }
    Ok(())
}

/// The field, what was found there, cut short, and what would do.
fn bad(field: &str, value: &Value) -> BadCase {
    const SHOWN: usize = 80;
    let expected = match field {
        "p" => "an integer",
        "s" => "invoke, ok, fail or info",
        "f" => "send, poll, txn, assign, subscribe, crash or debug",
        "t" | "commit_invoked_ns" => "nanoseconds since the start, not negative",
        "m" => {
            "[\"send\", key, value, offset] or [\"poll\", {key: [[offset, value], ...]}], the last part of each optional"
        }
        "from_start" => "true or false",
        _ => "a list of keys, which are integers or names",
    };
    let whole = value.to_string();
    let found: String = whole.chars().take(SHOWN).collect();
    let rest = if found.len() < whole.len() { "..." } else { "" };
    BadCase(format!("field {field:?} cannot be {found}{rest}: expected {expected}"))
}

fn array<'a>(event: &'a Value, field: &str) -> Result<&'a [Value], BadCase> {
    match &event[field] {
        Value::Null => Ok(&[]),
        Value::Array(list) => Ok(list),
        other => Err(bad(field, other)),
    }
}

fn atoms(history: &mut History, event: &Value, field: &str) -> Result<Vec<Atom>, BadCase> {
    let of = |value| atom(history, value).ok_or_else(|| bad(field, value));
    array(event, field)?.iter().map(of).collect()
}

fn atom(history: &mut History, value: &Value) -> Option<Atom> {
    match value {
        Value::String(name) => Some(history.name(name)),
        other => other.as_i64().map(Atom::Int),
    }
}

fn write_event(history: &History, event: &Event<'_>) -> Value {
    let (status, function) = (event.status().name(), event.function().name());
    let mut out = json!({"p": event.process(), "s": status, "f": function});
    if !event.ops().is_empty() {
        out["m"] = event.ops().iter().map(|op| write_op(history, op)).collect();
    }
    for (field, keys) in
        [("k", event.keys()), ("rebalanced", event.rebalanced()), ("repositioned", event.repositioned())]
    {
        if !keys.is_empty() {
            out[field] = keys.iter().map(|key| write_atom(history, *key)).collect();
        }
    }
    if event.from_start() {
        out["from_start"] = json!(true);
    }
    if let Some(time_ns) = event.commit_invoked_ns() {
        out["commit_invoked_ns"] = json!(time_ns);
    }
    if let Some(error) = event.error() {
        out["err"] = json!(error);
    }
    out["t"] = json!(event.time_ns());
    out
}

fn write_op(history: &History, op: &Op) -> Value {
    match op {
        Op::Send { key, value, ack } => {
            let mut parts = vec![json!("send"), write_atom(history, *key), write_atom(history, *value)];
            match ack {
                Ack::None => {}
                Ack::Offsetless => parts.push(Value::Null),
                Ack::At(offset) => parts.push(json!(offset)),
            }
            Value::Array(parts)
        }
        Op::Poll(None) => json!(["poll"]),
        Op::Poll(Some(range)) => {
            let mut keys = Map::new();
            for record in history.records(range) {
                let list = keys.entry(history.show(record.key).to_string()).or_insert_with(|| json!([]));
                if let Value::Array(list) = list {
                    list.push(json!([record.offset, write_atom(history, record.value)]));
                }
            }
            json!(["poll", keys])
        }
    }
}

fn write_atom(history: &History, atom: Atom) -> Value {
    match atom {
        Atom::Int(number) => json!(number),
        Atom::Name(_) => json!(history.show(atom).to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{"note":"n","schema":"kq-case/1","id":"x","history":[
        {"p":0,"s":"invoke","f":"assign","k":[1,"a"],"t":0},
        {"p":0,"s":"info","f":"txn","m":[["send",1,2],["send","a","b",null],["send",1,3,7],["poll"],["poll",{"1":[[0,2],[null,3]],"a":[[4,"b"]]}]],
         "rebalanced":[1],"err":"timeout","t":9}]}"#;

    #[test]
    fn a_case_survives_the_round_trip() {
        let case = read(TEXT).unwrap();
        assert_eq!(read(&write(&case)).unwrap(), case);
        assert_eq!(case.rest["note"], "n");
        let event = case.history.event(1);
        assert_eq!((event.process(), event.status(), event.time_ns()), (0, Status::Info, 9));
        assert_eq!(event.error(), Some("timeout"));
        let acks: Vec<Ack> = event.sends().map(|(_, _, ack)| ack).collect();
        assert_eq!(acks, [Ack::None, Ack::Offsetless, Ack::At(7)]);
        let offsets: Vec<_> = event.polled().map(|record| record.offset).collect();
        assert_eq!(offsets, [Some(0), None, Some(4)]);
        assert_eq!(case.history.names(), ["a", "b"]);
    }

    #[test]
    fn what_is_wrong_is_said_in_one_line() {
        for (text, told) in [
            ("{", "not JSON"),
            ("[]", "invalid type: sequence, expected a JSON object"),
            (r#"{"history":[]} 1"#, "not JSON: trailing characters"),
            (r#"{"history":7}"#, "invalid type: integer `7`, expected a list of events as the history"),
            (r#"{"history":[],"history":[]}"#, "a second history"),
            (r#"{"history":[{"p":0,"#, "not JSON: EOF"),
            (r#"{"schema":"kq-case/2","history":[]}"#, "schema \"kq-case/2\""),
            ("{}", "no history"),
            (
                r#"{"history":[{"p":0,"s":"ok","f":"assign","k":[1.5]}]}"#,
                "event 0: field \"k\" cannot be 1.5: expected a list",
            ),
            (
                r#"{"history":[{"p":0,"s":"ok","f":"txn","m":[["send",1,[2]]]}]}"#,
                "event 0: field \"m\" cannot be [\"send\",1",
            ),
            (r#"{"history":[{"p":0,"s":"maybe","f":"send"}]}"#, "event 0: field \"s\" cannot be \"maybe\""),
            (r#"{"history":[{"p":0,"s":"ok","f":"send","m":[["send",1]]}]}"#, "event 0: field \"m\""),
            (r#"{"history":[{"p":0,"s":"ok","f":"poll","m":[["poll",{"1":[7]}]]}]}"#, "event 0: field \"m\""),
            (r#"{"history":[{"p":0,"s":"ok","f":"send","t":-1}]}"#, "event 0: field \"t\""),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.starts_with(told), "{error}");
            assert!(!error.contains('\n'));
        }
    }
}
