//! The plain nouns that producer and consumer share.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::fmt;

/// One partition of one topic.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TopicPartition {
    /// The topic's name.
    pub topic: String,
    /// The partition's number, from 0.
    pub partition: i32,
}

impl TopicPartition {
    /// Partition `partition` of `topic`.
    pub fn new(topic: impl Into<String>, partition: i32) -> Self {
        TopicPartition { topic: topic.into(), partition }
    }
}

impl fmt::Display for TopicPartition {
    /// As Kafka writes it: `topic-0`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

/// One header of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Its key.
    pub key: String,
    /// Its value, which may be null.
    pub value: Option<Bytes>,
}

impl Header {
    /// A header with a value.
    pub fn new(key: impl Into<String>, value: impl Into<Bytes>) -> Self {
        Header { key: key.into(), value: Some(value.into()) }
    }
}

/// A record to be sent. The partition is always named: choosing one is the application's business here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProducerRecord {
    /// Where it goes.
    pub partition: TopicPartition,
    /// The key, which may be null.
    pub key: Option<Bytes>,
    /// The payload.
    pub value: Bytes,
    /// Headers, in order. Kafka allows a key more than once; the codec keeps the last of each.
    pub headers: Vec<Header>,
    /// Milliseconds since the Unix epoch; without it the node's wall clock at `send`.
    pub timestamp_ms: Option<i64>,
}

impl ProducerRecord {
    /// A record without key, headers, or a timestamp of its own.
    pub fn new(partition: TopicPartition, value: impl Into<Bytes>) -> Self {
        ProducerRecord { partition, key: None, value: value.into(), headers: Vec::new(), timestamp_ms: None }
    }
}

/// Where a record was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordMetadata {
    /// The partition it went to.
    pub partition: TopicPartition,
    /// Its offset; -1 when the broker did not say (`acks=0`).
    pub offset: i64,
}

/// A record as handed to the application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerRecord {
    /// Where it was read.
    pub partition: TopicPartition,
    /// Its offset.
    pub offset: i64,
    /// Milliseconds since the Unix epoch, by the producer's clock or the broker's.
    pub timestamp_ms: i64,
    /// The key, which may be null.
    pub key: Option<Bytes>,
    /// The payload, which may be null.
    pub value: Option<Bytes>,
    /// Headers, in order.
    pub headers: Vec<Header>,
}
