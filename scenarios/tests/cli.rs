//! The command as a person meets it: exit statuses, one-line refusals, and files that work.
#![expect(clippy::disallowed_methods, reason = "the test keeps its files in the folder that cargo gives it")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

struct Wavetank {
    folder: PathBuf,
}

impl Wavetank {
    /// A folder of its own, so that tests do not meet.
    fn new(test: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("cli-{test}"));
        // It may be left from an earlier run.
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("a folder");
        Wavetank { folder }
    }

    fn run(&self, args: &[&str]) -> Output {
        let program = env!("CARGO_BIN_EXE_wavetank");
        Command::new(program).args(args).current_dir(&self.folder).output().expect("the command starts")
    }

    fn ok(&self, args: &[&str]) -> String {
        let output = self.run(args);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{args:?}: {output:?}");
        text
    }

    fn refused(&self, args: &[&str]) -> String {
        let output = self.run(args);
        let line = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {output:?}");
        line
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.folder.join(name), text).expect("writable");
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.join(name)).expect("readable")
    }
}

fn one_line(message: &str) -> &str {
    let message = message.trim_end();
    assert!(!message.is_empty() && !message.contains('\n'), "not one line: {message}");
    message
}

#[test]
fn a_matrix_has_a_cell_for_every_row_and_column_and_a_page() {
    let wavetank = Wavetank::new("matrix");
    let args = ["matrix", "--columns", "nothing,strict", "--seeds", "0..3", "--html", "m.html"];
    let table = wavetank.ok(&args);
    assert!(table.contains("  b  strict client") && table.contains("unexplained: 0"), "{table}");
    assert_eq!(table.matches("0/3 <63.2%").count() + table.matches("1/3 <").count(), 24, "{table}");
    let page = wavetank.read("m.html");
    assert!(page.contains("title=\"wavetank run stale-requests --with strict --seeds 0..3\""), "{page}");
    let cells = wavetank.ok(&["matrix", "--columns", "nothing", "--seeds", "0..1", "--json"]);
    assert_eq!(cells.lines().count(), 13, "a line a row, and one for what is left: {cells}");
    let refused = wavetank.refused(&["matrix", "--columns", "everything"]);
    assert!(one_line(&refused).contains("--columns: there is no column everything: use one of nothing,"));
}

#[test]
fn a_run_tells_its_story_and_its_recording_replays() {
    let wavetank = Wavetank::new("replay");
    let story = wavetank.ok(&["run", "torn-transaction", "--seed", "7"]);
    let lines: Vec<_> = story.lines().collect();
    assert!(
        lines[0].starts_with("torn-transaction   seed 7   client java-3.8 (TV1)   3 agents   fingerprint "),
        "{story}"
    );
    assert!(lines[1].starts_with("TORN  transaction 3 of producer jt1: "), "{story}");
    assert!(
        story.contains("<- decides it") && story.contains("wavetank replay out/torn-transaction-7.json"),
        "{story}"
    );
    assert!(lines.len() <= 20, "a story is about ten lines: {story}");

    let replay = wavetank.ok(&["replay", "out/torn-transaction-7.json"]);
    assert!(replay.contains("the same trace, byte for byte; the same verdict"), "{replay}");
    assert_eq!(replay.lines().next(), Some(lines[0]));
    assert!(
        wavetank
            .ok(&["diff", "out/torn-transaction-7.json", "out/torn-transaction-7.json"])
            .contains("the same")
    );
    let frames =
        wavetank.ok(&["trace", "out/torn-transaction-7.json", "--node", "jt1", "--from", "0.1", "--to", "3"]);
    assert!(frames.lines().count() > 5 && frames.lines().all(|line| line.contains(" jt1 ")), "{frames}");
}

#[test]
fn two_seeds_differ_and_diff_names_the_first_event() {
    let wavetank = Wavetank::new("diff");
    wavetank.ok(&["run", "torn-transaction", "--seed", "1"]);
    wavetank.ok(&["run", "torn-transaction", "--seed", "2"]);
    let output = wavetank.run(&["diff", "out/torn-transaction-1.json", "out/torn-transaction-2.json"]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("the traces part at event "), "{text}");
    wavetank.write("a.trace", &wavetank.ok(&["trace", "--all", "out/torn-transaction-1.json"]));
    let same = wavetank.ok(&["diff", "a.trace", "out/torn-transaction-1.json", "--json"]);
    assert!(same.contains("\"difference\":null"), "{same}");
}

#[test]
fn a_recording_that_cannot_be_used_is_one_line_and_status_2() {
    let wavetank = Wavetank::new("refused");
    wavetank.ok(&["run", "torn-transaction", "--seed", "1"]);
    let good = wavetank.read("out/torn-transaction-1.json");
    let cases = [
        ("edited", good.replace("\"value\": 5", "\"value\": 50"), "seal.plan: the plan was edited"),
        ("truncated", good[..good.len() - 40].to_string(), "the file is truncated"),
        (
            "version",
            good.replace("recording/1", "recording/2"),
            "format: this build reads wavetank-recording/1",
        ),
        ("text", "not a recording".to_string(), "not JSON"),
        ("fault", good.replace("\"hold\"", "\"hodl\""), "plan.faults[0].fault: unknown variant `hodl`"),
        ("scenario", good.replace("\"scenario\": \"torn", "\"scenario\": \"born"), "seal.plan"),
    ];
    for (name, text, expected) in cases {
        let file = format!("{name}.json");
        wavetank.write(&file, &text);
        for command in ["replay", "shrink", "trace"] {
            let message = wavetank.refused(&[command, &file]);
            let line = one_line(&message);
            assert!(line.contains(&file) && line.contains(expected), "{command} {name}: {line}");
        }
    }
    assert!(one_line(&wavetank.refused(&["replay", "absent.json"])).contains("absent.json: cannot be read"));
}

#[test]
fn a_plan_edited_by_hand_replays_without_its_seal() {
    let wavetank = Wavetank::new("edited");
    wavetank.ok(&["run", "torn-transaction", "--seed", "1"]);
    let mut recording: serde_json::Value =
        serde_json::from_str(&wavetank.read("out/torn-transaction-1.json")).expect("JSON");
    recording["plan"]["operations"]["jt1"].as_array_mut().expect("operations").remove(0);
    recording.as_object_mut().expect("an object").remove("seal");
    wavetank.write("edited.json", &recording.to_string());
    let replay = wavetank.run(&["replay", "edited.json"]);
    let text = String::from_utf8_lossy(&replay.stdout).into_owned();
    // Without the first transaction the held one is number 1, so the hold catches another, and nothing is torn.
    assert_eq!(replay.status.code(), Some(1), "{text}");
    assert!(text.contains("only the verdict counts"), "{text}");
}

#[test]
fn names_that_do_not_exist_are_refused_with_those_that_do() {
    let wavetank = Wavetank::new("names");
    let unknown = wavetank.refused(&["run", "torn"]);
    let line = one_line(&unknown);
    assert!(
        line.contains("no scenario is called torn: use one of") && line.contains("torn-transaction"),
        "{line}"
    );
    let switch = wavetank.refused(&["run", "torn-transaction", "--with", "sloppy"]);
    assert!(one_line(&switch).contains("--with: no switch is called sloppy: use one of"));
    assert!(wavetank.refused(&["run", "torn-transaction", "--seeds", "5..5"]).contains("the range is empty"));
    wavetank.ok(&["run", "torn-transaction"]);
    let node = wavetank.refused(&["trace", "out/torn-transaction-1.json", "--node", "nobody"]);
    assert!(one_line(&node).contains("use one of"));
}

#[test]
fn a_finding_tells_what_it_is_and_runs_as_it_failed_and_with_its_fix() {
    let wavetank = Wavetank::new("finding");
    let told = wavetank.ok(&["finding", "20"]);
    for part in ["early-visibility", "--with early-stable-offset", "wavetank run early-visibility --fixed"] {
        assert!(told.contains(part), "{told}");
    }
    assert_eq!(wavetank.ok(&["finding", "early-visibility"]), told);
    assert!(wavetank.ok(&["list"]).contains("20  early-visibility"));
    assert!(wavetank.ok(&["run", "early-visibility"]).contains("expected: yes, this is what"));
    assert!(wavetank.ok(&["run", "early-visibility", "--fixed"]).contains("CLEAN"));
    let unknown = wavetank.refused(&["finding", "99"]);
    let line = one_line(&unknown);
    assert!(
        line.contains("no finding is called 99: use one of") && line.contains("9 torn-transaction"),
        "{line}"
    );
    assert!(
        one_line(&wavetank.refused(&["run", "queue", "--fixed"])).contains("--fixed: queue is no finding")
    );
}

#[test]
fn a_build_is_the_switches_of_its_defects() {
    let wavetank = Wavetank::new("build");
    let list = wavetank.ok(&["list", "--json"]);
    let rows = list.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("an object"));
    let build = rows.into_iter().find(|row| row["build"] == "bufstream-0.1.2").expect("a known build");
    let switches = build["switches"].as_array().expect("a list");
    let mut args = vec!["run", "zero-offset", "--fixed"];
    args.extend(switches.iter().flat_map(|switch| ["--with", switch.as_str().expect("a name")]));
    let by_switches = wavetank.run(&args);
    let by_name = wavetank.run(&["run", "zero-offset", "--fixed", "--as", "0.1.2"]);
    let told = |output: &Output| String::from_utf8_lossy(&output.stdout).lines().next().map(str::to_string);
    assert_eq!(told(&by_name), told(&by_switches));
    assert!(String::from_utf8_lossy(&by_name.stdout).contains("DUPLICATE"), "{by_name:?}");
    assert!(
        one_line(&wavetank.refused(&["run", "queue", "--as", "0.9"])).contains("--as: no build is called")
    );
}

#[test]
fn json_is_one_object_a_line_and_jobs_do_not_change_it() {
    let wavetank = Wavetank::new("json");
    let run = |jobs| wavetank.ok(&["run", "torn-transaction", "--seeds", "1..9", "--json", "--jobs", jobs]);
    let (one, two) = (run("1"), run("2"));
    assert_eq!(one, two);
    let seeds: Vec<_> = one
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("an object")["seed"].as_u64())
        .collect();
    assert_eq!(seeds, (1..9).map(Some).collect::<Vec<_>>());
    let list = wavetank.ok(&["list", "--json"]);
    assert!(list.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()));
}

#[test]
fn shrinking_keeps_the_signature_and_drops_the_rest() {
    let wavetank = Wavetank::new("shrink");
    wavetank.ok(&["run", "torn-transaction", "--seed", "3"]);
    // The hold, the transaction it catches, its victim, and the one before, without which numbers would shift.
    let told = wavetank.ok(&["shrink", "out/torn-transaction-3.json"]);
    assert!(told.contains("shrunk: 6 faults and operations to 4"), "{told}");
    let replay = wavetank.ok(&["replay", "out/torn-transaction-3.small.json"]);
    assert!(replay.contains("TORN") && replay.contains("byte for byte"), "{replay}");
    wavetank.ok(&["run", "torn-transaction", "--with", "strict"]);
    assert!(
        one_line(&wavetank.refused(&["shrink", "out/torn-transaction-strict-1.json"])).contains("no anomaly")
    );
}

#[test]
fn a_search_stops_at_the_first_catch() {
    let wavetank = Wavetank::new("search");
    let told = wavetank.ok(&["run", "torn-transaction-random", "--seeds", "0..400", "--until-failure"]);
    assert!(told.contains("TORN") && told.contains("first caught at seed"), "{told}");
}

#[test]
fn the_history_of_a_run_is_written_for_any_checker() {
    let wavetank = Wavetank::new("history");
    for file in ["h.edn", "h.json"] {
        wavetank.ok(&["run", "queue-short", "--seed", "3", "--history", file]);
        let told = wavetank.ok(&["check", file]);
        assert!(told.contains("jepsen  valid") && told.contains("strict  valid"), "{told}");
    }
    wavetank.ok(&["run", "abort", "--seed", "3", "--history", "h.abort.json"]);
    assert!(wavetank.ok(&["check", "h.abort.json"]).contains("polls after polls: advance/none"));
    // A range has no one history.
    let line = wavetank.refused(&["run", "queue-short", "--seeds", "1..3", "--history", "h.edn"]);
    assert!(line.contains("--history"), "{line}");
}

#[test]
fn findings_are_searched_for_where_nothing_points_at_them() {
    let wavetank = Wavetank::new("blind");
    let told = wavetank.ok(&["blind", "close-hangs", "--searches", "3", "--seeds", "40"]);
    assert!(
        told.contains("finding 7, close-hangs, blind in close --with close-hangs: 3 of 3 searches"),
        "{told}"
    );
    assert!(told.contains("3 times  close-hung") && told.contains("expected: yes"), "{told}");
    let json = wavetank.ok(&["blind", "14", "--searches", "2", "--seeds", "20", "--json"]);
    let object: serde_json::Value = serde_json::from_str(&json).expect("one JSON object");
    assert_eq!((&object["found"], &object["expected"]), (&2.into(), &true.into()), "{json}");
    assert!(object["cpu_s_median"].as_f64().is_some_and(|cpu_s| cpu_s > 0.0), "{json}");
    let fixed = wavetank.ok(&["blind", "14", "--fixed", "--cpu-seconds", "1"]);
    assert!(fixed.contains("show nothing") && fixed.contains("expected: yes"), "{fixed}");
}

/// A search that finds nothing, or what the catalogue does not name, does not end as expected.
#[test]
fn a_miss_and_a_catch_outside_of_the_signature_are_failures() {
    let wavetank = Wavetank::new("blind-bad");
    let bad = |args: &[&str], part: &str| {
        let output = wavetank.run(args);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains(part) && text.contains("expected: NO"), "{text}");
    };
    bad(
        &["blind", "7", "--on", "auto-commit-random", "--searches", "1", "--seeds", "1"],
        "0 of 1 searches find it",
    );
    // The switch of another finding, of which the catalogue says nothing here.
    bad(&["blind", "14", "--with", "stale-commits", "--searches", "4", "--seeds", "1"], "OUTSIDE  seed ");
    bad(&["blind", "14", "--fixed", "--with", "latest", "--cpu-seconds", "1"], "SHOWN  seed ");
}

#[test]
fn searches_that_cannot_be_made_are_refused() {
    let wavetank = Wavetank::new("blind-refused");
    let cases: [(&[&str], &str); 6] = [
        (&["blind", "21"], "no finding is called 21"),
        (
            &["blind", "4", "--on", "torn-transaction-random"],
            "--on: torn-transaction-random shows something by itself",
        ),
        (&["blind", "4", "--on", "nowhere"], "no scenario is called nowhere"),
        (&["blind", "4", "--with", "nothing"], "no switch is called nothing"),
        (&["blind", "16", "--fixed"], "--fixed: finding 16, write-cycles, has no fix"),
        (&["run", "write-cycles", "--fixed"], "--fixed: finding 16, write-cycles, has no fix"),
    ];
    for (args, expected) in cases {
        let line = wavetank.refused(args);
        assert!(one_line(&line).contains(expected), "{args:?}: {line}");
    }
}
