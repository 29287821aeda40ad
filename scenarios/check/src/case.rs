//! The JSON form `kq-case/1`: one history an object, with notes around it.
//!
//! Written and read back, a history is the same, except that a poll's records stand grouped by key, and a key without
//! records is dropped: Kafka clients produce neither otherwise.

use crate::history::{Ack, Atom, Event, Function, History, Op, Polled, Status};
use serde_json::{Map, Value, json};

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

/// Reads one JSON object.
///
/// # Errors
/// In words, with the event's index: JSON that is none, another schema, a field of the wrong shape.
pub fn read(text: &str) -> Result<Case, BadCase> {
    let value: Value = serde_json::from_str(text).map_err(|error| BadCase(format!("not JSON: {error}")))?;
    let Value::Object(mut rest) = value else { return Err(BadCase("not a JSON object".to_string())) };
    match rest.get("schema") {
        None => {}
        Some(Value::String(schema)) if schema == SCHEMA => {}
        Some(other) => return Err(BadCase(format!("schema {other}, expected \"{SCHEMA}\""))),
    }
    let id = rest.remove("id").and_then(|id| id.as_str().map(str::to_string)).unwrap_or_default();
    let Some(Value::Array(events)) = rest.remove("history") else {
        return Err(BadCase("no history".to_string()));
    };
    let mut history = History::default();
    for (index, event) in events.iter().enumerate() {
        read_event(&mut history, event).map_err(|error| BadCase(format!("event {index}: {}", error.0)))?;
    }
    Ok(Case { id, history, rest })
}

/// Writes one JSON object.
pub fn write(case: &Case) -> String {
    let mut object = case.rest.clone();
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
    let keys = atoms(history, array(event, "k")?)?;
    history.set_keys(keys);
    let rebalanced = atoms(history, array(event, "rebalanced")?)?;
    history.set_rebalanced(rebalanced);
    if let Some(error) = event["err"].as_str() {
        history.set_error(error);
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
            let (key, value) = (atom(history, key)?, atom(history, value)?);
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
                    if !(offset.is_null() || offset.is_i64()) {
                        return Err(bad("m", op));
                    }
                    records.push(Polled { key, offset: offset.as_i64(), value: atom(history, value)? });
                }
            }
            history.poll(records);
        }
        _ => return Err(bad("m", op)),
    }
    Ok(())
}

fn bad(field: &str, value: &Value) -> BadCase {
    BadCase(format!("field {field:?} cannot be {value}"))
}

fn array<'a>(event: &'a Value, field: &str) -> Result<&'a [Value], BadCase> {
    match &event[field] {
        Value::Null => Ok(&[]),
        Value::Array(list) => Ok(list),
        other => Err(bad(field, other)),
    }
}

fn atoms(history: &mut History, list: &[Value]) -> Result<Vec<Atom>, BadCase> {
    list.iter().map(|value| atom(history, value)).collect()
}

fn atom(history: &mut History, value: &Value) -> Result<Atom, BadCase> {
    match value {
        Value::String(name) => Ok(history.name(name)),
        other => other.as_i64().map(Atom::Int).ok_or_else(|| bad("m", other)),
    }
}

fn write_event(history: &History, event: &Event<'_>) -> Value {
    let status = match event.status() {
        Status::Invoke => "invoke",
        Status::Ok => "ok",
        Status::Fail => "fail",
        Status::Info => "info",
    };
    let function = match event.function() {
        Function::Send => "send",
        Function::Poll => "poll",
        Function::Txn => "txn",
        Function::Assign => "assign",
        Function::Subscribe => "subscribe",
        Function::Crash => "crash",
        Function::Debug => "debug",
    };
    let mut out = json!({"p": event.process(), "s": status, "f": function});
    if !event.ops().is_empty() {
        out["m"] = event.ops().iter().map(|op| write_op(history, op)).collect();
    }
    for (field, keys) in [("k", event.keys()), ("rebalanced", event.rebalanced())] {
        if !keys.is_empty() {
            out[field] = keys.iter().map(|key| write_atom(history, *key)).collect();
        }
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
            ("[]", "not a JSON object"),
            (r#"{"schema":"kq-case/2","history":[]}"#, "schema \"kq-case/2\""),
            ("{}", "no history"),
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
