//! Models of real Kafka clients, as state machines with real configuration keys.
//!
//! They speak encoded Kafka frames over [`rt::net`], so the same code runs in the tank and on real TCP.
//!
//! * [`Producer`]: a transactional, idempotent or plain producer. The application side hands records to an
//!   accumulator; a sender task drains it, as in Java's client. `producer/` has one file per noun of that client.
//! * [`Consumer`]: assignment, positions, fetching, the `read_committed` filter, and with a `group.id` commits.
//! * [`Member`]: a member of a consumer group, eager or cooperative, static or dynamic, under the classic protocol.
//! * [`Probe`]: a raw reader, which shows what a broker answers.
//! * [`Admin`]: creates and deletes topics, and lists offsets.
//! * [`ProducerConfig`], [`ConsumerConfig`], [`AdminConfig`]: the real keys, with the profiles `default` and `jepsen`.
//! * [`Variant`], [`Model`] and [`Flaws`]: which real client is modelled, what it speaks and what it gets wrong.
//! * [`Error`]: what the application is told.
//!
//! Beneath them lies one connection layer (`network`, `node`, `connection`, `metadata`): a connection per node, `ApiVersions`
//! first, answers in order, and a request timeout that closes the socket. Java 3.8's rules are followed unless a
//! comment says otherwise; the sections cited are those of Kafka's own documents and of Java's source files.
//!
//! Not yet here: the consumer group protocol of KIP-848, compression; a change of the transaction protocol while a
//! producer lives.

mod admin;
mod codec;
mod codes;
mod config;
mod connection;
mod consumer;
mod error;
mod flaws;
mod group;
mod metadata;
mod network;
mod node;
mod polled;
mod probe;
mod producer;
mod records;
mod told;
mod types;
mod versions;

pub use admin::{Admin, ListedOffset, OffsetSpec};
pub use config::{AdminConfig, ConsumerConfig, IsolationLevel, OffsetReset, ProducerConfig};
pub use consumer::Consumer;
pub use error::Error;
pub use flaws::{Flaws, Model, Persistence, UnconfirmedEnd, Variant};
pub use group::{Assignor, GroupMetadata, LoggedRebalance, Member, Rebalanced};
pub use polled::polled_records;
pub use probe::{Probe, Probed, ProbedBatch};
pub use producer::{Delivery, Producer};
pub use types::{ConsumerRecord, Header, ProducerRecord, RecordMetadata, TopicPartition};
