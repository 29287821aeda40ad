//! What members tell each other through the coordinator, which does not look into it: subscriptions and assignments
//! (Java's `ConsumerProtocol`). Each is a version and a message.

use crate::types::TopicPartition;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use kafka_protocol::messages::consumer_protocol_assignment::TopicPartition as Assigned;
use kafka_protocol::messages::consumer_protocol_subscription::TopicPartition as Owned;
use kafka_protocol::messages::{ConsumerProtocolAssignment, ConsumerProtocolSubscription};
use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};
use std::collections::{BTreeMap, BTreeSet};

/// The newest version of both messages.
const VERSION: i16 = 3;

/// What a member subscribes to, and what it still owns when it joins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Subscription {
    pub(crate) topics: BTreeSet<String>,
    pub(crate) owned: BTreeSet<TopicPartition>,
    /// The generation in which it got what it owns; -1 if it has none.
    pub(crate) generation: i32,
}

impl Subscription {
    /// `user_data` is what the assignor adds.
    pub(crate) fn encode(&self, user_data: Option<Bytes>) -> Bytes {
        let owned = by_topic(&self.owned).into_iter();
        let owned = owned
            .map(|(topic, partitions)| Owned::default().with_topic(topic.into()).with_partitions(partitions));
        let message = ConsumerProtocolSubscription::default()
            .with_topics(self.topics.iter().map(|topic| StrBytes::from_string(topic.clone())).collect())
            .with_user_data(user_data)
            .with_owned_partitions(owned.collect())
            .with_generation_id(self.generation);
        encode(&message)
    }

    /// `None` for bytes that are no subscription.
    pub(crate) fn decode(bytes: Bytes) -> Option<Self> {
        let message: ConsumerProtocolSubscription = decode(bytes)?;
        let owned = message.owned_partitions.iter().flat_map(|owned| {
            owned.partitions.iter().map(|partition| TopicPartition::new(owned.topic.to_string(), *partition))
        });
        Some(Subscription {
            topics: message.topics.iter().map(ToString::to_string).collect(),
            owned: owned.collect(),
            generation: message.generation_id,
        })
    }
}

/// The partitions of one member, as the leader sends them.
pub(crate) fn encode_assignment(partitions: &BTreeSet<TopicPartition>) -> Bytes {
    let assigned = by_topic(partitions).into_iter();
    let assigned = assigned
        .map(|(topic, partitions)| Assigned::default().with_topic(topic.into()).with_partitions(partitions));
    encode(&ConsumerProtocolAssignment::default().with_assigned_partitions(assigned.collect()))
}

/// `None` for bytes that are no assignment.
pub(crate) fn decode_assignment(bytes: Bytes) -> Option<BTreeSet<TopicPartition>> {
    let message: ConsumerProtocolAssignment = decode(bytes)?;
    let assigned = message.assigned_partitions.iter().flat_map(|assigned| {
        let topic = assigned.topic.to_string();
        assigned.partitions.iter().map(move |partition| TopicPartition::new(topic.clone(), *partition))
    });
    Some(assigned.collect())
}

fn by_topic(partitions: &BTreeSet<TopicPartition>) -> BTreeMap<StrBytes, Vec<i32>> {
    let mut topics: BTreeMap<StrBytes, Vec<i32>> = BTreeMap::new();
    for TopicPartition { topic, partition } in partitions {
        topics.entry(StrBytes::from_string(topic.clone())).or_default().push(*partition);
    }
    topics
}

fn encode(message: &impl Encodable) -> Bytes {
    let mut bytes = BytesMut::new();
    bytes.put_i16(VERSION);
    message.encode(&mut bytes, VERSION).expect("messages are built for the version they are written in");
    bytes.freeze()
}

/// A newer message is read as the newest known, as in Java.
fn decode<M: Decodable>(mut bytes: Bytes) -> Option<M> {
    let version = if bytes.len() < 2 { return None } else { bytes.get_i16() };
    if version < 0 {
        return None;
    }
    M::decode(&mut bytes, version.min(VERSION)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partitions(all: &[(&str, i32)]) -> BTreeSet<TopicPartition> {
        all.iter().map(|(topic, partition)| TopicPartition::new(*topic, *partition)).collect()
    }

    #[test]
    fn a_subscription_has_the_bytes_of_the_schema() {
        let subscription = Subscription {
            topics: ["b".to_string(), "a".to_string()].into(),
            owned: partitions(&[("a", 1), ("a", 0)]),
            generation: 7,
        };
        let bytes = subscription.encode(Some(Bytes::from_static(b"u")));
        // ConsumerProtocolSubscription.json, version 3: topics sorted, user data, owned partitions by topic, generation
        // id, no rack.
        let expected =
            b"\0\x03\0\0\0\x02\0\x01a\0\x01b\0\0\0\x01u\0\0\0\x01\0\x01a\0\0\0\x02\0\0\0\0\0\0\0\x01\
            \0\0\0\x07\xff\xff";
        assert_eq!(bytes, &expected[..]);
        assert_eq!(Subscription::decode(bytes), Some(subscription));
    }

    #[test]
    fn an_older_subscription_owns_nothing_and_has_no_generation() {
        // Version 0: topics and user data.
        let bytes = Bytes::from_static(b"\0\0\0\0\0\x01\0\x01a\xff\xff\xff\xff");
        let expected = Subscription { topics: ["a".to_string()].into(), owned: [].into(), generation: -1 };
        assert_eq!(Subscription::decode(bytes), Some(expected));
        assert_eq!(Subscription::decode(Bytes::from_static(b"\0")), None);
        assert_eq!(Subscription::decode(Bytes::from_static(b"\xff\xff")), None);
    }

    #[test]
    fn an_assignment_survives_the_round_trip() {
        let assigned = partitions(&[("a", 2), ("b", 0)]);
        let bytes = encode_assignment(&assigned);
        let expected =
            b"\0\x03\0\0\0\x02\0\x01a\0\0\0\x01\0\0\0\x02\0\x01b\0\0\0\x01\0\0\0\0\xff\xff\xff\xff";
        assert_eq!(bytes, &expected[..]);
        assert_eq!(decode_assignment(bytes), Some(assigned));
        assert_eq!(decode_assignment(Bytes::new()), None);
    }
}
