//! Options and files that several subcommands share.

use super::{Unusable, aborts};
use check::case::{self, Case};
use check::edn;
use scenarios::finding::{self, Finding};
use scenarios::{Config, Outcome, Plan, Preset, Recording, Scenario, SubVia};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The scenario called `name`.
pub(super) fn scenario(name: &str) -> Result<&'static Scenario, Unusable> {
    scenarios::find(name).ok_or_else(|| {
        let names: Vec<_> = scenarios::all().map(|scenario| scenario.name).collect();
        Unusable::new(format!("NAME: no scenario is called {name}: use one of {}", names.join(", ")))
    })
}

/// The world of a scenario; that of a finding's script, with its fix or as it fails.
pub(super) fn world(scenario: &Scenario, is_fixed: bool) -> Result<Config, Unusable> {
    match finding::named(scenario.name) {
        Some(finding) if is_fixed => finding.fixed_world().ok_or_else(|| no_fix(finding)),
        Some(finding) => Ok(finding.world()),
        None if is_fixed => {
            let names: Vec<_> = finding::all().iter().map(|finding| finding.scenario.name).collect();
            Err(Unusable::new(format!(
                "--fixed: {} is no finding's script: use one of {}, or leave --fixed out",
                scenario.name,
                names.join(", ")
            )))
        }
        None => Ok((scenario.config)()),
    }
}

/// A fix was asked for, of a finding that has none.
pub(super) fn no_fix(finding: &Finding) -> Unusable {
    let (id, name, fix) = (finding.id, finding.scenario.name, finding.fix);
    Unusable::new(format!("--fixed: finding {id}, {name}, has no fix ({fix}): leave --fixed out"))
}

/// Turns the switches of `--with` on in `config`.
pub(super) fn switch_on(config: &mut Config, switches: &[String]) -> Result<(), Unusable> {
    for name in switches {
        let Some(switch) = scenarios::switches().iter().find(|switch| switch.name == name) else {
            let names: Vec<_> = scenarios::switches().iter().map(|switch| switch.name).collect();
            return Err(Unusable::new(format!(
                "--with: no switch is called {name}: use one of {}",
                names.join(", ")
            )));
        };
        (switch.apply)(config);
    }
    Ok(())
}

/// What the name of a build may begin with.
const PREFIX: &str = "bufstream-";

/// The switches that plant the defects of a build.
pub(super) fn switches_of(build: &str) -> Result<Vec<String>, Unusable> {
    let is_it = |preset: &&Preset| preset.name.trim_start_matches(PREFIX) == build.trim_start_matches(PREFIX);
    match scenarios::presets().iter().find(is_it) {
        Some(preset) => Ok(preset.switches().into_iter().map(str::to_string).collect()),
        None => {
            let names: Vec<_> = scenarios::presets().iter().map(|preset| preset.name).collect();
            Err(Unusable::new(format!("--as: no build is called {build}: use one of {}", names.join(", "))))
        }
    }
}

/// A range of seeds, `A..B` without B.
pub(super) fn seeds(text: &str) -> Result<Range<u64>, String> {
    let (first, end) = text.split_once("..").ok_or("write a range as A..B, for example 0..500")?;
    let number = |part: &str| part.trim().parse::<u64>().map_err(|_| format!("{part:?} is not a number"));
    let range = number(first)?..number(end)?;
    if range.is_empty() { Err("the range is empty: B must be greater than A".into()) } else { Ok(range) }
}

/// Reads a recording whose scenario and nodes exist.
pub(super) fn read_recording(file: &Path) -> Result<Recording, Unusable> {
    let text = read(file)?;
    let recording = Recording::parse(file, &text).map_err(Unusable::new)?;
    scenarios::validate(&recording.plan)
        .map_err(|problem| Unusable::new(format!("{}: {problem}", file.display())))?;
    Ok(recording)
}

/// Reads a text file; `-` is standard input.
#[expect(clippy::disallowed_methods, reason = "the command reads what its user names, outside any run")]
pub(super) fn read(file: &Path) -> Result<String, Unusable> {
    let text = match file.to_str() {
        Some("-") => std::io::read_to_string(std::io::stdin()),
        _ => std::fs::read_to_string(file),
    };
    text.map_err(|error| Unusable::new(format!("{}: cannot be read: {error}", file.display())))
}

/// Writes `text` to `directory/name`, making the directory; the path written.
#[expect(clippy::disallowed_methods, reason = "the command writes what its user asked for, outside any run")]
pub(super) fn write(directory: &Path, name: &str, text: &str) -> Result<PathBuf, Unusable> {
    let path = directory.join(name);
    std::fs::create_dir_all(directory)
        .and_then(|()| std::fs::write(&path, text))
        .map_err(|error| Unusable::new(format!("--out: {} cannot be written: {error}", path.display())))?;
    Ok(path)
}

/// Writes a run's history for any checker: as Jepsen's EDN if the file ends in .edn; its polls alone, as kq-abort/1, if it
/// ends in .abort.json; else as kq-case/1.
pub(super) fn write_history(file: &Path, plan: &Plan, outcome: &Outcome) -> Result<(), Unusable> {
    let history = &outcome.history;
    let id = format!("{}-{}", plan.scenario, plan.seed);
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let text = if name.ends_with(".edn") {
        edn::write(history)
    } else if name.ends_with(".abort.json") {
        aborts::write(&id, &outcome.polls)
    } else {
        let subscribes = plan.config.queue.as_ref().is_some_and(|queue| queue.sub_via == SubVia::Subscribe);
        let via = if subscribes { "subscribe" } else { "assign" };
        let options = serde_json::json!({"sub_via": [via], "ww_deps": true});
        let rest = [("options".to_string(), options)].into_iter().collect();
        case::write(&Case { id, history: history.clone(), rest })
    };
    write_file("--history", file, &text)
}

/// Writes `text` to the file that `option` names.
#[expect(clippy::disallowed_methods, reason = "the command writes what its user asked for, outside any run")]
pub(super) fn write_file(option: &str, file: &Path, text: &str) -> Result<(), Unusable> {
    std::fs::write(file, text)
        .map_err(|error| Unusable::new(format!("{option}: {} cannot be written: {error}", file.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_seeds_is_half_open_and_not_empty() {
        assert_eq!(seeds("3..7"), Ok(3..7));
        for bad in ["3", "7..3", "3..3", "a..b", "3..", "-1..4"] {
            assert!(seeds(bad).is_err(), "{bad}");
        }
    }
}
