//! The two forms of a history agree, and no text whatever brings a reader down.

use check::jepsen::{self, Options, SubVia};
use check::{Ack, Atom, Function, History, Polled, Status, case, edn};
use check::{FinalReads, strict};
use proptest::prelude::*;
use serde_json::Map;
use std::path::Path;

/// A name by its place in this list, or a number.
const NAMES: [&str; 5] = ["x", "a-b.c?", "two words", "quo\"te\\", "é\n"];

#[derive(Clone, Debug)]
enum Piece {
    Send(i64, i64, Ack),
    Poll(Option<Vec<(i64, Option<i64>, i64)>>),
}

#[derive(Clone, Debug)]
struct Step {
    process: i64,
    status: Status,
    function: Function,
    time_ns: u64,
    pieces: Vec<Piece>,
    keys: Vec<i64>,
    marks: Vec<i64>,
    commit: Option<u64>,
    error: Option<String>,
}

fn piece() -> impl Strategy<Value = Piece> {
    let ack = prop_oneof![Just(Ack::None), Just(Ack::Offsetless), any::<i64>().prop_map(Ack::At)];
    let record = (-5..20i64, prop::option::of(any::<i64>()), any::<i64>());
    prop_oneof![
        (-5..20i64, any::<i64>(), ack).prop_map(|(key, value, ack)| Piece::Send(key, value, ack)),
        prop::option::of(prop::collection::vec(record, 0..6)).prop_map(Piece::Poll),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let status = prop::sample::select(vec![Status::Invoke, Status::Ok, Status::Fail, Status::Info]);
    let functions = vec![
        Function::Send,
        Function::Poll,
        Function::Txn,
        Function::Assign,
        Function::Subscribe,
        Function::Crash,
        Function::Debug,
    ];
    let keys = || prop::collection::vec(-5..20i64, 0..4);
    let work = (prop::sample::select(functions), prop::collection::vec(piece(), 0..4), keys(), keys());
    let head = (any::<i64>(), status, 0..i64::MAX as u64);
    let tail = (prop::option::of(0..i64::MAX as u64), prop::option::of(".{0,12}"));
    (head, work, tail).prop_map(
        |((process, status, time_ns), (function, pieces, keys, marks), (commit, error))| {
            let has_ops = matches!(function, Function::Send | Function::Poll | Function::Txn);
            let has_keys = matches!(function, Function::Assign | Function::Subscribe | Function::Debug);
            Step {
                process,
                status,
                function,
                time_ns,
                pieces: if has_ops { pieces } else { Vec::new() },
                keys: if has_keys { keys } else { Vec::new() },
                marks,
                commit,
                error,
            }
        },
    )
}

/// Negative numbers down to -5 stand for names.
fn atom(history: &mut History, number: i64) -> Atom {
    match number {
        -5..0 => history.name(NAMES[(-1 - number) as usize]),
        other => Atom::Int(other),
    }
}

fn history(steps: &[Step]) -> History {
    let mut history = History::default();
    for step in steps {
        history.push(step.process, step.status, step.function, step.time_ns);
        for piece in &step.pieces {
            match piece {
                Piece::Send(key, value, ack) => {
                    let (key, value) = (atom(&mut history, *key), atom(&mut history, *value));
                    history.send(key, value, *ack);
                }
                Piece::Poll(None) => history.poll_unanswered(),
                Piece::Poll(Some(records)) => {
                    // As readers leave them: grouped by key.
                    let mut records = records.clone();
                    records.sort_by_key(|record| record.0);
                    let records: Vec<Polled> = records
                        .iter()
                        .map(|(key, offset, value)| Polled {
                            key: atom(&mut history, *key),
                            offset: *offset,
                            value: atom(&mut history, *value),
                        })
                        .collect();
                    history.poll(records);
                }
            }
        }
        let keys: Vec<Atom> = step.keys.iter().map(|key| atom(&mut history, *key)).collect();
        history.set_keys(keys);
        let mut marks: Vec<Atom> = step.marks.iter().map(|key| atom(&mut history, *key)).collect();
        history.set_repositioned(marks.clone());
        marks.sort_unstable();
        marks.dedup();
        history.set_rebalanced(marks);
        if step.function == Function::Assign && step.process % 2 == 0 {
            history.set_from_start();
        }
        if let Some(commit) = step.commit {
            history.set_commit_invoked(commit);
        }
        if let Some(error) = &step.error {
            history.set_error(error);
        }
    }
    history
}

/// Names are numbered in the order in which a reader meets them, so histories are the same if they are written the same.
fn as_json(history: &History) -> String {
    case::write(&case::Case { id: "x".to_string(), history: history.clone(), rest: Map::new() })
}

/// Every history in `tests/cases` is judged alike in both forms.
#[test]
#[expect(clippy::disallowed_methods, reason = "fixtures are files")]
fn every_case_is_judged_alike_in_both_forms() {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases")];
    let mut judged = 0;
    while let Some(folder) = folders.pop() {
        for entry in folder.read_dir().unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.extend((!path.ends_with("abort")).then_some(path));
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let is_list = path.extension().is_some_and(|extension| extension == "jsonl");
            let objects: Vec<&str> = if is_list { text.lines().step_by(10).collect() } else { vec![&text] };
            for object in objects {
                let from_json = case::read(object).unwrap();
                let from_edn = edn::read(&edn::write(&from_json.history)).unwrap();
                for sub_via in [SubVia::Assign, SubVia::Subscribe] {
                    let options = Options { ww_deps: false, sub_via };
                    let judge = |history: &History| {
                        let theirs = jepsen::verdict(history, options).to_json(history);
                        (theirs, strict(history, &FinalReads::new()).to_json(history))
                    };
                    assert_eq!(judge(&from_edn), judge(&from_json.history), "{}", from_json.id);
                }
                judged += 1;
            }
        }
    }
    assert!(judged >= 33 + 120, "only {judged}");
}

fn mutate(text: &str, edits: &[(prop::sample::Index, u8, char)]) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    for (place, what, new) in edits {
        if chars.is_empty() {
            break;
        }
        let at = place.index(chars.len());
        match what % 4 {
            0 => drop(chars.remove(at)),
            1 => chars.insert(at, *new),
            2 => chars[at] = *new,
            _ => chars.truncate(at),
        }
    }
    chars.into_iter().collect()
}

proptest! {
    #[test]
    fn both_forms_carry_the_same_history(steps in prop::collection::vec(step(), 0..12)) {
        let history = history(&steps);
        let from_edn = edn::read(&edn::write(&history)).unwrap();
        let from_json = case::read(&as_json(&history)).unwrap().history;
        prop_assert_eq!(as_json(&from_edn), as_json(&history));
        prop_assert_eq!(as_json(&from_json), as_json(&history));
        prop_assert_eq!(edn::write(&from_json), edn::write(&history));
    }

    /// Text that was damaged is read or refused with a line, and never a panic.
    #[test]
    fn damaged_text_is_read_or_refused(
        steps in prop::collection::vec(step(), 1..6),
        edits in prop::collection::vec(
            (any::<prop::sample::Index>(), any::<u8>(), prop::sample::select(vec!['[', '}', '"', '\\', '#', '_', ':', ';', 'n', '9', 'é'])),
            1..8,
        ),
    ) {
        let history = history(&steps);
        if let Err(error) = edn::read(&mutate(&edn::write(&history), &edits)) {
            let words = error.to_string();
            prop_assert!(words.starts_with("line ") && !words.contains('\n'), "{}", words);
        }
        if let Err(error) = case::read(&mutate(&as_json(&history), &edits)) {
            prop_assert!(!error.to_string().contains('\n'));
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[\\[\\]{}()\"\\\\#_:;,\\-+0-9a-z \n\u{0}é]{0,200}") {
        let _ = edn::read(&text);
    }
}
