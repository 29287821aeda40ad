//! The fault alphabet, as data.
//!
//! A schedule is a list of faults with ids, each with the moment it strikes. Every item can be removed, by hand or by
//! machine, and the rest still means what it meant. Messages and events are named by words: a pattern matches when all
//! its words appear in the label of the frame, or in the event printed as `name field=value ...`.

mod when;

pub(crate) use when::matches;
pub use when::{EventPattern, FramePattern, When};

use crate::clock::Strobe;
use crate::exec::ProcessId;
use crate::net::Impairment;
use crate::tap::HoldId;
use crate::trace::NodeId;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A fault and when it strikes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scheduled {
    /// Names the fault in traces, and stays its own when others are removed.
    pub id: u32,
    /// When it strikes; from the start if absent.
    #[serde(default)]
    pub when: When,
    /// What happens.
    pub fault: Fault,
}

impl Scheduled {
    /// A fault that strikes from the start: the one form in which a fault on a frame needs no other moment.
    pub fn from_start(id: u32, fault: Fault) -> Self {
        Scheduled { id, when: When::default(), fault }
    }
}

/// What can go wrong. Nodes are named; those that do not exist make the plan unusable.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Fault {
    /// The process stops (SIGSTOP) and goes on later; its machine's sockets and timers do not stop.
    Pause {
        /// The node.
        node: String,
        /// For how long, in milliseconds.
        for_ms: u64,
    },
    /// The process dies; its machine closes its sockets.
    Crash {
        /// The node.
        node: String,
        /// When it is started again, in milliseconds; never if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        restart_after_ms: Option<u64>,
    },
    /// The process is asked to end (SIGTERM, see [`rt::stop_requested`]); when its first task returns, its machine closes
    /// its sockets. Has an effect once the process notices; one that does not ask goes on.
    Stop {
        /// The node.
        node: String,
        /// When it is started again, in milliseconds since it was asked, but not before it has ended; never if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        restart_after_ms: Option<u64>,
    },
    /// The process is started: for the first time (see [`crate::node::add_stopped`]), or again. Without effect on one that
    /// is up.
    Start {
        /// The node.
        node: String,
    },
    /// The machine dies, silently: no FIN and no RST leaves it.
    MachineCrash {
        /// The node.
        node: String,
        /// When it is started again, in milliseconds; never if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        restart_after_ms: Option<u64>,
    },
    /// Packets from some nodes to others are lost, until it heals.
    Cut {
        /// Senders.
        from: Vec<String>,
        /// Receivers.
        to: Vec<String>,
        /// Whether packets the other way are lost too.
        both_ways: bool,
        /// For how long, in milliseconds.
        for_ms: u64,
    },
    /// Packets from some nodes to others are lost at random.
    Loss {
        /// Senders.
        from: Vec<String>,
        /// Receivers.
        to: Vec<String>,
        /// The probability, 0 to 1.
        probability: f64,
        /// For how long, in milliseconds.
        for_ms: u64,
    },
    /// Packets from some nodes to others take longer.
    Slow {
        /// Senders.
        from: Vec<String>,
        /// Receivers.
        to: Vec<String>,
        /// How much longer, in milliseconds.
        by_ms: u64,
        /// For how long, in milliseconds.
        for_ms: u64,
    },
    /// Less fits through from some nodes to others.
    Narrow {
        /// Senders.
        from: Vec<String>,
        /// Receivers.
        to: Vec<String>,
        /// What one direction of each link carries, in bytes a second.
        bytes_per_s: u64,
        /// For how long, in milliseconds.
        for_ms: u64,
    },
    /// The wall clock of a node jumps.
    ClockJump {
        /// The node.
        node: String,
        /// By how much, in milliseconds.
        by_ms: i64,
    },
    /// The wall clock of a node is set to the true time: what jumps did to it is undone. Without effect on a clock that
    /// is right.
    ClockReset {
        /// The node.
        node: String,
    },
    /// The wall clock of a node jumps there and back, again and again; in the end it is where it would be without.
    ClockStrobe {
        /// The node.
        node: String,
        /// By how much, in milliseconds.
        delta_ms: i64,
        /// Time between two jumps, in milliseconds; 0 counts as 1.
        period_ms: u64,
        /// For how long, in milliseconds.
        for_ms: u64,
    },
    /// Both clocks of a node run fast (or slow, if negative).
    ClockDrift {
        /// The node.
        node: String,
        /// Parts per million.
        ppm: i64,
        /// For how long, in milliseconds.
        for_ms: u64,
    },
    /// One frame, and what follows on its connection in its direction, waits on its way.
    Hold {
        /// The frame.
        frame: FramePattern,
        /// When it goes on.
        until: When,
    },
    /// One frame, and what follows on its connection in its direction, arrives late.
    Delay {
        /// The frame.
        frame: FramePattern,
        /// By how much, in milliseconds.
        by_ms: u64,
    },
    /// The connection is reset as one frame is sent; the frame is lost.
    Reset {
        /// The frame.
        frame: FramePattern,
    },
}

impl Fault {
    /// Names of the nodes it strikes.
    pub fn nodes(&self) -> Vec<&str> {
        match self {
            Fault::Pause { node, .. }
            | Fault::Crash { node, .. }
            | Fault::Stop { node, .. }
            | Fault::Start { node }
            | Fault::MachineCrash { node, .. }
            | Fault::ClockJump { node, .. }
            | Fault::ClockReset { node }
            | Fault::ClockStrobe { node, .. }
            | Fault::ClockDrift { node, .. } => vec![node],
            Fault::Cut { from, to, .. }
            | Fault::Loss { from, to, .. }
            | Fault::Slow { from, to, .. }
            | Fault::Narrow { from, to, .. } => from.iter().chain(to).map(String::as_str).collect(),
            Fault::Hold { frame, .. } | Fault::Delay { frame, .. } | Fault::Reset { frame } => {
                frame.from.iter().chain(&frame.to).map(String::as_str).collect()
            }
        }
    }

    /// How long it lasts, in milliseconds, if that is known from the start; else, and if it never ends, 0.
    pub fn lasts_ms(&self) -> u64 {
        match self {
            Fault::Pause { for_ms, .. }
            | Fault::Cut { for_ms, .. }
            | Fault::Loss { for_ms, .. }
            | Fault::Slow { for_ms, .. }
            | Fault::Narrow { for_ms, .. }
            | Fault::ClockStrobe { for_ms, .. }
            | Fault::ClockDrift { for_ms, .. } => *for_ms,
            Fault::Crash { restart_after_ms, .. }
            | Fault::Stop { restart_after_ms, .. }
            | Fault::MachineCrash { restart_after_ms, .. } => restart_after_ms.unwrap_or_default(),
            Fault::Start { .. }
            | Fault::ClockJump { .. }
            | Fault::ClockReset { .. }
            | Fault::Hold { .. }
            | Fault::Delay { .. }
            | Fault::Reset { .. } => 0,
        }
    }

    /// Whether it waits for a frame.
    pub(crate) fn is_on_frames(&self) -> bool {
        matches!(self, Fault::Hold { .. } | Fault::Delay { .. } | Fault::Reset { .. })
    }

    /// The fault in a few words, for stories.
    pub fn describe(&self) -> String {
        let ends = |from: &[String], to: &[String]| format!("{} to {}", from.join(","), to.join(","));
        match self {
            Fault::Pause { node, for_ms } => format!("{node} is paused for {for_ms} ms"),
            Fault::Crash { node, .. } => format!("{node} crashes"),
            Fault::Stop { node, .. } => format!("{node} is asked to stop"),
            Fault::Start { node } => format!("{node} is started"),
            Fault::MachineCrash { node, .. } => format!("{node}'s machine crashes"),
            Fault::Cut { from, to, both_ways: true, for_ms } => {
                format!("{} cut both ways for {for_ms} ms", ends(from, to))
            }
            Fault::Cut { from, to, both_ways: false, for_ms } => {
                format!("{} cut for {for_ms} ms", ends(from, to))
            }
            Fault::Loss { from, to, probability, for_ms } => {
                format!("{} loses {probability} for {for_ms} ms", ends(from, to))
            }
            Fault::Slow { from, to, by_ms, for_ms } => {
                format!("{} slower by {by_ms} ms for {for_ms} ms", ends(from, to))
            }
            Fault::Narrow { from, to, bytes_per_s, for_ms } => {
                format!("{} carries {bytes_per_s} bytes/s for {for_ms} ms", ends(from, to))
            }
            Fault::ClockJump { node, by_ms } => format!("{node}'s wall clock jumps by {by_ms} ms"),
            Fault::ClockReset { node } => format!("{node}'s wall clock is set right"),
            Fault::ClockStrobe { node, delta_ms, period_ms, for_ms } => {
                format!("{node}'s wall clock strobes by {delta_ms} ms every {period_ms} ms for {for_ms} ms")
            }
            Fault::ClockDrift { node, ppm, .. } => format!("{node}'s clocks drift by {ppm} ppm"),
            Fault::Hold { frame, .. } => format!("the frame \"{}\" is held", frame.words),
            Fault::Delay { frame, by_ms } => {
                format!("the frame \"{}\" is delayed by {by_ms} ms", frame.words)
            }
            Fault::Reset { frame } => format!("the connection of the frame \"{}\" is reset", frame.words),
        }
    }
}

/// When the last fault that strikes by time has ended, as time since the start.
pub fn over_after(schedule: &[Scheduled]) -> Duration {
    let ends_ms = schedule.iter().map(|scheduled| match scheduled.when {
        When::AtMs(at_ms) => at_ms + scheduled.fault.lasts_ms(),
        _ => 0,
    });
    Duration::from_millis(ends_ms.max().unwrap_or_default())
}

/// What the world does between two polls: a fault strikes or ends, a node starts again.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    Strike(usize),
    Resume(NodeId, ProcessId),
    Start(NodeId),
    Exit(NodeId),
    Crash(NodeId),
    Heal { from: Vec<String>, to: Vec<String> },
    Mend { from: Vec<String>, to: Vec<String>, impairment: Impairment },
    SetDrift { node: NodeId, ppm: i64 },
    Strobe(Strobe),
    Release(HoldId),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_survives_its_json() {
        let hold = Scheduled {
            id: 3,
            when: When::default(),
            fault: Fault::Hold {
                frame: FramePattern {
                    words: "EndTxn".into(),
                    from: None,
                    to: Some("agent-1".into()),
                    nth: 2,
                },
                until: When::Event(EventPattern { words: "x".into(), node: None, nth: 1, after_ms: 5 }),
            },
        };
        let json = serde_json::to_string(&hold).expect("serializes");
        assert_eq!(serde_json::from_str::<Scheduled>(&json).expect("parses"), hold);
        assert!(
            serde_json::from_str::<Scheduled>(r#"{"id":1,"fault":{"puase":{"node":"a","for_ms":1}}}"#)
                .is_err()
        );
        assert!(
            serde_json::from_str::<Scheduled>(r#"{"id":1,"fault":{"reset":{"frame":{"word":"a"}}}}"#)
                .is_err()
        );
    }
    #[test]
    fn ends_starts_and_clocks_are_named_in_json_and_known_to_stories() {
        let cases = [
            (r#"{"stop":{"node":"a"}}"#, "a is asked to stop", 0),
            (r#"{"stop":{"node":"a","restart_after_ms":30}}"#, "a is asked to stop", 30),
            (r#"{"start":{"node":"a"}}"#, "a is started", 0),
            (r#"{"clock_reset":{"node":"a"}}"#, "a's wall clock is set right", 0),
            (
                r#"{"clock_strobe":{"node":"a","delta_ms":-4,"period_ms":2,"for_ms":50}}"#,
                "a's wall clock strobes by -4 ms every 2 ms for 50 ms",
                50,
            ),
        ];
        for (json, words, lasts_ms) in cases {
            let fault: Fault = serde_json::from_str(json).expect("parses");
            assert_eq!(serde_json::to_string(&fault).expect("serializes"), json);
            assert_eq!((fault.describe().as_str(), fault.nodes()), (words, vec!["a"]));
            let scheduled = Scheduled { id: 1, when: When::AtMs(7), fault };
            assert_eq!(over_after(&[scheduled]), Duration::from_millis(7 + lasts_ms));
        }
    }
}
