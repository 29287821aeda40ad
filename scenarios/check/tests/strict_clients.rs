//! Single clients: positions that move by themselves, polls that stay empty, operations that do not end, and what a history
//! exercised. For each family histories that must fail, and ones as near to them as can be that must pass.

use check::strict::vacuity::Vacuity;
use check::{Atom, Conditions, Exercised, FinalReads, History, Timeouts, edn, exercised, strict};

const SECOND: u64 = 1_000_000_000;

fn history(conditions: Conditions, text: &str) -> History {
    let mut history = edn::read(text).unwrap();
    history.conditions = conditions;
    history
}

/// Of the types of this file, those found, and the deciding event of each.
fn found(conditions: Conditions, text: &str) -> Vec<(&'static str, usize)> {
    let history = history(conditions, text);
    let all = strict(&history, &FinalReads::new()).anomalies(&history);
    let here = ["position-moved", "stale-poll", "stuck-operation"];
    all.into_iter()
        .filter(|found| here.contains(&found.name))
        .map(|found| (found.name, found.event))
        .collect()
}

/// Six records of key 1 at offsets 0 to 5, the fifth of a failed operation; then `then`, whose first event is number 2.
fn after_six_records(then: &str) -> String {
    format!(
        "{{:process 0 :type :ok :f :send :value [[:send 1 [0 10]] [:send 1 [1 11]] [:send 1 [2 12]] [:send 1 [3 13]] [:send 1 [5 15]]]}}
         {{:process 8 :type :fail :f :txn :value [[:send 1 [4 14]]]}}
         {then}"
    )
}

fn poll(status: &str, records: &str, marks: &str) -> String {
    format!("{{:process 9 :type :{status} :f :poll :value [[:poll {{1 [{records}]}}]] {marks}}}\n")
}

fn assign(keys: &str, marks: &str) -> String {
    format!("{{:process 9 :type :ok :f :assign :value [{keys}] {marks}}}\n")
}

fn positions(then: &[String]) -> Vec<usize> {
    let found = found(Conditions::default(), &after_six_records(&then.concat()));
    assert!(found.iter().all(|found| found.0 == "position-moved"), "{found:?}");
    found.into_iter().map(|found| found.1).collect()
}

#[test]
fn a_position_moves_on_by_reading() {
    let first = || poll("ok", "[0 10] [1 11]", "");
    assert_eq!(positions(&[assign("1", ""), first(), poll("ok", "[2 12] [3 13]", "")]), [0; 0]);
    assert_eq!(positions(&[assign("1", ""), first(), poll("ok", "[3 13]", "")]), [4], "over 12");
    assert_eq!(positions(&[assign("1", ""), first(), poll("ok", "[1 11] [2 12]", "")]), [4], "back");
    assert_eq!(positions(&[assign("1", ""), poll("ok", "[0 10] [2 12]", "")]), [3], "within one operation");
    assert_eq!(
        positions(&[assign("1", ""), poll("ok", "[2 12] [3 13] [5 15]", "")]),
        [0; 0],
        "14 was never written"
    );
}

#[test]
fn what_somebody_saw_of_a_failed_operation_is_not_due() {
    // A reader sees 14, which is a G1a; the reader that does not is right.
    let g1a = "{:process 7 :type :ok :f :poll :value [[:poll {1 [[4 14]]}]]}\n".to_string();
    assert_eq!(positions(&[g1a, assign("1", ""), poll("ok", "[3 13] [5 15]", "")]), [0; 0]);
}

#[test]
fn only_an_ok_operation_moves_the_position() {
    let read = || [assign("1", ""), poll("ok", "[0 10]", ""), poll("fail", "[1 11] [2 12]", "")];
    assert_eq!(positions(&[read().concat(), poll("ok", "[1 11]", "")]), [0; 0], "it went back");
    assert_eq!(positions(&[read().concat(), poll("ok", "[3 13]", "")]), [5], "it did not");
    assert_eq!(positions(&[assign("1", ""), poll("ok", "[0 10]", ""), poll("info", "[2 12]", "")]), [4]);
}

#[test]
fn rebalances_seeks_resets_and_assignments_explain_moves() {
    let moved = |marks| poll("ok", "[3 13]", marks);
    let start = || [assign("1", ""), poll("ok", "[0 10]", "")].concat();
    assert_eq!(positions(&[start(), moved(":rebalance-log [{:keys [1 2]}]")]), [0; 0]);
    assert_eq!(positions(&[start(), moved(":rebalance-log [{:keys [2]}]")]), [4], "another partition");
    assert_eq!(positions(&[start(), moved(":repositioned [1]")]), [0; 0]);
    assert_eq!(positions(&[start(), poll("fail", "", ":rebalance-log [{:keys [1]}]"), moved("")]), [0; 0]);
    assert_eq!(positions(&[start(), assign("1", ""), moved("")]), [5], "an assignment keeps what it keeps");
    assert_eq!(positions(&[start(), assign("2", ""), assign("1", ""), moved("")]), [0; 0]);
    assert_eq!(positions(&[start(), assign("1", ":seek-to-beginning? true"), moved("")]), [0; 0]);
    assert_eq!(positions(&[start(), assign("1", ":repositioned [1]"), moved("")]), [0; 0]);
    let subscribed = "{:process 9 :type :ok :f :subscribe :value [1]}\n".to_string();
    assert_eq!(positions(&[start(), subscribed, moved("")]), [0; 0]);
    let other = "{:process 5 :type :ok :f :assign :value [1]} {:process 5 :type :ok :f :poll :value [[:poll {1 [[5 15]]}]]}";
    assert_eq!(positions(&[start(), other.to_string()]), [0; 0], "another process");
}

#[test]
fn a_client_that_subscribes_is_judged_if_rebalances_are_logged() {
    let subscribe = "{:process 9 :type :ok :f :subscribe :value [1]}\n";
    let text = after_six_records(&[subscribe, &poll("ok", "[0 10]", ""), &poll("ok", "[3 13]", "")].concat());
    assert_eq!(found(Conditions::default(), &text), []);
    let logged = Conditions { moves_logged: true, ..Conditions::default() };
    assert_eq!(found(logged, &text), [("position-moved", 4)]);
    // One that is logged says so of all.
    let first = poll("ok", "[0 10]", ":rebalance-log [{:type :assigned :keys [1]}]");
    let text = after_six_records(&[subscribe, &first, &poll("ok", "[3 13]", "")].concat());
    assert_eq!(found(Conditions::default(), &text), [("position-moved", 4)]);
    // In the second poll of the first operation there may have been a rebalance.
    let twice = "{:process 9 :type :ok :f :poll :value [[:poll {1 [[0 10]]}] [:poll {}]] :rebalance-log [{:keys [1]}]}\n";
    let text = after_six_records(&[subscribe, twice, &poll("ok", "[3 13]", "")].concat());
    assert_eq!(found(Conditions::default(), &text), []);
    let text =
        after_six_records(&[subscribe, twice, &poll("ok", "[1 11]", ""), &poll("ok", "[3 13]", "")].concat());
    assert_eq!(found(Conditions::default(), &text), [("position-moved", 5)]);
    let unknown = after_six_records(&[poll("ok", "[0 10]", ""), poll("ok", "[3 13]", "")].concat());
    assert_eq!(found(Conditions::default(), &unknown), [], "nobody knows how it got its partitions");
}

#[test]
fn a_moved_position_says_what_it_passed() {
    let text =
        after_six_records(&[assign("1", ""), poll("ok", "[0 10]", ""), poll("ok", "[5 15]", "")].concat());
    let verdict = strict(&history(Conditions::default(), &text), &FinalReads::new());
    let moved = &verdict.moved_positions[0];
    assert_eq!((moved.process, moved.key, moved.delta), (9, Atom::Int(1), 4));
    assert_eq!((moved.before, moved.after), ((3, Atom::Int(10)), (4, Atom::Int(15))));
    assert_eq!(moved.skipped, [Atom::Int(11), Atom::Int(12), Atom::Int(13)]);
}

/// Everything waits for a second at most, so a record is visible 1 + 10 + 2 + 1 = 14 s after its acknowledgement.
fn quick(heal_s: u64) -> Conditions {
    let timeouts = Timeouts {
        delivery_timeout_ms: 1000,
        max_block_ms: 1000,
        default_api_timeout_ms: 1000,
        transaction_timeout_ms: 1000,
        session_timeout_ms: 1000,
    };
    Conditions { heal_ns: Some(heal_s * SECOND), timeouts: Some(timeouts), ..Conditions::default() }
}

/// Offset 0 is acknowledged and read, offset 1 is acknowledged at 100 s; then an empty poll is invoked at `at_s`.
fn empty_poll(at_s: u64, marks: &str) -> String {
    let (at, acked) = (at_s * SECOND, 100 * SECOND);
    format!(
        "{{:process 9 :type :ok :f :assign :value [1] :time 1}}
         {{:process 0 :type :ok :f :send :value [[:send 1 [0 10]]] :time 2}}
         {{:process 9 :type :ok :f :poll :value [[:poll {{1 [[0 10]]}}]] :time 3}}
         {{:process 0 :type :ok :f :send :value [[:send 1 [1 11]]] :time {acked}}}
         {{:process 9 :type :invoke :f :poll :value [[:poll]] :time {at}}}
         {{:process 9 :type :ok :f :poll :value [[:poll {{}}]] :time {at} {marks}}}"
    )
}

#[test]
fn a_poll_is_stale_when_it_is_empty_beyond_the_bound() {
    assert_eq!(found(quick(50), &empty_poll(114, "")), [("stale-poll", 5)]);
    assert_eq!(found(quick(50), &empty_poll(113, "")), [], "it may still be undecided");
    assert_eq!(found(quick(105), &empty_poll(114, "")), [], "the trouble was not over for long");
    assert_eq!(found(quick(105), &empty_poll(119, "")), [("stale-poll", 5)]);
    assert_eq!(found(Conditions::default(), &empty_poll(999, "")), [], "nobody knows when it was over");
    assert_eq!(
        found(quick(50), &empty_poll(114, ":rebalance-log [{:keys [1]}]")),
        [],
        "it may be elsewhere now"
    );
    let verdict = strict(&history(quick(50), &empty_poll(114, "")), &FinalReads::new());
    let stale = verdict.stale_polls[0];
    assert_eq!((stale.position, stale.due, stale.writer), (0, (Atom::Int(11), 1), 3));
}

#[test]
fn a_poll_is_not_stale_when_nothing_is_due() {
    let full = empty_poll(114, "").replace("[[:poll {}]]", "[[:poll {1 [[1 11]]}]]");
    assert_eq!(found(quick(50), &full), []);
    let elsewhere = empty_poll(114, "").replace("{}", "{2 [[0 20]]}");
    assert_eq!(found(quick(50), &elsewhere), [], "it was busy with another partition");
    let failed =
        empty_poll(114, "").replace(":ok :f :poll :value [[:poll {}]]", ":fail :f :poll :value [[:poll {}]]");
    assert_eq!(found(quick(50), &failed), []);
    let unknown =
        empty_poll(114, "").replace(":ok :f :send :value [[:send 1 [1", ":info :f :send :value [[:send 1 [1");
    assert_eq!(found(quick(50), &unknown), []);
    let another = empty_poll(114, "").replace(":assign :value [1]", ":assign :value [2]");
    assert_eq!(found(quick(50), &another), []);
    let subscribed = empty_poll(114, "").replace(":f :assign", ":f :subscribe");
    assert_eq!(found(quick(50), &subscribed), []);
    let unread = empty_poll(114, "").replace("[[:poll {1 [[0 10]]}]]", "[[:poll {}]]");
    assert_eq!(found(quick(50), &unread), [], "nobody knows where it began");
    let from_start = unread.replace(":assign :value [1]", ":assign :value [1] :seek-to-beginning? true");
    assert_eq!(found(quick(50), &from_start), [("stale-poll", 5)]);
}

/// An operation of two micro-operations: 2 s for each and for the offsets, and 4 s around them, make 10 s.
fn operation(invoked_s: u64, completed_s: Option<u64>, end_s: u64) -> String {
    let completed = completed_s.map_or(String::new(), |at| {
        format!("{{:process 0 :type :info :f :txn :value [] :time {}}}", at * SECOND)
    });
    format!(
        "{{:process 0 :type :invoke :f :txn :value [[:send 1 10] [:poll]] :time {}}}
         {{:process 1 :type :invoke :f :crash :time 0}}
         {completed}
         {{:process 9 :type :ok :f :poll :value [[:poll {{}}]] :time {}}}",
        invoked_s * SECOND,
        end_s * SECOND
    )
}

#[test]
fn an_operation_is_stuck_beyond_its_bound() {
    assert_eq!(found(quick(50), &operation(60, Some(71), 90)), [("stuck-operation", 2)]);
    assert_eq!(found(quick(50), &operation(60, Some(70), 90)), []);
    assert_eq!(found(quick(50), &operation(10, Some(60), 90)), [], "most of it was in the time of trouble");
    assert_eq!(found(quick(50), &operation(10, Some(61), 90)), [("stuck-operation", 2)]);
    assert_eq!(found(quick(50), &operation(60, None, 71)), [("stuck-operation", 0)]);
    assert_eq!(found(quick(50), &operation(60, None, 70)), [], "it may still end in time");
    assert_eq!(found(Conditions::default(), &operation(60, Some(999), 999)), []);
}

#[test]
fn a_history_says_what_it_exercised() {
    let text = "{:process 0 :type :invoke :f :txn :value [[:send 1 10] [:poll]] :time 5}
                {:process 1 :type :invoke :f :poll :value [[:poll] [:poll]] :time 6}
                {:process 0 :type :ok :f :txn :value [[:send 1 [0 10]] [:poll {1 [[7 3] [8 4]]}]] :time 9}
                {:process 1 :type :info :f :poll :value [[:poll {1 [[7 3]]}] [:poll]] :time 10 :rebalance-log [{:keys [1]}]}
                {:process 2 :type :invoke :f :txn :value [[:send 1 11]] :time 20}
                {:process 3 :type :fail :f :send :value [[:send 1 12]] :time 30}
                {:process 3 :type :invoke :f :crash :time 31}";
    let count = |faults: &[(u64, u64)]| {
        let faults = faults.iter().map(|(from, to)| *from..*to).collect();
        exercised(&history(Conditions { faults, ..Conditions::default() }, text))
    };
    let counted = count(&[]);
    let Exercised { acknowledged, polled, polls_across_rebalance, trouble, .. } = counted;
    assert_eq!((acknowledged, polled, polls_across_rebalance, trouble), (1, 2, 2, None));
    assert_eq!(
        count(&[]).to_string(),
        "crash 0 ok 1 open; poll 0 ok 1 info; send 0 ok 1 fail; txn 1 ok 1 open; 1 records acknowledged, 2 polled; 2 polls \
         across a rebalance"
    );
    let met = |faults: &[(u64, u64)]| {
        let trouble = count(faults).trouble.unwrap();
        (trouble.operations, trouble.transactions)
    };
    assert_eq!(met(&[(9, 15)]), (2, 1), "the first two were not over");
    assert_eq!(met(&[(0, 5), (11, 20)]), (0, 0));
    assert_eq!(met(&[(40, 50)]), (1, 1), "one goes on for ever");
    let words = count(&[(9, 15)]).to_string();
    assert!(words.ends_with("; 2 operations met trouble, 1 of them transactions"), "{words}");
    assert_eq!(
        count(&[(9, 15)]).to_json()["met_trouble"],
        serde_json::json!({"operations": 2, "transactions": 1})
    );
    let vacuous = |faults: std::ops::Range<u64>| {
        let conditions = Conditions { faults: vec![faults], ..Conditions::default() };
        strict(&history(conditions, text), &FinalReads::new()).vacuous
    };
    assert_eq!(vacuous(0..5), [Vacuity::NothingMetTrouble]);
    assert_eq!(vacuous(9..15), []);
}
