//! `wavetank check` and `wavetank convert` as a person meets them.
#![expect(clippy::disallowed_methods, reason = "the test keeps its files in the folder that cargo gives it")]

use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// 141 is acknowledged at offset 274, and every poll jumps over it (Jepsen, Bufstream 0.1.3-rc.2).
const LOST: &str = "\
{:type :ok, :f :assign, :value [5], :process 1, :time 0}
{:type :ok, :f :txn, :value [[:send 5 [272 140]]], :process 23, :time 1}
{:type :info, :f :start-partition, :value nil, :process :nemesis, :time 2}
{:type :ok, :f :txn, :value [[:send 5 [274 141]]], :process 23, :time 3}
{:type :ok, :f :send, :value [[:send 5 [277 144]]], :process 24, :time 4}
{:type :ok, :f :poll, :value [[:poll {5 [[272 140]]}]], :process 1, :time 5}
{:type :ok, :f :poll, :value [[:poll {5 [[277 144]]}]], :process 1, :time 6}
";

/// The same without the loss.
fn good() -> String {
    LOST.replace("[[277 144]]}", "[[274 141] [277 144]]}")
}

struct Wavetank {
    folder: PathBuf,
}

impl Wavetank {
    /// A folder of its own, so that tests do not meet.
    fn new(test: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("check-{test}"));
        // It may be left from an earlier run.
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("a folder");
        Wavetank { folder }
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.folder.join(name), text).expect("writable");
    }

    /// Runs with `input` as standard input: the exit status, and what it printed.
    fn with_input(&self, args: &[&str], input: &str) -> (i32, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wavetank"));
        command
            .args(args)
            .current_dir(&self.folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("the command starts");
        child.stdin.take().expect("piped").write_all(input.as_bytes()).expect("it reads");
        let Output { status, stdout, stderr } = child.wait_with_output().expect("it ends");
        let said = if status.code() == Some(2) { stderr } else { stdout };
        (status.code().expect("an exit status"), String::from_utf8(said).expect("text"))
    }

    fn run(&self, args: &[&str]) -> (i32, String) {
        self.with_input(args, "")
    }

    fn objects(&self, args: &[&str]) -> Vec<Value> {
        let (_, text) = self.run(args);
        text.lines().map(|line| serde_json::from_str(line).expect("an object a line")).collect()
    }
}

#[test]
fn both_verdicts_are_said_in_words() {
    let wavetank = Wavetank::new("words");
    wavetank.write("history.edn", LOST);
    wavetank.write("good.edn", &good());
    let (status, text) = wavetank.run(&["check", "history.edn"]);
    assert_eq!(status, 1, "{text}");
    assert_eq!(
        text.lines().next(),
        Some(
            "history.edn: 6 events; assign 1 ok; poll 2 ok; send 1 ok; txn 2 ok; 3 records acknowledged, 2 polled"
        )
    );
    assert!(text.contains("  jepsen  INVALID: lost-write, poll-skip, unseen\n"), "{text}");
    assert!(text.contains("  strict  INVALID: lost-write, position-moved, unseen\n"), "{text}");
    assert!(
        text.contains("lost-write: 5:141 of event 2: event 5 read past it (decided by event 5)"),
        "{text}"
    );
    let (status, text) = wavetank.run(&["check", "good.edn"]);
    assert_eq!(status, 0, "{text}");
    assert!(text.contains("  jepsen  valid\n  strict  valid\n"), "{text}");
    assert_eq!(wavetank.run(&["check", "good.edn", "history.edn"]).0, 1, "one of them is not valid");
}

#[test]
fn json_is_one_object_a_history_whatever_the_form() {
    let wavetank = Wavetank::new("json");
    wavetank.write("history.edn", LOST);
    let told = wavetank.objects(&["check", "--json", "history.edn"]).remove(0);
    assert_eq!(told["id"], "history.edn");
    assert_eq!((&told["valid"], &told["strict"]["valid"]), (&json!(false), &json!(false)));
    assert_eq!(told["types"], json!(["lost-write", "poll-skip", "unseen"]));
    let lost = json!([{"key": 5, "value": 141, "index": 1, "writer": 2, "max_read_index": 2, "max_read": 5}]);
    assert_eq!((&told["errors"]["lost-write"], &told["strict"]["errors"]["lost-write"]), (&lost, &lost));
    assert_eq!(told["strict"]["types"], json!(["lost-write", "position-moved", "unseen"]));
    let mut names: Vec<_> = told.as_object().unwrap().keys().cloned().collect();
    names.sort();
    assert_eq!(names, ["errors", "id", "strict", "types", "valid"]);

    let (status, as_json) = wavetank.run(&["convert", "--to", "json", "history.edn"]);
    assert_eq!((status, as_json.lines().count()), (0, 1));
    wavetank.write("history", &format!("{as_json}{}", as_json.replace("history.edn", "second")));
    let both = wavetank.objects(&["check", "--json", "history"]);
    assert_eq!(both[0], told);
    assert_eq!((&both[1]["id"], &both[1]["errors"]), (&json!("second"), &told["errors"]));
    let (_, from_input) = wavetank.with_input(&["check", "--json", "-"], &as_json);
    assert_eq!(serde_json::from_str::<Value>(&from_input).unwrap(), told);
}

#[test]
fn options_override_what_a_file_says() {
    let wavetank = Wavetank::new("options");
    let types = |options: &[&str], file: &str| {
        let told = wavetank.objects(&[&["check", "--json"], options, &[file]].concat()).remove(0);
        (told["valid"].as_bool().unwrap(), told["types"].as_array().unwrap().len())
    };
    // Only a poll-skip: 141 is seen by somebody.
    let skip =
        format!("{LOST}{{:type :ok, :f :poll, :value [[:poll {{5 [[274 141]]}}]], :process 2, :time 7}}\n");
    wavetank.write("skip.edn", &skip);
    wavetank.write("subscribed.edn", &skip.replace(":assign", ":subscribe"));
    assert_eq!(types(&[], "skip.edn"), (false, 1));
    assert_eq!(types(&["--sub-via", "subscribe"], "skip.edn"), (true, 1));
    assert_eq!(types(&[], "subscribed.edn"), (true, 1), "a subscription is found");
    assert_eq!(types(&["--sub-via", "assign"], "subscribed.edn"), (false, 1));
    // Two transactions that polled each other.
    let circle = "{:process 0 :type :ok :f :txn :value [[:send 1 [0 7]] [:poll {2 [[0 8]]}]]}
                  {:process 1 :type :ok :f :txn :value [[:send 2 [0 8]] [:poll {1 [[0 7]]}]]}";
    wavetank.write("circle.edn", circle);
    assert_eq!(types(&[], "circle.edn"), (true, 2), "G1c and PL-2-cycle-exists");
    assert_eq!(types(&["--no-ww-deps"], "circle.edn"), (false, 2));
    let (status, text) = wavetank.run(&["check", "circle.edn"]);
    assert!(
        status == 1 && text.contains("jepsen  valid   allowed: G1c") && text.contains("INVALID: wr-cycle"),
        "{text}"
    );
    let (_, as_json) = wavetank.run(&["convert", "--to", "json", "circle.edn"]);
    wavetank
        .write("told.json", &as_json.replace("{\"schema\"", "{\"options\":{\"ww_deps\":false},\"schema\""));
    assert_eq!(types(&[], "told.json"), (false, 2), "{as_json}");
}

#[test]
fn a_history_that_proves_nothing_is_not_valid() {
    let wavetank = Wavetank::new("vacuous");
    wavetank.write("idle.edn", "{:process 0 :type :ok :f :poll :value [[:poll {}]]}");
    let (status, text) = wavetank.run(&["check", "idle.edn"]);
    assert_eq!(status, 1);
    assert!(text.contains("  strict  PROVES NOTHING\n    vacuous: nothing was sent\n"), "{text}");
}

#[test]
fn unusable_input_is_one_line_with_file_place_and_remedy() {
    let wavetank = Wavetank::new("refused");
    let event = r#"{"p": 0, "s": "ok", "f": "send"}"#;
    for (name, text, told) in [
        ("empty", " \n".to_string(), "is empty: expected a history"),
        (
            "bad.edn",
            format!("{LOST}{{:type :ok, :f :cas, :process 1}}"),
            "line 8, event 6: :f cannot be :cas: expected :send",
        ),
        ("open.edn", LOST[..60].to_string(), "line 2: the text ends"),
        ("prose", "hello".to_string(), "line 1, event 0: the form cannot be hello: expected an operation"),
        (
            "bad.json",
            format!("{{\"history\": [{event}]}}\n{{\"history\": [{event}, {{\"p\": 0}}]}}"),
            "line 2: event 1: field \"s\"",
        ),
        ("cut.json", "{\"history\": [".to_string(), "not JSON: EOF"),
        ("schema.json", "{\"schema\": \"kq-case/9\", \"history\": []}".to_string(), "schema \"kq-case/9\""),
        (
            "way.json",
            "{\"options\": {\"sub_via\": [\"fax\"]}, \"history\": []}".to_string(),
            "options.sub_via cannot be",
        ),
        (
            "heal.json",
            "{\"heal_ns\": true, \"history\": []}".to_string(),
            "field \"heal_ns\" cannot be true: expected nano",
        ),
    ] {
        wavetank.write(name, &text);
        let (status, line) = wavetank.run(&["check", name]);
        assert_eq!(status, 2, "{name}: {line}");
        assert!(line.contains(&format!("{name}: {told}")), "{name}: {line}");
        assert_eq!(line.trim_end().lines().count(), 1, "{name}: {line}");
    }
    assert!(wavetank.run(&["check", "absent"]).1.contains("absent: cannot be read"));
    assert_eq!(wavetank.run(&["check"]).0, 2);
}

#[test]
fn a_history_is_converted_there_and_back() {
    let wavetank = Wavetank::new("convert");
    wavetank.write("history.edn", LOST);
    let (_, as_json) = wavetank.run(&["convert", "--to", "json", "history.edn"]);
    wavetank.write("history.json", &as_json);
    let (_, as_edn) = wavetank.run(&["convert", "--to", "edn", "history.json"]);
    assert_eq!(as_edn.lines().count(), 6);
    assert_eq!(
        as_edn.lines().nth(2),
        Some("{:type :ok, :f :txn, :value [[:send 5 [274 141]]], :time 3, :process 23, :index 2}")
    );
    wavetank.write("two", &format!("{as_json}{}", as_json.replace("history.edn", "second")));
    let (status, line) = wavetank.run(&["convert", "--to", "edn", "two"]);
    assert!(
        status == 2 && line.contains("two: holds 2 histories, and EDN holds one: choose with --id"),
        "{line}"
    );
    assert_eq!(wavetank.run(&["convert", "--to", "edn", "two", "--id", "second"]), (0, as_edn));
    assert!(
        wavetank
            .run(&["convert", "--to", "edn", "two", "--id", "third"])
            .1
            .contains("no history is called third")
    );
}

#[test]
fn what_jepsens_checker_calls_valid_is_valid() {
    let wavetank = Wavetank::new("cases");
    for file in ["random-mixed.jsonl", "random-order.jsonl"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("check/tests/cases/random").join(file);
        let text = std::fs::read_to_string(&path).expect("readable");
        let cases: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
        let told = wavetank.objects(&["check", "--json", path.to_str().expect("a name")]);
        assert_eq!(told.len(), cases.len());
        let mut valid = 0;
        for (told, case) in told.iter().zip(&cases) {
            let bad =
                if case["options"]["sub_via"][0] == "subscribe" { "bad_subscribe" } else { "bad_assign" };
            let expected = case["oracle"][bad].as_array().expect("a list").is_empty();
            assert_eq!((&told["id"], told["valid"].as_bool()), (&case["id"], Some(expected)));
            valid += usize::from(expected);
        }
        assert!((10..cases.len() - 10).contains(&valid), "{valid} of {} are valid", cases.len());
    }
}

#[test]
fn polls_after_aborts_are_counted() {
    let wavetank = Wavetank::new("aborts");
    let polls = json!([
        {"p": 0, "s": "fail", "topic": "t1", "offsets": [4, 5, 6]},
        {"p": 0, "s": "ok", "topic": "t1", "offsets": [1, 2], "rebalance": true},
        {"p": 0, "s": "ok", "topic": "t1", "offsets": [3]},
    ]);
    let file = json!({"schema": "kq-abort/1", "cases": [{"id": "a", "polls": polls}]});
    wavetank.write("aborts.json", &file.to_string());
    let told = wavetank.objects(&["check", "--json", "aborts.json"]);
    assert_eq!(told, [json!({"id": "a", "counts": {"advance/none": 1, "rewind-further/rebalance": 1}})]);
    assert_eq!(
        wavetank.run(&["check", "aborts.json"]),
        (0, "a: polls after polls: advance/none 1, rewind-further/rebalance 1\n".to_string())
    );
    wavetank.write("bad.json", &file.to_string().replace("[1,2]", "7"));
    let (status, line) = wavetank.run(&["check", "bad.json"]);
    assert!(status == 2 && line.contains("bad.json: field cases[0].polls[1].offsets: "), "{line}");
}
