//! What the proxy saw and did, in order: the newest lines of it, in memory.

use super::faults::Way;
use rt::time::Instant;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Lines kept.
const LINES_MAX: usize = 100_000;

/// What happened to a frame, or to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Opened,
    /// The broker did not take the connection.
    Refused,
    /// Both directions have ended.
    Closed,
    /// The frame went on, this long after it came.
    Passed {
        after_ms: u64,
    },
    /// A fault caught it.
    Held {
        fault: u32,
    },
    /// It went on after that. Its sender may have closed the connection meanwhile.
    Released {
        fault: u32,
        after_ms: u64,
        sender_open: bool,
    },
    /// A fault reset its connection.
    Reset {
        fault: u32,
    },
    /// The broker said something else; what goes on is logged for itself.
    Rewritten {
        by: u32,
    },
    /// Whom it was for had closed the connection.
    Lost,
}

pub(super) struct Log {
    begun: Instant,
    lines: Mutex<Lines>,
}

#[derive(Default)]
struct Lines {
    /// Number of the next line.
    next: u64,
    kept: VecDeque<(u64, Value)>,
}

impl Log {
    pub(super) fn new() -> Self {
        Log { begun: Instant::now(), lines: Mutex::default() }
    }

    /// A connection's begin or end.
    pub(super) fn connection(&self, connection: u64, broker: &str, what: What) {
        self.add(connection, what, json!({ "broker": broker }));
    }

    pub(super) fn frame(&self, connection: u64, way: &Way, what: What) {
        let of_frame = json!({ "from": way.from.name(), "to": way.to.name(), "label": way.label });
        self.add(connection, what, of_frame);
    }

    fn add(&self, connection: u64, what: What, about: Value) {
        let mut lines = self.lock();
        let number = lines.next;
        let mut line = json!({
            "n": number,
            "at_ms": self.begun.elapsed().as_millis() as u64,
            "connection": connection,
        });
        merge(&mut line, about);
        merge(&mut line, what.fields());
        lines.next += 1;
        if lines.kept.len() == LINES_MAX {
            lines.kept.pop_front();
        }
        lines.kept.push_back((number, line));
    }

    /// The lines from number `first` on, as JSON lines.
    pub(super) fn from(&self, first: u64) -> String {
        let lines = self.lock();
        let begin = lines.kept.partition_point(|(number, _)| *number < first);
        lines.kept.iter().skip(begin).map(|(_, line)| format!("{line}\n")).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn merge(line: &mut Value, more: Value) {
    if let (Value::Object(line), Value::Object(more)) = (line, more) {
        line.extend(more);
    }
}

impl What {
    fn fields(self) -> Value {
        match self {
            What::Opened => json!({ "what": "opened" }),
            What::Refused => json!({ "what": "refused" }),
            What::Closed => json!({ "what": "closed" }),
            What::Passed { after_ms } => json!({ "what": "passed", "after_ms": after_ms }),
            What::Held { fault } => json!({ "what": "held", "fault": fault }),
            What::Released { fault, after_ms, sender_open } => {
                json!({ "what": "released", "fault": fault, "after_ms": after_ms, "sender_open": sender_open })
            }
            What::Reset { fault } => json!({ "what": "reset", "fault": fault }),
            What::Rewritten { by } => json!({ "what": "rewritten", "by": by }),
            What::Lost => json!({ "what": "lost" }),
        }
    }
}
