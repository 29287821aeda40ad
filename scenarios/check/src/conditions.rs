//! What is known of a history beside its events: when the trouble was, when it ceased, what clients were configured to wait
//! for, and whether they told of rebalances. Nothing of it is needed; what is missing is not judged.

use serde_json::{Map, Value, json};
use std::ops::Range;

/// Beside the events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    /// When the last trouble had ceased for good, in nanoseconds since the start.
    pub heal_ns: Option<u64>,
    /// When there was trouble, in nanoseconds since the start.
    pub faults: Vec<Range<u64>>,
    /// Clients that subscribe told of every rebalance (`rebalanced`), and of every other move of a position
    /// (`repositioned`). Also assumed if any event tells of a rebalance: whoever subscribes is assigned something.
    pub moves_logged: bool,
    /// What clients and brokers were configured to wait for; [`Timeouts::default`] if it was not noted.
    pub timeouts: Option<Timeouts>,
}

/// Time-outs by their Kafka names, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// `delivery.timeout.ms` of producers: until then a send succeeds or fails.
    pub delivery_timeout_ms: u64,
    /// `max.block.ms` of producers: until then initialising, committing or aborting succeeds or fails.
    pub max_block_ms: u64,
    /// `default.api.timeout.ms` of consumers: until then a blocking call, such as fetching committed offsets, ends.
    pub default_api_timeout_ms: u64,
    /// `transaction.timeout.ms` of producers: the broker aborts a transaction that is open for longer.
    pub transaction_timeout_ms: u64,
    /// `session.timeout.ms` of group members: the broker drops a member that is silent for longer.
    pub session_timeout_ms: u64,
}

/// Those of Jepsen's tests of Bufstream.
impl Default for Timeouts {
    fn default() -> Self {
        Timeouts {
            delivery_timeout_ms: 10_000,
            max_block_ms: 10_000,
            default_api_timeout_ms: 10_000,
            transaction_timeout_ms: 1_000,
            session_timeout_ms: 6_000,
        }
    }
}

impl Timeouts {
    /// Kafka looks for expired transactions so often (`transaction.abort.timed.out.transaction.cleanup.interval.ms`).
    const EXPIRY_SCAN_MS: u64 = 10_000;

    /// How long an operation of `ops` micro-operations may take once all trouble is over, in nanoseconds: each blocks for
    /// its own time-out at most; then the offsets are sent and the transaction is committed, and if that fails, aborted; and
    /// a client that was given up before is closed and another initialised.
    pub fn operation_ns(&self, ops: usize) -> u64 {
        let each =
            self.delivery_timeout_ms.max(self.default_api_timeout_ms).saturating_add(self.max_block_ms);
        let all = each.saturating_mul(ops as u64 + 1).saturating_add(self.max_block_ms.saturating_mul(4));
        all.saturating_mul(1_000_000)
    }

    /// How long after its acknowledgement and after all trouble a record may stay invisible to a consumer that polls, in
    /// nanoseconds: until the broker has aborted the oldest transaction below it, and the consumer has given up a request
    /// and found another broker.
    pub fn visible_ns(&self) -> u64 {
        let decided = self.transaction_timeout_ms.saturating_add(Self::EXPIRY_SCAN_MS);
        let fetched = self.default_api_timeout_ms.saturating_mul(2).saturating_add(self.session_timeout_ms);
        decided.saturating_add(fetched).saturating_mul(1_000_000)
    }

    const NAMES: [&str; 5] = [
        "delivery.timeout.ms",
        "max.block.ms",
        "default.api.timeout.ms",
        "transaction.timeout.ms",
        "session.timeout.ms",
    ];

    fn fields(&mut self) -> [&mut u64; 5] {
        [
            &mut self.delivery_timeout_ms,
            &mut self.max_block_ms,
            &mut self.default_api_timeout_ms,
            &mut self.transaction_timeout_ms,
            &mut self.session_timeout_ms,
        ]
    }
}

/// Takes the conditions out of the fields of a case.
pub(crate) fn read(rest: &mut Map<String, Value>) -> Result<Conditions, String> {
    let heal_ns = match rest.remove("heal_ns") {
        None | Some(Value::Null) => None,
        Some(time) => {
            Some(time.as_u64().ok_or_else(|| bad("heal_ns", &time, "nanoseconds since the start"))?)
        }
    };
    let moves_logged = match rest.remove("moves_logged") {
        None | Some(Value::Null) => false,
        Some(flag) => flag.as_bool().ok_or_else(|| bad("moves_logged", &flag, "true or false"))?,
    };
    let mut faults = Vec::new();
    if let Some(windows) = rest.remove("faults") {
        let expected = "a list of [from, to] in nanoseconds since the start";
        for window in windows.as_array().ok_or_else(|| bad("faults", &windows, expected))? {
            match (window[0].as_u64(), window[1].as_u64()) {
                (Some(from), Some(to)) if from <= to => faults.push(from..to),
                _ => return Err(bad("faults", window, expected)),
            }
        }
    }
    let timeouts = rest.remove("timeouts").map(|timeouts| read_timeouts(&timeouts)).transpose()?;
    Ok(Conditions { heal_ns, faults, moves_logged, timeouts })
}

fn read_timeouts(value: &Value) -> Result<Timeouts, String> {
    let expected = || format!("milliseconds by name, the names being {}", Timeouts::NAMES.join(", "));
    let given = value.as_object().ok_or_else(|| bad("timeouts", value, &expected()))?;
    let mut timeouts = Timeouts::default();
    for (name, time) in given {
        let known = Timeouts::NAMES.iter().position(|known| known == name);
        let (Some(at), Some(time_ms)) = (known, time.as_u64()) else {
            return Err(bad("timeouts", &json!({name.as_str(): time}), &expected()));
        };
        *timeouts.fields()[at] = time_ms;
    }
    Ok(timeouts)
}

fn bad(field: &str, value: &Value, expected: &str) -> String {
    format!("field {field:?} cannot be {value}: expected {expected}")
}

/// Adds the conditions to the fields of a case.
pub(crate) fn write(conditions: &Conditions, object: &mut Map<String, Value>) {
    let Conditions { heal_ns, faults, moves_logged, timeouts } = conditions;
    if let Some(heal_ns) = heal_ns {
        object.insert("heal_ns".to_string(), json!(heal_ns));
    }
    if !faults.is_empty() {
        let windows = faults.iter().map(|window| json!([window.start, window.end])).collect();
        object.insert("faults".to_string(), windows);
    }
    if *moves_logged {
        object.insert("moves_logged".to_string(), json!(true));
    }
    if let Some(mut timeouts) = *timeouts {
        let named = Timeouts::NAMES.iter().zip(timeouts.fields());
        let named: Map<String, Value> = named.map(|(name, time)| (name.to_string(), json!(*time))).collect();
        object.insert("timeouts".to_string(), Value::Object(named));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Conditions, String> {
        let Value::Object(mut fields) = serde_json::from_str(text).unwrap() else { panic!("an object") };
        let conditions = read(&mut fields)?;
        assert!(fields.is_empty(), "{fields:?}");
        let mut written = Map::new();
        write(&conditions, &mut written);
        assert_eq!(read(&mut written), Ok(conditions.clone()));
        Ok(conditions)
    }

    #[test]
    fn conditions_survive_the_round_trip() {
        let text = r#"{"heal_ns": 5, "faults": [[1, 3], [2, 5]], "moves_logged": true,
            "timeouts": {"transaction.timeout.ms": 60000}}"#;
        let conditions = parse(text).unwrap();
        let timeouts = Timeouts { transaction_timeout_ms: 60_000, ..Timeouts::default() };
        let expected = Conditions {
            heal_ns: Some(5),
            faults: vec![1..3, 2..5],
            moves_logged: true,
            timeouts: Some(timeouts),
        };
        assert_eq!(conditions, expected);
        assert_eq!(parse("{}"), Ok(Conditions::default()));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, told) in [
            (r#"{"heal_ns": -1}"#, "field \"heal_ns\" cannot be -1: expected nanoseconds"),
            (r#"{"faults": [[3, 1]]}"#, "field \"faults\" cannot be [3,1]: expected a list of [from, to]"),
            (r#"{"faults": 3}"#, "field \"faults\" cannot be 3"),
            (r#"{"moves_logged": 1}"#, "field \"moves_logged\" cannot be 1"),
            (
                r#"{"timeouts": {"linger.ms": 1}}"#,
                "field \"timeouts\" cannot be {\"linger.ms\":1}: expected milli",
            ),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.starts_with(told), "{error}");
        }
    }

    #[test]
    fn bounds_follow_from_the_configuration() {
        // One micro-operation: twice 20 s, for it and for the offsets, and four times 10 s around it.
        assert_eq!(Timeouts::default().operation_ns(1), 80_000_000_000);
        // 1 s and the scan of 10 s; two requests of 10 s and a session of 6 s.
        assert_eq!(Timeouts::default().visible_ns(), 37_000_000_000);
        let endless = Timeouts { max_block_ms: u64::MAX, ..Timeouts::default() };
        assert_eq!(endless.operation_ns(3), u64::MAX);
    }
}
