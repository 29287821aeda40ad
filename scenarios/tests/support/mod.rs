//! What the tests of scenarios share: which seeds to run, and what a failing test prints.
#![expect(dead_code, reason = "each test file uses a part of it")]

use scenarios::{Config, Expect, Keep, Outcome, Reading, Recording, Scenario};
use std::ops::Range;
use std::path::Path;

/// The seeds to run: `WAVETANK_SEED=N`, `WAVETANK_SEEDS=A..B`, madsim's `MADSIM_TEST_SEED` with `MADSIM_TEST_NUM`, or
/// `default`; and whether they were chosen.
#[expect(clippy::disallowed_methods, reason = "the person who runs the tests chooses seeds by environment")]
pub(crate) fn seeds(default: Range<u64>) -> (Range<u64>, bool) {
    let read = |name: &str| std::env::var(name).ok();
    let number = |name: &str, text: String| -> u64 {
        text.trim().parse().unwrap_or_else(|_| panic!("{name}={text}: write a number"))
    };
    if let Some(text) = read("WAVETANK_SEED") {
        let seed = number("WAVETANK_SEED", text);
        return (seed..seed + 1, true);
    }
    if let Some(text) = read("WAVETANK_SEEDS") {
        let parts =
            text.split_once("..").and_then(|(a, b)| Some((a.trim().parse().ok()?, b.trim().parse().ok()?)));
        let (first, end): (u64, u64) = parts.unwrap_or_else(|| panic!("WAVETANK_SEEDS={text}: write A..B"));
        assert!(first < end, "WAVETANK_SEEDS={text}: the range is empty");
        return (first..end, true);
    }
    if let Some(text) = read("MADSIM_TEST_SEED") {
        let seed = number("MADSIM_TEST_SEED", text);
        let count = read("MADSIM_TEST_NUM").map_or(1, |text| number("MADSIM_TEST_NUM", text));
        return (seed..seed + count, true);
    }
    (default, false)
}

/// Runs `seeds` of a scenario; returns how many caught what it shows. Panics at the first unexpected outcome, with the
/// claim, the story, the recording's path and the command that replays it.
pub(crate) fn run(scenario: &Scenario, config: &Config, seeds: Range<u64>) -> u64 {
    let expect = (scenario.expect)(config);
    let mut caught = 0;
    for seed in seeds {
        let plan = (scenario.plan)(seed, config);
        let outcome = scenarios::execute(&plan, Keep::Events);
        match outcome.reading(&expect) {
            Reading::Caught => caught += 1,
            Reading::Quiet => {}
            Reading::Unexpected => fail(scenario, config, seed, &expect),
        }
    }
    caught
}

fn fail(scenario: &Scenario, config: &Config, seed: u64, expect: &Expect) -> ! {
    let plan = (scenario.plan)(seed, config);
    let outcome = scenarios::execute(&plan, Keep::Story);
    panic!(
        "{}, seed {seed}: {}\nexpected {expect:?}\n{}",
        scenario.name,
        scenario.claim,
        explain(&plan, &outcome, scenario.name, seed)
    );
}

/// The outcome in words, with the path of a recording and the command that replays it.
pub(crate) fn explain(plan: &scenarios::Plan, outcome: &Outcome, name: &str, seed: u64) -> String {
    let signature = outcome.signature.iter().cloned().collect();
    let recording = Recording::new(outcome.complete(plan.clone()), signature, outcome.fingerprint);
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{seed}.json"));
    write(&path, &recording.to_json());
    let sections = [&outcome.anomalies, &outcome.failures, &outcome.vacuous, &outcome.story];
    let lines: Vec<_> = sections.into_iter().flatten().cloned().collect();
    format!("{}\nrecording: {}\nreplay: wavetank replay {}", lines.join("\n"), path.display(), path.display())
}

/// Writes a file of a test's own.
#[expect(clippy::disallowed_methods, reason = "a test keeps its files in the folder that cargo gives it")]
pub(crate) fn write(path: &Path, text: &str) {
    std::fs::write(path, text).expect("the test's folder can be written");
}

/// Reads a file of the repository.
#[expect(clippy::disallowed_methods, reason = "a test reads its fixtures")]
pub(crate) fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every recording of the repository, by path, in order.
pub(crate) fn recordings() -> Vec<(std::path::PathBuf, Recording)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("recordings");
    let entries = std::fs::read_dir(&folder).expect("the repository has recordings");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("readable").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    let parse = |path: &Path| Recording::parse(path, &read(path)).unwrap_or_else(|error| panic!("{error}"));
    paths.into_iter().map(|path| (path.clone(), parse(&path))).collect()
}
