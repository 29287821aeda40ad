//! Moments of a run, and what names them: messages and events by their words.

use serde::{Deserialize, Serialize};

/// A moment of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum When {
    /// At this simulated time, in milliseconds since the start.
    AtMs(u64),
    /// When a program says something.
    Event(EventPattern),
    /// When a frame enters its sender's buffer.
    Frame(FramePattern),
    /// Right after a process's n-th poll of any of its tasks, counted from the node's first start.
    Poll {
        /// The node.
        node: String,
        /// Which poll, from 1.
        nth: u64,
    },
    /// When a process reaches a preemption point (see [`rt::preempt`]).
    Point {
        /// The node; any if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node: Option<String>,
        /// The point's name.
        point: String,
        /// Which time, from 1.
        #[serde(default = "first", skip_serializing_if = "is_first")]
        nth: u32,
    },
}

impl Default for When {
    fn default() -> Self {
        When::AtMs(0)
    }
}

/// Matches what a program says with [`rt::event!`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventPattern {
    /// The event's name, then words of the form `field=value`.
    pub words: String,
    /// The node that says it; any if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Which match, from 1.
    #[serde(default = "first", skip_serializing_if = "is_first")]
    pub nth: u32,
    /// How long after it, in milliseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub after_ms: u64,
}

impl EventPattern {
    /// The first event, at any node, that has all these words.
    pub fn words(words: impl Into<String>) -> Self {
        EventPattern { words: words.into(), node: None, nth: 1, after_ms: 0 }
    }
}

/// Matches a labelled frame.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FramePattern {
    /// Words of its label.
    pub words: String,
    /// The sending node; any if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The receiving node; any if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Which match, from 1.
    #[serde(default = "first", skip_serializing_if = "is_first")]
    pub nth: u32,
}

impl FramePattern {
    /// The first frame, between any nodes, that has all these words in its label.
    pub fn words(words: impl Into<String>) -> Self {
        FramePattern { words: words.into(), from: None, to: None, nth: 1 }
    }

    /// Whether all its words are in `label`, whoever sends and receives.
    pub fn names(&self, label: &str) -> bool {
        matches(&self.words, label)
    }
}

fn first() -> u32 {
    1
}

fn is_first(nth: &u32) -> bool {
    *nth == 1
}

fn is_zero(ms: &u64) -> bool {
    *ms == 0
}

/// Whether all of `pattern`'s words are among `text`'s.
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    pattern.split_whitespace().all(|word| text.split_whitespace().any(|other| other == word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_whole_words_in_any_order() {
        let label = "EndTxn commit id=jt1 txn=2 try=1";
        assert!(matches("EndTxn txn=2", label));
        assert!(matches("txn=2 EndTxn", label));
        assert!(!matches("EndTxn txn=21", label));
        assert!(!matches("EndTxn abort", label));
        assert!(!matches("EndTxn txn", label));
    }
}
