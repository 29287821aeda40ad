//! What becomes of frames, by faults and moments worked out by hand.

use super::*;

fn at(ms: u64) -> Instant {
    Instant::from_nanos(ms * 1_000_000)
}

fn to_broker(label: &str) -> Way {
    Way { from: Side::Client("c1".into()), to: Side::Broker("broker-1".into()), label: label.into() }
}

fn from_broker(label: &str) -> Way {
    let Way { from, to, label } = to_broker(label);
    Way { from: to, to: from, label }
}

fn armed(json: &str) -> Faults {
    let mut faults = Faults::default();
    faults.arm(at(100), serde_json::from_str(json).unwrap()).unwrap();
    faults
}

fn ticket(verdict: Verdict) -> Ticket {
    let Verdict::Goes(ticket) = verdict else { panic!("{verdict:?}") };
    ticket
}

#[test]
fn the_first_of_its_name_is_held_until_another_frame_comes_and_the_next_is_not() {
    let mut faults = armed(
        r#"[{"id": 7, "fault": {"hold": {"frame": {"words": "EndTxn id=a", "from": "client"},
            "until": {"frame": {"words": "Produce id=a", "nth": 2}}}}}]"#,
    );
    let end = to_broker("EndTxn commit id=a");
    assert_eq!(ticket(faults.see(at(101), &to_broker("EndTxn commit id=b"))), Ticket::default());
    assert_eq!(ticket(faults.see(at(101), &from_broker("EndTxn id=a"))), Ticket::default());
    // What comes before the frame is caught does not count.
    faults.see(at(101), &to_broker("Produce id=a"));
    let held = ticket(faults.see(at(102), &end));
    assert_eq!(held.held_by, Some(7));
    assert_eq!(faults.standings()[&7], Standing::Holding);
    assert_eq!(ticket(faults.see(at(103), &end)), Ticket::default(), "only one");
    faults.see(at(104), &to_broker("Produce id=a"));
    assert_eq!(faults.gate(at(104), &end, held), Gate::Shut(None));
    faults.see(at(105), &to_broker("Produce id=a"));
    assert_eq!(faults.gate(at(105), &end, held), Gate::Open);
    assert_eq!(faults.standings()[&7], Standing::Struck);
}

#[test]
fn of_two_faults_on_one_frame_the_other_catches_the_next() {
    let catch = r#"{"frame": {"words": "A", "nth": 2}, "by_ms": 50}"#;
    let json = format!(
        r#"[{{"id": 1, "fault": {{"delay": {catch}}}}}, {{"id": 2, "fault": {{"delay": {catch}}}}}]"#
    );
    let mut faults = armed(&json);
    let seen = [101, 102, 103, 104].map(|ms| ticket(faults.see(at(ms), &to_broker("A"))).not_before);
    assert_eq!(seen, [None, Some(at(152)), Some(at(153)), None]);
}

#[test]
fn what_is_held_until_a_time_goes_then_or_by_hand() {
    let json = r#"[{"id": 1, "fault": {"hold": {"frame": {"words": "A"}, "until": {"at_ms": 50}}}},
        {"id": 2, "fault": {"hold": {"frame": {"words": "B"}, "until": {"at_ms": 1000}}}}]"#;
    let mut faults = armed(json);
    assert!(!faults.release(1), "it holds nothing yet");
    let (a, b) = (to_broker("A"), to_broker("B"));
    let (held_a, held_b) = (ticket(faults.see(at(110), &a)), ticket(faults.see(at(110), &b)));
    assert_eq!(faults.gate(at(149), &a, held_a), Gate::Shut(Some(at(150))), "since the schedule was armed");
    assert_eq!(faults.gate(at(150), &a, held_a), Gate::Open);
    assert_eq!(faults.gate(at(150), &b, held_b), Gate::Shut(Some(at(1100))));
    assert!(faults.release(2));
    assert_eq!(faults.gate(at(151), &b, held_b), Gate::Open);
    assert!(!faults.release(2));
}

#[test]
fn delays_resets_and_moments() {
    let mut faults = armed(
        r#"[{"id": 1, "when": {"at_ms": 20}, "fault": {"delay": {"frame": {"words": "A"}, "by_ms": 30}}},
            {"id": 2, "when": {"frame": {"words": "go"}}, "fault": {"reset": {"frame": {"words": "B", "nth": 2}}}}]"#,
    );
    let (a, b) = (to_broker("A"), from_broker("B"));
    assert_eq!(ticket(faults.see(at(119), &a)), Ticket::default(), "not armed yet");
    let late = ticket(faults.see(at(120), &a));
    assert_eq!(faults.gate(at(149), &a, late), Gate::Shut(Some(at(150))));
    assert_eq!(faults.gate(at(150), &a, late), Gate::Open);
    faults.see(at(150), &b);
    faults.see(at(150), &to_broker("go"));
    assert_eq!(ticket(faults.see(at(151), &b)), Ticket::default());
    assert_eq!(faults.see(at(152), &b), Verdict::Reset(2));
    assert_eq!(ticket(faults.see(at(153), &b)), Ticket::default());
}

#[test]
fn pauses_cuts_and_slow_links_end() {
    let mut faults = armed(
        r#"[{"id": 1, "fault": {"pause": {"node": "broker-1", "for_ms": 10}}},
            {"id": 2, "when": {"at_ms": 20}, "fault": {"cut": {"from": ["c1"], "to": ["broker-1"], "both_ways": false, "for_ms": 10}}},
            {"id": 3, "when": {"at_ms": 40}, "fault": {"slow": {"from": ["client"], "to": ["broker-1"], "by_ms": 5, "for_ms": 10}}}]"#,
    );
    let (there, back) = (to_broker("A"), from_broker("A.reply"));
    let free = Ticket::default();
    assert_eq!(faults.gate(at(105), &there, free), Gate::Shut(Some(at(110))));
    assert_eq!(faults.gate(at(105), &back, free), Gate::Shut(Some(at(110))));
    assert_eq!(faults.gate(at(110), &there, free), Gate::Open);
    assert_eq!(faults.gate(at(125), &there, free), Gate::Shut(Some(at(130))));
    assert_eq!(faults.gate(at(125), &back, free), Gate::Open, "one way only");
    let slow = ticket(faults.see(at(141), &there));
    assert_eq!(faults.gate(at(141), &there, slow), Gate::Shut(Some(at(146))));
    assert_eq!(ticket(faults.see(at(141), &back)), free);
    assert_eq!(ticket(faults.see(at(150), &there)), free);
}

#[test]
fn an_id_is_used_once() {
    let reset = r#"[{"id": 1, "fault": {"reset": {"frame": {"words": "A"}}}}]"#;
    let mut faults = armed(reset);
    let again = faults.arm(at(100), serde_json::from_str(reset).unwrap());
    assert_eq!(again.unwrap_err(), "[0].id: there is a fault 1 already");
}
