//! Topic settings that the broker obeys, by their Kafka names: `retention.ms`, `retention.bytes`, `max.message.bytes` and
//! `cleanup.policy`. All others are kept as given, told back to admin tools, and mean nothing here.
//!
//! Bounds are those of Kafka's `LogConfig`; of the clean-up policies only `delete` is served. Where a topic has no value of
//! its own the agent's is used, as in Kafka.

use crate::config::AgentConfig;
use crate::records::TopicEntry;
use std::collections::BTreeMap;

const RETENTION_MS: &str = "retention.ms";
const RETENTION_BYTES: &str = "retention.bytes";
const MAX_MESSAGE_BYTES: &str = "max.message.bytes";
const CLEANUP_POLICY: &str = "cleanup.policy";

/// A topic's settings as given at its creation.
pub(crate) type Given = BTreeMap<String, Option<String>>;

/// Whether a topic may have these settings. A null is no value (Kafka: "Null value not supported").
pub(crate) fn is_valid(given: &Given) -> bool {
    given.iter().all(|(name, value)| {
        let Some(value) = value else { return false };
        match name.as_str() {
            RETENTION_MS => number(value).is_some_and(|ms| ms >= -1),
            RETENTION_BYTES => number(value).is_some(),
            MAX_MESSAGE_BYTES => {
                number(value).is_some_and(|bytes| (0..=i64::from(i32::MAX)).contains(&bytes))
            }
            CLEANUP_POLICY => value.trim() == "delete",
            _ => true,
        }
    })
}

/// What is deleted of the oldest records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Retention {
    /// Batches older than this are deleted, by their largest timestamp; negative: none are.
    pub(crate) retention_ms: i64,
    /// Batches are deleted as long as no less than this is left, in bytes; negative: none are.
    pub(crate) retention_bytes: i64,
}

impl Retention {
    /// Everything is kept.
    pub(crate) const ALL: Retention = Retention { retention_ms: -1, retention_bytes: -1 };
}

/// The retention of a topic.
pub(crate) fn retention(topic: &TopicEntry, agent: &AgentConfig) -> Retention {
    Retention {
        retention_ms: given(topic, RETENTION_MS).unwrap_or(agent.log_retention_ms),
        retention_bytes: given(topic, RETENTION_BYTES).unwrap_or(agent.log_retention_bytes),
    }
}

/// Largest batch that a topic takes, in bytes.
pub(crate) fn max_message_bytes(topic: &TopicEntry, agent: &AgentConfig) -> usize {
    given(topic, MAX_MESSAGE_BYTES).map_or(agent.message_max_bytes, |bytes| bytes.max(0) as usize)
}

fn given(topic: &TopicEntry, name: &str) -> Option<i64> {
    number(topic.configs.get(name)?.as_deref()?)
}

fn number(value: &str) -> Option<i64> {
    value.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic(name: &str, value: &str) -> TopicEntry {
        let configs = BTreeMap::from([(name.to_string(), Some(value.to_string()))]);
        TopicEntry { partitions: 1, replication_factor: 1, configs }
    }

    #[test]
    fn settings_have_kafkas_bounds() {
        let rows = [
            ("retention.ms", "-1", true),
            ("retention.ms", " 1000 ", true),
            ("retention.ms", "-2", false),
            ("retention.ms", "1s", false),
            ("retention.ms", "9223372036854775808", false),
            ("retention.bytes", "-1", true),
            ("retention.bytes", "0", true),
            ("retention.bytes", "", false),
            ("max.message.bytes", "0", true),
            ("max.message.bytes", "2147483647", true),
            ("max.message.bytes", "2147483648", false),
            ("max.message.bytes", "-1", false),
            ("cleanup.policy", "delete", true),
            ("cleanup.policy", "compact", false),
            ("cleanup.policy", "compact,delete", false),
            ("segment.bytes", "anything", true),
        ];
        for (name, value, valid) in rows {
            assert_eq!(is_valid(&topic(name, value).configs), valid, "{name}={value}");
        }
        assert!(!is_valid(&BTreeMap::from([("segment.bytes".to_string(), None)])), "null");
    }

    #[test]
    fn a_topics_own_settings_come_first() {
        let agent = AgentConfig { log_retention_ms: 7, log_retention_bytes: 8, ..AgentConfig::default() };
        let kept = |topic: &TopicEntry| {
            let Retention { retention_ms, retention_bytes } = retention(topic, &agent);
            (retention_ms, retention_bytes, max_message_bytes(topic, &agent))
        };
        assert_eq!(kept(&topic("segment.ms", "1")), (7, 8, 1_048_588));
        assert_eq!(kept(&topic("retention.ms", "-1")), (-1, 8, 1_048_588));
        assert_eq!(kept(&topic("retention.bytes", "5")), (7, 5, 1_048_588));
        assert_eq!(kept(&topic("max.message.bytes", "100")), (7, 8, 100));
    }
}
