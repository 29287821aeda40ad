//! The kernel model against Linux: the same scripted socket programs, on both.
//!
//! Each case in `cases/` holds what Linux answered. `cargo test` plays them all in the tank and compares with that;
//! `--linux` plays them on this machine's kernel as well and compares that too, so that the two are equal where the
//! case says so. It needs root, `ip` and `nft`; `.ci/tcp-differential` brings them.
//!
//! Run: `cargo test -p sim --test linux -- [--linux] [WORDS OF A TITLE]`. A difference in Linux's timing alone may be the
//! machine's: such a case is played again, up to twice.
#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "compares the tank with the real world"
)]

mod host;
mod lan;
mod puppet;
mod script;
mod stage;
mod tank;

use host::Place;
use script::Case;
use stage::Seen;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

const FILES: [(&str, &str); 6] = [
    ("connect", include_str!("cases/connect.txt")),
    ("stream", include_str!("cases/stream.txt")),
    ("ends", include_str!("cases/ends.txt")),
    ("process", include_str!("cases/process.txt")),
    ("machine", include_str!("cases/machine.txt")),
    ("wire", include_str!("cases/wire.txt")),
];

/// Cases played on Linux at a time. They mostly wait.
const AT_A_TIME: usize = 8;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if let ["--puppet", own, peer] = words[..] {
        return exit(host::be_puppet(own, peer));
    }
    exit(cases(&words).and_then(|cases| {
        let model = in_the_tank(&cases);
        if words.contains(&"--linux") {
            return on_linux(&cases).and(model);
        }
        println!(
            "linux: not compared with this machine's kernel, which needs root: run .ci/tcp-differential"
        );
        model
    }))
}

fn exit(result: Result<(), String>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// All cases whose title has the words that are no flags.
fn cases(words: &[&str]) -> Result<Vec<Case>, String> {
    let mut cases = Vec::new();
    for (name, text) in FILES {
        cases.extend(script::parse(text).map_err(|error| format!("{name}.txt: {error}"))?);
    }
    let wanted: Vec<_> = words.iter().filter(|word| !word.starts_with('-')).collect();
    cases.retain(|case| wanted.iter().all(|word| case.title.contains(**word)));
    Ok(cases)
}

/// Which of a step's recorded answers a stage must give.
const LINUX: usize = 0;
const MODEL: usize = 1;

fn in_the_tank(cases: &[Case]) -> Result<(), String> {
    let mut wrong = 0;
    for case in cases {
        let differences = tank::run(case).map(|seen| differences(case, &seen, MODEL));
        wrong += usize::from(report(case, "the model", &differences));
    }
    let known = cases.iter().filter(|case| case.differs()).count();
    println!(
        "model: {} cases compared with what Linux answered, {wrong} differ unexplained, {known} as explained",
        cases.len()
    );
    if wrong > 0 { Err("the model differs from what Linux answered".into()) } else { Ok(()) }
}

fn on_linux(cases: &[Case]) -> Result<(), String> {
    let mut runs: Vec<(&Case, Place)> = cases.iter().map(|case| (case, Place::TwoMachines)).collect();
    runs.extend(cases.iter().filter(|case| !case.needs_wire()).map(|case| (case, Place::Loopback)));
    let (next, wrong, observed) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    let printing = Mutex::new(());
    std::thread::scope(|scope| {
        for worker in 0..AT_A_TIME {
            let (runs, next, wrong, observed, printing) = (&runs, &next, &wrong, &observed, &printing);
            scope.spawn(move || {
                let name = format!("wt{}-{worker}", std::process::id());
                while let Some((case, place)) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let differences = play_on_linux(case, *place, &name);
                    let observes = case.steps.iter().filter(|step| step.recorded.is_some()).count();
                    observed.fetch_add(observes, Ordering::Relaxed);
                    let _one_at_a_time = printing.lock();
                    let differs = report(case, &format!("Linux ({place:?})"), &differences);
                    wrong.fetch_add(usize::from(differs), Ordering::Relaxed);
                }
            });
        }
    });
    let (wrong, observed) = (wrong.into_inner(), observed.into_inner());
    println!(
        "linux: {} cases played, {} of them over loopback as well; {observed} observations compared, {wrong} cases differ",
        cases.len(),
        runs.len() - cases.len()
    );
    if wrong > 0 { Err("Linux differs from what is recorded".into()) } else { Ok(()) }
}

fn play_on_linux(case: &Case, place: Place, name: &str) -> Result<Vec<Difference>, String> {
    let mut found = Vec::new();
    for attempt in 0..3 {
        let seen = host::run(case, place, &format!("{name}-{attempt}"))?;
        found = differences(case, &seen, LINUX);
        // A busy machine is late at times, and what is lost by chance may all be lost.
        let may_be_luck = case.is_lossy() || found.iter().all(|difference| difference.in_time_only);
        if !may_be_luck || found.is_empty() {
            break;
        }
    }
    Ok(found)
}

struct Difference {
    step: String,
    recorded: String,
    seen: String,
    in_time_only: bool,
}

fn differences(case: &Case, seen: &[Option<Seen>], whose: usize) -> Vec<Difference> {
    let steps = case.steps.iter().zip(seen);
    let pairs = steps.filter_map(|(step, seen)| Some((step, step.recorded.as_ref()?, seen.as_ref()?)));
    let wrong = pairs.filter(|(_, recorded, seen)| !agrees(&recorded[whose], seen));
    wrong
        .map(|(step, recorded, seen)| Difference {
            step: step.text.clone(),
            recorded: recorded[whose].clone(),
            seen: format!("{} ({} ms)", seen.said, seen.after_ms),
            in_time_only: without_time(&recorded[whose]) == without_time(&seen.said),
        })
        .collect()
}

fn agrees(recorded: &str, seen: &Seen) -> bool {
    if let Some(recorded) = recorded.strip_suffix(" sooner or later") {
        return recorded == without_time(&seen.said);
    }
    let Some((recorded, seconds)) = recorded.split_once(" ~") else { return recorded == seen.said };
    let recorded_ms = seconds.trim_end_matches('s').parse::<f64>().unwrap_or(f64::NAN) * 1_000.0;
    // Linux's own timers are an eighth late at worst.
    let tolerance_ms = 400.0 + recorded_ms / 8.0;
    recorded == seen.said && (recorded_ms - seen.after_ms as f64).abs() <= tolerance_ms
}

/// An observation without its timing class.
fn without_time(said: &str) -> &str {
    said.split(" after ").next().unwrap_or(said)
}

/// Prints what is wrong with a case; whether anything is.
fn report(case: &Case, who: &str, differences: &Result<Vec<Difference>, String>) -> bool {
    match differences {
        Ok(differences) if differences.is_empty() => return false,
        Ok(differences) => {
            println!("{}: {who} differs", case.title);
            for Difference { step, recorded, seen, .. } in differences {
                println!("  {step} => {seen}, not {recorded}");
            }
        }
        Err(error) => println!("{}: {who} could not play it: {error}", case.title),
    }
    true
}
