//! Topics: names, ids and what a partition lookup yields.
//!
//! A topic's id (KIP-516) is derived from its name and the create revision of its key, so it needs no chance and
//! differs when a topic is created again.

use crate::codec::{self, Unreadable};
use crate::coordinator::{KeyValue, Range};
use crate::gate::{Fault, Gate, Stored};
use crate::layout;
use crate::records::TopicEntry;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// A topic's id as it travels.
pub(crate) type TopicId = [u8; 16];

/// Most partitions of a topic: Metadata must list them all in one answer.
pub(crate) const PARTITIONS_MAX: i32 = 10_000;

/// No id: the client speaks of the topic by name.
pub(crate) const NO_ID: TopicId = [0; 16];

/// The id of the topic `name` whose key was created at `create_revision`.
pub(crate) fn id_of(name: &str, create_revision: i64) -> TopicId {
    let mut id = NO_ID;
    id[..8].copy_from_slice(&rt::choice::stable_hash(name.as_bytes()).to_be_bytes());
    id[8..].copy_from_slice(&create_revision.to_be_bytes());
    id
}

/// Whether `partition` exists in the topic read.
pub(crate) fn holds(topic: &Stored<TopicEntry>, partition: i32) -> bool {
    topic.value().is_some_and(|entry| (0..entry.partitions).contains(&partition))
}

/// Kafka's rule for topic names (`Topic.validate`).
pub(crate) fn is_legal(name: &str) -> bool {
    let legal = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'_' | b'-');
    !name.is_empty() && name.len() <= 249 && name != "." && name != ".." && name.bytes().all(legal)
}

/// A topic as listed.
pub(crate) struct Listed {
    pub(crate) name: String,
    pub(crate) id: TopicId,
    pub(crate) create_revision: i64,
    pub(crate) entry: TopicEntry,
}

impl Listed {
    fn read(kv: &KeyValue) -> Result<Self, Unreadable> {
        let name = std::str::from_utf8(&kv.key).ok().and_then(|key| key.strip_prefix(layout::TOPICS));
        let name = name.ok_or(Unreadable)?.to_string();
        let id = id_of(&name, kv.create_revision);
        Ok(Listed { name, id, create_revision: kv.create_revision, entry: codec::decode(&kv.value)? })
    }
}

/// All topics, by name.
pub(crate) async fn list(gate: &Gate) -> Result<Vec<Listed>, Fault> {
    let prefix = layout::TOPICS.as_bytes();
    let all = gate.range(Range::span(layout::TOPICS.into(), layout::end_of(prefix), 0)).await?;
    Ok(all.kvs.iter().map(Listed::read).collect::<Result<_, _>>()?)
}

/// Names by id, as far as this agent has seen them. An id never changes its meaning, so the map needs no refresh.
#[derive(Default)]
pub(crate) struct TopicNames(Mutex<BTreeMap<TopicId, String>>);

impl TopicNames {
    /// The name of the topic with this id, or `None` if there is no such topic.
    pub(crate) async fn name_of(&self, gate: &Gate, id: TopicId) -> Result<Option<String>, Fault> {
        if let Some(name) = self.lookup(&id) {
            return Ok(Some(name));
        }
        let topics = list(gate).await?;
        {
            let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            known.extend(topics.into_iter().map(|topic| (topic.id, topic.name)));
        }
        Ok(self.lookup(&id))
    }

    fn lookup(&self, id: &TopicId) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(id).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn legal_names_are_kafkas() {
        let longest = "a".repeat(249);
        for name in ["a", "orders.v1_x-2", "...", longest.as_str()] {
            assert!(is_legal(name), "{name}");
        }
        let too_long = "a".repeat(250);
        for name in ["", ".", "..", "a/b", "a b", "ä", too_long.as_str()] {
            assert!(!is_legal(name), "{name}");
        }
    }

    #[test]
    fn a_topic_created_again_has_another_id() {
        assert_ne!(id_of("t", 5), id_of("t", 6));
        assert_ne!(id_of("t", 5), id_of("u", 5));
    }
}
