//! What was polled, held against who sent it and when: for each family histories that must fail, and ones as near to them
//! as can be that must pass. Histories are written as Jepsen writes them.

use check::{Atom, FinalReads, History, Verdict, edn, strict};

fn history(text: &str) -> History {
    edn::read(text).unwrap()
}

fn judge(text: &str) -> Verdict {
    strict(&history(text), &FinalReads::new())
}

/// The types found, and the deciding event of each.
fn found(text: &str) -> Vec<(&'static str, usize)> {
    let history = history(text);
    let verdict = strict(&history, &FinalReads::new());
    verdict.anomalies(&history).into_iter().map(|found| (found.name, found.event)).collect()
}

/// A transaction that sends two records, and a poll that completes at 20 ns, while it goes on. Event 3 is the poll.
fn split(commit: &str) -> String {
    format!(
        "{{:process 0 :type :invoke :f :txn :value [[:send 1 7] [:send 2 8]] :time 10}}
         {{:process 9 :type :invoke :f :poll :value [[:poll]] :time 12}}
         {{:process 9 :type :ok :f :poll :value [[:poll {{1 [[0 7]]}}]] :time 20}}
         {{:process 0 :type :ok :f :txn :value [[:send 1 [0 7]] [:send 2 [0 8]]] :time 40 {commit}}}
         {{:process 9 :type :ok :f :poll :value [[:poll {{2 [[0 8]]}}]] :time 50}}"
    )
}

#[test]
fn early_visibility_is_a_poll_that_was_over_before_the_commit_was_asked_for() {
    assert_eq!(found(&split(":commit-invoked-ns 30")), [("early-visibility", 2)]);
    let verdict = judge(&split(":commit-invoked-ns 30"));
    let early = verdict.early_reads[0];
    assert_eq!((early.value, early.reader, early.writer), (Atom::Int(7), 2, 3));
    assert_eq!(early.commit_invoked_ns, Some(30));
    assert_eq!(found(&split(":commit-invoked-ns 20")), [], "it may have been asked for before");
    assert_eq!(found(&split("")), [], "nobody knows when it was");
}

#[test]
fn early_visibility_is_also_a_poll_before_the_writer_began_or_of_ones_own() {
    let before = "{:process 9 :type :ok :f :poll :value [[:poll {1 [[0 7]]}]] :time 1}
                  {:process 0 :type :invoke :f :txn :value [[:send 1 7]] :time 2}
                  {:process 0 :type :ok :f :txn :value [[:send 1 [0 7]]] :time 3}";
    assert_eq!(found(before), [("early-visibility", 0)]);
    let own = |commit| {
        format!(
            "{{:process 0 :type :invoke :f :txn :value [[:send 1 7] [:poll]] :time 2}}
             {{:process 0 :type :ok :f :txn :value [[:send 1 [0 7]] [:poll {{1 [[0 7]]}}]] :time 9 {commit}}}"
        )
    };
    assert_eq!(found(&own(":commit-invoked-ns 5")), [("early-visibility", 1)]);
    assert_eq!(found(&own("")), [], "Jepsen's precommitted-read covers it");
}

#[test]
fn the_split_transaction_that_jepsens_checker_passes_is_seen() {
    // finding-17754-split-both-committed, with the moment at which the client asked to commit.
    let text = "{:process 0 :type :invoke :f :txn :value [[:send 1 2] [:send 2 1]] :time 2}
                {:process 3 :type :ok :f :poll :value [[:poll {1 [[2 2]]}]] :time 6}
                {:process 0 :type :ok :f :txn :value [[:send 1 [2 2]] [:send 2 [0 1]]] :time 9 :commit-invoked-ns 8}
                {:process 2 :type :ok :f :poll :value [[:poll {1 [[2 2]] 2 [[0 1]]}]] :time 13}";
    assert_eq!(found(text), [("early-visibility", 1)]);
    let jepsen = check::jepsen::verdict(&history(text), check::jepsen::Options::default());
    assert!(jepsen.is_valid(), "{:?}", jepsen.types());
}

#[test]
fn a_phantom_is_what_nobody_sent_however_it_ended() {
    let with = |sender: &str| {
        format!(
            "{{:process 0 :type :ok :f :send :value [[:send 1 [0 7]]]}}
             {sender}
             {{:process 9 :type :ok :f :poll :value [[:poll {{1 [[0 7] [1 8]]}}]]}}"
        )
    };
    assert_eq!(found(&with("")), [("phantom", 1)]);
    assert_eq!(
        found(&with("{:process 1 :type :ok :f :send :value [[:send 2 [1 8]]]}"))[0],
        ("phantom", 2),
        "another key"
    );
    for sender in [
        "{:process 1 :type :invoke :f :send :value [[:send 1 8]]}",
        "{:process 1 :type :info :f :send :value [[:send 1 8]]}",
    ] {
        assert_eq!(found(&with(sender)), []);
    }
    let failed = found(&with("{:process 1 :type :fail :f :send :value [[:send 1 8]]}"));
    assert_eq!(failed, [("G1a", 2)], "an aborted read is no phantom");
    let early = "{:process 9 :type :fail :f :poll :value [[:poll {1 [[0 7]]}]]}
                 {:process 0 :type :ok :f :send :value [[:send 1 [1 8]]]}
                 {:process 9 :type :ok :f :poll :value [[:poll {1 [[1 8]]}]]}";
    assert_eq!(found(early), [("phantom", 0)], "whoever fails tells the truth about what it saw");
}

/// A transaction writes offsets 1, 2 and 4 of key 1, and 5 of key 2; offsets 0, 3 and 9 of key 1 are another's. Event 2 polls.
fn three_records(status: &str, polled: &str, marks: &str) -> String {
    format!(
        "{{:process 0 :type :{status} :f :txn :value [[:send 1 [1 11]] [:send 1 [2 12]] [:send 1 [4 14]] [:send 2 [5 15]]]}}
         {{:process 1 :type :ok :f :send :value [[:send 1 [0 10]] [:send 1 [3 13]] [:send 1 [9 19]]]}}
         {{:process 9 :type :ok :f :poll :value {polled} {marks}}}"
    )
}

/// Somebody else polls everything, so that the transaction is whole in the end.
fn seen_whole(text: &str) -> String {
    let all = "[[:poll {1 [[0 10] [1 11] [2 12] [3 13] [4 14] [9 19]] 2 [[5 15]]}]]";
    format!("{text}\n{{:process 8 :type :ok :f :poll :value {all}}}")
}

#[test]
fn g1b_is_some_of_a_transactions_records_polled_and_others_passed_over() {
    for status in ["ok", "info", "fail"] {
        let text = three_records(status, "[[:poll {1 [[0 10] [1 11] [3 13] [4 14]]}]]", "");
        let verdict = judge(&seen_whole(&text));
        assert_eq!(verdict.intermediate_reads.len(), 1, "{status}");
        let read = &verdict.intermediate_reads[0];
        assert_eq!((read.reader, read.writer, read.key), (2, 0, Atom::Int(1)));
        assert_eq!(
            (&read.seen[..], &read.passed[..]),
            (&[Atom::Int(11), Atom::Int(14)][..], &[Atom::Int(12)][..])
        );
    }
    // In two polls of one operation, and at either end of the transaction.
    for polled in
        ["[[:poll {1 [[0 10] [1 11]]}] [:poll {1 [[3 13] [9 19]]}]]", "[[:poll {1 [[0 10] [4 14] [9 19]]}]]"]
    {
        let verdict = judge(&seen_whole(&three_records("ok", polled, "")));
        assert_eq!(verdict.intermediate_reads.len(), 1, "{polled}");
        assert_eq!(verdict.intermediate_reads[0].passed.len(), 2, "{polled}");
    }
}

#[test]
fn what_is_torn_in_the_end_is_told_once() {
    let verdict = judge(&three_records("ok", "[[:poll {1 [[0 10] [1 11] [3 13] [4 14]] 2 [[5 15]]}]]", ""));
    assert_eq!((verdict.torn_transactions.len(), verdict.intermediate_reads.len()), (1, 0));
}

#[test]
fn a_part_of_a_transaction_at_the_end_of_a_read_is_no_g1b() {
    for (polled, marks) in [
        ("[[:poll {1 [[0 10] [1 11]]}]]", ""),
        ("[[:poll {1 [[2 12] [3 13] [4 14]]}]]", ""),
        ("[[:poll {1 [[0 10] [3 13] [9 19]] 2 [[5 15]]}]]", ""),
        ("[[:poll {1 [[0 10] [1 11] [3 13] [4 14]]}]]", ":rebalance-log [{:keys [1]}]"),
        ("[[:poll {1 [[0 10] [1 11] [3 13] [4 14]]}]]", ":repositioned [1]"),
    ] {
        assert_eq!(judge(&three_records("ok", polled, marks)).intermediate_reads, [], "{polled}");
    }
    // Records that were not sent in one transaction, and one of which nobody knows the offset.
    let apart = "{:process 0 :type :ok :f :send :value [[:send 1 [1 11]] [:send 1 [2 12]]]}
                 {:process 9 :type :ok :f :poll :value [[:poll {1 [[0 10] [1 11] [3 13]]}]]}";
    assert_eq!(judge(apart).intermediate_reads, []);
    let unknown = "{:process 0 :type :info :f :txn :value [[:send 1 [1 11]] [:send 1 12]]}
                   {:process 9 :type :ok :f :poll :value [[:poll {1 [[0 10] [1 11] [3 13]]}]]}";
    assert_eq!(judge(unknown).intermediate_reads, []);
}

#[test]
fn a_wr_cycle_is_transactions_that_polled_one_another() {
    let pair = |first: &str, second: &str| {
        format!(
            "{{:process 0 :type :invoke :f :txn :value [[:send 1 7] [:poll]]}}
             {{:process 1 :type :invoke :f :txn :value [[:send 2 8] [:poll]]}}
             {{:process 0 :type :ok :f :txn :value [[:send 1 [0 7]] [:poll {first}]]}}
             {{:process 1 :type :ok :f :txn :value [[:send 2 [0 8]] [:poll {second}]]}}
             {{:process 9 :type :ok :f :poll :value [[:poll {{1 [[0 7]] 2 [[0 8]]}}]]}}"
        )
    };
    let circle = pair("{2 [[0 8]]}", "{1 [[0 7]]}");
    assert_eq!(found(&circle), [("wr-cycle", 3)]);
    assert_eq!(judge(&circle).wr_cycles[0].events, [2, 3]);
    // Jepsen's checker allows it as soon as it infers an order of writes.
    let options = check::jepsen::Options::default();
    assert!(check::jepsen::verdict(&history(&circle), options).is_valid());
    assert_eq!(found(&pair("{}", "{1 [[0 7]]}")), []);
    assert_eq!(found(&pair("{2 [[0 8]]}", "{}")), []);
}

#[test]
fn the_shortest_circle_of_a_component_is_shown_in_order() {
    // 0 polls what 1 sent, 1 what 2 sent, 2 what 0 sent; 3 polls of all and closes nothing.
    let text = "{:process 0 :type :ok :f :txn :value [[:send 1 [0 10]] [:poll {1 [[1 11]]}]]}
                {:process 1 :type :ok :f :txn :value [[:send 1 [1 11]] [:poll {1 [[2 12]]}]]}
                {:process 2 :type :ok :f :txn :value [[:send 1 [2 12]] [:poll {1 [[0 10]]}]]}
                {:process 3 :type :ok :f :txn :value [[:send 1 [3 13]] [:poll {1 [[0 10] [1 11] [2 12]]}]]}";
    let verdict = judge(text);
    assert_eq!(verdict.wr_cycles.len(), 1);
    assert_eq!(verdict.wr_cycles[0].events, [0, 1, 2]);
}

#[test]
fn every_anomaly_names_its_deciding_event_and_is_encoded() {
    let text = "{:process 0 :type :ok :f :txn :value [[:send :x [0 :a]] [:send 2 [0 5]]]}
                {:process 0 :type :ok :f :send :value [[:send :x [0 :b]]]}
                {:process 9 :type :ok :f :poll :value [[:poll {:x [[0 :a] [4 :a] [5 :c]]}]]}";
    let history = history(text);
    let verdict = strict(&history, &FinalReads::new());
    let events: Vec<_> =
        verdict.anomalies(&history).into_iter().map(|found| (found.name, found.event)).collect();
    assert_eq!(
        events,
        [
            ("phantom", 2),
            ("lost-write", 2),
            ("unseen", 0),
            ("unseen", 1),
            ("duplicate", 2),
            ("inconsistent-offsets", 1),
        ]
    );
    let json = verdict.to_json(&history);
    assert_eq!(json["valid"], false);
    assert_eq!(json["types"].as_array().unwrap().len(), 5);
    assert_eq!(json["errors"]["phantom"], serde_json::json!([{"key": "x", "value": "c", "reader": 2}]));
    assert_eq!(json["errors"]["unseen"]["messages"], serde_json::json!({"2": [5], "x": ["b"]}));
    assert_eq!(json["vacuous"], serde_json::json!([]));
    for line in verdict.explain(&history) {
        assert!(events.iter().any(|(name, _)| line.starts_with(&format!("{name}: "))), "{line}");
    }
}
