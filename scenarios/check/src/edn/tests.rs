//! Histories by hand: every shape of operation, and what is none.

use super::*;
use crate::history::Op;

/// As Jepsen writes it, with everything that may stand around operations.
const HISTORY: &str = r#"
; written by hand
{:type :info, :f :start-partition, :value [:isolated {"n1" #{"n2"}}], :process :nemesis, :time 1, :index 0}
#jepsen.history.Op{:type :invoke, :f :assign, :value [5 11], :seek-to-beginning? true, :time 2, :process 0, :index 1}
{:type :ok, :f :assign, :value [5 11], :seek-to-beginning? true, :time 3, :process 0, :index 2}
{:type :invoke, :f :txn, :value [[:send 5 141] [:poll]], :time 4, :process 0, :index 3, :other #uuid "c0ffee"}
{:type :info, :f :txn, :value [[:send 5 [274 141]] [:send 5 [nil 142]] [:send :x "y z"] [:poll]
                              [:poll {5 [[274 141] [nil 7]], :x ([0 b])}]],
 :error [:disconnect "gone"], :rebalance-log ({:type :revoked, :keys [5]} {:type :assigned :keys [11 5]}),
 :commit-invoked-ns 6 :repositioned [11] :time 7, :process 0, :index 4}
{:type :invoke, :f :crash, :value nil, :time 8, :process 0}
{:type :info, :f :crash, :time 8, :process 0, :error :dead}
#_ {:type :not-read}
{:type :invoke, :f :debug-topic-partitions, :value (5 11), :time 9, :process 5}
{:type :ok, :f :debug-topic-partitions, :value {:node "n1" :partitions {5 nil}}, :time 9, :process 5}
{:type :invoke, :f :subscribe, :value #{5}, :time 10, :process 5}
{:type :fail, :f :poll, :value [[:poll {}]], :time 11, :process 5, :error "no \"broker\""}
"#;

#[test]
fn every_shape_is_read() {
    let history = read(HISTORY).unwrap();
    assert_eq!(history.len(), 10);
    let event = history.event(1);
    assert_eq!((event.status(), event.function(), event.time_ns()), (Status::Ok, Function::Assign, 3));
    assert_eq!((event.keys(), event.from_start()), (&[Atom::Int(5), Atom::Int(11)][..], true));
    let event = history.event(2);
    assert_eq!(event.ops().len(), 2);
    assert_eq!(event.ops()[1], Op::Poll(None));
    let event = history.event(3);
    assert_eq!(
        (event.process(), event.status(), event.error()),
        (0, Status::Info, Some("[:disconnect \"gone\"]"))
    );
    let x = Atom::Name(0);
    let sends: Vec<_> = event.sends().collect();
    assert_eq!(
        sends[..2],
        [(Atom::Int(5), Atom::Int(141), Ack::At(274)), (Atom::Int(5), Atom::Int(142), Ack::Offsetless)]
    );
    assert_eq!(sends[2], (x, Atom::Name(1), Ack::None));
    let polled: Vec<_> = event.polled().map(|record| (record.key, record.offset, record.value)).collect();
    assert_eq!(
        polled,
        [
            (Atom::Int(5), Some(274), Atom::Int(141)),
            (Atom::Int(5), None, Atom::Int(7)),
            (x, Some(0), Atom::Name(2))
        ]
    );
    assert_eq!(history.names(), ["x", "y z", "b"]);
    assert_eq!(
        (event.rebalanced(), event.repositioned()),
        (&[Atom::Int(5), Atom::Int(11)][..], &[Atom::Int(11)][..])
    );
    assert_eq!((event.commit_invoked_ns(), history.event(2).commit_invoked_ns()), (Some(6), None));
    assert_eq!(history.event(5).error(), Some("dead"));
    assert_eq!((history.event(6).keys().len(), history.event(7).keys().len()), (2, 0));
    assert_eq!(
        (history.event(8).function(), history.event(8).keys()),
        (Function::Subscribe, &[Atom::Int(5)][..])
    );
    assert_eq!((history.event(9).ops().len(), history.event(9).polled().count()), (1, 0));
    assert_eq!(history.event(9).error(), Some("no \"broker\""));
}

#[test]
fn one_vector_is_the_same_as_one_operation_a_line() {
    let lines = read(HISTORY).unwrap();
    for text in [format!("[{HISTORY}]"), format!("({HISTORY}) ; end\n")] {
        assert_eq!(read(&text), Ok(lines.clone()));
    }
    assert_eq!(read(""), Ok(History::default()));
    assert_eq!(read("[]"), Ok(History::default()));
    let text = format!("[{HISTORY}] {{}}");
    assert_eq!(read(&text).unwrap_err().to_string(), "line 18: there is more after the vector of operations");
}

#[test]
fn a_history_survives_the_round_trip() {
    let history = read(HISTORY).unwrap();
    let written = write(&history);
    assert_eq!(read(&written), Ok(history.clone()));
    assert_eq!(written.lines().count(), 10);
    let line = written.lines().nth(3).unwrap();
    assert_eq!(
        line,
        "{:type :info, :f :txn, :value [[:send 5 [274 141]] [:send 5 [nil 142]] [:send :x \"y z\"] [:poll] \
         [:poll {5 [[274 141] [nil 7]], :x [[0 :b]]}]], :time 7, :process 0, :index 3, \
         :rebalance-log [{:keys [5 11]}], :repositioned [11], :commit-invoked-ns 6, \
         :error \"[:disconnect \\\"gone\\\"]\"}"
    );
}

#[test]
fn what_is_wrong_is_said_with_line_event_field_and_remedy() {
    let good = "{:type :ok, :f :txn, :process 0}\n";
    for (text, told) in [
        ("7", "line 2, event 1: the form cannot be 7: expected an operation, {:type"),
        ("{:type :ok :f :txn}", "line 2, event 1: :process cannot be nil: expected an integer"),
        ("{:process 1 :f :txn :type :maybe}", "line 2, event 1: :type cannot be :maybe: expected :invoke,"),
        ("{:process 1 :f :append :type :ok}", "line 2, event 1: :f cannot be :append: expected :send,"),
        (
            "{:process 1 :f :send :type :ok :time -1}",
            "line 2, event 1: :time cannot be -1: expected nanoseconds",
        ),
        ("{:process 1 :f :send :type :ok :value 3}", "line 2, event 1: :value cannot be 3: expected [[:send"),
        (
            "{:process 1 :f :send :type :ok :value [[:send 1]]}",
            "line 2, event 1: :value cannot be [:send 1]:",
        ),
        (
            "{:process 1 :f :send :type :ok :value [[:send 1 [2]]]}",
            "line 2, event 1: :value cannot be [:send 1 [2]]:",
        ),
        ("{:process 1 :f :send :type :ok :value [[:send 1 [a 2]]]}", "line 2, event 1: :value cannot be"),
        ("{:process 1 :f :send :type :ok :value [[:send 1 1.5]]}", "line 2, event 1: :value cannot be"),
        (
            "{:process 1 :f :poll :type :ok :value [[:poll {1 [[2]]}]]}",
            "line 2, event 1: :value cannot be [2]: expected a record",
        ),
        (
            "{:process 1 :f :poll :type :ok :value [[:poll [1]]]}",
            "line 2, event 1: :value cannot be [:poll [1]]:",
        ),
        (
            "{:process 1 :f :assign :type :ok :value 3}",
            "line 2, event 1: :value cannot be 3: expected a sequence of keys",
        ),
        ("\n{", "line 3: the text ends before a '}'"),
    ] {
        let error = read(&format!("{good}{text}")).unwrap_err().to_string();
        assert!(error.starts_with(told), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }
}
