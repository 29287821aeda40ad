//! What searches look like to a person, as a row of a table, and to a program.

use super::Ground;
use super::fixed::{Clean, DIRTY_MAX};
use super::search::Searches;
use serde_json::json;
use std::time::Duration;

/// The head of the table of all findings, in Markdown.
pub(super) fn table_head(is_fixed: bool) {
    match is_fixed {
        true => say!("| | finding, with its fix | in | seeds | CPU | shows |\n|---|---|---|---|---|---|"),
        false => say!(
            "| | finding | in | found | seeds, median and worst | CPU, median and worst | outside |\n|---|---|---|---|---|---|---|"
        ),
    }
}

/// How the searches for a finding went.
pub(super) fn searches(ground: &Ground, searches: &Searches, is_json: bool, is_row: bool) {
    let (id, name, limits) = (ground.finding.id, ground.finding.scenario.name, ground.finding.blind.limits);
    let found = searches.seeds.len() as u64;
    let all = found + searches.missed;
    let (seeds, cpu) = (spread(&searches.seeds), spread(&searches.cpu));
    let is_expected = searches.is_expected(ground);
    if is_json {
        let outside: Vec<_> =
            searches.outside.iter().map(|(seed, shown)| json!({"seed": seed, "shows": shown})).collect();
        let object = json!({
            "finding": id, "name": name, "in": ground.words, "searches": all, "found": found,
            "seeds_median": seeds.map(|(median, _)| median), "seeds_worst": seeds.map(|(_, worst)| worst),
            "cpu_s_median": cpu.map(|(median, _)| median.as_secs_f64()),
            "cpu_s_worst": cpu.map(|(_, worst)| worst.as_secs_f64()),
            "limit_s_median": limits.median_s, "limit_s_worst": limits.worst_s,
            "signatures": searches.signatures, "outside": outside, "expected": is_expected,
        });
        return say!("{object}");
    }
    let seeds = seeds.map_or("-".into(), |(median, worst)| format!("{median}, {worst}"));
    let seconds = |time: Duration| format!("{:.2} s", time.as_secs_f64());
    let cpu = cpu.map_or("-".into(), |(median, worst)| format!("{}, {}", seconds(median), seconds(worst)));
    if is_row {
        let outside = searches.outside.len();
        return say!(
            "| {id} | `{name}` | `{}` | {found} of {all} | {seeds} | {cpu} | {outside} |",
            ground.words
        );
    }
    say!("finding {id}, {name}, blind in {}: {found} of {all} searches find it", ground.words);
    if found > 0 {
        say!(
            "median and worst: seeds {seeds}; CPU {cpu} (limits {} s, {} s)",
            limits.median_s,
            limits.worst_s
        );
    }
    for (signature, times) in &searches.signatures {
        say!("{times:6} times  {signature}");
    }
    strangers(ground, "OUTSIDE", &searches.outside);
    say!("expected: {}", if is_expected { "yes" } else { "NO" });
}

/// How the seeds with the fix went.
pub(super) fn clean(ground: &Ground, clean: &Clean, is_json: bool, is_row: bool) {
    let (id, name, Clean { seeds, dirty, .. }) = (ground.finding.id, ground.finding.scenario.name, clean);
    let cpu_s = clean.cpu.as_secs_f64();
    if is_json {
        let shown: Vec<_> = dirty.iter().map(|(seed, shown)| json!({"seed": seed, "shows": shown})).collect();
        let object = json!({
            "finding": id, "name": name, "fixed": true, "in": ground.words, "seeds": seeds, "cpu_s": cpu_s,
            "dirty": shown, "expected": dirty.is_empty(),
        });
        return say!("{object}");
    }
    let count =
        if dirty.is_empty() { "nothing".to_string() } else { format!("something in {}", dirty.len()) };
    if is_row {
        return say!("| {id} | `{name}` | `{}` | {seeds} | {cpu_s:.1} s | {count} |", ground.words);
    }
    say!(
        "finding {id}, {name}, with its fix, in {}: {seeds} fresh seeds, {cpu_s:.1} s of CPU, show {count}",
        ground.words
    );
    strangers(ground, "SHOWN", &dirty[..dirty.len().min(DIRTY_MAX)]);
    say!("expected: {}", if dirty.is_empty() { "yes" } else { "NO" });
}

fn strangers(ground: &Ground, word: &str, seeds: &[(u64, String)]) {
    for (seed, shown) in seeds {
        say!("{word}  seed {seed} of {}: {shown}", ground.words);
    }
}

/// The median and the greatest of what is in order.
fn spread<T: Copy>(sorted: &[T]) -> Option<(T, T)> {
    Some((*sorted.get(sorted.len() / 2)?, *sorted.last()?))
}
