//! The settings that DescribeConfigs tells: names, types, defaults and synonyms as Kafka has them, for a topic and for a
//! broker. Pure.
//!
//! A topic's setting comes from the topic, else from the broker's setting that is its synonym, else from Kafka's default.

use crate::config::AgentConfig;
use crate::group::METADATA_MAX;
use std::collections::BTreeMap;

/// Where a value comes from (`DescribeConfigsResponse.ConfigSource`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i8)]
pub(super) enum Source {
    /// The topic's own.
    Topic = 1,
    /// The agent was started with it.
    StaticBroker = 4,
    /// Kafka's default.
    Default = 5,
}

/// A value's type (`DescribeConfigsResponse.ConfigType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i8)]
pub(super) enum Type {
    Boolean = 1,
    String = 2,
    Int = 3,
    Long = 5,
    List = 7,
}

/// A setting under the name and with the value that a source gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Synonym {
    pub(super) name: String,
    pub(super) value: String,
    pub(super) source: Source,
}

/// A setting as it is told. The first synonym is the one in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Setting {
    pub(super) name: String,
    pub(super) kind: Type,
    pub(super) read_only: bool,
    pub(super) synonyms: Vec<Synonym>,
    pub(super) documentation: &'static str,
}

/// A setting of topics: its name, the broker's synonym, type, Kafka's default, documentation.
type TopicRow = (&'static str, &'static str, Type, &'static str, &'static str);

const TOPIC: [TopicRow; 10] = [
    (
        "cleanup.policy",
        "log.cleanup.policy",
        Type::List,
        "delete",
        "What becomes of old records; only delete is done.",
    ),
    (
        "compression.type",
        "compression.type",
        Type::String,
        "producer",
        "Batches are kept as they were compressed.",
    ),
    ("max.message.bytes", "message.max.bytes", Type::Int, "1048588", "The largest batch accepted, in bytes."),
    (
        "message.timestamp.type",
        "log.message.timestamp.type",
        Type::String,
        "CreateTime",
        "Whose clock dates records.",
    ),
    ("min.insync.replicas", "min.insync.replicas", Type::Int, "1", "Told only: the object store replicates."),
    (
        "retention.bytes",
        "log.retention.bytes",
        Type::Long,
        "-1",
        "The size a partition may grow to; -1 for any.",
    ),
    ("retention.ms", "log.retention.ms", Type::Long, "604800000", "How long records are kept; -1 for ever."),
    ("segment.bytes", "log.segment.bytes", Type::Int, "1073741824", "Told only: there are no segments."),
    ("segment.ms", "log.roll.ms", Type::Long, "604800000", "Told only: there are no segments."),
    (
        "unclean.leader.election.enable",
        "unclean.leader.election.enable",
        Type::Boolean,
        "false",
        "Told only: any agent leads, and none is behind.",
    ),
];

/// A topic's settings by name. What it was created with and no row knows is told as text.
pub(super) fn topic(config: &AgentConfig, own: &BTreeMap<String, Option<String>>) -> Vec<Setting> {
    let broker = broker(config);
    let row = |(name, synonym, kind, default, documentation): &TopicRow| {
        let mut synonyms = Vec::with_capacity(2);
        if let Some(value) = own.get(*name).cloned().flatten() {
            synonyms.push(Synonym { name: (*name).into(), value, source: Source::Topic });
        }
        match broker.iter().find(|setting| setting.name == *synonym) {
            Some(setting) => synonyms.extend(setting.synonyms.iter().cloned()),
            None => synonyms.push(Synonym {
                name: (*synonym).into(),
                value: (*default).into(),
                source: Source::Default,
            }),
        }
        Setting { name: (*name).into(), kind: *kind, read_only: false, synonyms, documentation }
    };
    let mut settings: Vec<Setting> = TOPIC.iter().map(row).collect();
    for (name, value) in own.iter().filter(|(name, _)| TOPIC.iter().all(|row| row.0 != name.as_str())) {
        let value = value.clone().unwrap_or_default();
        let synonyms = vec![Synonym { name: name.clone(), value, source: Source::Topic }];
        let documentation = "Kept and told only.";
        let name = name.clone();
        settings.push(Setting { name, kind: Type::String, read_only: false, synonyms, documentation });
    }
    settings.sort_by(|a, b| a.name.cmp(&b.name));
    settings
}

/// A broker's settings by name: those of an agent that Kafka has too. None changes while it runs.
pub(super) fn broker(config: &AgentConfig) -> Vec<Setting> {
    let default = AgentConfig::default();
    let row = |name: &str, kind, documentation, value: fn(&AgentConfig) -> String| {
        let (value, default) = (value(config), value(&default));
        let synonym = |value, source| Synonym { name: name.into(), value, source };
        let mut synonyms = Vec::with_capacity(2);
        if value != default {
            synonyms.push(synonym(value, Source::StaticBroker));
        }
        synonyms.push(synonym(default, Source::Default));
        Setting { name: name.into(), kind, read_only: true, synonyms, documentation }
    };
    let listeners = |c: &AgentConfig| format!("PLAINTEXT://{}:{}", c.advertised_host, c.advertised_port);
    vec![
        row("advertised.listeners", Type::List, "Where clients are told to connect to.", listeners),
        row("delete.topic.enable", Type::Boolean, "Topics can be deleted.", |_| "true".into()),
        row("fetch.max.bytes", Type::Int, "Most bytes in one Fetch answer.", |c| {
            c.fetch_max_bytes.to_string()
        }),
        row(
            "group.consumer.heartbeat.interval.ms",
            Type::Int,
            "How often members of the consumer protocol are to be heard.",
            |c| c.groups.consumer_heartbeat_interval_ms.to_string(),
        ),
        row("group.consumer.max.size", Type::Int, "Most members of a group of the consumer protocol.", |c| {
            c.groups.consumer_max_size.to_string()
        }),
        row(
            "group.consumer.session.timeout.ms",
            Type::Int,
            "How long members of the consumer protocol may be silent.",
            |c| c.groups.consumer_session_timeout_ms.to_string(),
        ),
        row(
            "group.initial.rebalance.delay.ms",
            Type::Int,
            "How long an empty group waits for further members.",
            |c| c.groups.initial_rebalance_delay_ms.to_string(),
        ),
        row("group.max.session.timeout.ms", Type::Int, "The longest session time-out of a member.", |c| {
            c.groups.max_session_timeout_ms.to_string()
        }),
        row("group.max.size", Type::Int, "Most members of a group.", |c| c.groups.max_size.to_string()),
        row("group.min.session.timeout.ms", Type::Int, "The shortest session time-out of a member.", |c| {
            c.groups.min_session_timeout_ms.to_string()
        }),
        row(
            "log.retention.bytes",
            Type::Long,
            "The size a topic's partitions may grow to; -1 for any.",
            |c| c.log_retention_bytes.to_string(),
        ),
        row(
            "log.retention.check.interval.ms",
            Type::Long,
            "How often records to delete are looked for; 0 for never.",
            |c| c.retention_interval_ms.to_string(),
        ),
        row("log.retention.ms", Type::Long, "How long records are kept; -1 for ever.", |c| {
            c.log_retention_ms.to_string()
        }),
        row("message.max.bytes", Type::Int, "The largest batch accepted, in bytes.", |c| {
            c.message_max_bytes.to_string()
        }),
        row("node.id", Type::Int, "The agent's number.", |c| c.node_id.to_string()),
        row("num.partitions", Type::Int, "Partitions of a topic that does not say.", |_| "1".into()),
        row("offset.metadata.max.bytes", Type::Int, "The longest metadata of a committed offset.", |_| {
            METADATA_MAX.to_string()
        }),
        row(
            "offsets.retention.check.interval.ms",
            Type::Long,
            "How often expired offsets are looked for; 0 for never.",
            |c| c.groups.offsets_retention_interval_ms.to_string(),
        ),
        row("offsets.retention.minutes", Type::Int, "How long offsets are kept that no member needs.", |c| {
            (c.groups.offsets_retention_ms / 60_000).to_string()
        }),
        row("socket.request.max.bytes", Type::Int, "The largest request accepted, in bytes.", |c| {
            c.request_max_bytes.to_string()
        }),
        row(
            "transaction.abort.timed.out.transaction.cleanup.interval.ms",
            Type::Int,
            "How often overdue transactions are looked for.",
            |c| c.transactions.scan_interval_ms.to_string(),
        ),
        row("transaction.max.timeout.ms", Type::Int, "The longest time-out a transaction may have.", |c| {
            c.transactions.max_timeout_ms.to_string()
        }),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find<'a>(settings: &'a [Setting], name: &str) -> Vec<(&'a str, &'a str, Source)> {
        let setting = settings.iter().find(|setting| setting.name == name).unwrap();
        setting.synonyms.iter().map(|s| (s.name.as_str(), s.value.as_str(), s.source)).collect()
    }

    #[test]
    fn a_topics_setting_comes_from_the_topic_then_the_broker_then_kafka() {
        let started = AgentConfig { message_max_bytes: 77, ..AgentConfig::default() };
        let own = BTreeMap::from([
            ("max.message.bytes".to_string(), Some("55".to_string())),
            ("some.plugin".to_string(), Some("x".to_string())),
        ]);
        let settings = topic(&started, &own);
        let synonyms = [
            ("max.message.bytes", "55", Source::Topic),
            ("message.max.bytes", "77", Source::StaticBroker),
            ("message.max.bytes", "1048588", Source::Default),
        ];
        assert_eq!(find(&settings, "max.message.bytes"), synonyms);
        assert_eq!(find(&settings, "retention.ms"), [("log.retention.ms", "604800000", Source::Default)]);
        assert_eq!(find(&settings, "some.plugin"), [("some.plugin", "x", Source::Topic)]);
        assert!(settings.is_sorted_by(|a, b| a.name < b.name));
        let plain = topic(&AgentConfig::default(), &BTreeMap::new());
        assert_eq!(find(&plain, "max.message.bytes"), [("message.max.bytes", "1048588", Source::Default)]);
    }

    #[test]
    fn a_brokers_setting_comes_from_its_start_then_kafka() {
        let started = AgentConfig { node_id: 3, ..AgentConfig::default() };
        let settings = broker(&started);
        assert_eq!(
            find(&settings, "node.id"),
            [("node.id", "3", Source::StaticBroker), ("node.id", "1", Source::Default)]
        );
        assert_eq!(
            find(&settings, "offset.metadata.max.bytes"),
            [("offset.metadata.max.bytes", "4096", Source::Default)]
        );
        assert_eq!(
            find(&settings, "offsets.retention.minutes"),
            [("offsets.retention.minutes", "10080", Source::Default)]
        );
        assert!(settings.is_sorted_by(|a, b| a.name < b.name));
    }
}
