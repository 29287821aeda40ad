//! The system under test: a Kafka-compatible agent over a coordinator and an object store.
//!
//! An [`Agent`] keeps nothing of its own. Offsets, producer state, transactions and topics live in the coordinator
//! ([`coordinator`], an etcd-like port); the bytes of batches live in an object store. Any agent serves any request, and
//! what belongs together changes in one coordinator transaction or not at all. It meets the world through `rt` only, so
//! the same code runs in the tank and on real TCP.
//!
//! * [`Agent`], [`AgentConfig`], [`Defects`]: what a host starts, its settings, its planted bugs
//! * [`coordinator`]: the port that a host implements
//! * `layout`, `records`, `codec`: keys, values and their encoding. **Start here**: the guards are in `layout`
//! * `gate`, `chunks`: the bounded ways to coordinator and store
//! * `lines`: requests that append to one partition, one after the other
//! * `writer`, `floor`: chunks out of batches of many requests, and which of them may still be committed
//! * `decompress`, `walk`: the records inside a batch, for those who must look into it
//! * `batch`, `producer`, `transaction`, `fetch_plan`: pure rules, each with its tables as tests
//! * `append`, `read`, `finish`, `trim`: what is done to a partition: batches in, batches out, markers, an end to the old
//! * `group`: who is in a group, decided by its one owner
//! * `offsets`, `pending`: what groups committed, and what transactions are about to commit for them
//! * `ends`, `watermarks`, `fragile`: what planted defects need
//! * `steward`, `expiry`, `membership`, `prefix_watch`, `chores`: what an agent does unasked
//! * `collector`, `compaction`: chunks that nothing refers to, and chunks too small to keep
//! * [`Health`], [`Counters`], `memory`: what state an agent is in, what it counted, and how much it takes on
//! * `connection`, `wire`, `api`: the door. Limits, lengths checked before anything is decoded, one file per API
//! * `topics`, `topic_config`, `deletion`, `routing`: names, settings, their end, and places

mod age;
mod agent;
mod api;
mod append;
mod batch;
mod chores;
mod chunks;
mod codec;
mod collector;
mod compaction;
mod config;
mod connection;
pub mod coordinator;
mod counters;
mod decompress;
mod defects;
mod deletion;
mod ends;
mod expiry;
mod fetch_plan;
mod finish;
mod floor;
mod fragile;
mod gate;
mod group;
mod health;
mod layout;
mod lines;
mod membership;
mod memory;
mod offsets;
mod pending;
mod prefix_watch;
mod producer;
mod read;
mod records;
mod routing;
mod steward;
mod topic_config;
mod topics;
mod transaction;
mod trim;
mod walk;
mod watermarks;
mod wire;
mod writer;

pub use agent::Agent;
pub use config::{
    AgentConfig, ExpirationConfig, GroupConfig, Outside, RevisionClock, Routing, Timeouts, TransactionConfig,
    TransactionVersion,
};
pub use coordinator::Coordinator;
pub use counters::{Calls, Counters, Counts, TIME_BOUNDS_S, Times, Volume};
pub use defects::Defects;
pub use health::{Dependency, Health, Readiness};
