//! Which of the tank's faults a proxy can carry out, and schedules of them as JSON.
//!
//! A fault that a proxy cannot carry out, or a moment that it cannot see, is refused with its field: it stands between
//! programs, not inside them, and TCP loses nothing. The `until` of a hold may be left out: then it lasts until it is
//! released by hand.

use serde_json::{Value, json};
use sim::fault::{Fault, FramePattern, Scheduled, When};

/// A moment that never comes by itself, in milliseconds.
const BY_HAND_MS: u64 = u64::MAX;

/// Reads a schedule: an array of faults, or a single one.
///
/// # Errors
/// Field and problem.
pub(super) fn parse(text: &str, brokers: usize) -> Result<Vec<Scheduled>, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
    let mut items = match value {
        Value::Array(items) => items,
        one => vec![one],
    };
    for item in &mut items {
        if let Some(Value::Object(hold)) = item.pointer_mut("/fault/hold") {
            hold.entry("until").or_insert(json!({ "at_ms": BY_HAND_MS }));
        }
    }
    let schedule: Vec<Scheduled> = serde_path_to_error::deserialize(Value::Array(items))
        .map_err(|error| format!("{}: {}", error.path(), error.inner()))?;
    for (index, scheduled) in schedule.iter().enumerate() {
        check(scheduled, brokers).map_err(|(field, problem)| format!("[{index}].{field}: {problem}"))?;
    }
    Ok(schedule)
}

type Problem = (&'static str, String);

fn check(scheduled: &Scheduled, brokers: usize) -> Result<(), Problem> {
    check_when("when", &scheduled.when, brokers)?;
    let refuse = |field, why: &str| Err((field, why.to_string()));
    match &scheduled.fault {
        Fault::Hold { frame, until } => {
            check_frame("fault.hold.frame", frame, brokers)?;
            check_when("fault.hold.until", until, brokers)
        }
        Fault::Delay { frame, .. } => check_frame("fault.delay.frame", frame, brokers),
        Fault::Reset { frame } => check_frame("fault.reset.frame", frame, brokers),
        Fault::Pause { .. } => check_nodes("fault.pause.node", &scheduled.fault.nodes(), brokers),
        Fault::Cut { .. } => check_nodes("fault.cut", &scheduled.fault.nodes(), brokers),
        Fault::Slow { .. } => check_nodes("fault.slow", &scheduled.fault.nodes(), brokers),
        Fault::Crash { .. } | Fault::MachineCrash { .. } => refuse(
            "fault.crash",
            "a proxy cannot end a broker: end it yourself (wavetank serve: POST /agents/N/stop)",
        ),
        Fault::Stop { .. } => refuse(
            "fault.stop",
            "a proxy cannot end a broker: end it yourself (wavetank serve: POST /agents/N/stop?drain=true)",
        ),
        Fault::Start { .. } => refuse(
            "fault.start",
            "a proxy cannot start a broker: start it yourself (wavetank serve: POST /agents/N/start)",
        ),
        Fault::Loss { .. } => {
            refuse("fault.loss", "TCP loses nothing that a proxy could lose: use slow or delay")
        }
        Fault::Narrow { .. } => refuse("fault.narrow", "a proxy does not limit bandwidth: use slow"),
        Fault::ClockJump { .. } => refuse("fault.clock_jump", "a proxy cannot set a clock"),
        Fault::ClockReset { .. } => refuse("fault.clock_reset", "a proxy cannot set a clock"),
        Fault::ClockStrobe { .. } => refuse("fault.clock_strobe", "a proxy cannot set a clock"),
        Fault::ClockDrift { .. } => refuse("fault.clock_drift", "a proxy cannot set a clock"),
    }
}

fn check_when(field: &'static str, when: &When, brokers: usize) -> Result<(), Problem> {
    match when {
        When::AtMs(_) => Ok(()),
        When::Frame(pattern) => check_frame(field, pattern, brokers),
        When::Event(_) | When::Poll { .. } | When::Point { .. } => Err((
            field,
            "a proxy does not see into programs: use at_ms or frame, or release by hand (POST /release/ID)"
                .into(),
        )),
    }
}

fn check_frame(field: &'static str, pattern: &FramePattern, brokers: usize) -> Result<(), Problem> {
    if pattern.nth == 0 {
        return Err((field, "nth counts from 1".into()));
    }
    let nodes: Vec<&str> = pattern.from.iter().chain(&pattern.to).map(String::as_str).collect();
    check_nodes(field, &nodes, brokers)
}

/// Brokers must exist; any other name is a client's.
fn check_nodes(field: &'static str, names: &[&str], brokers: usize) -> Result<(), Problem> {
    for name in names {
        let number = name.strip_prefix("broker-").and_then(|number| number.parse::<usize>().ok());
        if number.is_some_and(|number| !(1..=brokers).contains(&number)) {
            let known = format!("use broker-1 to broker-{brokers}, a client.id, or client for any client");
            return Err((field, format!("there is no {name}: {known}")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hold_without_an_end_waits_for_the_hand() {
        let one = r#"{"id": 1, "fault": {"hold": {"frame": {"words": "EndTxn id=a"}}}}"#;
        let schedule = parse(one, 1).unwrap();
        let until = When::AtMs(BY_HAND_MS);
        let frame = FramePattern::words("EndTxn id=a");
        assert_eq!(schedule, [Scheduled::from_start(1, Fault::Hold { frame, until })]);
        assert_eq!(parse(&format!("[{one}]"), 1).unwrap(), schedule);
    }

    #[test]
    fn what_cannot_be_done_is_refused_with_its_field() {
        let problem = |fault: &str| parse(&format!(r#"[{{"id": 1, "fault": {fault}}}]"#), 2).unwrap_err();
        let crash = problem(r#"{"crash": {"node": "broker-1"}}"#);
        assert!(crash.starts_with("[0].fault.crash: a proxy cannot end a broker"), "{crash}");
        let stop = problem(r#"{"stop": {"node": "broker-1"}}"#);
        assert!(stop.starts_with("[0].fault.stop: a proxy cannot end a broker"), "{stop}");
        let node = problem(r#"{"pause": {"node": "broker-3", "for_ms": 1}}"#);
        assert!(
            node.starts_with("[0].fault.pause.node: there is no broker-3: use broker-1 to broker-2"),
            "{node}"
        );
        let field = problem(r#"{"reset": {"frame": {"word": "A"}}}"#);
        assert!(field.starts_with("[0].fault.reset.frame.word: unknown field `word`"), "{field}");
        let point = parse(
            r#"{"id": 1, "when": {"point": {"point": "x"}}, "fault": {"reset": {"frame": {"words": "A"}}}}"#,
            1,
        );
        assert!(point.unwrap_err().starts_with("[0].when: a proxy does not see into programs"));
        assert!(
            problem(r#"{"loss": {"from": ["client"], "to": ["broker-1"], "probability": 0.5, "for_ms": 1}}"#)
                .starts_with("[0].fault.loss: TCP loses nothing")
        );
        assert!(parse("{", 1).unwrap_err().starts_with("not JSON"));
    }
}
