//! The verdict of Jepsen's checker, against its own output on recorded and hand-made histories and on random ones with
//! defects (`tests/cases`, schema `kq-case/1`, field `oracle`).
//!
//! Compared is every field of every error, also where an offset holds two values. What is not: which cycle is shown for
//! a component, and with it whether `G0-realtime` or `G1c-realtime` is present, since its name depends on the cycle that
//! Elle's search comes upon first. Present is one of them, or `strong-PL-1-` or `-2-cycle-exists`, where Jepsen has one.

mod fixtures;

use check::jepsen::{self, Options, SubVia, lag, unseen_series};
use check::{Atom, Function, History, Status, case};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The names of single cycles. The last two come and go with the `strong-` ones.
const CYCLES: [&str; 4] = ["G0", "G1c", "G0-realtime", "G1c-realtime"];

#[test]
fn verdicts_agree_with_jepsens_checker() {
    let mut compared = (0, 0, 0);
    for case in cases() {
        let (types, errors) = compare(&case).unwrap();
        compared = (compared.0 + 1, compared.1 + types, compared.2 + errors);
    }
    // Cases, types in them, errors apart from single cycles: as many as there are in the files.
    assert_eq!(compared, (1233, 4163, 10_505));
}

/// Compares one case: how many types and errors were held against each other, or which field differs.
fn compare(case: &case::Case) -> Result<(usize, usize), String> {
    let verdict = jepsen::verdict(&case.history, options(case)).to_json(&case.history);
    let mut theirs = case.rest["oracle"].clone();
    if theirs.get("throws").is_some() {
        assert!(verdict["valid"].is_boolean(), "{}", case.id);
        return Ok((0, 0));
    }
    drop_false_alarm(&case.history, &mut theirs);
    let equal = |what: &str, ours: &Value, theirs: &Value| match ours == theirs {
        true => Ok(()),
        false => Err(format!("{} {what}: {ours} and not {theirs}", case.id)),
    };
    for field in ["types", "bad_assign", "bad_subscribe"] {
        equal(field, &json!(types(&verdict[field])), &json!(types(&theirs[field])))?;
        equal("realtime", &json!(has_realtime(&verdict[field])), &json!(has_realtime(&theirs[field])))?;
    }
    let mut compared = 0;
    let names = types(&theirs["types"]);
    for name in names.iter().filter(|name| !CYCLES.contains(name)) {
        let (ours, theirs) = (canonical(&verdict["errors"][name]), canonical(&theirs["errors"][name]));
        equal(name, &ours, &theirs)?;
        compared += theirs.as_array().map_or(1, Vec::len);
    }
    let bad = if options(case).sub_via == SubVia::Assign { "bad_assign" } else { "bad_subscribe" };
    equal("valid", &verdict["valid"], &json!(theirs[bad].as_array().unwrap().is_empty()))?;
    Ok((names.len(), compared))
}

fn has_realtime(list: &Value) -> bool {
    let mut names = list.as_array().unwrap().iter().map(|name| name.as_str().unwrap());
    names.any(|name| name.ends_with("-realtime") || name.starts_with("strong-"))
}

/// Every comparison can fail: for each type of anomaly there is a case that agrees, and in which no longer all errors
/// of that type are the same when one event did nothing or one more came.
#[test]
fn a_missing_event_is_noticed_in_every_type() {
    let mut noticed: BTreeSet<String> = BTreeSet::new();
    let mut all: BTreeSet<String> = BTreeSet::new();
    for case in cases().iter().filter(|case| case.rest["oracle"]["types"].is_array()) {
        let theirs = &case.rest["oracle"];
        all.extend(types(&theirs["types"]).iter().map(ToString::to_string));
        let missing: Vec<&str> =
            types(&theirs["types"]).into_iter().filter(|name| !noticed.contains(*name)).collect();
        if missing.is_empty() {
            continue;
        }
        let events = (0..case.history.len()).filter(|event| !case.history.event(*event).ops().is_empty());
        let changed = events.map(|event| without(case, event)).chain([with_late_poll(case)]);
        for history in changed {
            let ours = jepsen::verdict(&history, options(case)).to_json(&history);
            let found = types(&ours["types"]);
            let differs = |name: &&str| match CYCLES.contains(name) {
                true => !found.contains(name),
                false => canonical(&ours["errors"][*name]) != canonical(&theirs["errors"][*name]),
            };
            noticed.extend(missing.iter().filter(|name| differs(name)).map(ToString::to_string));
        }
    }
    assert_eq!(noticed, all);
    // All of the table but the two realtime cycles; `duplicate-nonzero` is not in the oracle.
    assert_eq!(all.len(), 20, "{all:?}");
}

/// The history of a case with one more event, which comes after everything that completed.
fn with_late_poll(case: &case::Case) -> History {
    let mut history = case.history.clone();
    for status in [Status::Invoke, Status::Ok] {
        history.push(1_000_000, status, Function::Poll, u64::MAX);
        history.poll_unanswered();
    }
    history
}

/// The history of a case in which one event did nothing.
fn without(case: &case::Case, event: usize) -> History {
    let mut json: Value = serde_json::from_str(&case::write(case)).unwrap();
    json["history"][event]["m"] = json!([]);
    case::read(&json.to_string()).unwrap().history
}

fn options(case: &case::Case) -> Options {
    let options = &case.rest["options"];
    let sub_via = match options["sub_via"][0].as_str() {
        Some("assign") => SubVia::Assign,
        Some("subscribe") => SubVia::Subscribe,
        other => panic!("{other:?}"),
    };
    Options { ww_deps: options["ww_deps"].as_bool().unwrap(), sub_via }
}

/// B8.3: Jepsen's `unseen` counts what the last ok event polled of a key without acknowledged sends.
fn drop_false_alarm(history: &History, oracle: &mut Value) {
    let acknowledged = acknowledged_keys(history);
    let Some(unseen) = oracle["errors"].get_mut("unseen") else { return };
    for field in ["unseen", "messages"] {
        unseen[field].as_object_mut().unwrap().retain(|key, _| acknowledged.contains(key));
    }
    if unseen["unseen"].as_object().unwrap().is_empty() {
        oracle["errors"].as_object_mut().unwrap().remove("unseen");
        for field in ["types", "bad_assign", "bad_subscribe"] {
            oracle[field].as_array_mut().unwrap().retain(|name| name != "unseen");
        }
    }
}

fn acknowledged_keys(history: &History) -> BTreeSet<String> {
    let ok = history.events().filter(|event| event.status() == Status::Ok);
    ok.flat_map(|event| event.sends()).map(|(key, _, _)| history.show(key).to_string()).collect()
}

/// The names of a list, but for those that depend on the cycle shown.
fn types(list: &Value) -> BTreeSet<&str> {
    let names = list.as_array().unwrap().iter().map(|name| name.as_str().unwrap());
    names.filter(|name| !name.ends_with("-realtime")).collect()
}

/// The same value with every list of errors, and the messages of `unseen`, in one order.
fn canonical(errors: &Value) -> Value {
    let mut errors = errors.clone();
    match &mut errors {
        Value::Array(list) => {
            list.iter_mut().for_each(Value::sort_all_objects);
            list.sort_by_key(Value::to_string);
        }
        Value::Object(unseen) => {
            let messages = unseen["messages"].as_object_mut().unwrap();
            for values in messages.values_mut() {
                values.as_array_mut().unwrap().sort_by_key(Value::to_string);
            }
        }
        _ => {}
    }
    errors.sort_all_objects();
    errors
}

#[test]
fn lag_and_unseen_series_agree_with_jepsens_checker() {
    let mut compared = 0;
    for case in cases() {
        let oracle = &case.rest["oracle"];
        if oracle.get("realtime_lag").is_none() {
            continue;
        }
        let key = |key: Atom| match key {
            Atom::Int(number) => json!(number),
            Atom::Name(_) => json!(case.history.show(key).to_string()),
        };
        let lags = lag::realtime_lag(&case.history);
        let rows = lags.iter().map(|l| json!([l.time_ns, l.process, key(l.key), l.lag_ns])).collect();
        assert_eq!(canonical(&rows), canonical(&oracle["realtime_lag"]), "{}", case.id);
        let worst = lag::worst_realtime_lag(&lags).map_or(
            json!({"time": 0, "lag": 0}),
            |l| json!({"time": l.time_ns, "process": l.process, "key": key(l.key), "lag": l.lag_ns}),
        );
        assert_eq!(worst, oracle["worst_realtime_lag"], "{}", case.id);

        let series: Vec<Value> = unseen_series::unseen_series(&case.history)
            .iter()
            .map(|sample| {
                let unseen: BTreeMap<String, usize> = sample
                    .unseen
                    .iter()
                    .map(|(key, count)| (case.history.show(*key).to_string(), *count))
                    .collect();
                json!([sample.time_ns, unseen])
            })
            .collect();
        let mut theirs = oracle["unseen_series"].clone();
        // B8.3 again: where the key has no acknowledged send so far, what was just polled counts as unseen.
        let mut acknowledged = BTreeSet::new();
        let ok = case.history.events().filter(|event| event.status() == Status::Ok);
        let ok = ok.filter(|event| !event.ops().is_empty());
        for (event, sample) in ok.zip(theirs.as_array_mut().unwrap()) {
            acknowledged.extend(event.sends().map(|(key, _, _)| case.history.show(key).to_string()));
            for (key, count) in sample[1].as_object_mut().unwrap() {
                if !acknowledged.contains(key) {
                    *count = json!(0);
                }
            }
        }
        assert_eq!(json!(series), theirs, "{}", case.id);
        compared += 1;
    }
    assert_eq!(compared, 31);
}

/// The named cases also say what their author expects.
#[test]
fn verdicts_are_what_the_authors_of_the_cases_expect() {
    let mut compared = 0;
    for case in cases() {
        let Some(expect) = case.rest.get("expect") else { continue };
        let verdict = jepsen::verdict(&case.history, options(&case));
        let types = verdict.types();
        for name in expect["absent"].as_array().into_iter().flatten() {
            assert!(!types.contains(name.as_str().unwrap()), "{} {name}", case.id);
        }
        for name in expect["types_include"].as_array().into_iter().flatten() {
            assert!(types.contains(name.as_str().unwrap()), "{} {name}", case.id);
        }
        let json = verdict.to_json(&case.history);
        for (name, errors) in expect["errors"].as_object().into_iter().flatten() {
            assert_eq!(canonical(&json["errors"][name]), canonical(errors), "{} {name}", case.id);
        }
        let extra = expect["bufstream_extra"].as_array().cloned().unwrap_or_default();
        assert_eq!(json!(verdict.bufstream_extra()), json!(extra), "{}", case.id);
        compared += 1;
    }
    assert_eq!(compared, 33);
}

/// B8.1, B8.2, B8.3.
#[test]
fn there_is_a_verdict_where_jepsens_checker_crashes_or_errs() {
    for (id, expected) in [
        ("edge-phantom-value", Vec::<&str>::new()),
        ("edge-nil-poll-offset", vec![]),
        ("edge-unseen-false-positive", vec![]),
    ] {
        let case = cases().into_iter().find(|case| case.id == id).unwrap();
        let verdict = jepsen::verdict(&case.history, options(&case));
        assert_eq!(verdict.types().into_iter().collect::<Vec<_>>(), expected, "{id}");
    }
}

fn cases() -> Vec<case::Case> {
    ["tests/cases", "tests/cases/random"]
        .iter()
        .flat_map(|directory| fixtures::texts(directory))
        .map(|text| case::read(&text).unwrap())
        .collect()
}
