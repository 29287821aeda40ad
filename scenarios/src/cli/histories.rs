//! Files of histories: `kq-case/1`, one object a file or one after the other; Jepsen's EDN, one history a file. Which it is
//! is told by the content.

use super::Unusable;
use super::options::read;
use check::jepsen::SubVia;
use check::{Function, History, case, edn};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use std::path::Path;

/// What stands in a file.
pub(super) enum Entry {
    History(Box<Told>),
    /// Polls of Jepsen's abort workload, `kq-abort/1`.
    Aborts(Value),
}

/// A history as it was told.
pub(super) struct Told {
    /// Its own id, or where it stands.
    pub(super) id: String,
    pub(super) history: History,
    /// Whether writes that follow one another depend on each other, if that was told.
    pub(super) ww_deps: Option<bool>,
    /// How clients were given their partitions; if that was not told, by subscription if any event is one.
    pub(super) sub_via: SubVia,
    /// Everything else in a `kq-case/1`.
    pub(super) rest: serde_json::Map<String, Value>,
}

/// Every entry of a file, in order; `-` is standard input.
pub(super) fn read_all(file: &Path) -> Result<Vec<Entry>, Unusable> {
    let text = read(file)?;
    let bad = |problem: String| Unusable::new(format!("{}: {problem}", file.display()));
    match form(&text) {
        Form::Empty => Err(bad("is empty: expected a history, kq-case/1 or EDN".to_string())),
        Form::Edn => {
            let history = edn::read(&text).map_err(|error| bad(error.to_string()))?;
            let sub_via = sub_via(&history);
            let (id, rest) = (file.display().to_string(), serde_json::Map::new());
            Ok(vec![Entry::History(Box::new(Told { id, history, ww_deps: None, sub_via, rest }))])
        }
        Form::Json => objects(&text)
            .map_err(bad)?
            .into_iter()
            .map(|(line, object)| {
                let place = if line == 1 { String::new() } else { format!("line {line}: ") };
                entry(file, line, object).map_err(|problem| bad(format!("{place}{problem}")))
            })
            .collect(),
    }
}

enum Form {
    Empty,
    Json,
    Edn,
}

/// JSON's objects begin with a string, and EDN's operations with a keyword.
fn form(text: &str) -> Form {
    let text = text.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
    let Some(inner) = text.strip_prefix('{') else {
        return if text.is_empty() { Form::Empty } else { Form::Edn };
    };
    if inner.trim_start().starts_with(['"', '}']) { Form::Json } else { Form::Edn }
}

/// The objects of a text with the line on which each begins.
fn objects(text: &str) -> Result<Vec<(usize, &str)>, String> {
    let text = text.trim_start_matches('\u{feff}');
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<IgnoredAny>();
    let mut objects = Vec::new();
    let (mut from, mut line) = (0, 1);
    while let Some(next) = stream.next() {
        next.map_err(|error| format!("not JSON: {error}: write one object a line, or mend it"))?;
        let blanks = text[from..].len() - text[from..].trim_start().len();
        line += text[from..from + blanks].matches('\n').count();
        let object = &text[from + blanks..stream.byte_offset()];
        objects.push((line, object));
        line += object.matches('\n').count();
        from = stream.byte_offset();
    }
    Ok(objects)
}

fn entry(file: &Path, line: usize, object: &str) -> Result<Entry, String> {
    #[derive(Deserialize)]
    struct Head {
        schema: Option<Value>,
    }
    let head: Result<Head, _> = serde_json::from_str(object);
    if head.is_ok_and(|head| head.schema.is_some_and(|schema| schema == "kq-abort/1")) {
        return serde_json::from_str(object).map(Entry::Aborts).map_err(|error| error.to_string());
    }
    let case = case::read(object).map_err(|error| error.to_string())?;
    let options = case.rest.get("options").unwrap_or(&Value::Null);
    let ww_deps = match &options["ww_deps"] {
        Value::Null => None,
        flag => Some(
            flag.as_bool()
                .ok_or_else(|| format!("options.ww_deps cannot be {flag}: expected true or false"))?,
        ),
    };
    let told = match &options["sub_via"] {
        Value::Array(ways) if ways.len() == 1 => &ways[0],
        other => other,
    };
    let sub_via = match told.as_str() {
        Some("assign") => SubVia::Assign,
        Some("subscribe") => SubVia::Subscribe,
        None if told.is_null() => sub_via(&case.history),
        _ => {
            return Err(format!(
                "options.sub_via cannot be {told}: expected [\"assign\"] or [\"subscribe\"]"
            ));
        }
    };
    let id = match case.id.as_str() {
        "" if line == 1 => file.display().to_string(),
        "" => format!("{}:{line}", file.display()),
        id => id.to_string(),
    };
    Ok(Entry::History(Box::new(Told { id, history: case.history, ww_deps, sub_via, rest: case.rest })))
}

fn sub_via(history: &History) -> SubVia {
    let subscribes = history.events().any(|event| event.function() == Function::Subscribe);
    if subscribes { SubVia::Subscribe } else { SubVia::Assign }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(text: &str) -> &'static str {
        match form(text) {
            Form::Empty => "empty",
            Form::Json => "json",
            Form::Edn => "edn",
        }
    }

    #[test]
    fn the_form_is_told_by_the_content() {
        assert_eq!(kind(" \n"), "empty");
        for text in ["{\"id\":1}", "\u{feff} {\n \"history\"", "{}"] {
            assert_eq!(kind(text), "json", "{text}");
        }
        for text in
            ["{:type :ok}", "[{:type :ok}]", "; a comment\n{:f", "#jepsen.history.Op{:f", "{\n, :process 1}"]
        {
            assert_eq!(kind(text), "edn", "{text}");
        }
    }

    #[test]
    fn objects_may_stand_on_lines_or_over_lines() {
        let text = "{\"a\":1}\n\n{\n\"b\": {}}{\"c\":3}\n";
        let found: Vec<(usize, &str)> = objects(text).unwrap();
        assert_eq!(found, [(1, "{\"a\":1}"), (3, "{\n\"b\": {}}"), (4, "{\"c\":3}")]);
        assert!(objects("{\"a\":1}\n{\"b\"").unwrap_err().contains("line 2"));
    }
}
