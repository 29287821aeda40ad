//! What holds of Jepsen's verdict on every history: faultless ones are clean, and keys are independent.

mod common;

use check::jepsen::{self, Options};
use check::{Atom, History, Op, Polled, case};
use common::Load;
use proptest::prelude::*;
use std::path::Path;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_faultless_history_is_clean(
        seed in 0..1_000_000u64,
        clients in 1..9u64,
        operations in 10..300u64,
        records_per_poll in 1..40usize,
        ww_deps: bool,
    ) {
        let load = Load { seed, clients, operations, records_per_key: 30, records_per_poll, swap_one_in: 0 };
        let history = common::history(load);
        let verdict = jepsen::verdict(&history, Options { ww_deps, ..Options::default() });
        prop_assert!(verdict.is_valid(), "{:?}", verdict.to_json(&history));
        prop_assert!(common::polled(&history) > 0 && common::sent(&history) > 0);
        prop_assert!(verdict.types().is_empty(), "{:?}", verdict.types());
    }

    /// Offsets handed out in another order than that of the writes: each cycle shown is one, and its steps are there.
    #[test]
    fn cycles_run_through_what_they_say(seed in 0..1_000_000u64, ww_deps: bool) {
        let load = Load { seed, clients: 4, operations: 80, records_per_key: 30, records_per_poll: 10, swap_one_in: 5 };
        let history = common::history(load);
        let verdict = jepsen::verdict(&history, Options { ww_deps, ..Options::default() });
        let json = verdict.to_json(&history);
        let cycles = ["G0", "G1c", "G0-realtime", "G1c-realtime"].map(|name| &json["errors"][name]);
        for cycle in cycles.into_iter().flat_map(|found| found.as_array()).flatten() {
            let events: Vec<usize> =
                cycle["cycle"].as_array().unwrap().iter().map(|event| event.as_u64().unwrap() as usize).collect();
            prop_assert!(events.len() > 2 && events.first() == events.last());
            for (pair, step) in events.windows(2).zip(cycle["steps"].as_array().unwrap()) {
                prop_assert!(follows(&history, pair[0], pair[1], step), "{:?} {}", pair, step);
            }
        }
        prop_assert_eq!(verdict.cycles.len(), verdict.cycles_exist.len());
    }

    /// One record that nobody is shown any more is missed by someone, wherever it was.
    #[test]
    fn a_hole_in_what_everybody_reads_is_a_lost_write_or_unseen(seed in 0..1_000_000u64, which in 0..1000usize) {
        let load = Load { seed, clients: 3, operations: 60, records_per_key: 30, records_per_poll: 10, swap_one_in: 0 };
        let history = common::history(load);
        let acknowledged: Vec<(Atom, Atom)> = history
            .events()
            .filter(|event| event.status() == check::Status::Ok)
            .flat_map(|event| event.sends())
            .map(|(key, value, _)| (key, value))
            .collect();
        let hidden = acknowledged[which % acknowledged.len()];
        let verdict = jepsen::verdict(&rewritten(&history, |key| key, |record| (record.key, record.value) != hidden),
            Options::default());
        prop_assert!(verdict.types().contains("unseen"), "{:?}", verdict.types());
        prop_assert_eq!(verdict.unseen.len(), 1);
        prop_assert_eq!((verdict.unseen[0].key, &verdict.unseen[0].values), (hidden.0, &vec![hidden.1]));
    }

    /// Keys by other names, in another order, and in another order within each poll: the same errors.
    #[test]
    fn keys_are_independent(case in 0..1200usize, factor in prop::sample::select(vec![-7i64, -1, 3])) {
        let case = &cases()[case];
        let rename = |key: Atom| match key {
            Atom::Int(number) => Atom::Int(number * factor + 1000),
            name => name,
        };
        let renamed = rewritten(&case.history, rename, |_| true);
        let ours = jepsen::verdict(&case.history, Options::default());
        let theirs = jepsen::verdict(&renamed, Options::default());
        prop_assert_eq!(ours.types(), theirs.types());
        let lines = |history: &History, verdict: &jepsen::Verdict, rename: &dyn Fn(Atom) -> Atom| {
            let json = verdict.to_json(history);
            let mut lines = Vec::new();
            for (name, errors) in json["errors"].as_object().unwrap() {
                for error in errors.as_array().into_iter().flatten().filter(|error| error.get("key").is_some()) {
                    let mut error = error.clone();
                    error["key"] = match rename(Atom::Int(error["key"].as_i64().unwrap())) {
                        Atom::Int(number) => number.into(),
                        Atom::Name(_) => return Vec::new(),
                    };
                    error.sort_all_objects();
                    lines.push(format!("{name} {error}"));
                }
            }
            lines.sort();
            lines
        };
        prop_assert_eq!(lines(&case.history, &ours, &rename), lines(&renamed, &theirs, &|key| key));
    }
}

/// Whether an event depends on another as a step of a cycle says.
fn follows(history: &History, before: usize, after: usize, step: &serde_json::Value) -> bool {
    let (a, b) = (history.event(before), history.event(after));
    let atom = |value: &serde_json::Value| Atom::Int(value.as_i64().unwrap_or(i64::MIN));
    let sends = |event: &check::Event<'_>, value: &serde_json::Value| {
        event.sends().any(|(key, sent, _)| (key, sent) == (atom(&step["key"]), atom(value)))
    };
    match step["type"].as_str() {
        Some("ww") => sends(&a, &step["value"]) && sends(&b, &step["value2"]),
        Some("wr") => {
            let polled = b.polled().any(|r| (r.key, r.value) == (atom(&step["key"]), atom(&step["value"])));
            sends(&a, &step["value"]) && polled
        }
        // The invocation of b is the last one of its process before b.
        _ => {
            let invoked = |i: &usize| {
                history.event(*i).process() == b.process()
                    && history.event(*i).status() == check::Status::Invoke
            };
            a.status() == check::Status::Ok && (0..after).rev().find(invoked).is_some_and(|i| before < i)
        }
    }
}

/// The history under other keys, each poll by descending key, with only the records that `is_kept`.
fn rewritten(history: &History, rename: impl Fn(Atom) -> Atom, is_kept: impl Fn(&Polled) -> bool) -> History {
    let mut out = History::default();
    for event in history.events() {
        out.push(event.process(), event.status(), event.function(), event.time_ns());
        let mut records = event.polled();
        for op in event.ops() {
            match op {
                Op::Send { key, value, ack } => out.send(rename(*key), *value, *ack),
                Op::Poll(None) => out.poll_unanswered(),
                Op::Poll(Some(range)) => {
                    let polled = records.by_ref().take(range.len()).filter(&is_kept);
                    let mut polled: Vec<Polled> =
                        polled.map(|record| Polled { key: rename(record.key), ..record }).collect();
                    polled.sort_by_key(|record| std::cmp::Reverse(record.key));
                    out.poll(polled);
                }
            }
        }
        out.set_keys(event.keys().iter().map(|key| rename(*key)));
        out.set_rebalanced(event.rebalanced().iter().map(|key| rename(*key)));
    }
    out
}

#[expect(clippy::disallowed_methods, reason = "fixtures are files")]
fn cases() -> &'static [case::Case] {
    static CASES: std::sync::OnceLock<Vec<case::Case>> = std::sync::OnceLock::new();
    CASES.get_or_init(|| {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/random");
        let texts = ["random-mixed.jsonl", "random-order.jsonl"]
            .map(|file| std::fs::read_to_string(directory.join(file)).unwrap());
        texts.iter().flat_map(|text| text.lines()).map(|line| case::read(line).unwrap()).collect()
    })
}
